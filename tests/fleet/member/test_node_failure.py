"""Nodes that go down and come back: what the control plane makes of it, and what becomes of their pods."""

import asyncio
from typing import Any

import pytest

from echelon.api.apps import DAEMON_SET, DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.core import NODE, POD
from echelon.fleet.member.decide.eviction import failure_taints, leaves_at
from echelon.fleet.member.fleet_spec import profiles
from echelon.fleet.member.profile import NodeShape
from echelon.fleet.member.trouble import NodeDown
from echelon.kube.client import MergePatch
from tests.fleet.member.test_placing import a_pod, change_node, make, places, scheduled
from tests.fleet.member.world import NS, World, is_ready, told

TWO = (NodeShape(), NodeShape())
ONE, OTHER = "c-node-1", "c-node-2"


def taints(world: World, name: str = ONE) -> list[tuple[str, str]]:
    node = next(node for node in world.objects("nodes") if node["metadata"]["name"] == name)
    return [(each["key"], each["effect"]) for each in (node.get("spec") or {}).get("taints") or ()]


def find(world: World, name: str) -> JSONObject | None:
    return next((pod for pod in world.objects("pods") if pod["metadata"]["name"] == name), None)


def on(node: str, name: str, **spec: Any) -> JSONObject:
    return a_pod(name, nodeSelector={"kubernetes.io/hostname": node}, **spec)


def bears(seconds: int | None) -> list[JSONObject]:
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    return [toleration | ({} if seconds is None else {"tolerationSeconds": seconds})]


UNREACHABLE = [("node.kubernetes.io/unreachable", effect) for effect in ("NoSchedule", "NoExecute")]


def test_pods_of_a_node_that_falls_silent_are_replaced_after_five_minutes_and_vanish_when_it_is_back() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=2)
        await asyncio.sleep(50)
        assert sorted(places(world).values()) == [ONE, OTHER]
        (lost,) = [name for name, node in places(world).items() if node == ONE]
        await asyncio.sleep(20)  # it is down for ten seconds
        assert taints(world) == UNREACHABLE
        pod = find(world, lost)
        assert pod is not None
        assert not is_ready(pod)
        assert pod["status"]["phase"] == "Running"
        assert len(world.images()) == 1
        await asyncio.sleep(280)  # 290 seconds
        assert len(world.pods()) == 2
        await asyncio.sleep(20)  # 310 seconds
        gone = find(world, lost)
        assert gone is not None
        assert "deletionTimestamp" in gone["metadata"]
        assert [c["reason"] for c in gone["status"]["conditions"] if c["type"] == "DisruptionTarget"] == [
            "DeletionByTaintManager"
        ]
        assert [pod["spec"]["nodeName"] for pod in world.pods()] == [OTHER, OTHER]
        assert len(world.images()) == 2
        await asyncio.sleep(500)
        assert find(world, lost) is not None
        await asyncio.sleep(200)  # it was down until 1,000
        assert find(world, lost) is None
        assert taints(world) == []
        assert len(world.images()) == 2

    told(story, NodeDown(begin=60, end=1000, node=ONE), nodes=TWO)


def test_a_node_that_is_back_in_time_loses_nothing() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=2)
        await asyncio.sleep(55)
        before = {pod["metadata"]["uid"] for pod in world.pods()}
        for _ in range(2):
            await world.member.fail_node(ONE)
            await asyncio.sleep(100)
            assert len(world.images()) == 1
            await world.member.restore_node(ONE)
            await asyncio.sleep(100)
            assert len(world.images()) == 2
        await asyncio.sleep(400)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == before
        world.commits.clear()
        await asyncio.sleep(3600)
        assert world.commits == []

    told(story, nodes=TWO)


def test_each_pod_stays_for_as_long_as_it_tolerates() -> None:
    async def story(world: World) -> None:
        await make(world, on(ONE, "short", tolerations=bears(10)), on(ONE, "long", tolerations=bears(60)))
        await make(world, on(ONE, "ever", tolerations=bears(None)), on(ONE, "usual"))
        await asyncio.sleep(20)
        await world.member.fail_node(ONE)
        going: dict[str, int] = {}
        for second in range(1, 400):
            await asyncio.sleep(1)
            for pod in world.objects("pods"):
                if "deletionTimestamp" in pod["metadata"]:
                    going.setdefault(pod["metadata"]["name"], second)
        assert {name: round(second, -1) for name, second in going.items()} == {"short": 10, "long": 60, "usual": 300}

    told(story, nodes=TWO)


def test_nothing_starts_or_ends_on_a_node_that_is_down() -> None:
    async def story(world: World) -> None:
        await make(world, on(ONE, "starting"))
        await asyncio.sleep(1)
        await world.member.fail_node(ONE)
        await asyncio.sleep(60)
        pod = find(world, "starting")
        assert pod is not None
        assert pod["status"]["phase"] == "Pending"
        await world.client.delete(POD.untyped(), "starting", NS)
        await asyncio.sleep(60)
        assert find(world, "starting") is not None
        await world.member.restore_node(ONE)
        await asyncio.sleep(5)
        assert find(world, "starting") is None

    told(story, nodes=TWO)


def test_pods_of_a_node_that_is_deleted_go_with_it() -> None:
    async def story(world: World) -> None:
        await make(world, on(ONE, "p"), on(OTHER, "q"))
        await asyncio.sleep(10)
        await world.member.fail_node(ONE)
        await asyncio.sleep(310)
        assert find(world, "p") is not None
        await world.client.delete(NODE.untyped(), ONE)
        await asyncio.sleep(5)
        assert places(world) == {"q": OTHER}

    told(story, nodes=TWO)


