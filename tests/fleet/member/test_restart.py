"""What a member was in the middle of goes on after a restart of its process; and one seed is one life."""

import asyncio
from typing import Any

from echelon.api.core import POD
from echelon.api.podgangs import GROUP
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import NodeShape, Pace
from echelon.fleet.member.trouble import NodeDown
from tests.fleet.member.test_gangs import SLOT, cordon, gang_status, make_gang, placed, pods_of
from tests.fleet.member.test_init_containers import find, first, member_of, states
from tests.fleet.member.test_node_failure import ONE, OTHER, TWO, on
from tests.fleet.member.test_placing import a_pod, make, places
from tests.fleet.member.world import NS, World, is_ready, told


async def restart(world: World) -> None:
    world.member.stop()
    world.member = Member(world.member.profile, world.member.cluster)
    await world.member.start()


def test_a_gang_that_waits_is_placed_after_a_restart() -> None:
    async def story(world: World) -> None:
        await cordon(world, 2)
        await make_gang(world, "w", a=2)
        await make(world, *pods_of("w", "a", 0, 1, 2))
        await asyncio.sleep(5)
        await restart(world)
        await asyncio.sleep(5)
        assert placed(world) == []
        await cordon(world, 2, on=False)
        await asyncio.sleep(5)
        assert len(placed(world)) == 2
        await restart(world)
        await asyncio.sleep(5)
        assert gang_status(world, "w")["phase"] == "Running"
        world.commits.clear()
        await asyncio.sleep(600)
        assert world.commits == []

    told(story, nodes=(SLOT, SLOT), groups=(GROUP,))


def test_init_containers_go_on_where_they_were() -> None:
    async def story(world: World) -> None:
        await make(world, member_of("g", "b", "waits", "a:1"), a_pod("works", initContainers=first("x", "y")))
        await asyncio.sleep(5)
        assert states(find(world, "works")) == ["running", "waiting"]
        await restart(world)
        await asyncio.sleep(25)
        assert states(find(world, "waits")) == ["running"]
        assert is_ready(find(world, "works"))
        await make(world, member_of("g", "a", "parent"))
        await asyncio.sleep(10)
        assert is_ready(find(world, "waits"))

    told(story, pace=Pace(start=2.0, spread=0.0, init=10.0))


def test_pods_leave_a_node_that_is_down_on_time() -> None:
    async def story(world: World) -> None:
        await make(world, on(ONE, "p"), on(OTHER, "q"))
        await asyncio.sleep(5)
        await world.member.fail_node(ONE)
        await asyncio.sleep(200)
        await restart(world)
        await asyncio.sleep(90)
        assert "deletionTimestamp" not in find(world, "p")["metadata"]
        await asyncio.sleep(20)
        assert "deletionTimestamp" in find(world, "p")["metadata"]
        await restart(world)
        await asyncio.sleep(60)
        assert places(world) == {"p": ONE, "q": OTHER}
        await world.member.restore_node(ONE)
        await asyncio.sleep(5)
        assert places(world) == {"q": OTHER}

    told(story, nodes=TWO)


def test_one_seed_is_one_life() -> None:
    async def story(world: World) -> None:
        for gang in ("v", "w"):
            await make_gang(world, gang, a=3, b=2)
            await make(world, *pods_of(gang, "a", 0, 1, 2, 3), *pods_of(gang, "b", 0, 1))
        await make(world, *(a_pod(f"alone-{n}", cpu="1", initContainers=first("x")) for n in range(3)))
        await asyncio.sleep(400)
        await world.client.delete(POD.untyped(), placed(world)[0], NS)
        await asyncio.sleep(400)

    def lived(seed: int) -> list[Any]:
        world = told(
            story,
            NodeDown(begin=50, end=500, node="c-node-[123]"),
            nodes=(NodeShape(cpu="2"),) * 7,
            groups=(GROUP,),
            pace=Pace(),
            seed=seed,
        )
        return [(change.type, change.revision, change.entry.object) for change in world.commits]

    assert lived(3) == lived(3)
    assert lived(3) != lived(4)
