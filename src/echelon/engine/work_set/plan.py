"""What is to be done about a work set: works to write, to relabel and to delete, revisions to store, a status.

Everything is derived from what is there, so a crash after any of the writes leads to the same world: names are given,
not generated; what was written counts as under way, observed or not; and a revision is stored before the first cluster
gets it, so that there is always a way back.
"""

from collections.abc import Iterable
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.times import format_micro_time
from echelon.api.work import MANIFEST_WORK
from echelon.engine.plan import NOTHING, Action, Create, Delete, Emit, Patch, Plan, Together, Write
from echelon.engine.rollout.annotations import (
    RETRIED_ANNOTATION,
    REVISION_ANNOTATION,
    TURNED_ANNOTATION,
    WRITTEN_ANNOTATION,
)
from echelon.engine.rollout.bookkeeping import LOOK_AGAIN, after_content, before_content, look_again_after, patch_of
from echelon.engine.rollout.departures import listed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.events import ACTION, announcements, regarding_of, removed_reason
from echelon.engine.rollout.model import Phase, Wait
from echelon.engine.rollout.state import ReferenceRollout, Rollout
from echelon.engine.rollout.subject import Subject
from echelon.engine.work.ownership import ADOPT
from echelon.engine.work_set.content import patch_to
from echelon.engine.work_set.names import (
    FINALIZER,
    LABELS_ANNOTATION,
    PLACEMENT_LABEL,
    SET_LABEL,
    BadSetName,
    foreign,
    label_of,
    work_name,
)
from echelon.engine.work_set.status import invalid, status_of, unlabelled
from echelon.engine.work_set.subject import ChosenWorks, choose_works, content_of, subject_of
from echelon.engine.work_set.view import UnreadWork, WorkSetView, WorkView

# Makes a server forget who wrote which field. Nobody but us writes these works by server-side apply, and keeping the
# books is half of what each write of one costs a kube-apiserver: this one, and all reports of the agent after it.
NOBODY_OWNS: list[JSONObject] = [{}]


def plan(view: WorkSetView, now: datetime, *, brief: bool = False) -> Plan:
    """Plan a set. With `brief` the status is left alone unless one of its conditions changes."""
    work_set = view.work_set
    meta = work_set.metadata
    works = choose_works(view)
    subject = subject_of(view, works.by_cluster)
    if meta.deletion_timestamp:
        return _finalize(view, subject, now)
    try:
        label = label_of(meta.namespace, meta.name)
    except BadSetName as error:
        return Plan(status=unlabelled(subject, str(error), now))
    if view.content.problem:
        return Plan(status=invalid(subject, view.content.problem, now))
    rollout = roll_out(subject, now)
    if rollout.history.generation > meta.generation:
        # Somebody has rolled out a newer template than the one that we see. Ours would take the fleet back.
        return Plan(look_again_after=LOOK_AGAIN)
    status = status_of(work_set, works.by_cluster, rollout, now, brief=brief)
    if rollout.not_stored:
        # The rest would rely on it.
        return Plan(status=status, look_again_after=look_again_after(rollout, now))
    if FINALIZER not in meta.finalizers:
        return Plan((patch_of(subject, {"metadata": {"finalizers": [*meta.finalizers, FINALIZER]}}),))
    actions: list[Action] = [*before_content(rollout), *announcements(rollout, recorded=status is not None)]
    if writes := _Writing(view, works, rollout, label, now).works():
        if not view.confirmed and any(isinstance(each, Create) for each in writes):
            # A process may be born into the past, where a cluster has no work yet, and would make one.
            # A write of the set that changes nothing costs nothing, and fails if this is not its newest state.
            actions.insert(0, patch_of(subject, {}))
        actions.append(Together(writes))
    actions += after_content(rollout, now)
    due = look_again_after(rollout, now)
    return Plan(tuple(actions), status, due, status_waits=True, stops_at_failure=rollout.is_limited)


