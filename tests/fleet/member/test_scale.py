"""Thousands of pods in one member: everything in small steps, and nothing for each pair of pods."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.podgangs import GROUP
from echelon.fleet.loop import running
from echelon.fleet.member.profile import NodeShape, Pace
from echelon.hub.storage.store import Change
from tests.fleet.member.test_gangs import cordon, delete, make_gang, placed
from tests.fleet.member.test_placing import a_pod, make
from tests.fleet.member.world import World, is_ready, told

pytestmark = pytest.mark.full

PODS = 1_000
NODES = (NodeShape(cpu="10", memory="64Gi"),) * 100
MOST_WRITES = 70  # in one step of the loop


class Steps:
    """Counts the writes of pods in each step of the loop."""

    def __init__(self, world: World) -> None:
        self.writes: Counter[int] = Counter()
        world.store.on_commit(self._note)

    def _note(self, change: Change) -> None:
        if change.entry.key.resource == "pods":
            self.writes[running().steps] += 1

    @property
    def most(self) -> int:
        return max(self.writes.values())


def crowd(gang: int) -> Iterator[JSONObject]:
    for number in range(PODS):
        name = f"g{number // gang}" if gang else ""
        labels = {"grove.io/podgang": name, "grove.io/podclique": f"{name}-a"} if gang else {}
        yield a_pod(f"p{number}", labels, cpu="1")


@pytest.mark.parametrize("gang", [0, 10, PODS])
def test_a_crowd_is_placed_and_started_in_small_steps(gang: int) -> None:
    async def story(world: World) -> None:
        await cordon(world, *range(1, 101))
        if gang:
            for number in range(PODS // gang):
                await make_gang(world, f"g{number}", "", a=gang)
        await make(world, *crowd(gang))
        await asyncio.sleep(5)
        assert placed(world) == []
        steps = Steps(world)
        for number in range(1, 101):
            await cordon(world, number, on=False)
        await asyncio.sleep(30)
        assert sum(map(is_ready, world.pods())) == PODS
        assert steps.most <= MOST_WRITES

    told(story, nodes=NODES, groups=(GROUP,), pace=Pace())


def test_room_for_one_pod_makes_nobody_look_at_all_that_wait() -> None:
    async def story(world: World) -> None:
        await make(world, *crowd(0))
        await asyncio.sleep(20)
        assert len(placed(world)) == 500
        room = world.member.context.index.room
        looks = 0
        find = room.find

        def counted(demand: Any) -> str:
            nonlocal looks
            looks += 1
            return find(demand)

        room.find = counted  # type: ignore[method-assign]
        for number in range(50):
            await delete(world, f"p{number}")
            await asyncio.sleep(1)
        assert len(placed(world)) == 500
        assert looks <= 50 * 4

    told(story, nodes=NODES[:50], pace=Pace())


def test_a_workload_with_a_crowd_of_pods_reports_ten_times_a_second_at_most_and_ends_right() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENT, replicas=PODS)
        await asyncio.sleep(30)
        reports = [c for c in world.commits if c.entry.key.resource == "replicasets.apps"]
        assert len(reports) <= 15 * 10  # all are ready within fifteen seconds
        assert (await world.status(DEPLOYMENT))["readyReplicas"] == PODS
        for pod in world.pods()[: PODS - 3]:
            await world.client.delete(POD.untyped(), pod["metadata"]["name"], "default")
        await asyncio.sleep(60)
        assert (await world.status(DEPLOYMENT))["readyReplicas"] == PODS

    told(story, nodes=NODES, pace=Pace())
