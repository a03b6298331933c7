"""The writes of replicas: who gets the content to look at, who is released, and what is put right in place.

One patch brings content, the time of that and whether it is held, so that nobody ever sees one without the other. What
the status of a replica says comes after it: a status that is ahead of its spec would be believed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from echelon.api.base import JSONObject
from echelon.api.policy import POLICY
from echelon.api.times import format_micro_time, format_time
from echelon.engine.merge_patch import merge_difference
from echelon.engine.plan import Create, Delete, InOrder, Patch, Write
from echelon.engine.policy.content import INFORM
from echelon.engine.policy.later_reports import reports_to_outlast
from echelon.engine.policy.metadata import ReplicaMetadata
from echelon.engine.policy.names import EVENTS_ANNOTATION, HELD_ANNOTATION
from echelon.engine.policy.record import SuccessTimes, turned_bad
from echelon.engine.policy.replica import Replica, other_fields, surroundings_of
from echelon.engine.policy.strategy import PolicyStrategy
from echelon.engine.policy.subject import Contents, content_of, is_ready
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.annotations import (
    RETRIED_ANNOTATION,
    REVISION_ANNOTATION,
    TURNED_ANNOTATION,
    WRITTEN_ANNOTATION,
)
from echelon.engine.rollout.model import ClusterDecision, Phase
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.unwritten import are_due

_STANDING = frozenset(each.value for each in (Phase.PROGRESSING, Phase.SUCCEEDED, Phase.FAILED))
# Looking up a member of an enumeration takes ten times as long as looking up a name, and this is done for each cluster.
_SUCCEEDED, _WAITS = Phase.SUCCEEDED, Phase.TO_APPLY.value
MOST_WRITES = 500  # of one plan: whoever plans ten thousand of them at once does nothing else for a tenth of a second


@dataclass(frozen=True)
class ReplicaWrite:
    """What is done for one cluster."""

    cluster: str
    writes: InOrder
    phase: Phase | None  # of the cluster after it, where it gets content
    new: bool = False


class ReplicaWrites:
    """The writes of replicas of one plan."""

    def __init__(
        self, view: PolicyView, strategy: PolicyStrategy, contents: Contents, rollout: Rollout, now: datetime
    ) -> None:
        self._view = view
        self._contents = contents
        self._rollout = rollout
        self._content = content_of(view, rollout)
        self._in_turn = strategy.in_turn and rollout.rollback_to is None
        self._recalled = rollout.control.aborted and rollout.rollback_to is None  # what was released is held again
        self._metadata = ReplicaMetadata.of(view.policy.metadata, view.policy.spec)
        self._now = now
        at = rollout.writes_at(now)
        self._at, self._at_second = format_micro_time(at), format_time(at)
        self._specs: dict[str, JSONObject] = {}  # by action
        self._due = are_due(rollout.subject, rollout.control)
        put_off = rollout.subject.outcomes.other.keys() | rollout.failed_writes.keys()
        self._put_off = frozenset[str]() if self._due else frozenset(put_off)
        self._held_digest = self._content.digest(INFORM)
        self._full_digest = self._content.digest(self._content.action)
        self._other_fields = other_fields(self._content.spec)
        common = self._metadata.labels, self._metadata.annotations
        self._surroundings = surroundings_of(*common, self._other_fields)
        self._undecided = frozenset[str]().union(*(ref.allocation.undecided for ref in rollout.references))

    def __iter__(self) -> Iterator[ReplicaWrite]:
        """Return the writes, each for a cluster of its own."""
        going = frozenset(self._rollout.allocations.to_delete)
        barred = self._view.unbound | self._view.leaving | self._view.unread.keys()
        for entry in self._rollout.cluster_decisions:
            cluster = entry.cluster
            replica = self._view.replicas.get(cluster)
            if cluster in going or cluster in barred or cluster in self._put_off:
                continue
            if replica is not None and replica.terminating is not None:
                continue
            written = self._in_turns(entry, replica) if self._in_turn else self._at_once(entry, replica)
            if written is not None:
                yield written

    @cached_property
    def _record(self) -> SuccessTimes:
        return SuccessTimes.of(self._view.policy.status)

    def deletions(self) -> tuple[Delete, ...]:
        """Return the ends of replicas that nobody selects any more.

        Not of what was written meanwhile: a process may be born into the past, and somebody may select it again.
        """
        return tuple(
            replace(delete(replica := self._view.replicas[cluster]), resource_version=replica.version)
            for cluster in self._rollout.allocations.to_delete
            if cluster not in self._put_off
        )

    def _at_once(self, entry: ClusterDecision, replica: Replica | None) -> ReplicaWrite | None:
        action = self._contents.action(self._content, entry.cluster)
        if replica is not None and replica.digest == self._content.digest(action):
            return self._in_place(entry, replica, held=False)
        if entry.starts or entry.cluster in self._rollout.retries:
            return self._bring(entry.cluster, replica, action, held=False)
        return None

    def _in_turns(self, entry: ClusterDecision, replica: Replica | None) -> ReplicaWrite | None:
        action = self._content.action
        released = replica is not None and replica.digest == self._full_digest and not replica.held
        if replica is not None and released and not self._recalled:
            return self._in_place(entry, replica, held=False)
        if replica is None or replica.digest != self._held_digest:
            # Who has yet to get it to look at, gets it, whoever's turn it is; unless nobody lists it any more.
            if entry.cluster in self._undecided:
                return None
            return self._bring(entry.cluster, replica, INFORM, held=True)
        may_go = entry.starts or entry.cluster in self._rollout.retries
        if may_go and not self._recalled and is_ready(replica, self._view):
            return self._bring(entry.cluster, replica, action, held=False)
        return self._in_place(entry, replica, held=True)

    def _bring(self, cluster: str, replica: Replica | None, action: str, *, held: bool) -> ReplicaWrite:
        """Give a cluster the content, and say where it stands with it."""
        spec, phase = self._spec_with(action), Phase.TO_APPLY if held else Phase.PROGRESSING
        annotations: dict[str, str | None] = {
            REVISION_ANNOTATION: self._rollout.revision,
            WRITTEN_ANNOTATION: self._at,
            HELD_ANNOTATION: "true" if held else None,
            EVENTS_ANNOTATION: _reports(replica, spec, held=held) if replica is not None else None,
            RETRIED_ANNOTATION: None,
            TURNED_ANNOTATION: None,
        }
        first: Write
        if replica is None:
            metadata = self._metadata.new(cluster, {name: each for name, each in annotations.items() if each})
            first = Create(POLICY, {**POLICY.type_meta, "metadata": metadata, "spec": spec}, cluster)
        else:
            # All notes, also those that it has: whoever sees the write fail reads there what it was to bring.
            change = self._metadata.patch(replica, annotations)
            metadata = {**change, "annotations": {**change.get("annotations", {}), **annotations}}
            first = _patch(replica, {"metadata": metadata, "spec": merge_difference(replica.spec, spec)})
        told: tuple[Write, ...] = ()
        if self._view.keeps_status and (replica is None or not replica.is_of_another_agent):
            told = (Patch(POLICY, first.name, self._told(phase), cluster, subresource="status"),)
        return ReplicaWrite(cluster, InOrder((first, *told)), phase, replica is None)

    def _in_place(self, entry: ClusterDecision, replica: Replica, *, held: bool) -> ReplicaWrite | None:
        """Put right what is not as it should be, though the cluster keeps the content that it has."""
        if self._is_right(entry, replica, held=held):
            return None
        annotations = self._notes(entry, replica, held=held)
        body: JSONObject = {}
        if annotations or replica.surroundings != self._surroundings:
            if metadata := self._metadata.patch(replica, annotations):
                body["metadata"] = metadata
            if replica.other_fields != self._other_fields:
                body["spec"] = merge_difference(replica.other_fields, self._other_fields)
        writes: list[Write] = [_patch(replica, body)] if body else []
        retried = RETRIED_ANNOTATION in annotations
        if (phase := self._to_tell(entry, replica, held=held, retried=retried)) is not None:
            uid, version = (replica.uid, replica.version) if not body else ("", "")
            writes.append(Patch(POLICY, replica.name, self._told(phase), replica.cluster, uid, version, "status"))
        return ReplicaWrite(replica.cluster, InOrder(tuple(writes)), None) if writes else None

    def _is_right(self, entry: ClusterDecision, replica: Replica, *, held: bool) -> bool:
        """Whether nothing is to be put right for sure; nearly all of ten thousand are at rest, and it shows at once."""
        if replica.held is not held or replica.surroundings != self._surroundings:
            return False
        if held:
            return replica.stored == _WAITS and replica.written is not None
        known = replica.observed_generation == replica.generation
        return known and entry.phase is _SUCCEEDED and replica.stored in _STANDING

    def _notes(self, entry: ClusterDecision, replica: Replica, *, held: bool) -> dict[str, str | None]:
        """Return the annotations of ours that a replica gets or loses."""
        notes: dict[str, str | None] = {}
        if replica.held != held:
            notes[HELD_ANNOTATION] = "true" if held else None
        if replica.written is None and entry.phase is not Phase.SUCCEEDED:
            # Somebody else wrote it, and it is not done: the deadline has to begin some time, and only once.
            notes |= {WRITTEN_ANNOTATION: format_micro_time(self._now), REVISION_ANNOTATION: self._rollout.revision}
        if held:
            return notes
        turned = turned_bad(replica, self._record, self._now) if entry.phase is not Phase.SUCCEEDED else None
        if turned is not None and turned != replica.turned and not self._rollout.is_past(entry.cluster):
            notes[TURNED_ANNOTATION] = format_micro_time(turned)
        retried = self._rollout.control.retried
        if retried is not None and entry.phase is not Phase.SUCCEEDED:
            is_old = entry.since is None or entry.since <= retried
            if is_old and (replica.retried is None or replica.retried < retried):
                notes[RETRIED_ANNOTATION] = format_micro_time(retried)
        return notes

    def _to_tell(self, entry: ClusterDecision, replica: Replica, *, held: bool, retried: bool) -> Phase | None:
        """Return what the status of a replica has to say and does not say. Verdicts are its agent's."""
        if not self._view.keeps_status or replica.is_of_another_agent:
            return None
        if held:
            return None if replica.stored == Phase.TO_APPLY.value else Phase.TO_APPLY
        if entry.phase is Phase.TIMED_OUT:
            return None if replica.stored == Phase.TIMED_OUT.value else Phase.TIMED_OUT
        if replica.stored not in _STANDING or (retried and replica.stored == Phase.FAILED.value):
            return Phase.PROGRESSING  # who is asked again has to say it again, or nobody could tell it from before
        # A verdict of before: the replica was written since, and its agent has not looked at it yet.
        outdated = replica.stored != Phase.PROGRESSING.value and replica.is_outdated
        written = replica.written is not None and (replica.stored_at is None or replica.stored_at < replica.written)
        return Phase.PROGRESSING if outdated and written else None

    def _told(self, phase: Phase) -> JSONObject:
        return {"status": {"rolloutStatus": phase.value, "rolloutLastTransitionTime": self._at_second}}

    def _spec_with(self, action: str) -> JSONObject:
        if (spec := self._specs.get(action)) is None:
            spec = self._specs[action] = self._content.spec_with(action)
        return spec


def delete(replica: Replica) -> Delete:
    """Return the end of a replica."""
    return Delete(POLICY, replica.name, replica.cluster, uid=replica.uid)


def _reports(replica: Replica, spec: JSONObject, *, held: bool) -> str:
    noted = replica.annotations.get(EVENTS_ANNOTATION, "") if replica.held else ""
    return reports_to_outlast(replica.spec, spec, replica.reports, noted, held=held)


def _patch(replica: Replica, body: JSONObject) -> Patch:
    return Patch(POLICY, replica.name, body, replica.cluster, uid=replica.uid, resource_version=replica.version)
