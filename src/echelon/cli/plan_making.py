"""Makes a plan: files, a hub or a captured fleet, and what comes of the one for the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER_SET_BINDING
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.cli.change_admission import Admission, Changed, apply_files
from echelon.cli.change_files import Document
from echelon.cli.plan_fleet import FleetPlan, read_fleet
from echelon.cli.plan_propagation import propagated
from echelon.cli.plan_rollouts import Concern, RolloutPlan, RolloutPlans
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.forecast.model import ALL_WELL, Assumptions
from echelon.engine.forecast.placements import PlacementForecast
from echelon.kube.client import Reader
from echelon.kube.snapshot import Overlay
from echelon.rollouts.one_look import OneLook

_BINDING_KINDS = (PLACEMENT_BINDING, POLICY_SET, PLACEMENT_RULE, MANAGED_CLUSTER_SET_BINDING)


@dataclass(frozen=True)
class ChangePlan:
    """What comes of files."""

    changed: tuple[Changed, ...]
    unknown: tuple[Document, ...] = ()  # of kinds that are not known here
    placements: tuple[PlacementForecast, ...] = ()
    rollouts: tuple[RolloutPlan, ...] = ()
    fleet: FleetPlan | None = None
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> list[Changed]:
        """The objects that the hub would not take."""
        return [each for each in self.changed if each.refusal is not None]

    @property
    def differs(self) -> bool:
        """Whether anything would be otherwise than it is."""
        return any(each.differs for each in self.changed) or any(each.differs for each in self.rollouts)


@dataclass
class _Layers:
    """Objects as they would be, by resource and name; None for those that would be gone."""

    objects: dict[str, dict[Key, JSONObject | None]] = field(default_factory=dict)

    def put(self, resource: str, key: Key, document: JSONObject | None) -> None:
        self.objects.setdefault(resource, {})[key] = document

    def over(self, reader: Reader) -> Overlay:
        return Overlay(reader, self.objects)


async def make_plan(
    client: Reader,
    admission: Admission,
    documents: Sequence[Document],
    now: datetime,
    assumed: Assumptions = ALL_WELL,
    *,
    told: ControllerSettings = DEFAULTS,
) -> ChangePlan:
    """Return what comes of files, where clusters do what is assumed of them and controllers what they were told."""
    reader = OneLook(client, contents=True)
    decided = await plan_placements(reader, admission, documents, now, told=told)
    changed, placements, fleet = decided.changed, decided.placements, decided.fleet
    if fleet is None:
        return decided
    layers = _Layers()
    for each in changed:
        if each.after is not None and each.differs:
            layers.put(each.kind.resource, each.key, each.after)
    for found in placements:
        _lay(layers, found)
    for resource, key, binding in await propagated(layers.over(reader), fleet, layers.objects, now):
        layers.put(resource, key, binding)
    plans = RolloutPlans(reader, layers.over(reader), fleet, now, assumed=assumed)
    rollouts = await plans.concerned(_concern(changed, placements, layers.objects))
    return replace(decided, rollouts=tuple(rollouts))


async def plan_placements(
    client: Reader,
    admission: Admission,
    documents: Sequence[Document],
    now: datetime,
    *,
    told: ControllerSettings = DEFAULTS,
) -> ChangePlan:
    """Return what comes of files, but for the rollouts."""
    changed = await apply_files(client, documents, admission)
    fleet = await read_fleet(client, now, told)
    fleet.change(changed)
    placements = [] if fleet.unseen else list(fleet.forecasts())
    unknown = tuple(each for each in documents if each.kind is None)
    return ChangePlan(tuple(changed), unknown, tuple(placements), (), fleet, _notes(fleet, changed))


def _lay(layers: _Layers, found: PlacementForecast) -> None:
    """Let a placement have decided."""
    meta = found.placement.metadata
    wire: JSONObject = {**PLACEMENT.type_meta, **msgspec.to_builtins(found.placement)}
    layers.put(PLACEMENT.resource, Key(meta.namespace, meta.name), wire)
    for decision in found.decisions:
        layers.put(PLACEMENT_DECISION.resource, Key(meta.namespace, decision["metadata"]["name"]), decision)
    for name in found.gone:
        layers.put(PLACEMENT_DECISION.resource, Key(meta.namespace, name), None)


def _concern(
    changed: Sequence[Changed],
    placements: Sequence[PlacementForecast],
    layered: Mapping[str, Mapping[Key, JSONObject | None]],
) -> Concern:
    asked: dict[str, set[Key]] = {resource: set(keys) for resource, keys in layered.items()}
    for each in changed:
        if each.after is not None:  # what changes nothing may still be on its way
            asked.setdefault(each.kind.resource, set()).add(each.key)
    deciding = {
        Key(each.placement.metadata.namespace, each.placement.metadata.name) for each in placements if each.membership
    }
    deciding |= {each.key for each in changed if each.kind == PLACEMENT and each.differs}
    kinds = {kind.resource for kind in _BINDING_KINDS}
    spaces = {each.key.namespace for each in changed if each.kind.resource in kinds and each.differs}
    return Concern(asked, frozenset(deciding), frozenset(spaces))


def _notes(fleet: FleetPlan, changed: Sequence[Changed]) -> tuple[str, ...]:
    if not fleet.unseen:
        return ()
    about = "who would be chosen cannot be told, and clusters are those of the present decisions"
    asked = [each for each in changed if each.kind == PLACEMENT]
    return (f"{about}: {fleet.unseen}" if asked else f"not all of the fleet can be seen: {fleet.unseen}",)
