"""Where pods of a member go, and what they say when there is no place for them."""

import asyncio
from typing import Any

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.core import NODE, POD
from echelon.fleet.member.fleet_spec import profiles
from echelon.fleet.member.profile import NodeShape
from echelon.kube.client import MergePatch
from tests.fleet.member.world import NS, World, is_ready, told

GPU = "nvidia.com/gpu"


def a_pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> JSONObject:
    resources = spec.pop("resources", {"requests": {"cpu": spec.pop("cpu", "100m")}})
    container = {"name": "c", "image": "i:1", "resources": resources}
    meta = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


async def make(world: World, *pods: JSONObject) -> None:
    for pod in pods:
        await world.client.create(POD.untyped(), pod, NS)


def places(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in world.objects("pods")}


def scheduled(world: World, name: str) -> JSONObject:
    pod = next(pod for pod in world.objects("pods") if pod["metadata"]["name"] == name)
    found: JSONObject = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    return found


async def change_node(world: World, name: str, **patch: Any) -> None:
    await world.client.patch(NODE.untyped(), name, MergePatch(patch))


def in_zones(*zones: str) -> JSONObject:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


ZONES = tuple(NodeShape(labels={"zone": zone}) for zone in "abc")


def test_affinity_decides_and_a_label_that_comes_later_opens_a_node() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", affinity=in_zones("b")), a_pod("q", affinity=in_zones("d", "e")))
        await asyncio.sleep(5)
        assert places(world) == {"p": "c-node-2", "q": ""}
        said = scheduled(world, "q")
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert said["message"].startswith(
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
        )
        await change_node(world, "c-node-3", metadata={"labels": {"zone": "e"}})
        await asyncio.sleep(5)
        assert places(world)["q"] == "c-node-3"
        assert scheduled(world, "q")["status"] == "True"

    told(story, nodes=ZONES)


def test_gpus_are_counted_and_given_back() -> None:
    async def story(world: World) -> None:
        two = {"limits": {GPU: 2}}
        await make(world, *(a_pod(f"p{n}", resources=two) for n in range(3)))
        await asyncio.sleep(5)
        assert places(world) == {"p0": "c-node-2", "p1": "c-node-2", "p2": ""}
        assert f"1 Insufficient {GPU}" in scheduled(world, "p2")["message"].replace("2 Insuff", "1 Insuff")
        await world.client.delete(POD.untyped(), "p0", NS)
        await asyncio.sleep(5)
        assert places(world) == {"p1": "c-node-2", "p2": "c-node-2"}

    told(story, nodes=(NodeShape(), NodeShape(resources={GPU: "4"})))


def test_a_fleet_can_have_any_resource_on_its_nodes() -> None:
    (profile,) = profiles("1 cluster; nodes 2; resource nvidia.com/gpu 8; resource example.com/nic 2")
    assert [node.resources for node in profile.nodes] == [{GPU: "8", "example.com/nic": "2"}] * 2


def test_pods_wait_behind_their_gates_until_the_last_has_fallen() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", schedulingGates=[{"name": "a/1"}, {"name": "a/2"}]))
        await asyncio.sleep(60)
        assert scheduled(world, "p")["reason"] == "SchedulingGated"
        for left in ([{"name": "a/2"}], None):
            assert places(world) == {"p": ""}
            await world.client.patch(POD.untyped(), "p", MergePatch({"spec": {"schedulingGates": left}}), NS)
            await asyncio.sleep(5)
        assert places(world) == {"p": "c-node-1"}
        assert is_ready(world.pods()[0])

    told(story)


def test_uncordoning_wakes_those_that_wait() -> None:
    async def story(world: World) -> None:
        for node in ("c-node-1", "c-node-2"):
            await change_node(world, node, spec={"unschedulable": True})
        await make(world, a_pod("p"))
        await asyncio.sleep(60)
        assert scheduled(world, "p")["message"].startswith("0/2 nodes are available: 2 node(s) were unschedulable.")
        await change_node(world, "c-node-2", spec={"unschedulable": None})
        await asyncio.sleep(5)
        assert places(world) == {"p": "c-node-2"}

    told(story, nodes=(NodeShape(), NodeShape()))


def test_reasons_are_told_anew_when_nodes_change_and_not_with_every_pod() -> None:
    async def story(world: World) -> None:
        await make(world, *(a_pod(f"p{n}", cpu="4") for n in range(4)))
        await asyncio.sleep(5)
        assert list(places(world).values()).count("") == 2
        waiting = [name for name, node in places(world).items() if not node]
        assert all("Insufficient cpu" in scheduled(world, name)["message"] for name in waiting)
        await change_node(world, "c-node-1", spec={"unschedulable": True})
        await asyncio.sleep(5)
        assert all("unschedulable" in scheduled(world, name)["message"] for name in waiting)
        world.commits.clear()
        await make(world, a_pod("small", nodeSelector={"none": "such"}))
        await asyncio.sleep(5)
        assert {change.entry.key.name for change in world.commits} == {"small"}

    told(story, nodes=(NodeShape(cpu="8"),))


def test_the_more_important_pod_goes_first_and_then_the_older_one() -> None:
    async def story(world: World) -> None:
        await change_node(world, "c-node-1", spec={"unschedulable": True})
        await make(world, a_pod("old", cpu="4"), a_pod("young", cpu="4"), a_pod("first", cpu="4", priority=7))
        await asyncio.sleep(5)
        await change_node(world, "c-node-1", spec={"unschedulable": None})
        await asyncio.sleep(5)
        assert [name for name, node in places(world).items() if node] == ["first", "old"]

    told(story, nodes=(NodeShape(cpu="8"),))


def test_room_for_two_is_used_by_two() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("big", cpu="8"), *(a_pod(f"p{n}", cpu="4") for n in range(3)))
        await asyncio.sleep(5)
        assert places(world) == {"big": "c-node-1", "p0": "", "p1": "", "p2": ""}
        await world.client.delete(POD.untyped(), "big", NS)
        await asyncio.sleep(5)
        assert places(world) == {"p0": "c-node-1", "p1": "c-node-1", "p2": ""}

    told(story, nodes=(NodeShape(cpu="8"),))


def test_pods_of_a_gated_template_are_gated_since_they_are_there() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1, pod={"schedulingGates": [{"name": "a/b"}]})
        await asyncio.sleep(60)
        await world.respec(DEPLOYMENT, replicas=2)
        await asyncio.sleep(5)
        for pod in world.pods():
            (said,) = pod["status"]["conditions"]
            assert said["reason"] == "SchedulingGated"
            assert said["lastTransitionTime"] == pod["metadata"]["creationTimestamp"]

    told(story)
