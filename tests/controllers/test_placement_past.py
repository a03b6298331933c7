"""Servers that answer with the past: clusters that have come since then are not taken out of decisions.

Here reads go back to a time before the fleet was there, for so long that caches believe them in the end; a controller
that starts then has nothing else to go by.
"""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, MergePatch
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.budgets import Lives
from tests.controllers.hub import CRDS, NS, SET_LABEL
from tests.controllers.strict import STRICT

STABLE = [f"s{number}" for number in range(6)]
FAULTS = Faults(stale=0.3, stale_revisions=60, stale_seconds=(20.0, 120.0), gone=0.3, close=0.5, crash=0.02)


def body(kind: str, version: str, name: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


async def people(client: Client) -> None:
    """Bring a fleet and a placement, then let one cluster come and go, and labels change that do not matter."""
    sets, version = MANAGED_CLUSTER_SET_BINDING, MANAGED_CLUSTER.api_version
    await client.create(sets.untyped(), body(sets.kind, sets.api_version, "set", spec={"clusterSet": "set"}), NS)
    spec = {"decisionStrategy": {"updateStrategy": {"type": "RollingUpdate"}}}
    await client.create(PLACEMENT.untyped(), body("Placement", PLACEMENT.api_version, "p", spec=spec), NS)
    for name in STABLE:
        labels = {"metadata": {"name": name, "labels": {SET_LABEL: "set"}}, "spec": {"hubAcceptsClient": True}}
        await client.create(MANAGED_CLUSTER.untyped(), {**body("ManagedCluster", version, name), **labels})
    for step in range(12):
        await asyncio.sleep(running().random.uniform(1, 40))
        patch = {"metadata": {"labels": {SET_LABEL: "set" if step % 2 else "elsewhere"}}}
        await client.patch(MANAGED_CLUSTER, STABLE[-1], MergePatch(patch))


async def controller(client: FaultyClient) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    await Controllers(
        client,
        running().clock,
        ["placement"],
        random=chance,
        metrics=Metrics(),
        instance="simulated",
        settings=STRICT,
    ).run()


def listed(world: World) -> set[str]:
    decisions = world.objects(PLACEMENT_DECISION.resource, namespace=NS)
    return {entry["clusterName"] for item in decisions for entry in item.get("status", {}).get("decisions", [])}


def nobody_vanishes(world: World, commit: Committed) -> str | None:
    if commit.key.resource != PLACEMENT_DECISION.resource:
        return None
    here = listed(world)
    known: set[str] = world.memory.setdefault("known", set())
    missing = known - here
    known |= here.intersection(STABLE[:-1])
    return f"{sorted(missing)} are in no decision" if missing else None


def everybody_is_published(world: World) -> str | None:
    clusters = world.objects(MANAGED_CLUSTER.resource)
    wanted = {each["metadata"]["name"] for each in clusters if each["metadata"]["labels"][SET_LABEL] == "set"}
    found = listed(world)
    return f"{found} are published, wanted are {wanted}" if found != wanted or len(clusters) < len(STABLE) else None


async def build(world: World) -> None:
    await world.add_cluster()
    client = world.client()
    for definition in CRDS:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await client.create(NAMESPACE.untyped(), body("Namespace", "v1", NS))
    made = MANAGED_CLUSTER_SET
    await client.create(made.untyped(), body(made.kind, made.api_version, "set"))
    world.start(Component("placement", controller))
    world.spawn(people(client), "people")


SCENARIO = Scenario(
    name="placement in the past",
    build=build,
    goal=everybody_is_published,
    invariants=(Invariant("nobody vanishes", nobody_vanishes),),
    kill_seconds=(30.0, 200.0),
)


@pytest.mark.lives("placement in the past")
def test_what_came_after_the_past_that_is_shown_stays_decided(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed, replace(FAULTS, stall=0.2 if seed % 2 else 0.0)))
