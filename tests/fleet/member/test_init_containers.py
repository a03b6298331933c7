"""Init containers run one after another; the waiter of a clique ends when the cliques before it serve."""

import asyncio
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.fleet.member.decide.waiter import BadArguments, awaited
from echelon.fleet.member.profile import Pace
from echelon.fleet.member.trouble import CrashLoop, ImageError
from echelon.kube.client import MergePatch
from tests.fleet.member.test_placing import a_pod, make
from tests.fleet.member.world import NS, World, is_ready, told

PACE = Pace(start=2.0, spread=0.0, stop=0.5, init=3.0)


def first(*names: str, **more: Any) -> list[JSONObject]:
    return [{"name": name, "image": f"{name}:1", **more} for name in names]


def condition(pod: JSONObject, kind: str) -> JSONObject:
    found: JSONObject = next(c for c in pod["status"]["conditions"] if c["type"] == kind)
    return found


def states(pod: JSONObject) -> list[str]:
    return [next(iter(each["state"])) for each in pod["status"]["initContainerStatuses"]]


def find(world: World, name: str) -> JSONObject:
    return next(pod for pod in world.objects("pods") if pod["metadata"]["name"] == name)


def test_they_run_one_after_another_and_the_pod_is_pending_meanwhile() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", initContainers=first("a", "b")))
        for seconds, expected in [(1, ["waiting"] * 2), (3, ["running", "waiting"]), (3, ["terminated", "running"])]:
            await asyncio.sleep(seconds)
            pod = find(world, "p")
            assert states(pod) == expected
            assert pod["status"]["phase"] == "Pending"
            assert condition(pod, "Initialized")["status"] == "False"
        assert condition(pod, "Initialized")["message"] == "containers with incomplete status: [b]"
        assert pod["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
        await asyncio.sleep(2)
        pod = find(world, "p")
        assert states(pod) == ["terminated"] * 2
        assert condition(pod, "Initialized")["status"] == "True"
        assert not is_ready(pod)
        await asyncio.sleep(2)
        assert is_ready(find(world, "p"))

    told(story, pace=PACE)


def test_a_sidecar_goes_on_while_the_next_begins() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", initContainers=[*first("side", restartPolicy="Always"), *first("b")]))
        await asyncio.sleep(3)
        assert states(find(world, "p")) == ["running", "running"]
        await asyncio.sleep(6)
        pod = find(world, "p")
        assert is_ready(pod)
        assert states(pod) == ["running", "terminated"]

    told(story, pace=PACE)


def test_an_init_container_whose_image_is_missing_is_tried_again() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", initContainers=[*first("a"), {"name": "b", "image": "b:bad"}]))
        await asyncio.sleep(6)
        (_, status) = find(world, "p")["status"]["initContainerStatuses"]
        assert status["state"]["waiting"]["reason"] == "ErrImagePull"
        await asyncio.sleep(60)
        assert is_ready(find(world, "p"))

    told(story, ImageError(end=20), pace=PACE)


def test_an_init_container_that_crashes_is_restarted() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", initContainers=first("a")))
        await asyncio.sleep(15)
        (status,) = find(world, "p")["status"]["initContainerStatuses"]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["restartCount"] == 2
        assert status["lastState"]["terminated"]["exitCode"] == 1
        await asyncio.sleep(60)
        assert is_ready(find(world, "p"))

    told(story, CrashLoop(end=20, image="a:*"), pace=PACE)


def test_a_pod_that_is_never_restarted_fails_with_its_init_container() -> None:
    async def story(world: World) -> None:
        await make(world, a_pod("p", initContainers=first("a"), restartPolicy="Never"))
        await asyncio.sleep(30)
        assert find(world, "p")["status"]["phase"] == "Failed"

    told(story, CrashLoop(image="a:*"), pace=PACE)


def member_of(gang: str, clique: str, name: str, *parents: str, **spec: Any) -> JSONObject:
    labels = {"grove.io/podgang": gang, "grove.io/podclique": clique}
    if parents:
        spec["initContainers"] = first("grove-initc", args=[f"--podcliques={parent}" for parent in parents])
    return a_pod(name, labels, **spec)


SLOW = {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 20}


def slow(pod: JSONObject, seconds: int) -> JSONObject:
    pod["spec"]["containers"][0]["readinessProbe"] = {**SLOW, "initialDelaySeconds": seconds}
    return pod


def test_the_waiter_ends_when_all_cliques_before_it_have_enough_ready_pods_at_once() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "g-c", "c", "g-a:2", "g-b:1"))
        await make(world, member_of("g", "g-a", "a0"), slow(member_of("g", "g-a", "a1"), 30))
        await make(world, member_of("g", "g-b", "b0"), member_of("h", "g-a", "other gang"[:5]))
        await asyncio.sleep(20)
        assert states(find(world, "c")) == ["running"]  # only one of g-a is ready
        await world.client.delete(POD.untyped(), "b0", NS)
        await asyncio.sleep(20)
        assert is_ready(find(world, "a1"))
        assert states(find(world, "c")) == ["running"]  # g-b is gone
        world.commits.clear()
        await asyncio.sleep(3600)
        assert world.commits == []  # it waits, and nobody polls
        await make(world, member_of("g", "g-b", "b1"))
        await asyncio.sleep(2.5)
        assert states(find(world, "c")) == ["terminated"]
        await asyncio.sleep(2)
        assert is_ready(find(world, "c"))

    told(story, pace=PACE)


