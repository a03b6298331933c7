"""The writes that publish decisions, as actions of a plan.

Which writes, and in which order, comes from the engine. What is added here is what only matters on a real server:
preconditions, owners, and events.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement
from echelon.engine.placement import status
from echelon.engine.placement.current import STAMP_ANNOTATION, CurrentSlices, labels_of
from echelon.engine.placement.desired import DesiredSlices, is_stamped_when_created, publication_of
from echelon.engine.placement.publish import (
    Batch,
    ClaimSlice,
    CreateSlice,
    DeleteSlice,
    SliceWrite,
    StampSlice,
    WriteEmptyList,
    WriteLabels,
    WriteStatus,
)
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.slices import Slice, slice_annotations
from echelon.engine.plan import Action, Create, Delete, Emit, InOrder, Patch, Reference, Together, Write

CLAIM_ANNOTATION = "echelon.dev/claimed"  # on a decision: the version at which it was claimed last
SURGE = "DecisionSurge"


@dataclass(frozen=True)
class DecisionWrites:
    """The actions that publish decisions, and the events among them by which the progress can be measured."""

    actions: tuple[Action, ...] = ()
    events: int = 0  # how many there are
    surge: tuple[Emit, Emit] | None = None  # when a surge begins, and when it is over
    over_limit: int = 0


def decision_writes(
    placement: Placement, schedule: Schedule, current: CurrentSlices, desired: DesiredSlices
) -> DecisionWrites:
    """Return the actions that lead to the desired decisions, each write followed by the events about it."""
    publication = publication_of(placement, current, desired)
    listed = (each.name for batch in publication.batches for each in batch if isinstance(each, WriteStatus))
    translation = _Translation(placement, schedule, current, desired, next(listed, ""))
    batches = [translation.batch(batch) for batch in publication.batches]
    surge = None
    if publication.surge is not None:
        begun = _surge_event(placement, "SurgeBegun", "begins")
        over = replace(_surge_event(placement, "SurgeFinished", "is over"), ends=True)
        surge = (begun, over)
        batches = [*batches[: publication.surge], (begun,), *batches[publication.surge :], (over,)]
    actions = tuple(action for batch in batches for action in batch)
    return DecisionWrites(actions, sum(map(_events_in, actions)), surge, publication.over_limit)


@dataclass(frozen=True)
class _Translation:
    """Turns writes of slices into requests about decision objects, and tells of them."""

    placement: Placement
    schedule: Schedule
    current: CurrentSlices
    desired: DesiredSlices
    first: str  # of those whose lists are written

    def batch(self, writes: Batch) -> tuple[Action, ...]:
        """Return the actions for writes that do not wait for each other."""
        rows = [(self._request(write), *self._events(write)) for write in writes]
        return rows[0] if len(rows) == 1 else (Together(tuple(InOrder(row) for row in rows)),)

    def _request(self, write: SliceWrite) -> Write:
        match write:
            case CreateSlice(one):
                return self._create(one)
            case WriteLabels(one):
                metadata = {
                    "labels": labels_of(self.placement.metadata.name, one),
                    "annotations": slice_annotations(one),
                }
                return self._patch(one.name, {"metadata": metadata})
            case WriteStatus(name, clusters):
                return self._write_list(name, clusters)
            case WriteEmptyList(name):
                return self._write_list(name, ())
            case ClaimSlice(name):
                return self._annotate(name, CLAIM_ANNOTATION, self._known(name)[1])
            case StampSlice(name):
                return self._annotate(name, STAMP_ANNOTATION, self.desired.stamp)
            case DeleteSlice(name):
                return Delete(PLACEMENT_DECISION, name, self.placement.metadata.namespace, *self._known(name))

    def _events(self, write: SliceWrite) -> Iterator[Emit]:
        match write:
            case CreateSlice(one):
                yield status.created(self.placement, one.name)
            case WriteStatus(name):
                yield status.updated(self.placement, name, self.schedule.outcome)
                # Scores are those of all clusters, whichever decision is written: telling them with each would be all
                # that people see of a placement.
                if name == self.first and (scores := status.scored(self.placement, self.schedule)) is not None:
                    yield scores
            case DeleteSlice(name):
                yield status.deleted(self.placement, name)

    def _create(self, one: Slice) -> Create:
        meta = self.placement.metadata
        annotations = {key: value for key, value in slice_annotations(one).items() if value is not None}
        if is_stamped_when_created(self.current, self.desired):
            annotations[STAMP_ANNOTATION] = self.desired.stamp
        owner = {**PLACEMENT.owner_reference(meta.name, meta.uid), "controller": True, "blockOwnerDeletion": True}
        metadata: JSONObject = {
            "name": one.name,
            "namespace": meta.namespace,
            "labels": labels_of(meta.name, one),
            "ownerReferences": [owner],
        }
        if annotations:
            metadata["annotations"] = annotations
        body = {**PLACEMENT_DECISION.type_meta, "metadata": metadata}
        return Create(PLACEMENT_DECISION, body, meta.namespace)

    def _write_list(self, name: str, clusters: tuple[str, ...]) -> Patch:
        listed = [{"clusterName": cluster, "reason": ""} for cluster in clusters]
        return self._patch(name, {"status": {"decisions": listed}}, subresource="status")

    def _annotate(self, name: str, annotation: str, value: str) -> Patch:
        return self._patch(name, {"metadata": {"annotations": {annotation: value}}})

    def _patch(self, name: str, body: JSONObject, subresource: str = "") -> Patch:
        """Write to a decision as it is known."""
        return Patch(PLACEMENT_DECISION, name, body, self.placement.metadata.namespace, *self._known(name), subresource)

    def _known(self, name: str) -> tuple[str, str]:
        """Return the uid and version of a decision; one that is created in this plan has none yet."""
        existing = self.current.decisions.get(name)
        return (existing.metadata.uid, existing.metadata.resource_version) if existing else ("", "")


def _surge_event(placement: Placement, action: str, what: str) -> Emit:
    meta = placement.metadata
    note = f"Rolling update of the decisions of placement {meta.name} in namespace {meta.namespace}: surge {what}"
    return Emit(Reference(PLACEMENT, meta.name, meta.namespace, meta.uid), SURGE, action, note)


def _events_in(action: Action) -> int:
    if isinstance(action, InOrder | Together):
        return sum(map(_events_in, action.actions))
    return isinstance(action, Emit)
