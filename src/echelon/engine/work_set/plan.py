"""What is to be done about a work set: works to write, to relabel and to delete, revisions to store, a status.

Everything is derived from what is there, so a crash after any of the writes leads to the same world: names are given,
not generated; what was written counts as under way, observed or not; and a revision is stored before the first cluster
gets it, so that there is always a way back.
"""

from datetime import datetime, timedelta
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.times import format_micro_time
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.plan import NOTHING, Action, Create, Delete, Patch, Plan, Together, Write
from echelon.engine.rollout.failed_writes import FAILED_WRITES, encode
from echelon.engine.rollout.model import Phase, Wait
from echelon.engine.rollout.strategy import Kind
from echelon.engine.work_set import history
from echelon.engine.work_set.announce import announcements, farewell
from echelon.engine.work_set.content import patch_to
from echelon.engine.work_set.names import (
    FINALIZER,
    LABELS_ANNOTATION,
    PLACEMENT_LABEL,
    RETRIED_ANNOTATION,
    REVISION_ANNOTATION,
    SET_LABEL,
    TURNED_ANNOTATION,
    WRITTEN_ANNOTATION,
    BadSetName,
    foreign,
    label_of,
    work_name,
)
from echelon.engine.work_set.rollout import RefRollout, Rollout, roll_out
from echelon.engine.work_set.status import invalid, status_of, unlabelled
from echelon.engine.work_set.view import UnreadWork, WorkSet, WorkSetView, WorkView

# Makes a server forget who wrote which field. Nobody but us writes these works by server-side apply, and keeping the
# books is half of what each write of one costs a kube-apiserver: this one, and all reports of the agent after it.
NOBODY_OWNS: list[JSONObject] = [{}]
LOOK_AGAIN = timedelta(seconds=2)  # when what is known is too old to act on


def plan(view: WorkSetView, now: datetime, *, brief: bool = False) -> Plan:
    """Plan a set. With `brief` the status is left alone unless one of its conditions turns over."""
    work_set = view.work_set
    meta = work_set.metadata
    if meta.deletion_timestamp:
        return _finalize(view, now)
    try:
        label = label_of(meta.namespace, meta.name)
    except BadSetName as error:
        return Plan(status=unlabelled(work_set, str(error), now))
    if view.content.problem:
        return Plan(status=invalid(work_set, view.content.problem, now))
    rollout = roll_out(view, now)
    if rollout.past.generation > meta.generation:
        # Somebody has rolled out a newer template than the one that we see. Ours would take the fleet back.
        return Plan(look_again_after=LOOK_AGAIN)
    if rollout.not_stored:
        # The rest would rely on it.
        return Plan(status=status_of(view, rollout, now, brief=brief), look_again_after=_soonest(view, rollout, now))
    if FINALIZER not in meta.finalizers:
        return Plan((_patch_set(work_set, {"metadata": {"finalizers": [*meta.finalizers, FINALIZER]}}),))
    writing = _Writing(view, rollout, label, now)
    status = status_of(view, rollout, now, brief=brief)
    # Before works: no budget may forget whose write failed, and whatever reaches a cluster must be there to go back to.
    actions: list[Action] = [
        *_store_failed_writes(view, rollout),
        *history.store(work_set, view.content, view.revisions, rollout.past, label),
        *announcements(view, rollout, recorded=status is not None),
    ]
    if works := writing.works():
        actions.append(Together(works))
    actions += _afterwards(work_set, rollout, now)
    # A budget holds within a wave, too: writes are made a few at a time, and those to come are no longer in flight.
    strategies = [each.share.strategy for each in rollout.refs if rollout.back_to is None]
    limited = any(each is not None and each.kind is not Kind.ALL for each in strategies)
    soonest = _soonest(view, rollout, now)
    return Plan(tuple(actions), status, soonest, status_waits=True, stops_at_failure=limited)


def _soonest(view: WorkSetView, rollout: Rollout, now: datetime) -> timedelta | None:
    """Return when something is due although nothing changes."""
    rechecks = [each.decision.recheck_after for each in rollout.refs if each.decision is not None]
    if rollout.sharing.doubtful:
        rechecks.append(LOOK_AGAIN)
    rechecks.append(rollout.sharing.removal.recheck_after)
    if view.outcomes.next_try is not None:
        rechecks.append(view.outcomes.next_try - now)
    elif (
        view.outcomes.own
    ):  # nothing has shown yet that it is over: what is known may be older than what was said of it
        rechecks.append(LOOK_AGAIN)
    return min((each for each in rechecks if each is not None), default=None)


def _store_failed_writes(view: WorkSetView, rollout: Rollout) -> list[Write]:
    """Return what keeps on the set whose writes failed, if it says something else."""
    unread = {each.cluster for each in view.unread}  # which nobody has to remember
    failed = encode({cluster: one for cluster, one in rollout.failed_writes.items() if cluster not in unread})
    if failed == view.work_set.metadata.annotations.get(FAILED_WRITES):
        return []
    return [_patch_set(view.work_set, {"metadata": {"annotations": {FAILED_WRITES: failed}}})]


def _afterwards(work_set: WorkSet, rollout: Rollout, now: datetime) -> list[Write]:
    """Return what happens to the history when the works are written."""
    writes: list[Write] = list(history.forget(rollout.past, work_set.metadata.namespace))
    present = rollout.past.present
    if present is not None and (notes := rollout.to_note(now)):
        writes.append(history.note(present, work_set.metadata.namespace, notes))
    return writes


