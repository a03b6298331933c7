"""The events of a member are those that Kubernetes writes; they are written when somebody reads them, and bounded."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.batch import JOB
from echelon.api.core import EVENT, POD
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.fleet.member import journal
from echelon.fleet.member.profile import NodeShape
from echelon.fleet.member.trouble import CrashLoop, DiskFull, Flapping, ImageError, Trouble
from tests.fleet.member.world import NS, World, told

STARTED = ["Scheduled", "Pulling", "Pulled", "Created", "Started"]


async def read(world: World, about: str) -> list[JSONObject]:
    """Return the events about objects of a kind, as somebody reads them."""
    listed = (await world.client.list(EVENT.untyped())).items
    return [each for each in listed if each["involvedObject"]["kind"] == about]


def reasons(events: Sequence[JSONObject]) -> set[str]:
    return {each["reason"] for each in events}


@pytest.mark.parametrize(
    ("troubles", "expected"),
    [
        ((), STARTED),
        ((ImageError(image="*"),), ["Scheduled", "Pulling", "Failed", "BackOff"]),
        ((CrashLoop(),), [*STARTED, "BackOff"]),
        ((Flapping(),), [*STARTED, "Unhealthy"]),
        ((DiskFull(begin=20.0),), [*STARTED, "Evicted", "FailedScheduling"]),
    ],
    ids=["well", "no image", "crashing", "flapping", "full disk"],
)
def test_a_pod_is_told_of_by_scheduler_and_kubelet(troubles: tuple[Trouble, ...], expected: list[str]) -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(120)
        assert world.objects("events") == [], "nobody has asked for them"
        events = await read(world, "Pod")
        assert reasons(events) == set(expected)
        for each in events:
            assert each["involvedObject"]["uid"]
            assert each["type"] == (
                "Warning"
                if each["reason"] in ("Failed", "Unhealthy", "Evicted", "FailedScheduling")
                or (each["reason"] == "BackOff" and "restarting" in each["message"])
                else "Normal"
            )
            by = "default-scheduler" if "chedul" in each["reason"] else "kubelet"
            assert each["source"]["component"] == each["reportingComponent"] == by

    told(story, *troubles)


def test_what_happens_again_is_counted_and_what_happens_later_is_written_at_once() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(60)
        (before,) = [each for each in await read(world, "Pod") if each["reason"] == "BackOff"]
        assert before["count"] > 1
        assert before["lastTimestamp"] > before["firstTimestamp"]
        await asyncio.sleep(900)
        (after,) = [
            each
            for each in world.objects("events")
            if each["reason"] == "BackOff" and each["metadata"]["uid"] == before["metadata"]["uid"]
        ]
        assert after["count"] > before["count"]
        assert after["firstTimestamp"] == before["firstTimestamp"]

    told(story, CrashLoop())


@pytest.mark.parametrize(
    ("kind", "about", "spec", "expected"),
    [
        (DEPLOYMENT, "Deployment", {}, {"Scaled up replica set", "Scaled down replica set"}),
        (DEPLOYMENT, "ReplicaSet", {}, {"Created pod:", "Deleted pod:"}),
        (DAEMON_SET, "DaemonSet", {"replicas": None}, {"Created pod:", "Deleted pod:"}),
        (STATEFUL_SET, "StatefulSet", {"serviceName": "web"}, {"create Pod web-", "delete Pod web-"}),
    ],
    ids=["deployment", "replica set", "daemon set", "stateful set"],
)
def test_controllers_tell_what_they_make_and_delete(
    kind: Kind[Any], about: str, spec: dict[str, Any], expected: set[str]
) -> None:
    async def story(world: World) -> None:
        await world.create(kind, **spec)
        await asyncio.sleep(30)
        await world.image(kind, "web:2")
        await asyncio.sleep(60)
        messages = [each["message"] for each in await read(world, about)]
        assert expected == {text for text in expected if any(each.startswith(text) for each in messages)}
        assert all(any(each.startswith(text) for text in expected) for each in messages)

    told(story)


def test_a_job_tells_how_it_ended() -> None:
    async def story(world: World) -> None:
        await world.create(JOB, replicas=None, pod={"restartPolicy": "Never"})
        await asyncio.sleep(60)
        assert reasons(await read(world, "Job")) == {"SuccessfulCreate", "Completed"}

    told(story)


def test_a_pod_without_a_node_is_told_of_in_the_words_of_its_condition() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1, cpu="100")
        await asyncio.sleep(5)
        (event,) = await read(world, "Pod")
        (condition,) = world.pods()[0]["status"]["conditions"]
        assert (event["reason"], event["message"]) == ("FailedScheduling", condition["message"])

    told(story, nodes=(NodeShape(cpu="1"),))


def test_a_pod_that_is_deleted_by_a_person_is_killed_but_not_deleted_by_its_controller() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(10)
        (pod,) = world.pods()
        await world.client.delete(POD, pod["metadata"]["name"], NS)
        await asyncio.sleep(10)
        assert "Killing" in reasons(await read(world, "Pod"))
        assert reasons(await read(world, "ReplicaSet")) == {"SuccessfulCreate"}

    told(story)


def test_a_member_remembers_so_many_and_not_for_longer_than_the_hub_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MOST", 20)

    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=50, cpu="1m")
        await asyncio.sleep(60)
        assert len((await world.client.list(EVENT.untyped())).items) == 20, "those that were remembered"
        await world.respec(DEPLOYMENT, replicas=0)
        await asyncio.sleep(2)

    told(story)

    async def long_ago(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(2 * 3600)
        assert (await world.client.list(EVENT.untyped())).items == []

    told(long_ago)


def test_whoever_reads_one_namespace_has_nothing_of_another_written() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=1)
        await asyncio.sleep(10)
        assert (await world.client.list(EVENT.untyped(), "kube-system")).items == []
        await world.respec(DEPLOYMENT, replicas=2)
        await asyncio.sleep(10)
        assert world.objects("events") == []
        assert {each["metadata"]["namespace"] for each in (await world.client.list(EVENT.untyped(), NS)).items} == {NS}

    told(story)


def test_nothing_is_written_into_a_namespace_that_is_gone() -> None:
    async def story(world: World) -> None:
        await world.client.create(NAMESPACE.untyped(), {**NAMESPACE.type_meta, "metadata": {"name": "short"}})
        body = {**POD.type_meta, "metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
        await world.client.create(POD.untyped(), body, "short")
        await asyncio.sleep(10)
        await world.client.delete(NAMESPACE, "short")
        await asyncio.sleep(30)
        assert await read(world, "Pod") == []

    told(story)