def test_a_pod_that_has_ended_stays_on_a_node_that_is_down() -> None:
    async def story(world: World) -> None:
        await world.create(JOB, replicas=None, pod={"restartPolicy": "Never"})
        await asyncio.sleep(30)
        (pod,) = world.pods()
        assert pod["status"]["phase"] == "Succeeded"
        await world.member.fail_node(ONE)
        await asyncio.sleep(1000)
        assert world.pods() == [pod]

    told(story)


def test_pods_of_daemon_sets_stay_and_no_others_come() -> None:
    async def story(world: World) -> None:
        await world.create(DAEMON_SET, replicas=None)
        await asyncio.sleep(20)
        before = {pod["metadata"]["uid"] for pod in world.pods()}
        assert len(before) == 2
        await world.member.fail_node(ONE)
        await asyncio.sleep(1000)
        assert {pod["metadata"]["uid"] for pod in world.pods()} == before
        assert (await world.status(DAEMON_SET))["numberReady"] == 1
        await world.member.restore_node(ONE)
        await asyncio.sleep(10)
        assert (await world.status(DAEMON_SET))["numberReady"] == 2

    told(story, nodes=TWO)


def test_the_condition_counts_whoever_writes_it() -> None:
    async def patch(world: World, status: str) -> None:
        node: Any = await world.client.get(NODE.untyped(), ONE)
        conditions = [{**c, "status": status} if c["type"] == "Ready" else c for c in node["status"]["conditions"]]
        body = MergePatch({"status": {"conditions": conditions}})
        await world.client.patch(NODE.untyped(), ONE, body, subresource="status")
        await asyncio.sleep(5)

    async def story(world: World) -> None:
        await make(world, on(ONE, "p"))
        await asyncio.sleep(10)
        await patch(world, "False")
        assert taints(world) == [("node.kubernetes.io/not-ready", effect) for effect in ("NoSchedule", "NoExecute")]
        assert not any(map(is_ready, world.pods()))
        await make(world, on(ONE, "q"))
        await patch(world, "Unknown")
        assert taints(world) == UNREACHABLE
        assert "had untolerated taint {node.kubernetes.io/unreachable: }" in scheduled(world, "q")["message"]
        await patch(world, "True")
        assert taints(world) == []
        assert [is_ready(pod) for pod in world.pods()] == [True, True]

    told(story, nodes=TWO)


def test_any_taint_that_executes_makes_pods_leave() -> None:
    async def story(world: World) -> None:
        stays = [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": 30}]
        await make(world, on(ONE, "p"), on(ONE, "q", tolerations=stays))
        await asyncio.sleep(10)
        await change_node(world, ONE, spec={"taints": [{"key": "maintenance", "effect": "NoExecute"}]})
        await asyncio.sleep(5)
        assert places(world) == {"q": ONE}
        await asyncio.sleep(30)
        assert places(world) == {}
        stays[0]["tolerationSeconds"] = 100
        await make(world, on(ONE, "r", tolerations=stays))
        await asyncio.sleep(60)
        assert places(world) == {"r": ONE}  # it came late, and the taint is 95 seconds old
        await asyncio.sleep(10)
        assert places(world) == {}

    told(story, nodes=TWO)


def test_a_script_leaves_other_nodes_to_those_who_took_them_down() -> None:
    async def story(world: World) -> None:
        await world.member.fail_node(OTHER)
        await asyncio.sleep(15)
        assert (taints(world, ONE), taints(world, OTHER)) == (UNREACHABLE, UNREACHABLE)
        await asyncio.sleep(10)
        assert (taints(world, ONE), taints(world, OTHER)) == ([], UNREACHABLE)

    told(story, NodeDown(begin=10, end=20, node=ONE), nodes=TWO)


def test_a_fleet_can_have_nodes_that_go_down() -> None:
    made = profiles("3 clusters; nodes 2; node *-node-1 down on 1 from 60 to 300")
    assert [p.script.troubles for p in made if p.script.troubles] == [(NodeDown(60, 300, "*-node-1"),)]


@pytest.mark.parametrize(
    ("ready", "key"), [("False", "not-ready"), ("Unknown", "unreachable"), ("", "not-ready"), ("odd", "unreachable")]
)
def test_taints_follow_from_readiness(ready: str, key: str) -> None:
    assert {taint[0] for taint in failure_taints(ready)} == {f"node.kubernetes.io/{key}"}
    assert failure_taints("True") == ()


def test_the_shortest_toleration_holds_and_every_taint_counts() -> None:
    one, two = ("a", "", "NoExecute"), ("b", "", "NoExecute")
    about_a = [{"key": "a", "operator": "Exists", "tolerationSeconds": n} for n in (50, 20)]
    about_b = [{"key": "b", "operator": "Exists"}]
    assert leaves_at(about_a, {one: 100.0}) == 120.0
    assert leaves_at([*about_a, *about_b], {one: 100.0, two: 0.0}) == 120.0
    assert leaves_at(about_b, {one: 100.0, two: 0.0}) == float("-inf")
    assert leaves_at(about_b, {two: 0.0}) == float("inf")
    assert leaves_at([], {("c", "", "NoSchedule"): 0.0}) == float("inf")
