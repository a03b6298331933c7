"""Pods of a gang are placed together or not at all."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.podgangs import GROUP, POD_GANG
from echelon.fleet.member.clone import definitions
from echelon.fleet.member.decide.deployment_status import Moment
from echelon.fleet.member.decide.gang import Gang, Group, Members, Together, is_news, status, together
from echelon.fleet.member.profile import NodeShape
from echelon.hub.storage.store import Key
from echelon.kube.client import MergePatch
from tests.fleet.member.test_placing import a_pod, change_node, make, places, scheduled
from tests.fleet.member.world import NS, World, is_ready, told

SLOT = NodeShape(cpu="1")  # room for one pod
PENDING, STARTING, RUNNING = "Pending", "Starting", "Running"


def gang_told(story: Any, slots: int, **more: Any) -> World:
    return told(story, nodes=(SLOT,) * slots, groups=(GROUP,), **more)


async def make_gang(world: World, name: str, priority: str = "", **groups: int) -> None:
    listed = [{"name": f"{name}-{group}", "podReferences": [], "minReplicas": n} for group, n in groups.items()]
    spec: JSONObject = {"podgroups": listed} | ({"priorityClassName": priority} if priority else {})
    body = {"apiVersion": POD_GANG.api_version, "kind": "PodGang", "metadata": {"name": name}, "spec": spec}
    await world.client.create(POD_GANG.untyped(), body, NS)


def pods_of(gang: str, clique: str, *numbers: int, **spec: Any) -> list[JSONObject]:
    labels = {"grove.io/podgang": gang, "grove.io/podclique": f"{gang}-{clique}"}
    return [a_pod(f"{gang}-{clique}-{n}", labels, cpu="1", **spec) for n in numbers]


def placed(world: World) -> list[str]:
    return sorted(name for name, node in places(world).items() if node)


def gang_status(world: World, name: str) -> JSONObject:
    gang = next(each for each in world.objects("podgangs.scheduler.grove.io") if each["metadata"]["name"] == name)
    found: JSONObject = gang.get("status") or {}
    return found


def told_by(world: World, name: str) -> tuple[str, str]:
    found = next(c for c in gang_status(world, name)["conditions"] if c["type"] == "Scheduled")
    return found["status"], found["reason"]


async def cordon(world: World, *numbers: int, on: bool = True) -> None:
    for number in numbers:
        await change_node(world, f"c-node-{number}", spec={"unschedulable": on or None})


async def delete(world: World, *names: str) -> None:
    for name in names:
        await world.client.delete(POD.untyped(), name, NS)


def test_one_node_short_nobody_is_placed_and_all_are_after_uncordoning() -> None:
    async def story(world: World) -> None:
        await cordon(world, 4)
        await make_gang(world, "w", a=2, b=2)
        await make(world, *pods_of("w", "a", 0, 1), *pods_of("w", "b", 0, 1))
        await asyncio.sleep(60)
        assert placed(world) == []
        for name in places(world):
            said = scheduled(world, name)
            assert said["reason"] == "Unschedulable"
            assert said["message"].startswith("pod gang w needs nodes for 4 pods at once: 0/4 nodes are available: ")
            assert "3 Insufficient cpu, 1 node(s) were unschedulable" in said["message"]
        assert gang_status(world, "w")["phase"] == PENDING
        assert told_by(world, "w") == ("False", "Unschedulable")
        world.commits.clear()
        await asyncio.sleep(3600)
        assert world.commits == []
        await cordon(world, 4, on=False)
        await asyncio.sleep(1)
        assert len(placed(world)) == 4
        assert gang_status(world, "w")["phase"] == STARTING
        assert told_by(world, "w") == ("True", "MinimumScheduled")
        await asyncio.sleep(5)
        assert all(map(is_ready, world.pods()))
        assert gang_status(world, "w")["phase"] == RUNNING

    gang_told(story, 4)


def test_only_the_minimum_has_to_fit_and_the_rest_comes_one_by_one() -> None:
    async def story(world: World) -> None:
        await cordon(world, 4, 5)
        await make_gang(world, "w", a=1, b=2)
        await make(world, *pods_of("w", "a", 0, 1), *pods_of("w", "b", 0, 1, 2))
        await asyncio.sleep(10)
        assert placed(world) == ["w-a-0", "w-b-0", "w-b-1"]
        assert gang_status(world, "w")["phase"] == RUNNING
        assert scheduled(world, "w-a-1")["message"].startswith("0/5 nodes are available: 3 Insufficient cpu, 2 node(s)")
        await cordon(world, 4, on=False)
        await asyncio.sleep(10)
        assert placed(world) == ["w-a-0", "w-a-1", "w-b-0", "w-b-1"]
        await cordon(world, 5, on=False)
        await asyncio.sleep(10)
        assert len(placed(world)) == 5

    gang_told(story, 5)


def test_a_gang_waits_for_its_pods_and_for_their_gates() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=1, b=2)
        gated = pods_of("w", "b", 0, schedulingGates=[{"name": "a/b"}])
        await make(world, *pods_of("w", "a", 0), *gated)
        await asyncio.sleep(10)
        assert placed(world) == []
        assert scheduled(world, "w-a-0")["message"] == "pod gang w is not complete: 0 of 2 pods of w-b can be placed"
        assert scheduled(world, "w-b-0")["reason"] == "SchedulingGated"
        await make(world, *pods_of("w", "b", 1))
        await asyncio.sleep(10)
        assert placed(world) == []
        await world.client.patch(POD.untyped(), "w-b-0", MergePatch({"spec": {"schedulingGates": None}}), NS)
        await asyncio.sleep(10)
        assert len(placed(world)) == 3

    gang_told(story, 9)


def test_of_two_gangs_that_fit_only_alone_the_older_one_gets_all_and_the_other_its_room_later() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "young", a=0)  # nobody's gang takes nothing
        await cordon(world, *range(1, 6))
        await make_gang(world, "v", a=3)
        await make_gang(world, "w", a=3)
        await make(world, *(pod for n in range(3) for gang in "wv" for pod in pods_of(gang, "a", n)))
        await asyncio.sleep(10)
        await cordon(world, *range(1, 6), on=False)
        await asyncio.sleep(10)
        assert placed(world) == ["v-a-0", "v-a-1", "v-a-2"]
        await delete(world, "v-a-0")
        await asyncio.sleep(10)
        assert placed(world) == ["v-a-1", "v-a-2", "w-a-0", "w-a-1", "w-a-2"]

    gang_told(story, 5)


def test_a_gang_that_matters_more_goes_first() -> None:
    async def story(world: World) -> None:
        await cordon(world, 1, 2)
        await make_gang(world, "v", a=2)
        await make_gang(world, "w", priority="system-cluster-critical", a=2)
        await make(world, *pods_of("v", "a", 0, 1), *pods_of("w", "a", 0, 1))
        await asyncio.sleep(5)
        await cordon(world, 1, 2, on=False)
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-0", "w-a-1"]

    gang_told(story, 2)


def test_minimums_of_all_gangs_come_before_what_one_could_have_beyond_its_own() -> None:
    async def story(world: World) -> None:
        await cordon(world, 1, 2, 3, 4)
        for gang in "vw":
            await make_gang(world, gang, a=2)
            await make(world, *pods_of(gang, "a", 0, 1, 2, 3))
        await asyncio.sleep(5)
        await cordon(world, 1, 2, 3, 4, on=False)
        await asyncio.sleep(5)
        assert placed(world) == ["v-a-0", "v-a-1", "w-a-0", "w-a-1"]

    gang_told(story, 4)


def test_pods_without_a_gang_use_what_a_waiting_gang_cannot() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=3)
        await make(world, *pods_of("w", "a", 0, 1, 2), a_pod("alone", cpu="1"))
        await asyncio.sleep(5)
        assert placed(world) == ["alone"]

    gang_told(story, 2)


def test_a_replacement_needs_room_for_itself_only() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=3)
        await make(world, *pods_of("w", "a", 0, 1, 2))
        await asyncio.sleep(5)
        assert len(placed(world)) == 3
        await delete(world, "w-a-1")
        await make(world, *pods_of("w", "a", 3))
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-0", "w-a-2", "w-a-3"]
        assert gang_status(world, "w")["phase"] == RUNNING

    gang_told(story, 3)


def test_what_a_gang_has_lost_of_its_minimum_comes_back_together() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=3)
        await make(world, *pods_of("w", "a", 0, 1, 2))
        await asyncio.sleep(5)
        on = {name: int(node.rpartition("-")[2]) for name, node in places(world).items()}
        await cordon(world, on["w-a-0"], on["w-a-1"])
        await delete(world, "w-a-0", "w-a-1")
        await make(world, *pods_of("w", "a", 3, 4))
        await cordon(world, on["w-a-0"], on=False)
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-2"]
        assert told_by(world, "w") == ("False", "Unschedulable")
        await cordon(world, on["w-a-1"], on=False)
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-2", "w-a-3", "w-a-4"]

    gang_told(story, 3)


def test_a_pod_beyond_the_minimum_steps_in_for_what_was_lost_but_not_alone() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=3)
        await make(world, *pods_of("w", "a", 0, 1, 2, 3))
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-0", "w-a-1", "w-a-2"]
        on = {name: int(node.rpartition("-")[2]) for name, node in places(world).items() if node}
        await cordon(world, on["w-a-0"])
        await delete(world, "w-a-0", "w-a-1")
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-2"]  # there is room for one, and two are missing
        await make(world, *pods_of("w", "a", 4))
        await cordon(world, on["w-a-0"], on=False)
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-2", "w-a-3", "w-a-4"]

    gang_told(story, 3)


def test_the_pods_of_a_clique_can_ask_for_different_places() -> None:
    async def story(world: World) -> None:
        there = {"nodeSelector": {"kubernetes.io/hostname": "c-node-2"}}
        await make(world, a_pod("x", cpu="1", **there))
        await make_gang(world, "w", a=1, b=1)
        await make(world, *pods_of("w", "a", 0), *pods_of("w", "b", 0, **there))
        await asyncio.sleep(5)
        assert placed(world) == ["x"]
        await delete(world, "x")
        await asyncio.sleep(5)
        assert places(world) == {"w-a-0": "c-node-1", "w-b-0": "c-node-2"}

    gang_told(story, 2)


def test_a_pod_that_comes_with_a_node_counts() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=1, b=1)
        await make(world, *pods_of("w", "a", 0, 1))
        await asyncio.sleep(5)
        assert placed(world) == []
        await make(world, *pods_of("w", "b", 0, nodeName="c-node-2"))
        await asyncio.sleep(5)
        assert len(placed(world)) == 3

    gang_told(story, 3)


def test_others_may_bind_pods_of_a_gang_too() -> None:
    async def story(world: World) -> None:
        await cordon(world, 1, 2, 3)
        await make_gang(world, "w", a=2)
        await make(world, *pods_of("w", "a", 0, 1, 2))
        await asyncio.sleep(5)
        for number in (1, 2):
            patch = MergePatch({"spec": {"nodeName": f"c-node-{number}"}})
            await world.client.patch(POD.untyped(), f"w-a-{number}", patch, NS)
        await asyncio.sleep(5)
        assert gang_status(world, "w")["phase"] == RUNNING
        await cordon(world, 3, on=False)
        await asyncio.sleep(5)
        assert len(placed(world)) == 3

    gang_told(story, 3)


def test_a_label_means_nothing_until_there_is_such_a_gang() -> None:
    async def story(world: World) -> None:
        await make(world, *pods_of("w", "a", 0, 1))
        await asyncio.sleep(5)
        assert placed(world) == ["w-a-0"]
        for each in definitions(GROUP):
            await world.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), each)
        await make_gang(world, "v", a=2)
        await make(world, *pods_of("v", "a", 0, 1))
        await delete(world, "w-a-0", "w-a-1")
        await asyncio.sleep(5)
        assert placed(world) == []
        await world.client.delete(POD_GANG.untyped(), "v", NS)
        await asyncio.sleep(5)
        assert placed(world) == ["v-a-0"]

    told(story, nodes=(SLOT,))


def test_what_others_say_of_a_gang_stays() -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=1)
        condition = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated", "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        patch = MergePatch({"status": {"phase": "Pending", "conditions": [condition]}})
        await world.client.patch(POD_GANG.untyped(), "w", patch, NS, subresource="status")
        await make(world, *pods_of("w", "a", 0))
        await asyncio.sleep(10)
        found = gang_status(world, "w")
        assert found["phase"] == RUNNING
        assert {c["type"]: c["status"] for c in found["conditions"]} == {"Initialized": "True", "Scheduled": "True"}

    gang_told(story, 1)


def test_a_gang_larger_than_one_step_of_the_loop_is_still_all_or_nothing() -> None:
    async def story(world: World) -> None:
        await cordon(world, 2)
        await make_gang(world, "w", a=200)
        await make(world, *pods_of("w", "a", *range(200)))
        await asyncio.sleep(5)
        assert placed(world) == []
        usage = world.member.context.index.room.usage.values()
        assert sum(used.pods for used in usage) == 0  # what was tried is given back
        await cordon(world, 2, on=False)
        await asyncio.sleep(5)
        assert len(placed(world)) == 200

    told(story, nodes=(NodeShape(cpu="199", pods="500"), SLOT), groups=(GROUP,))


@pytest.mark.parametrize("cpu", [100, 99])
def test_a_node_that_closes_while_a_gang_is_being_placed_is_not_used(cpu: int) -> None:
    async def story(world: World) -> None:
        await make_gang(world, "w", a=200)
        await make(world, *pods_of("w", "a", *range(200)))
        used = world.member.context.index.room.usage
        while sum(each.pods for each in used.values()) < 100:  # noqa: ASYNC110 - no event tells of room that is taken
            await asyncio.sleep(0)
        assert placed(world) == []  # room is taken, and nothing is written yet
        await cordon(world, 1)
        await asyncio.sleep(5)
        assert Counter(places(world).values()) == ({"c-node-2": 100, "c-node-3": 100} if cpu == 100 else {"": 200})

    told(story, nodes=(NodeShape(cpu=str(cpu), pods="500"),) * 3, groups=(GROUP,))


sizes = st.dictionaries(st.sampled_from("ab"), st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1)


@given(st.lists(sizes, min_size=1, max_size=4), st.integers(0, 8), st.lists(st.integers(0, 30), max_size=6))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_gang_is_ever_found_in_part(gangs: list[dict[str, tuple[int, int]]], slots: int, lost: list[int]) -> None:
    """Every group of `gangs` is its minimum and its pods; `lost` are pods that are deleted one after another."""

    async def story(world: World) -> None:
        for number, groups in enumerate(gangs):
            await make_gang(world, f"g{number}", "", **{name: least for name, (least, _) in groups.items()})
        for number, groups in enumerate(gangs):
            for name, (_, pods) in groups.items():
                await make(world, *pods_of(f"g{number}", name, *range(pods)))
        await asyncio.sleep(5)
        check(world)
        for each in lost:
            names = sorted(places(world))
            if names:
                await delete(world, names[each % len(names)])
                await asyncio.sleep(5)
                used = world.member.context.index.room.usage.values()
                assert sum(each.pods for each in used) == len(placed(world)) <= slots

    def check(world: World) -> None:
        on_nodes = Counter(name.rpartition("-")[0] for name in placed(world))
        assert sum(on_nodes.values()) <= slots
        for number, groups in enumerate(gangs):
            numbers = {name: on_nodes[f"g{number}-{name}"] for name in groups}
            whole = all(numbers[name] >= least for name, (least, _) in groups.items())
            assert whole or not any(numbers.values())
            assert (gang_status(world, f"g{number}")["phase"] != PENDING) == whole
            if not whole and all(pods >= least for least, pods in groups.values()):
                assert sum(least for least, _ in groups.values()) > slots - sum(on_nodes.values())

    told(story, nodes=(SLOT,) * slots, groups=(GROUP,))


def test_what_has_to_be_placed_together() -> None:
    gang = Gang((Group("a", 2), Group("b", 1)))
    keys = [Key("pods", NS, f"p{n}") for n in range(4)]
    some = {"a": Members(bound={keys[0]: None}, pending={keys[1]: None, keys[2]: None}), "b": Members()}
    assert together(gang, some) == Together(missing="0 of 1 pods of b can be placed")
    some["b"].pending[keys[3]] = None
    assert together(gang, some) == Together((keys[1], keys[3]))
    assert together(Gang(()), {}) == Together()


def test_only_numbers_are_no_news() -> None:
    gang, now = Gang((Group("a", 1),)), Moment(0.0, "2026-01-01T00:00:00Z")
    old = status(gang, {}, "3 are missing", {}, now)
    assert not is_news(old, status(gang, {}, "4 are missing", old, now))
    assert is_news(old, status(gang, {}, "4 are lost", old, now))
    assert is_news({}, old)
