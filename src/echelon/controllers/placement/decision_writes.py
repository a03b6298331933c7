"""From the decisions that are there to those that are desired, as actions of a plan.

The order of the writes comes from the engine. What is added here is what only matters on a real server: preconditions,
owners, events, labels that somebody damaged, and one more precaution. A cluster may be listed twice because an earlier
process died in the middle of a move. It is then taken out of one decision because the other one has it, and what the
cache says of the other one may be outdated, or about to be: a request of the dead process may still be on its way. So
a decision that is relied on is claimed first, by a write that changes nothing but its version. It fails if the cache is
wrong, and after it every older request fails.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement
from echelon.controllers.placement.publication import MARK_ANNOTATION, PLACEMENT_LABEL, Desired, Published
from echelon.engine.placement import status
from echelon.engine.placement.publish import (
    CreateSlice,
    DeleteSlice,
    Publication,
    Write,
    WriteLabels,
    WriteStatus,
    publish,
)
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.slices import Slice, slice_annotations, slice_labels, spare_names
from echelon.engine.plan import Action, Create, Delete, Emit, Patch, Reference

CLAIM_ANNOTATION = "echelon.dev/claimed"  # on a decision: the version at which it was claimed last
SURGE = "DecisionSurge"


@dataclass(frozen=True)
class Steps:
    """Actions in order, and the events among them by which the progress can be measured."""

    actions: tuple[Action, ...] = ()
    last: Emit | None = None  # after the last write of a decision
    surge: tuple[Emit, Emit] | None = None  # when a surge begins, and when it is over
    over_limit: int = 0


def steps(placement: Placement, schedule: Schedule, there: Published, desired: Desired) -> Steps:
    """Return the actions that lead to the desired decisions, each write followed by the events about it."""
    rolling = placement.spec.decision_strategy.update_strategy.type == "RollingUpdate"
    taken = {*there.decisions, *there.taken, *(one.name for one in desired.slices)}
    spare = spare_names(placement.metadata.name, taken)
    publication = publish(there.slices, desired.slices, "RollingUpdate" if rolling else "All", spare=spare)
    return _Way(placement, schedule, there, desired, publication).steps()


@dataclass(frozen=True)
class _Way:
    """One plan's way from what is there to what is desired."""

    placement: Placement
    schedule: Schedule
    there: Published
    desired: Desired
    publication: Publication

    def steps(self) -> Steps:
        writes, first = self.publication.writes, self._first_surge
        deletions = next((at for at, write in enumerate(writes) if isinstance(write, DeleteSlice)), len(writes))
        begun = self._surge_event("SurgeBegun", "begins")
        over = replace(self._surge_event("SurgeFinished", "is over"), ends=True)
        surge = (begun, over) if first is not None else None
        before = writes[:deletions] if first is None else writes[:first]
        actions: list[Action] = [*self._repairs(), *self._claims(), *self._all(before)]
        if first is not None:
            actions += [begun, *self._all(writes[first:deletions])]
        # By now all groups are as they will be, so the mark is true; and the bearer of an older one still exists.
        actions += [*self._empty_lists(), *self._marks(), *self._all(writes[deletions:])]
        if surge is not None:
            actions.append(over)
        last = next((action for action in reversed(actions) if isinstance(action, Emit)), None)
        return Steps(tuple(actions), last, surge, self.publication.over_limit)

    @property
    def _first_surge(self) -> int | None:
        writes = enumerate(self.publication.writes)
        return next((at for at, write in writes if isinstance(write, WriteStatus) and write.surge), None)

    def _repairs(self) -> Iterator[Action]:
        """Give decisions the labels that they were understood to have."""
        for one in self.there.slices:
            has, wanted = self.there.decisions[one.name].metadata, self._labels(one)
            right = all(has.labels.get(key) == value for key, value in wanted.items())
            if not right or any(has.annotations.get(key) != value for key, value in slice_annotations(one).items()):
                yield self._write_labels(one)

    def _claims(self) -> Iterator[Action]:
        counts = Counter(cluster for one in self.there.slices for cluster in one.clusters)
        twice = {cluster for cluster, count in counts.items() if count > 1}
        if not twice:
            return
        held = {one.name: twice.intersection(one.clusters) for one in self.there.slices}
        for one in self.desired.slices:
            if held.get(one.name, set()).intersection(one.clusters):
                version = self.there.decisions[one.name].metadata.resource_version
                yield self._patch(one.name, {"metadata": {"annotations": {CLAIM_ANNOTATION: version}}})

    def _all(self, writes: tuple[Write, ...]) -> Iterator[Action]:
        for write in writes:
            yield from self._actions(write)

    def _actions(self, write: Write) -> Iterator[Action]:
        match write:
            case CreateSlice(one):
                yield self._create(one)
                yield status.created(self.placement, one.name)
            case WriteLabels(one):
                yield self._write_labels(one)
            case WriteStatus(name, clusters):
                yield self._write_list(name, clusters)
                yield status.updated(self.placement, name, self.schedule.outcome)
                if self._scores is not None:
                    yield replace(self._scores, related=self._reference(name))
            case DeleteSlice(name):
                yield Delete(PLACEMENT_DECISION, name, self.placement.metadata.namespace, *self._known(name))
                yield status.deleted(self.placement, name)

    def _create(self, one: Slice) -> Create:
        meta = self.placement.metadata
        annotations = {key: value for key, value in slice_annotations(one).items() if value is not None}
        if self._marked_from_the_start:
            annotations[MARK_ANNOTATION] = self.desired.mark
        owner = {
            "apiVersion": PLACEMENT.api_version,
            "kind": PLACEMENT.kind,
            "name": meta.name,
            "uid": meta.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata: JSONObject = {
            "name": one.name,
            "namespace": meta.namespace,
            "labels": self._labels(one),
            "ownerReferences": [owner],
        }
        if annotations:
            metadata["annotations"] = annotations
        body = {"apiVersion": PLACEMENT_DECISION.api_version, "kind": PLACEMENT_DECISION.kind, "metadata": metadata}
        return Create(PLACEMENT_DECISION, body, meta.namespace)

    @property
    def _marked_from_the_start(self) -> bool:
        """Whether the mark is true before any cluster has moved."""
        return not self.there.memory.clusters or self.desired.mark == self.there.mark

    def _empty_lists(self) -> Iterator[Action]:
        """Let decisions without clusters say so: some consumers trip over a missing list."""
        for one in self.desired.slices:
            if not one.clusters:
                existing = self.there.decisions.get(one.name)
                if existing is None or existing.status is None:
                    yield self._write_list(one.name, ())

    def _marks(self) -> Iterator[Action]:
        """Have at least one decision that stays tell how the groups were cut."""
        staying = [self.there.decisions.get(one.name) for one in self.desired.slices]
        if any(
            self._marked_from_the_start
            if one is None
            else one.metadata.annotations.get(MARK_ANNOTATION) == self.desired.mark
            for one in staying
        ):
            return
        yield self._patch(self.desired.bearer, {"metadata": {"annotations": {MARK_ANNOTATION: self.desired.mark}}})

    def _labels(self, one: Slice) -> dict[str, str]:
        return {PLACEMENT_LABEL: self.placement.metadata.name, **slice_labels(one)}

    def _write_labels(self, one: Slice) -> Patch:
        metadata = {"labels": self._labels(one), "annotations": slice_annotations(one)}
        return self._patch(one.name, {"metadata": metadata})

    def _write_list(self, name: str, clusters: tuple[str, ...]) -> Patch:
        listed = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
        return self._patch(name, {"status": {"decisions": listed}}, subresource="status")

    def _patch(self, name: str, body: JSONObject, subresource: str = "") -> Patch:
        """Write to a decision as it is known."""
        return Patch(PLACEMENT_DECISION, name, body, self.placement.metadata.namespace, *self._known(name), subresource)

    def _known(self, name: str) -> tuple[str, str]:
        """Return the uid and version of a decision; one that is created in this plan has none yet."""
        existing = self.there.decisions.get(name)
        return (existing.metadata.uid, existing.metadata.resource_version) if existing else ("", "")

    @cached_property
    def _scores(self) -> Emit | None:
        return status.scored(self.placement, "", self.schedule)

    def _surge_event(self, action: str, what: str) -> Emit:
        meta = self.placement.metadata
        note = f"Rolling update of the decisions of placement {meta.name} in namespace {meta.namespace}: surge {what}"
        return Emit(Reference(PLACEMENT, meta.name, meta.namespace, meta.uid), SURGE, action, note)

    def _reference(self, name: str) -> Reference:
        return Reference(PLACEMENT_DECISION, name, self.placement.metadata.namespace)
