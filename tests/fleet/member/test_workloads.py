"""The other workloads of a member, from outside."""

import asyncio
from typing import Any

from echelon.api.apps import DAEMON_SET, STATEFUL_SET
from echelon.api.batch import JOB
from echelon.api.core import POD
from echelon.api.kruise import CLONE_SET
from echelon.fleet.member.profile import NodeShape
from echelon.fleet.member.trouble import CrashLoop
from tests.fleet.member.world import NS, World, told


def test_a_clone_set_stops_at_its_partition_and_goes_on_when_it_is_lowered() -> None:
    async def story(world: World) -> None:
        await world.create(CLONE_SET, replicas=10, updateStrategy={"partition": 4, "maxUnavailable": 2})
        await asyncio.sleep(30)
        first = await world.status(CLONE_SET)
        assert first["currentRevision"] == first["updateRevision"]
        await world.image(CLONE_SET, "web:2")
        await asyncio.sleep(120)
        assert world.images() == ["web:1"] * 4 + ["web:2"] * 6
        status = await world.status(CLONE_SET)
        assert (status["updatedReplicas"], status["expectedUpdatedReplicas"], status["replicas"]) == (6, 6, 10)
        assert status["currentRevision"] == first["updateRevision"] != status["updateRevision"]
        # A pod that is lost below the partition comes back as it was.
        await world.client.delete(POD, world.pods("web:1")[0]["metadata"]["name"], NS)
        await asyncio.sleep(30)
        assert world.images() == ["web:1"] * 4 + ["web:2"] * 6
        await world.respec(CLONE_SET, updateStrategy={"partition": 0})
        await asyncio.sleep(120)
        status = await world.status(CLONE_SET)
        assert world.images() == ["web:2"] * 10
        assert status["currentRevision"] == status["updateRevision"]
        assert status["labelSelector"] == "app=web"

    told(story)


def test_a_clone_set_marks_before_it_deletes_and_surges_first() -> None:
    async def story(world: World) -> None:
        await world.create(CLONE_SET, replicas=3, updateStrategy={"maxSurge": 1, "maxUnavailable": 0})
        await asyncio.sleep(30)
        world.commits.clear()
        await world.image(CLONE_SET, "web:2")
        await asyncio.sleep(60)
        assert world.images() == ["web:2"] * 3
        marked = {c.entry.key.name for c in world.commits if c.entry.labels.get("apps.kruise.io/specified-delete")}
        assert len(marked) == 2  # with all new ones there, the last old pod is simply one too many
        created = [c.entry.key.name for c in world.commits if c.entry.key.resource == "pods" and c.previous is None]
        assert len(created) == 3

    told(story)


def ordinals(world: World) -> list[str]:
    return [f"{p['metadata']['name']} {p['spec']['containers'][0]['image']}" for p in world.pods()]


def test_a_stateful_set_comes_up_in_order_and_is_updated_backwards() -> None:
    async def story(world: World) -> None:
        await world.create(STATEFUL_SET, serviceName="web", updateStrategy={"rollingUpdate": {"partition": 1}})
        await asyncio.sleep(3)
        assert ordinals(world) == ["web-0 web:1", "web-1 web:1"]
        await asyncio.sleep(10)
        await world.image(STATEFUL_SET, "web:2")
        await asyncio.sleep(30)
        assert ordinals(world) == ["web-0 web:1", "web-1 web:2", "web-2 web:2"]
        status = await world.status(STATEFUL_SET)
        assert (status["updatedReplicas"], status["currentReplicas"], status["availableReplicas"]) == (2, 1, 3)
        await world.client.delete(POD, "web-0", NS)
        await asyncio.sleep(10)
        assert ordinals(world)[0] == "web-0 web:1"  # below the partition the old revision comes back
        await world.respec(STATEFUL_SET, updateStrategy={"rollingUpdate": {"partition": 0}})
        await asyncio.sleep(30)
        status = await world.status(STATEFUL_SET)
        assert ordinals(world) == [f"web-{n} web:2" for n in range(3)]
        assert status["currentRevision"] == status["updateRevision"]
        assert status["updateRevision"].startswith("web-")
        await world.respec(STATEFUL_SET, replicas=1)
        await asyncio.sleep(10)
        assert ordinals(world) == ["web-0 web:2"]

    told(story)


def test_a_newer_kubernetes_updates_several_pods_of_a_stateful_set_at_once() -> None:
    def going(version: str) -> int:
        most = 0

        async def story(world: World) -> None:
            nonlocal most
            update = {"rollingUpdate": {"maxUnavailable": 2}}
            await world.create(STATEFUL_SET, replicas=4, podManagementPolicy="Parallel", updateStrategy=update)
            await asyncio.sleep(10)
            await world.image(STATEFUL_SET, "web:2")
            for _ in range(300):
                await asyncio.sleep(0.1)
                most = max(most, 4 - len(world.images()))
            assert world.images() == ["web:2"] * 4

        told(story, version=version)
        return most

    assert (going("v1.36.1"), going("v1.37.0")) == (1, 2)


def test_a_daemon_set_runs_where_it_may_and_is_updated_node_by_node() -> None:
    async def story(world: World) -> None:
        await world.create(DAEMON_SET, replicas=None)
        await asyncio.sleep(10)
        assert [pod["spec"]["nodeName"] for pod in world.pods()] == ["c-node-1", "c-node-2"]
        least = 2
        await world.image(DAEMON_SET, "web:2")
        for _ in range(200):
            await asyncio.sleep(0.1)
            least = min(least, len(world.images()))
        status = await world.status(DAEMON_SET)
        assert world.images() == ["web:2"] * 2
        assert least == 1
        assert (status["desiredNumberScheduled"], status["numberAvailable"], status["updatedNumberScheduled"]) == (
            2,
            2,
            2,
        )

    told(story, nodes=(NodeShape(), NodeShape(), NodeShape(taints=(("gpu", "", "NoSchedule"),))))


def job(**spec: Any) -> dict[str, Any]:
    return {"replicas": None, "pod": {"restartPolicy": "Never"}, **spec}


def test_a_job_runs_to_its_end() -> None:
    async def story(world: World) -> None:
        await world.create(JOB, **job(completions=3, parallelism=2))
        await asyncio.sleep(60)
        status = await world.status(JOB)
        assert (status["succeeded"], status["conditions"][-1]["type"]) == (3, "Complete")
        assert "active" not in status

    told(story)


def test_a_job_gives_up_after_too_many_failures() -> None:
    async def story(world: World) -> None:
        await world.create(JOB, **job(backoffLimit=1))
        await asyncio.sleep(120)
        status = await world.status(JOB)
        assert (status["failed"], status["conditions"][-1]["reason"]) == (2, "BackoffLimitExceeded")

    told(story, CrashLoop())