def _finalize(view: WorkSetView, subject: Subject, now: datetime) -> Plan:
    """Take the works away. Whether the set waits for their end is its own choice."""
    meta, spec, outcomes = view.work_set.metadata, view.work_set.spec, view.outcomes
    if FINALIZER not in meta.finalizers:
        return NOTHING
    left = [work for works in view.works.values() for work in works]
    read = {work.uid for work in left}
    everything: list[WorkView | UnreadWork] = [*left, *(work for work in view.unread if work.uid not in read)]
    if outcomes.next_try is not None and (why := outcomes.own or next(iter(outcomes.other.values()), "")):
        message = f"{len(everything)} works are left, and the hub does not let them go: {why}"
        return Plan(status=invalid(subject, message, now), look_again_after=outcomes.next_try - now)
    staying = [work for work in everything if not work.terminating]
    actions: list[Action] = []
    if staying:
        actions += [_deletion_event(subject, staying), Together(tuple(map(_delete, staying)))]
    if not everything or spec.cascade_deletion_policy != "Foreground":
        others = [each for each in meta.finalizers if each != FINALIZER]
        actions.append(patch_of(subject, {"metadata": {"finalizers": others}}))
    return Plan(tuple(actions))


def _deletion_event(subject: Subject, works: Iterable[WorkView | UnreadWork]) -> Emit:
    """Tell whose works go because the set goes."""
    note = f"the work of {listed(work.cluster for work in works)} is deleted: the set is deleted"
    return Emit(regarding_of(subject), removed_reason(subject), ACTION, note)


