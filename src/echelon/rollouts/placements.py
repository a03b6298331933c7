"""Reads from a hub what decides which clusters a placement selects, so that everybody can be told why."""

from collections.abc import Sequence
from datetime import UTC, datetime

from echelon.api.base import JSONObject
from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.engine.placement.current import owners_of
from echelon.engine.placement.explain import Explanation, explain
from echelon.engine.placement.scheduler import Observed, Scheduler
from echelon.engine.placement.slices import read_slice, recall
from echelon.kube.cache import key_of
from echelon.kube.client import Reader
from echelon.rollouts.refusals import NotThere


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


async def explain_placement(client: Reader, placement: Placement, clusters: Sequence[str] = ()) -> list[Explanation]:
    """Tell of some clusters, or all, whether a placement selects them and why, by what the hub has now."""
    scheduler = await read_scheduler(client)
    scheduler.placement(placement)
    key = Key(placement.metadata.namespace, placement.metadata.name)
    if unknown := [each for each in clusters if scheduler.fleet.find(each) is None]:
        raise NotThere(f"{MANAGED_CLUSTER.resource} {', '.join(unknown)} not found")
    schedule = scheduler.schedule(key, datetime.now(UTC))
    return [] if schedule is None else explain(schedule, scheduler.fleet, clusters or None)


def explanation_document(each: Explanation) -> JSONObject:
    """Return an explanation for programs."""
    return {
        "clusterName": each.cluster,
        "selected": each.selected,
        "reason": each.reason,
        "message": each.message,
        "rank": each.rank,
        "score": each.total,
        "scores": [{"name": part.prioritizer, "weight": part.weight, "score": part.score} for part in each.parts],
        "toleratedUntil": None if each.until is None else f"{each.until:%Y-%m-%dT%H:%M:%SZ}",
    }
