"""What was observed of a work set, frozen: the set, its placements, its works, its revisions.

A set may have ten thousand works of which one changes at a time. So a work is read once for each version of it, into a
value that has everything that a plan asks for; the digest of its content, which is what costs, only when the content
changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, JSONObject
from echelon.api.base import field as described
from echelon.api.controller_revisions import ControllerRevision
from echelon.api.meta import ObjectMeta
from echelon.api.times import parse_time
from echelon.api.work import ManifestWork, ManifestWorkSpec
from echelon.api.work_set import ManifestWorkReplicaSetStatus, PlacementRef
from echelon.engine.rollout import stored_revision
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION, TURNED_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.removal import EVERYONE
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.subject import ALL_WRITTEN, Holding, WriteOutcomes
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.work_set.content import TEMPLATE, Content, digest_of
from echelon.engine.work_set.names import HASH_LABEL, LABELS_ANNOTATION, PLACEMENT_LABEL
from echelon.engine.work_set.progress import Progress, deadline_from, later, progress_of


class WorkSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The spec of a set, with the template as it was given: typed objects lose the fields that they do not know."""

    manifest_work_template: JSONObject | None = None
    placement_refs: list[PlacementRef] = msgspec.field(default_factory=list)
    cascade_deletion_policy: str = "Background"
    revision_history_limit: int | None = None


class WorkSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """A ManifestWorkReplicaSet, as it is read here."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkSetSpec
    status: Annotated[ManifestWorkReplicaSetStatus, described("How far the works are.")] = (
        ManifestWorkReplicaSetStatus()
    )


class WorkView(Holding, frozen=True, gc=False, kw_only=True):
    """A work of the set, which is what its cluster holds."""

    name: str
    uid: str
    version: str
    generation: int
    labels: Mapping[str, str]
    set_labels: str  # which of them it has from the set
    retried: datetime | None
    spec: ManifestWorkSpec
    progress: Progress
    turned: datetime | None = None  # when it stopped working, after it had worked with this content
    turned_noted: bool = True  # whether that is written on it


@dataclass(frozen=True)
class UnreadWork:
    """A work of the set that is there and does not fit its type."""

    cluster: str
    name: str
    uid: str
    why: str
    since: datetime | None  # when it was written
    terminating: bool

    @property
    def message(self) -> str:
        """What to tell people."""
        return f"the work {self.name} is there and cannot be read: {self.why}"


@dataclass(frozen=True)
class WorkSetView:
    """All that a plan for one set looks at."""

    work_set: WorkSet
    content: Content
    refs: tuple[PlacementReference, ...] = ()
    works: Mapping[str, tuple[WorkView, ...]] = field(default_factory=dict)  # by cluster
    revisions: tuple[StoredRevision, ...] = ()
    name_conflicts: frozenset[str] = frozenset()  # clusters where somebody else's work has the name of the set
    outcomes: WriteOutcomes = ALL_WRITTEN
    stale: frozenset[str] = frozenset()  # uids of works that may go, and whose writers may have known more than this
    unread: tuple[UnreadWork, ...] = ()
    unbound: frozenset[str] = frozenset()  # clusters that are in no cluster set which is bound to the namespace
    leaving: frozenset[str] = frozenset()  # clusters that are on their way out of the fleet
    spared: Mapping[str, datetime] = field(default_factory=dict)  # clusters that may come back, and until when
    max_removals: Threshold = EVERYONE  # clusters that may lose their work at once, if the set says nothing else
    confirmed: bool = True  # whether whoever plans has written the set before, and so has seen its present


def read_work(work: ManifestWork, before: WorkView | None = None) -> WorkView:
    """Read a work; `before` is what was read of it earlier."""
    meta = work.metadata
    known = before is not None and (before.uid, before.generation) == (meta.uid, meta.generation)
    written = parse_time(meta.annotations.get(WRITTEN_ANNOTATION))
    progress = progress_of(work, written)
    revision = before.revision if before is not None and known else digest_of(work.spec)
    retried = parse_time(meta.annotations.get(RETRIED_ANNOTATION))
    noted = parse_time(meta.annotations.get(TURNED_ANNOTATION))
    same = before is not None and (before.uid, before.revision, before.written) == (meta.uid, revision, written)
    turned = _turned(progress, noted, written, before if same else None)
    return WorkView(
        cluster=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        placement=meta.labels.get(PLACEMENT_LABEL, ""),
        labels=meta.labels,
        set_labels=meta.annotations.get(LABELS_ANNOTATION, ""),
        written=written,
        retried=retried,
        spec=work.spec,
        revision=revision,
        reason=progress.reason,
        message=progress.message,
        progress=progress,
        status=ClusterStatus(
            meta.namespace, progress.phase, progress.since, deadline_from(progress, written, turned, retried)
        ),
        terminating=bool(meta.deletion_timestamp),
        turned=turned,
        turned_noted=turned is None or turned == noted,
        before_removal=_before_removal(work, written, retried) if meta.deletion_timestamp else None,
    )


def _turned(
    progress: Progress, noted: datetime | None, written: datetime | None, before: WorkView | None
) -> datetime | None:
    """Return when a work stopped working that had worked with the content that it has.

    Conditions do not tell: one that is bad since a moment ago may have been good before, or bad in another way. So it
    counts what was seen, by us now or by somebody who noted it; and as long as it is bad that stays as it is.
    """
    if progress.phase is Phase.SUCCEEDED:
        return None
    if before is not None and before.progress.phase is Phase.SUCCEEDED:
        return later(progress.since, before.progress.since)
    if before is not None and before.turned is not None:
        return before.turned
    return noted if noted is not None and (written is None or noted >= written) else None


def _before_removal(work: ManifestWork, written: datetime | None, retried: datetime | None) -> ClusterStatus:
    """Return where the cluster of a work that is being deleted would stand if it were not."""
    staying = msgspec.structs.replace(work, metadata=msgspec.structs.replace(work.metadata, deletion_timestamp=""))
    progress = progress_of(staying, written)
    clock = deadline_from(progress, written, None, retried)
    return ClusterStatus(work.metadata.namespace, progress.phase, progress.since, clock)


def read_revision(stored: ControllerRevision) -> StoredRevision:
    """Read a stored revision, which has a template."""
    found = stored_revision.read_revision(stored, HASH_LABEL)
    return found if isinstance((found.content or {}).get(TEMPLATE), dict) else replace(found, content=None)
