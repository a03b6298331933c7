"""Reads from a hub what decides which clusters a placement selects, so that everybody can be told why."""

from datetime import UTC, datetime

from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, PlacementDecision
from echelon.engine.placement.current import owners_of
from echelon.engine.placement.scheduler import Observed, Scheduler
from echelon.engine.placement.slices import read_slice, recall
from echelon.kube.cache import key_of
from echelon.kube.client import Reader


async def read_scheduler(client: Reader) -> Scheduler:
    """Return the engine, knowing everything that the hub has, but for what placements ask for."""
    owned: dict[str, list[PlacementDecision]] = {}
    for decision in (await client.list(PLACEMENT_DECISION)).items:
        for owner in owners_of(decision):
            owned.setdefault(owner, []).append(decision)
    observed = Observed(
        (await client.list(MANAGED_CLUSTER)).items,
        (await client.list(MANAGED_CLUSTER_SET)).items,
        (await client.list(MANAGED_CLUSTER_SET_BINDING)).items,
        (await client.list(ADD_ON_PLACEMENT_SCORE)).items,
        decided={
            key_of(each): recall(map(read_slice, owned.get(each.metadata.uid, ()))).clusters
            for each in (await client.list(PLACEMENT)).items
        },
    )
    return Scheduler.of(observed, datetime.now(UTC))
