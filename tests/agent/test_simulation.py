"""Whatever fails, and wherever the agent dies: in the end the cluster is as the works say, and nothing stays behind."""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings, hub_hash
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP
from echelon.api.crd import crd
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import AlreadyExists
from echelon.kube.faults import Faults
from echelon.kube.metrics import Metrics
from tests.agent.world import CLUSTER, config_map
from tests.budgets import Lives

HUBS = tuple(hub_hash(f"https://{name}.example") for name in ("hub", "moved", "moved-again"))
ALWAYS = ("kept", "shared")
# What each work asks for, one step after the other; the last step is what it comes to.
STEPS: dict[str, list[dict[str, str]]] = {
    "w1": [
        {"kept": "1", "shared": "1", "a": "1"},
        {"kept": "1", "shared": "1", "b": "1"},
        {"kept": "2", "shared": "1", "b": "1", "c": "1"},
        {"kept": "3", "shared": "1", "d": "1"},
    ],
    "w2": [{"shared": "1", "e": "1"}, {"e": "2", "f": "1"}, {"shared": "1"}, {}],
}


async def ask(client: Client, name: str, wanted: dict[str, str]) -> None:
    manifests = [config_map(each, value=value) for each, value in wanted.items()]
    spec = {"workload": {"manifests": manifests}}
    metadata = {"name": name}
    body = {"apiVersion": MANIFEST_WORK.api_version, "kind": MANIFEST_WORK.kind, "metadata": metadata, "spec": spec}
    if not wanted:
        await client.delete(MANIFEST_WORK, name, CLUSTER)
        return
    try:
        await client.create(MANIFEST_WORK.untyped(), body, CLUSTER)
    except AlreadyExists:
        await client.patch(MANIFEST_WORK.untyped(), name, MergePatch({"spec": spec}), CLUSTER)


async def add_hub_and_member(world: World, *kinds: Kind[Any]) -> Client:
    """Add a hub that serves some kinds and has accepted a cluster; return a client of it."""
    await world.add_cluster()
    await world.add_cluster(CLUSTER)
    hub = world.client()
    for kind in (MANAGED_CLUSTER, *kinds):
        await hub.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(kind))
    await hub.create(NAMESPACE.untyped(), {"metadata": {"name": CLUSTER}})
    body: JSONObject = {
        "apiVersion": MANAGED_CLUSTER.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": {"name": CLUSTER},
        "spec": {"hubAcceptsClient": True},
    }
    await hub.create(MANAGED_CLUSTER.untyped(), body)
    return hub


async def build(world: World, hubs: tuple[str, ...] = HUBS[:1]) -> None:
    """Make a world in which each life of the agent finds the hub under the next of some addresses."""
    lives = count()
    hub = await add_hub_and_member(world, MANIFEST_WORK)

    async def start(hub_client: Client, member: Client) -> None:
        agent = Agent(
            hub_client,
            member,
            CLUSTER,
            server=world.client(CLUSTER),
            clock=world.loop.clock,
            random=world.random,
            metrics=Metrics(),
            hub_hash=hubs[next(lives) % len(hubs)],
            # A process that is born into the past of a replica may apply a work that is gone; this ends it.
            settings=Settings(eviction_grace_seconds=600, strict=True),
        )
        await agent.run()

    world.start(Component("agent", start, ("", CLUSTER)))

    async def user(name: str) -> None:
        for step in STEPS[name]:
            await ask(hub, name, step)
            await asyncio.sleep(world.random.choice((0.0, 0.5, 5.0, world.random.uniform(0, 80))))

    for name in STEPS:
        world.spawn(user(name), f"user of {name}")


def objects(world: World) -> dict[str, str]:
    found = world.objects("configmaps", CLUSTER, "default")
    return {each["metadata"]["name"]: each["data"]["value"] for each in found}


