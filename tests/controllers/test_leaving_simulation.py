"""Whoever dies while a cluster leaves: no right goes before the last work, and in the end everything is gone."""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.agent.settings import FINALIZER
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.crd import crd
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING
from echelon.api.work import MANIFEST_WORK
from echelon.controllers.running import Controllers
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.faults import Faults
from echelon.kube.metrics import Metrics
from tests.agent.world import CLUSTER, config_map
from tests.budgets import Lives
from tests.controllers.strict import STRICT

LABEL = "cluster.open-cluster-management.io/managedCluster"


async def build(world: World) -> None:
    await world.add_cluster()
    hub = world.client()
    for kind in (MANAGED_CLUSTER, MANIFEST_WORK):
        await hub.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(kind))
    # Replicas that lag must not show a time before the beginning.
    for number in range(Faults().stale_revisions):
        await hub.create(NAMESPACE.untyped(), {"metadata": {"name": f"filler{number}"}})

    body: JSONObject = {
        "apiVersion": MANAGED_CLUSTER.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": {"name": CLUSTER},
        "spec": {"hubAcceptsClient": True},
    }
    await hub.create(MANAGED_CLUSTER.untyped(), body)

    async def registration(client: Client) -> None:
        chance = Random(world.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
        names = ["cluster-registration"]
        await Controllers(
            client, world.loop.clock, names, random=chance, metrics=Metrics(), instance="registration", settings=STRICT
        ).run()

    world.start(Component("registration", registration))
    world.spawn(agent(hub), "agent")
    world.spawn(user(world, hub), "user")


async def agent(hub: Client) -> None:
    """Hold works as an agent does, and let them go a while after they were deleted."""
    while True:
        await asyncio.sleep(5)
        for work in (await hub.list(MANIFEST_WORK, CLUSTER)).items:
            meta = work.metadata
            if bool(meta.deletion_timestamp) == (FINALIZER in meta.finalizers):
                body = {"metadata": {"finalizers": None if meta.deletion_timestamp else [FINALIZER], "uid": meta.uid}}
                await hub.patch(MANIFEST_WORK, meta.name, MergePatch(body), CLUSTER)


async def user(world: World, hub: Client) -> None:
    while not any(each["metadata"]["name"] == CLUSTER for each in world.objects(NAMESPACE.resource)):  # noqa: ASYNC110
        await asyncio.sleep(1)
    for name in ("w", "v"):
        spec = {"workload": {"manifests": [config_map(name)]}}
        work = {"apiVersion": MANIFEST_WORK.api_version, "kind": MANIFEST_WORK.kind}
        await hub.create(MANIFEST_WORK.untyped(), {**work, "metadata": {"name": name}, "spec": spec}, CLUSTER)
    await asyncio.sleep(world.random.choice((0.0, 1.0, 30.0)))
    await hub.delete(MANAGED_CLUSTER, CLUSTER)


def goal(world: World) -> str | None:
    clusters = [each["metadata"]["name"] for each in world.objects(MANAGED_CLUSTER.resource)]
    spaces = [each["metadata"]["name"] for each in world.objects(NAMESPACE.resource)]
    rights = [each for each in world.objects(CLUSTER_ROLE_BINDING.resource) if _ours(each)]
    if clusters or CLUSTER in spaces or rights:
        return f"there are still the clusters {clusters}, the namespaces {spaces} and {len(rights)} bindings"
    return None


def in_order(world: World, commit: Committed) -> str | None:
    """Nothing that the agent needs may go while there are works for it."""
    binding = commit.key.resource in (ROLE_BINDING.resource, CLUSTER_ROLE_BINDING.resource) and _ours(commit.object)
    ends = commit.type is EventType.DELETED if binding else bool(commit.object["metadata"].get("deletionTimestamp"))
    space = commit.key.resource == NAMESPACE.resource and commit.key.name == CLUSTER
    works = [each["metadata"]["name"] for each in world.objects(MANIFEST_WORK.resource, namespace=CLUSTER)]
    return f"works {works} are still there" if (binding or space) and ends and works else None


def _ours(obj: JSONObject) -> bool:
    return bool(obj["metadata"].get("labels", {}).get(LABEL) == CLUSTER)


SCENARIO = Scenario("a cluster leaves", build, goal, (Invariant("rights go last", in_order),), chaos_seconds=200.0)


@pytest.mark.parametrize("side", ["crash_before", "crash_after"])
def test_whoever_dies_at_any_write_the_cluster_leaves_in_order(side: str) -> None:
    calm: Any = {"kill_seconds": None, "restart_seconds": (0.0, 60.0)}
    scenario = Scenario("a cluster leaves after a crash", build, goal, SCENARIO.invariants, **calm)
    crashed = 0
    for number in range(1, 25):
        where: Any = {side: number}
        crashed += any(simulate(scenario, number, Faults(**where)).injected.values())
    assert crashed > 10


@pytest.mark.lives("leaving")
def test_a_cluster_leaves_through_chaos(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))
