"""What goes wrong in a member as its script says, and how it looks from outside."""

import asyncio
from typing import Any

import pytest

from echelon.api.apps import DAEMON_SET, DEPLOYMENT
from echelon.api.core import NODE, POD
from echelon.api.kruise import CLONE_SET
from echelon.fleet.loop import PROCESS, running
from echelon.fleet.member.profile import NodeShape
from echelon.fleet.member.trouble import CrashLoop, DiskFull, Flapping, ImageError, Offline, SlowApi, SlowStart
from echelon.kube.client import Event, EventType, MergePatch
from echelon.kube.errors import Unavailable
from tests.fleet.member.world import NS, World, is_ready, told, waiting_reason, workload


def test_an_image_that_cannot_be_pulled_stops_a_rollout_until_its_deadline() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, progressDeadlineSeconds=60)
        await asyncio.sleep(30)
        await world.image(DEPLOYMENT, "web:bad-1")
        await asyncio.sleep(5)
        (pod,) = world.pods("web:bad-1")
        assert waiting_reason(pod) == "ErrImagePull"
        await asyncio.sleep(20)
        (pod,) = world.pods("web:bad-1")
        assert waiting_reason(pod) == "ImagePullBackOff"
        assert pod["status"]["phase"] == "Pending"
        assert world.images() == ["web:1"] * 3
        assert (await world.condition("Progressing"))[0] == "True"
        await asyncio.sleep(60)
        assert await world.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
        assert await world.condition("Available") == ("True", "MinimumReplicasAvailable")
        await world.image(DEPLOYMENT, "web:2")
        await asyncio.sleep(60)
        assert world.images() == ["web:2"] * 3
        assert await world.condition("Progressing") == ("True", "NewReplicaSetAvailable")

    told(story, ImageError())


def test_an_image_error_that_ends_is_overcome() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, "web:bad")
        await asyncio.sleep(50)
        assert world.images() == []
        await asyncio.sleep(400)
        assert world.images() == ["web:bad"] * 3

    told(story, ImageError(end=60))


def test_containers_that_crash_are_restarted_ever_more_slowly() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(5)
        (pod,) = world.pods()
        assert waiting_reason(pod) == "CrashLoopBackOff"
        assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        assert not is_ready(pod)
        await asyncio.sleep(300)
        (pod,) = world.pods()
        assert 4 <= pod["status"]["containerStatuses"][0]["restartCount"] <= 6
        await asyncio.sleep(700)
        assert world.images() == ["web:1"]

    told(story, CrashLoop(end=500))


def test_running_containers_begin_to_crash_when_their_time_comes() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(50)
        assert world.images() == ["web:1"] * 3
        await asyncio.sleep(15)
        assert world.images() == []
        assert await world.condition("Available") == ("False", "MinimumReplicasUnavailable")

    told(story, CrashLoop(begin=60))


def test_slow_starts_take_longer() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(19)
        assert world.images() == []
        await asyncio.sleep(2)
        assert world.images() == ["web:1"] * 3

    told(story, SlowStart(factor=10))


def test_flapping_pods_come_and_go_and_come_to_rest() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        seen = set()
        for _ in range(100):
            await asyncio.sleep(1)
            seen.add(len(world.images()))
        assert {0, 3} <= seen
        await asyncio.sleep(60)
        world.commits.clear()
        await asyncio.sleep(3600)
        assert world.images() == ["web:1"] * 3
        assert world.commits == []

    told(story, Flapping(ready_seconds=20, unready_seconds=5, end=110))


def test_a_full_disk_evicts_pods_and_takes_no_others_until_there_is_room() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        await asyncio.sleep(70)
        node: Any = await world.client.get(NODE.untyped(), "c-node-1")
        pressure = next(c for c in node["status"]["conditions"] if c["type"] == "DiskPressure")
        assert pressure["status"] == "True"
        evicted = [pod for pod in world.pods() if pod["status"].get("reason") == "Evicted"]
        assert len(evicted) == 3
        waiting = [pod for pod in world.pods() if pod["status"]["phase"] == "Pending"]
        (why,) = {c["message"] for p in waiting for c in p["status"]["conditions"] if c["type"] == "PodScheduled"}
        assert why.startswith(
            "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }"
        )
        assert len(waiting) == 3
        await asyncio.sleep(60)
        assert world.images() == ["web:1"] * 3

    told(story, DiskFull(begin=60, end=120))


def test_pods_of_daemon_sets_stay_on_a_full_disk() -> None:
    async def story(world: World) -> None:
        await world.create(DAEMON_SET, replicas=None)
        await asyncio.sleep(70)
        assert world.images() == ["web:1"]

    told(story, DiskFull(begin=60))