class _Writing:
    """The writes of works of one plan."""

    def __init__(self, view: WorkSetView, works: ChosenWorks, rollout: Rollout, label: str, now: datetime) -> None:
        self._view = view
        self._works = works
        self._rollout = rollout
        self._content = content_of(view, rollout)
        self._label = label
        self._now = format_micro_time(rollout.writes_at(now))
        self._own = foreign(view.work_set.metadata.labels)
        self._own_names = ",".join(sorted(self._own))
        given = view.work_set.metadata.annotations.get(ADOPT)
        self._adopt = {} if given is None else {ADOPT: given}
        self._patches: dict[str, JSONObject] = {}  # by the revision that they replace
        self._put_off = _put_off(view, rollout)
        self._retried = rollout.control.retried

    def works(self) -> tuple[Write, ...]:
        """Return all writes, each of a work of its own."""
        writes: list[Write] = [
            write for ref in self._rollout.references if ref.allocation.groups.groups for write in self._of_ref(ref)
        ]
        # A duplicate is no removal: its cluster keeps what it has. But paused is paused.
        duplicates = () if self._rollout.control.paused else self._works.duplicates
        gone = [self._works.by_cluster[cluster] for cluster in self._rollout.allocations.to_delete]
        writes += [_delete(work) for work in (*duplicates, *gone) if work.cluster not in self._put_off]
        return tuple(writes)

    def _of_ref(self, ref: ReferenceRollout) -> list[Write]:
        works, retries = self._works.by_cluster, self._rollout.retries
        to_delete = frozenset(self._rollout.allocations.to_delete)
        labels = {**self._own, SET_LABEL: self._label, PLACEMENT_LABEL: ref.name}
        writes: list[Write] = []
        for entry in ref.cluster_decisions:
            cluster = entry.cluster
            work = works.get(cluster)
            if cluster in self._put_off or cluster in to_delete:  # which may count as failed until it is gone
                continue
            if entry.starts or cluster in retries:
                if work is None:
                    writes.append(self._create(cluster, labels))
                elif not work.terminating:
                    writes.append(self._rewrite(work, labels))
            elif work is not None and not work.terminating and (change := self._touch(work, labels)):
                writes.append(_patch(work, {"metadata": change}))
        return writes

    def _create(self, cluster: str, labels: dict[str, str]) -> Create:
        meta = self._view.work_set.metadata
        body = {
            **MANIFEST_WORK.type_meta,
            "metadata": {
                "name": work_name(meta.namespace, meta.name, name_conflict=cluster in self._view.name_conflicts),
                "namespace": cluster,
                "labels": labels,
                "annotations": {name: value for name, value in self._annotations().items() if value is not None},
            },
            "spec": self._content.template,
        }
        return Create(MANIFEST_WORK, body, cluster)

    def _rewrite(self, work: WorkView, labels: dict[str, str]) -> Patch:
        spec = self._patches.get(work.revision)
        if spec is None:
            spec = self._patches[work.revision] = patch_to(work.spec, self._content.template)
        metadata = {
            "labels": self._relabelled(work, labels) or labels,
            "annotations": self._annotations(),
            "managedFields": NOBODY_OWNS,
        }
        return _patch(work, {"metadata": metadata, "spec": spec})

    def _annotations(self) -> dict[str, str | None]:
        return {
            REVISION_ANNOTATION: self._rollout.revision,
            WRITTEN_ANNOTATION: self._now,
            LABELS_ANNOTATION: self._own_names or None,
            RETRIED_ANNOTATION: None,
            TURNED_ANNOTATION: None,
            **self._adopt,
        }

    def _touch(self, work: WorkView, labels: dict[str, str]) -> JSONObject:
        """Return what changes in the metadata of a work that keeps its content."""
        change: JSONObject = {}
        annotations: dict[str, str | None] = {}
        if relabelled := self._relabelled(work, labels):
            change["labels"] = relabelled
            annotations[LABELS_ANNOTATION] = self._own_names or None
        if work.revision == self._rollout.revision:
            if work.written is None and work.progress.phase is not Phase.SUCCEEDED:
                # Somebody else wrote it, and it is not done: the deadline has to begin some time, and only once.
                known = work.progress.since if work.progress.reason != Wait.REPORT.value else None
                began = format_micro_time(known) if known is not None else self._now
                annotations |= {WRITTEN_ANNOTATION: began, REVISION_ANNOTATION: work.revision}
            if work.turned is not None and not work.turned_noted and not self._rollout.is_past(work.cluster):
                annotations[TURNED_ANNOTATION] = format_micro_time(work.turned)
            if self._retried is not None and (retried := self._retry(work, self._retried)) is not None:
                annotations[RETRIED_ANNOTATION] = format_micro_time(retried)
        if annotations:
            change["annotations"] = annotations
        return change

    def _relabelled(self, work: WorkView, labels: dict[str, str]) -> dict[str, str | None]:
        """Return the labels that a work gets and loses; empty if it has those that it should."""
        if labels.items() <= work.labels.items() and work.set_labels == self._own_names:
            return {}
        gone = [name for name in work.set_labels.split(",") if name and name not in labels]
        return {**dict.fromkeys(gone), **labels}

    def _retry(self, work: WorkView, retried: datetime) -> datetime | None:
        """Return when somebody asked for another try of a work that is not done, if its agent was not told yet."""
        since = work.progress.since
        if work.progress.phase is Phase.SUCCEEDED or (since is not None and since > retried):
            return None
        return retried if work.retried is None or work.retried < retried else None


def _put_off(view: WorkSetView, rollout: Rollout) -> frozenset[str]:
    """Return the clusters for which a write failed that is not to be tried again yet."""
    later = (rollout.failed_writes.keys() - rollout.retries).union(each.cluster for each in view.unread)
    return frozenset(later.union(view.outcomes.other) if view.outcomes.next_try is not None else later)


def _patch(work: WorkView, body: JSONObject) -> Patch:
    return Patch(MANIFEST_WORK, work.name, body, work.cluster, uid=work.uid, resource_version=work.version)


def _delete(work: WorkView | UnreadWork) -> Delete:
    return Delete(MANIFEST_WORK, work.name, work.cluster, uid=work.uid)
