"""Whatever fails, and wherever the agent dies: no push comes back, snapshots are true, and the last push arrives."""

import asyncio
from typing import Any

import pytest

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings
from echelon.agent.workload.family import workload_controllers
from echelon.api.apps import DEPLOYMENT, REPLICA_SET
from echelon.api.base import JSONObject
from echelon.api.karmada import WORK
from echelon.api.namespaces import NAMESPACE
from echelon.engine.align.reflection import read_snapshot, refused_push
from echelon.engine.workload.names import FINALIZER, PUSH_ID
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import Pace, Profile
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import AlreadyExists, Conflict
from echelon.kube.faults import Faults
from echelon.kube.metrics import Metrics
from tests.agent.test_simulation import add_hub_and_member, crashes
from tests.agent.workload.world import SPACE, manifest
from tests.agent.world import CLUSTER, HUB
from tests.budgets import Lives

REFUSED = 4  # its selector does not match its template


def pushed(push: int) -> JSONObject:
    body = manifest(push, f"web:{(push + 1) // 2}", unavailable=1 + push % 2, paused=push == 3)
    if push == REFUSED:
        body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    return body


LAST = 7


async def send(client: Client, name: str, body: JSONObject) -> None:
    metadata = {"name": name, "finalizers": [FINALIZER]}
    spec = {"workload": {"manifests": [body]}}
    work = {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": metadata, "spec": spec}
    try:
        await client.create(WORK.untyped(), work, SPACE)
    except AlreadyExists:
        await client.patch(WORK.untyped(), name, MergePatch({"spec": spec}), SPACE)


async def build(world: World) -> None:
    hub = await add_hub_and_member(world, WORK)
    await hub.create(NAMESPACE.untyped(), {"metadata": {"name": SPACE}})
    world.spawn(Member(Profile("c", pace=Pace(start=1.0)), world.clusters[CLUSTER]).run(), "member")

    async def start(hub_client: Client, member: Client) -> None:
        agent = Agent(
            hub_client,
            member,
            CLUSTER,
            server=world.client(CLUSTER),
            clock=world.loop.clock,
            random=world.random,
            metrics=Metrics(),
            hub_hash=HUB,
            settings=Settings(strict=True),
            families=(workload_controllers,),
        )
        await agent.run()

    world.start(Component("agent", start, ("", CLUSTER)))

    async def pushing() -> None:
        for push in range(1, LAST + 1):
            await send(hub, "w", pushed(push))
            await asyncio.sleep(world.random.choice((0.0, 0.5, 5.0, world.random.uniform(0, 60))))

    async def coming_and_going() -> None:
        body = manifest(1)
        body["metadata"]["name"] = "other"
        for _ in range(2):
            await send(hub, "other", body)
            await asyncio.sleep(world.random.uniform(0, 60))
            await hub.delete(WORK, "other", SPACE)
            while _exists(world, "other"):  # noqa: ASYNC110 - the world tells nobody
                await asyncio.sleep(1.0)

    async def drifting() -> None:
        member = world.client(CLUSTER)
        for _ in range(3):
            await asyncio.sleep(world.random.uniform(5, 80))
            if any(each["metadata"]["name"] == "web" for each in world.objects(DEPLOYMENT.resource, CLUSTER)):
                drift = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}
                try:
                    await member.patch(DEPLOYMENT.untyped(), "web", MergePatch(drift), "default")
                except Conflict:
                    continue

    world.spawn(pushing(), "hub that pushes")
    world.spawn(coming_and_going(), "hub that changes its mind")
    world.spawn(drifting(), "somebody on the member")


def _exists(world: World, name: str) -> bool:
    return any(each["metadata"]["name"] == name for each in world.objects(WORK.resource))


def goal(world: World) -> str | None:
    found = {each["metadata"]["name"]: each for each in world.objects(DEPLOYMENT.resource, CLUSTER, "default")}
    if set(found) != {"web"}:
        return f"there are {sorted(found)}"
    wanted, spec = pushed(LAST)["spec"], found["web"]["spec"]
    if found["web"]["metadata"]["annotations"].get(PUSH_ID) != str(LAST) or spec["strategy"] != wanted["strategy"]:
        return f"the member has {found['web']['metadata']['annotations']} and {spec['strategy']}"
    works = world.objects(WORK.resource)
    if [each["metadata"]["name"] for each in works] != ["w"]:
        return f"there are works {[each['metadata']['name'] for each in works]}"
    status = works[0].get("status") or {}
    said = {each["type"]: each for each in status.get("conditions") or ()}.get("Applied") or {}
    if (said.get("status"), said.get("observedGeneration")) != ("True", works[0]["metadata"]["generation"]):
        return f"the work says {said}"
    view = read_snapshot(status["manifestStatuses"][0].get("status") or {})
    if view is None or (view.push_id, view.available, view.updated, view.settled) != (LAST, 3, 3, True):
        return f"the snapshot is {view}"
    return None