def test_a_pod_for_which_there_is_no_room_waits_for_it() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, cpu="1500m")
        await asyncio.sleep(10)
        assert len(world.images()) == 2
        (waiting,) = (pod for pod in world.pods() if not is_ready(pod))
        (scheduled,) = waiting["status"]["conditions"]
        assert (scheduled["reason"], scheduled["status"]) == ("Unschedulable", "False")
        assert "Insufficient cpu" in scheduled["message"]
        await world.respec(DEPLOYMENT, replicas=2)
        await asyncio.sleep(10)
        assert len(world.pods()) == 2

    told(story, nodes=(NodeShape(cpu="2"), NodeShape(cpu="2")))


def test_pods_of_a_node_that_is_gone_move_on() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=4)
        await asyncio.sleep(10)
        await world.client.delete(NODE, "c-node-1")
        await asyncio.sleep(10)
        assert {pod["spec"]["nodeName"] for pod in world.pods()} == {"c-node-2"}
        assert len(world.images()) == 4

    told(story, nodes=(NodeShape(), NodeShape()))


def test_a_cordoned_node_gets_no_pods() -> None:
    async def story(world: World) -> None:
        await world.client.patch(NODE.untyped(), "c-node-1", MergePatch({"spec": {"unschedulable": True}}))
        await world.create(DEPLOYMENT, replicas=4)
        await asyncio.sleep(10)
        assert {pod["spec"]["nodeName"] for pod in world.pods()} == {"c-node-2"}

    told(story, nodes=(NodeShape(), NodeShape()))


async def follow(world: World, seen: list[Event[Any]]) -> None:
    async for event in world.client.watch(POD.untyped(), NS):
        seen.append(event)  # noqa: PERF401 - it must be there before the next one comes


def test_a_cluster_that_is_offline_cannot_be_reached_and_lives_on() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT)
        seen: list[Event[Any]] = []
        watching = asyncio.create_task(follow(world, seen))
        await asyncio.sleep(59)
        assert not world.member.offline
        assert [event.type for event in seen].count(EventType.ADDED) == 3
        await asyncio.sleep(2)
        assert world.member.offline
        with pytest.raises(Unavailable):
            await watching  # it broke at the moment of the cut, although nothing happened in the cluster
        with pytest.raises(Unavailable):
            await world.get(DEPLOYMENT)
        with pytest.raises(Unavailable):
            await world.image(DEPLOYMENT, "web:2")
        # Inside, a pod that is lost is replaced.
        lost = world.pods()[0]["metadata"]["name"]
        entry = next(e for e in world.store.list("pods").entries if e.key.name == lost)
        await world.member.context.writer.delete(entry)
        await asyncio.sleep(10)
        assert world.images() == ["web:1"] * 3
        await asyncio.sleep(60)
        assert not world.member.offline
        assert (await world.status(DEPLOYMENT))["readyReplicas"] == 3

    told(story, Offline(begin=60, end=120))


def test_a_cluster_can_be_cut_off_by_hand() -> None:
    async def story(world: World) -> None:
        world.member.cut_off()
        with pytest.raises(Unavailable):
            await world.create(DEPLOYMENT)
        world.member.reconnect()
        await world.create(DEPLOYMENT)

    told(story)


def test_a_watch_does_not_survive_a_short_cut() -> None:
    async def story(world: World) -> None:
        watching = asyncio.create_task(follow(world, []))
        await asyncio.sleep(1)
        world.member.cut_off()
        world.member.reconnect()
        await asyncio.sleep(1)
        assert isinstance(watching.exception(), Unavailable)

    told(story)


def test_a_slow_cluster_takes_its_time_to_answer() -> None:
    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await world.create(DEPLOYMENT)
        assert loop.time() - began == 2.0

    told(story, SlowApi(seconds=2.0))


def test_a_member_goes_on_when_the_process_that_wrote_into_it_stands_still() -> None:
    async def story(world: World) -> None:
        async def agent() -> None:
            PROCESS.set("agent")
            await world.create(DEPLOYMENT)
            running().pause("agent", 300)
            await asyncio.sleep(0)

        stopped = asyncio.create_task(agent())
        await asyncio.sleep(30)
        assert not stopped.done()
        assert world.images() == ["web:1"] * 3
        await stopped

    told(story)


@pytest.mark.parametrize(
    ("spec", "confusing"), [({"updateStrategy": {"maxUnavailable": "many"}}, True), ({"template": {}}, False)]
)
def test_a_workload_that_makes_no_sense_does_not_stop_the_others(spec: dict[str, Any], confusing: bool) -> None:
    async def story(world: World) -> None:
        senseless = {**workload(CLONE_SET), "metadata": {"name": "senseless"}}
        senseless["spec"] |= spec
        await world.client.create(CLONE_SET.untyped(), senseless, NS)
        await world.create(DEPLOYMENT)
        await asyncio.sleep(30)
        assert world.images() == ["web:1"] * 3

    told(story, confusing=confusing)
