"""The work of a cluster as a view: what it carries, what its agent said of that, and what is known of the member.

What an agent reports was written by the cluster itself. It is read with care, and what does not fit is not there.
"""

from dataclasses import dataclass
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.karmada import Work
from echelon.api.keys import Key
from echelon.api.times import parse_time
from echelon.engine.align import MemberView
from echelon.engine.align.reflection import read_snapshot, refused_push
from echelon.engine.conditions import find_condition
from echelon.engine.rollout.annotations import REVISION_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.manifests import push_id_of
from echelon.engine.workload.names import BINDING_NAME, BINDING_NAMESPACE, BINDING_UID, cluster_of, work_name
from echelon.engine.workload.work_report import cause_in

APPLIED = "Applied"
FENCED = "Fenced"  # the member has a newer push than the work: nothing is wrong with the work but its age
PUSHED_ANNOTATION = "echelon.dev/pushed-at"  # on a work: when it got its last grant; a deadline runs from then


@dataclass(frozen=True)
class Report:
    """What an agent said of the content that a work has now."""

    applied: bool | None = None  # None: nothing yet
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    refused: int | None = None  # the push that the member's server has refused for certain
    was_applied: bool = False  # what it had before, or has now, was applied

    @property
    def failed(self) -> bool:
        """Whether the content could not be applied, and not only because a newer one is there."""
        return self.applied is False and self.reason != FENCED


@dataclass(frozen=True)
class WorkView:
    """A work."""

    cluster: str
    name: str
    uid: str
    version: str
    binding_uid: str  # of the binding that its manifest was made for
    manifest: JSONObject
    push_id: int | None
    revision: str  # what its annotation says
    written: datetime | None  # when it got that revision
    pushed: datetime | None  # when it got its last grant
    terminating: datetime | None
    suspended: bool
    preserved: bool
    finalizers: tuple[str, ...]
    labels: dict[str, str]
    annotations: dict[str, str]
    report: Report
    status: JSONObject | None  # of the object on the member
    health: str
    snapshot: MemberView | None

    @property
    def is_refused(self) -> bool:
        """Whether the member's server has refused for certain what the work carries now."""
        return self.push_id is not None and self.report.refused == self.push_id

    @property
    def cause(self) -> str:
        """Why the object is not well, if its agent has found that out."""
        return cause_in(self.status)

    @property
    def key(self) -> Key:
        """The name of the object that it carries."""
        meta = part(self.manifest, "metadata")
        return Key(text(meta, "namespace"), text(meta, "name"))

    def may_be_of(self, binding: Key) -> bool:
        """Whether it can be of a binding that it says it is of: its name is that of a template in that namespace.

        An agent may change all of a work but its name, and must not make its own work a stranger's trouble.
        """
        namespace, name = self.key
        return namespace == binding.namespace and self.name == work_name(namespace, name, text(self.manifest, "kind"))


def owner_of(work: Work) -> Key | None:
    """Return the binding that a work is of; None if it does not say."""
    notes = work.metadata.annotations
    namespace, name = notes.get(BINDING_NAMESPACE, ""), notes.get(BINDING_NAME, "")
    return Key(namespace, name) if namespace and name and cluster_of(work.metadata.namespace) else None


def read_work(work: Work) -> WorkView:
    """Read a work, which is in an execution namespace."""
    meta, manifests = work.metadata, work.spec.workload.manifests
    manifest = manifests[0] if len(manifests) == 1 else {}
    notes = part(manifest, "metadata", "annotations")
    reported = work.status.manifest_statuses[0] if work.status.manifest_statuses else None
    status = reported.status if reported is not None else None
    return WorkView(
        cluster=cluster_of(meta.namespace) or "",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        binding_uid=text(notes, BINDING_UID),
        manifest=manifest,
        push_id=push_id_of(notes),
        revision=meta.annotations.get(REVISION_ANNOTATION, ""),
        written=parse_time(meta.annotations.get(WRITTEN_ANNOTATION)),
        pushed=parse_time(meta.annotations.get(PUSHED_ANNOTATION)),
        terminating=parse_time(meta.deletion_timestamp or None),
        suspended=bool(work.spec.suspend_dispatching),
        preserved=bool(work.spec.preserve_resources_on_deletion),
        finalizers=tuple(meta.finalizers),
        labels=meta.labels,
        annotations=meta.annotations,
        report=_report(work, status),
        status=status,
        health=reported.health if reported is not None else "",
        snapshot=read_snapshot(status) if status is not None else None,
    )


def _report(work: Work, status: JSONObject | None) -> Report:
    applied = find_condition(work.status.conditions, APPLIED)
    was_applied = applied is not None and applied.status == "True"
    if applied is None or applied.observed_generation != work.metadata.generation:
        return Report(was_applied=was_applied)
    refused = refused_push(status) if status is not None and applied.status == "False" else None
    return Report(
        {"True": True, "False": False}.get(applied.status),
        applied.reason,
        applied.message,
        parse_time(applied.last_transition_time),
        refused,
        was_applied,
    )