def test_a_pod_that_comes_later_waits_again_if_its_parents_have_become_too_few() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "g-a", "a0"), member_of("g", "g-c", "c0", "g-a:1"))
        await asyncio.sleep(10)
        assert is_ready(find(world, "c0"))
        await world.client.delete(POD.untyped(), "a0", NS)
        await asyncio.sleep(5)
        assert is_ready(find(world, "c0"))  # what runs goes on
        await make(world, member_of("g", "g-c", "c1", "g-a:1"))
        await asyncio.sleep(60)
        assert states(find(world, "c1")) == ["running"]
        await make(world, member_of("g", "g-a", "a1"))
        await asyncio.sleep(10)
        assert is_ready(find(world, "c1"))

    told(story, pace=PACE)


def test_cliques_of_another_gang_or_namespace_do_not_count() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "a", "p", "b:1"), member_of("other", "b", "q"))
        elsewhere = member_of("g", "b", "r")
        await world.client.create(POD.untyped(), elsewhere, "kube-public")
        await asyncio.sleep(30)
        assert states(find(world, "p")) == ["running"]

    told(story, pace=PACE)


def test_a_waiter_with_nonsense_for_arguments_crashes_and_says_so() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "a", "p", "b"))
        await asyncio.sleep(30)
        (status,) = find(world, "p")["status"]["initContainerStatuses"]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"

    told(story, pace=PACE)


@pytest.mark.parametrize("argument", ["a", "a:", ":1", "a:0", "a:one", "a:-1", "a:1,b"])
def test_what_the_waiter_does_not_understand(argument: str) -> None:
    with pytest.raises(BadArguments):
        awaited({"name": "grove-initc", "args": [f"--podcliques={argument}"]})


def test_the_waiter_wants_to_know_whom_it_waits_for() -> None:
    with pytest.raises(BadArguments):
        awaited({"name": "grove-initc"})


def test_a_pod_that_is_about_to_go_does_not_count() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "a", "a0"), slow(member_of("g", "a", "a1"), 10))
        await make(world, member_of("g", "c", "c0", "a:2"))
        await asyncio.sleep(8)
        await world.client.delete(POD.untyped(), "a0", NS)  # it takes half a minute to end
        await asyncio.sleep(20)
        assert is_ready(find(world, "a1"))
        assert "deletionTimestamp" in find(world, "a0")["metadata"]
        assert states(find(world, "c0")) == ["running"]

    told(story, pace=Pace(start=2.0, spread=0.0, stop=60.0, init=3.0))


def test_what_the_waiter_waits_for() -> None:
    assert awaited({"name": "grove-initc", "args": ["--podcliques=a:1", "--podcliques=b:2,c:3"]}) == {
        "a": 1,
        "b": 2,
        "c": 3,
    }
    assert awaited({"name": "setup", "args": ["--podcliques=a"]}) is None


def test_pods_are_patched_while_they_wait() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "a", "p", "b:1"))
        await asyncio.sleep(10)
        await world.client.patch(POD.untyped(), "p", MergePatch({"metadata": {"labels": {"x": "y"}}}), NS)
        await asyncio.sleep(10)
        await make(world, member_of("g", "b", "q"))
        await asyncio.sleep(10)
        assert is_ready(find(world, "p"))

    told(story, pace=PACE)