def _finalize(view: WorkSetView, now: datetime) -> Plan:
    """Take the works away. Whether the set waits for their end is its own choice."""
    meta, spec, outcomes = view.work_set.metadata, view.work_set.spec, view.outcomes
    if FINALIZER not in meta.finalizers:
        return NOTHING
    left = [work for works in view.works.values() for work in works]
    read = {work.uid for work in left}
    everything: list[WorkView | UnreadWork] = [*left, *(work for work in view.unread if work.uid not in read)]
    if outcomes.next_try is not None and (why := outcomes.own or next(iter(outcomes.other.values()), "")):
        message = f"{len(everything)} works are left, and the hub does not let them go: {why}"
        return Plan(status=invalid(view.work_set, message, now), look_again_after=outcomes.next_try - now)
    staying = [work for work in everything if not work.terminating]
    actions: list[Action] = []
    if staying:
        actions += [farewell(view, staying), Together(tuple(map(_delete, staying)))]
    if not everything or spec.cascade_deletion_policy != "Foreground":
        others = [each for each in meta.finalizers if each != FINALIZER]
        actions.append(_patch_set(view.work_set, {"metadata": {"finalizers": others}}))
    return Plan(tuple(actions))


class _Writing:
    """The writes of works of one plan."""

    def __init__(self, view: WorkSetView, rollout: Rollout, label: str, now: datetime) -> None:
        self._view = view
        self._rollout = rollout
        self._label = label
        self._now = format_micro_time(rollout.writes_at(now))
        self._own = foreign(view.work_set.metadata.labels)
        self._own_names = ",".join(sorted(self._own))
        self._patches: dict[str, JSONObject] = {}  # by the digest of what they replace
        self._put_off = _put_off(view, rollout)

    def works(self) -> tuple[Write, ...]:
        """Return all writes, each of a work of its own."""
        writes: list[Write] = [
            write for ref in self._rollout.refs if ref.share.groups.groups for write in self._of_ref(ref)
        ]
        gone = (*self._rollout.sharing.doubles, *self._rollout.sharing.gone)
        writes += [_delete(work) for work in gone if work.cluster not in self._put_off]
        return tuple(writes)

    def _of_ref(self, ref: RefRollout) -> list[Write]:
        placement, works, retries = ref.share.ref.name, self._rollout.works, self._rollout.retries
        labels = {**self._own, SET_LABEL: self._label, PLACEMENT_LABEL: placement}
        writes: list[Write] = []
        for standing in ref.standings:
            cluster = standing.cluster
            work = works.get(cluster)
            if cluster in self._put_off:
                continue
            if standing.starts or cluster in retries:
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
            "apiVersion": MANIFEST_WORK.api_version,
            "kind": MANIFEST_WORK.kind,
            "metadata": {
                "name": work_name(meta.namespace, meta.name, taken=cluster in self._view.taken),
                "namespace": cluster,
                "labels": labels,
                "annotations": {name: value for name, value in self._annotations().items() if value is not None},
            },
            "spec": self._rollout.content.template,
        }
        return Create(MANIFEST_WORK, body, cluster)

    def _rewrite(self, work: WorkView, labels: dict[str, str]) -> Patch:
        content = self._rollout.content
        spec = self._patches.get(work.digest)
        if spec is None:
            spec = self._patches[work.digest] = patch_to(work.spec, content.template)
        metadata = {
            "labels": self._relabelled(work, labels) or labels,
            "annotations": self._annotations(),
            "managedFields": NOBODY_OWNS,
        }
        return _patch(work, {"metadata": metadata, "spec": spec})

    def _annotations(self) -> dict[str, str | None]:
        return {
            REVISION_ANNOTATION: self._rollout.content.digest,
            WRITTEN_ANNOTATION: self._now,
            LABELS_ANNOTATION: self._own_names or None,
            RETRIED_ANNOTATION: None,
            TURNED_ANNOTATION: None,
        }

    def _touch(self, work: WorkView, labels: dict[str, str]) -> JSONObject:
        """Return what changes in the metadata of a work that keeps its content."""
        change: JSONObject = {}
        annotations: dict[str, str | None] = {}
        if relabelled := self._relabelled(work, labels):
            change["labels"] = relabelled
            annotations[LABELS_ANNOTATION] = self._own_names or None
        if work.digest == self._rollout.content.digest:
            if work.written is None and work.progress.phase is not Phase.SUCCEEDED:
                # Somebody else wrote it, and it is not done: the deadline has to begin some time, and only once.
                known = work.progress.since if work.progress.reason != Wait.REPORT.value else None
                began = format_micro_time(known) if known is not None else self._now
                annotations |= {WRITTEN_ANNOTATION: began, REVISION_ANNOTATION: work.digest}
            if work.turned is not None and not work.turned_noted and not self._rollout.is_past(work.cluster):
                annotations[TURNED_ANNOTATION] = format_micro_time(work.turned)
            if (retried := self._retry(work)) is not None:
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

    def _retry(self, work: WorkView) -> datetime | None:
        """Return when somebody asked for another try of a work that is not done, if its agent was not told yet."""
        retried, since = self._rollout.control.retried, work.progress.since
        if retried is None or work.progress.phase is Phase.SUCCEEDED or (since is not None and since > retried):
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


def _patch_set(work_set: WorkSet, body: dict[str, Any]) -> Patch:
    meta = work_set.metadata
    return Patch(
        MANIFEST_WORK_REPLICA_SET,
        meta.name,
        body,
        meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