def goal(world: World) -> str | None:
    wanted = STEPS["w1"][-1]
    if objects(world) != wanted:
        return f"there is {objects(world)}, and {wanted} is wanted"
    records = world.objects(APPLIED_MANIFEST_WORK.resource, CLUSTER)
    if [each["spec"]["manifestWorkName"] for each in records] != ["w1"]:
        return f"there are records {[each['metadata']['name'] for each in records]}"
    listed = [each["name"] for each in records[0]["status"]["appliedResources"]]
    if listed != sorted(wanted):
        return f"the record lists {listed}"
    owners = [each["metadata"].get("ownerReferences", []) for each in world.objects("configmaps", CLUSTER, "default")]
    if any([ref["uid"] for ref in refs] != [records[0]["metadata"]["uid"]] for refs in owners):
        return f"the owners are {owners}"
    works = world.objects(MANIFEST_WORK.resource)
    said = {each["type"]: each for each in works[0].get("status", {}).get("conditions", [])}
    if [each["metadata"]["name"] for each in works] != ["w1"] or said.get("Applied", {}).get("status") != "True":
        return "the work is not reported as applied"
    generation = works[0]["metadata"]["generation"]
    return None if said["Applied"]["observedGeneration"] == generation else "the report is of an older generation"


def kept(world: World, commit: Committed) -> str | None:
    """What a work wants from its first to its last moment is never taken away."""
    if commit.key.resource != CONFIG_MAP.resource or commit.key.name not in ALWAYS:
        return None
    if commit.type is EventType.DELETED or commit.object["metadata"].get("deletionTimestamp"):
        first = world.memory.setdefault("first", {})
        return "it was deleted" if first.get(commit.key.name) else None
    world.memory.setdefault("first", {})[commit.key.name] = _of(commit.object, "w1")
    return None


def _of(obj: JSONObject, work: str) -> bool:
    return any(each["name"].endswith(f"-{work}") for each in obj["metadata"].get("ownerReferences", []))


SCENARIO = Scenario("works under faults", build, goal, (Invariant("wanted objects stay", kept),), chaos_seconds=400.0)


@pytest.mark.lives("agent")
def test_an_agent_gets_through_chaos(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))


def crashes(writes: int) -> list[Faults]:
    """Return a crash on either side of each write, mixed so that the first ones are a fair sample."""
    found = [Faults(crash_before=number) for number in range(1, writes)]
    found += [Faults(crash_after=number) for number in range(1, writes)]
    Random(0).shuffle(found)  # noqa: S311 - repeatable on purpose
    return found


CALM: Any = {"kill_seconds": None, "restart_seconds": (0.0, 100.0), "chaos_seconds": 600.0}
ONE_CRASH = Scenario("one crash", build, goal, SCENARIO.invariants, **CALM)


@pytest.mark.lives("crashes of an agent")
def test_an_agent_can_die_at_any_write(lives: Lives) -> None:
    moments = crashes(60)
    for number in lives.below(len(moments)):
        lives.note(simulate(ONE_CRASH, number, moments[number]))


@pytest.mark.parametrize("where", [Faults(crash_before=25), Faults(crash_after=25)])
def test_an_agent_has_much_to_write(where: Faults) -> None:
    assert simulate(ONE_CRASH, 1, where).injected == {"crash": 1}


@pytest.mark.lives("agent of a moving hub")
def test_an_agent_gets_through_chaos_while_its_hub_moves(lives: Lives) -> None:
    scenario = replace(SCENARIO, name="works under faults on a hub that moves", build=partial(build, hubs=HUBS))
    for seed in lives:
        lives.note(simulate(scenario, seed))


@pytest.mark.lives("crashes of an agent of a moving hub")
def test_an_agent_can_die_at_any_write_while_its_hub_moves(lives: Lives) -> None:
    calm: Any = {"kill_seconds": (20.0, 40.0), "restart_seconds": (0.0, 20.0), "chaos_seconds": 200.0}
    scenario = Scenario("moves", partial(build, hubs=HUBS), goal, SCENARIO.invariants, **calm)
    moments = crashes(40)
    for number in lives.below(len(moments)):
        lives.note(simulate(scenario, number, moments[number]))
