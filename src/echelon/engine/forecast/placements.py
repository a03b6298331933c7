"""What a placement would decide: the decisions and the status that its controller would come to."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.engine.forecast.membership import MembershipChange, membership_change
from echelon.engine.placement import status
from echelon.engine.placement.current import STAMP_ANNOTATION, CurrentSlices, current_slices, labels_of
from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.placement.desired import desired_slices
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.slices import Slice, slice_annotations


@dataclass(frozen=True)
class PlacementForecast:
    """A placement as it would be, with its decisions."""

    placement: Placement
    decisions: tuple[JSONObject, ...]  # all that it has then
    gone: tuple[str, ...]  # names of decisions that it has now and would not have
    before: DecisionGroups
    after: DecisionGroups

    @property
    def membership(self) -> MembershipChange:
        """Which clusters come, go and move."""
        return membership_change(self.before, self.after)


def forecast_placement(
    placement: Placement,
    schedule: Schedule,
    ours: Iterable[PlacementDecision],
    in_slots: Iterable[PlacementDecision],
    now: datetime,
) -> PlacementForecast:
    """Tell what a placement would decide; `in_slots` are all decisions that have a name which it could give."""
    current = current_slices(ours, in_slots)
    desired = desired_slices(placement, schedule, current)
    selected = sum(len(one.clusters) for one in desired.slices)
    told = msgspec.structs.replace(
        placement.status,
        number_of_selected_clusters=selected,
        decision_groups=status.decision_groups(desired.slices),
        conditions=status.conditions(placement, schedule, selected, now),
    )
    names = {one.name for one in desired.slices}
    return PlacementForecast(
        msgspec.structs.replace(placement, status=told),
        tuple(_decision(placement, one, current, desired.stamp) for one in desired.slices),
        tuple(name for name in current.decisions if name not in names),
        DecisionGroups.from_slices(current.slices),
        DecisionGroups.from_slices(desired.slices),
    )


def _decision(placement: Placement, one: Slice, current: CurrentSlices, stamp: str) -> JSONObject:
    """Return a decision as it would be written."""
    meta, known = placement.metadata, current.decisions.get(one.name)
    annotations = {name: value for name, value in slice_annotations(one).items() if value is not None}
    return {
        **PLACEMENT_DECISION.type_meta,
        "metadata": {
            "name": one.name,
            "namespace": meta.namespace,
            "uid": known.metadata.uid if known is not None else f"planned-{one.name}",
            "labels": labels_of(meta.name, one),
            "annotations": {**annotations, STAMP_ANNOTATION: stamp},
            "ownerReferences": [{**PLACEMENT.owner_reference(meta.name, meta.uid), "controller": True}],
        },
        "status": {"decisions": [{"clusterName": name, "reason": ""} for name in one.clusters]},
    }
