"""The fleet as whoever plans may see it, and what its placements would decide if some objects were others.

Changes are told to the engine's scheduler as a controller tells it of them, one by one, and it answers which placements
each concerns. Only those are scheduled anew.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from pyroaring import BitMap

from echelon.api.base import JSONObject
from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    ManagedCluster,
)
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.api.times import parse_time
from echelon.cli.change_admission import Changed
from echelon.controllers.placement.index import is_scheduled
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.cluster_health import UNAVAILABLE, UNREACHABLE
from echelon.engine.forecast.placements import PlacementForecast, forecast_placement
from echelon.engine.placement.current import clusters_of, owners_of, slot_of
from echelon.engine.placement.explain import Explanation, explain
from echelon.engine.placement.scheduler import Observed, Scheduler
from echelon.engine.placement.slices import read_slice, recall
from echelon.kube.cache import key_of
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden, NotFound

T = TypeVar("T")
_AWAY = (UNREACHABLE, UNAVAILABLE)


@dataclass
class FleetPlan:
    """Clusters, sets, bindings and placements, before and after the changes that it was told of."""

    scheduler: Scheduler
    now: datetime
    clusters: dict[str, ManagedCluster]
    placements: dict[Key, Placement]
    decisions: Mapping[str, list[PlacementDecision]]  # by the uid of their owner
    slots: Mapping[tuple[str, str], list[PlacementDecision]]  # by the placement that gives such names
    told: ControllerSettings = DEFAULTS  # what the controllers were started with
    unseen: str = ""  # why nothing can be said of who would be chosen
    concerned: set[Key] = field(default_factory=set)

    def change(self, changed: Iterable[Changed]) -> None:
        """Take objects as they would be."""
        for each in changed:
            if each.after is not None and each.differs:
                self.concerned |= self._take(each.kind, each.after)

    def _take(self, kind: Kind[Any], after: JSONObject) -> set[Key]:
        scheduler = self.scheduler
        if kind == MANAGED_CLUSTER:
            cluster = msgspec.convert(after, MANAGED_CLUSTER.type)
            self.clusters[cluster.metadata.name] = cluster
            return scheduler.cluster(cluster, self.now)
        if kind == MANAGED_CLUSTER_SET:
            return scheduler.cluster_set(msgspec.convert(after, MANAGED_CLUSTER_SET.type))
        if kind == MANAGED_CLUSTER_SET_BINDING:
            return scheduler.binding(msgspec.convert(after, MANAGED_CLUSTER_SET_BINDING.type))
        if kind == ADD_ON_PLACEMENT_SCORE:
            return scheduler.score(msgspec.convert(after, ADD_ON_PLACEMENT_SCORE.type))
        if kind == PLACEMENT:
            placement = msgspec.convert(after, PLACEMENT.type)
            self.placements[key_of(placement)] = placement
            return scheduler.placement(placement) if is_scheduled(placement) else set()
        return set()

    def forecasts(self) -> Iterator[PlacementForecast]:
        """Return what the placements would decide that are concerned by the changes."""
        for key in sorted(self.concerned):
            placement = self.placements.get(key)
            if placement is None or not is_scheduled(placement):
                continue
            schedule = self.scheduler.schedule(key, self.now)
            if schedule is not None:
                ours = self.decisions.get(placement.metadata.uid, [])
                yield forecast_placement(placement, schedule, ours, self.slots.get((*key,), []), self.now)

    def explained(self, key: Key, clusters: Iterable[str] = ()) -> list[Explanation]:
        """Return for every cluster, or some, why a placement would choose it or not."""
        schedule = self.scheduler.schedule(key, self.now)
        return [] if schedule is None else explain(schedule, self.scheduler.fleet, [*clusters] or None)

    def bound(self, namespace: str) -> frozenset[str]:
        """Return the clusters that the people of a namespace have a say about."""
        fleet = self.scheduler.fleet
        numbers = self.scheduler.sets.eligibility(namespace, ()).clusters(fleet, BitMap())
        return frozenset(fleet.names.of(numbers))

    def leaving(self, clusters: Iterable[str]) -> frozenset[str]:
        """Return the clusters that are on their way out of the fleet."""
        found = ((name, self.clusters.get(name)) for name in clusters)
        return frozenset(name for name, each in found if each is not None and each.metadata.deletion_timestamp)

    def spared(self, clusters: Iterable[str]) -> dict[str, datetime]:
        """Return until when clusters that are away keep what they have."""
        found: dict[str, datetime] = {}
        for name in clusters:
            cluster = self.clusters.get(name)
            taints = [each for each in cluster.spec.taints if each.key in _AWAY] if cluster is not None else []
            if taints:
                found[name] = min(parse_time(each.time_added) or self.now for each in taints) + self.told.removal_grace
        return found


async def read_fleet(client: Reader, now: datetime, told: ControllerSettings = DEFAULTS) -> FleetPlan:
    """Read the fleet; who may not see all of it hears why nothing can be said of who would be chosen."""
    unseen: list[str] = []

    async def listed(kind: Kind[T]) -> list[T]:
        try:
            return list((await client.list(kind)).readable)
        except Forbidden as error:
            unseen.append(str(error))
        except NotFound:  # a hub without the kind has none of it
            pass
        return []

    clusters, sets, bindings, scores, placements, decisions = await asyncio.gather(
        listed(MANAGED_CLUSTER),
        listed(MANAGED_CLUSTER_SET),
        listed(MANAGED_CLUSTER_SET_BINDING),
        listed(ADD_ON_PLACEMENT_SCORE),
        listed(PLACEMENT),
        listed(PLACEMENT_DECISION),
    )
    owned: dict[str, list[PlacementDecision]] = {}
    slots: dict[tuple[str, str], list[PlacementDecision]] = {}
    for decision in decisions:
        for owner in owners_of(decision):
            owned.setdefault(owner, []).append(decision)
        for slot in slot_of(decision):
            slots.setdefault(slot, []).append(decision)
    ours = [each for each in placements if is_scheduled(each)]
    decided = {key_of(each): recall(map(read_slice, owned.get(each.metadata.uid, ()))).clusters for each in ours}
    known = {each.metadata.uid for each in ours}
    for decision in decisions:  # of other schedulers, whose choice counts for Balance
        if known.isdisjoint(owners_of(decision)):
            decided[Key(decision.metadata.namespace, f"/{decision.metadata.name}")] = frozenset(clusters_of(decision))
    observed = Observed(clusters, sets, bindings, scores, ours, decided)
    return FleetPlan(
        Scheduler.of(observed, now),
        now,
        {each.metadata.name: each for each in clusters},
        {key_of(each): each for each in placements},
        owned,
        slots,
        told,
        "; ".join(unseen),
    )