def never_back(world: World, commit: Committed) -> str | None:
    """An object never carries an older push than before, and one push has one content."""
    if commit.cluster != CLUSTER or commit.key.resource != DEPLOYMENT.resource or commit.type is EventType.DELETED:
        return None
    carried = int(commit.object["metadata"]["annotations"][PUSH_ID])
    before = int(commit.previous["metadata"]["annotations"][PUSH_ID]) if commit.previous is not None else 0
    if carried < before:
        return f"it carried {before} and carries {carried}"
    if commit.key.name == "web" and carried != before:
        if carried in world.memory.get("refused", ()):
            return f"push {carried} was told to be refused"
        spec, wanted = commit.object["spec"], pushed(carried)["spec"]
        if spec["strategy"] != wanted["strategy"]:
            return f"push {carried} came as {spec['strategy']}"
    return None


def note_refusals(world: World, commit: Committed) -> str | None:
    if commit.cluster or commit.key.resource != WORK.resource or commit.key.name != "w":
        return None
    for each in (commit.object.get("status") or {}).get("manifestStatuses") or ():
        refused = refused_push(each.get("status") or {})
        if refused is not None:
            world.memory.setdefault("refused", set()).add(refused)
    return None


Counts = tuple[int, int, bool]


def _truth(world: World, uid: str) -> Counts:
    """What ReplicaSets are told to have and have available, and whether they are observed and at size."""
    sets = [
        each
        for each in world.objects(REPLICA_SET.resource, CLUSTER, "default")
        if any(ref["uid"] == uid for ref in each["metadata"].get("ownerReferences") or ())
    ]
    told = sum(each["spec"]["replicas"] for each in sets)
    available = sum((each.get("status") or {}).get("availableReplicas", 0) for each in sets)
    quiet = all(
        (each.get("status") or {}).get("observedGeneration", 0) == each["metadata"]["generation"]
        and (each.get("status") or {}).get("replicas", 0) == each["spec"]["replicas"]
        for each in sets
    )
    return told, available, quiet


def true_snapshots(world: World, commit: Committed) -> str | None:
    """What a snapshot says was so at its version, and that was not before the object in it."""
    history: dict[int, dict[str, Counts]] = world.memory.setdefault("history", {})
    if commit.cluster == CLUSTER:
        uids = [each["metadata"]["uid"] for each in world.objects(DEPLOYMENT.resource, CLUSTER, "default")]
        history[commit.revision] = {uid: _truth(world, uid) for uid in uids}
        return None
    if commit.key.resource != WORK.resource:
        return None
    for each in (commit.object.get("status") or {}).get("manifestStatuses") or ():
        view = read_snapshot(each.get("status") or {})
        if view is None:
            continue
        at = max((revision for revision in history if revision <= view.version), default=0)
        truth = history.get(at, {}).get(view.uid)
        if truth is not None and (view.told, view.available) != truth[:2]:
            return f"{view} was told, and at {at} there was {truth}"
        if truth is not None and view.settled and not truth[2]:
            return f"{view} is not settled"
    return None


INVARIANTS = (
    Invariant("refusals are noted", note_refusals),
    Invariant("no push comes back", never_back),
    Invariant("snapshots are true", true_snapshots),
)
SCENARIO = Scenario("federated workloads on a cluster", build, goal, INVARIANTS, chaos_seconds=400.0)
CALM: Any = {"kill_seconds": None, "restart_seconds": (0.0, 60.0), "chaos_seconds": 400.0}
ONE_CRASH = Scenario("one crash", build, goal, INVARIANTS, **CALM)


@pytest.mark.lives("federated workloads on a cluster")
def test_an_agent_gets_through_chaos(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))


@pytest.mark.lives("crashes of federated workloads on a cluster")
def test_an_agent_can_die_at_any_write(lives: Lives) -> None:
    moments = crashes(40)
    for number in lives.below(len(moments)):
        lives.note(simulate(ONE_CRASH, number, moments[number]))


@pytest.mark.parametrize("where", [Faults(crash_before=12), Faults(crash_after=12)])
def test_an_agent_has_much_to_write(where: Faults) -> None:
    assert simulate(ONE_CRASH, 1, where).injected == {"crash": 1}
