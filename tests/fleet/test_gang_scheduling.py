"""Gangs get their nodes all or nothing, and their cliques start in order: Grove's own stories, on a simulated cluster.

Each machine has room for one pod, and machines are opened one after another; so what was placed together is seen by how
many machines it took. GS and SO are the numbers of the stories in `tests/engine/pod_clique/checklist.py`.
"""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from echelon.api.times import parse_time
from tests.controllers.clique_world import CliqueWorld, clique, group, set_of
from tests.fleet.clique_stories import SLOT, Machines, at_least, in_full, placed, placed_of
from tests.fleet.test_pod_cliques import told

BASE, SCALED, SECOND = "w-0", "w-0-sg-x-0", "w-0-sg-x-1"


async def closed(world: CliqueWorld) -> Machines:
    """Begin with machines that take no pod."""
    machines = Machines(world)
    await machines.close_all()
    return machines


def test_gs_1_to_4_gangs_in_full_wait_for_the_last_machine_and_come_as_a_unit() -> None:
    async def story(world: CliqueWorld) -> None:
        machines = await closed(world)
        await world.apply(in_full())
        await machines.open(9)
        assert placed(world) == {}, "GS-1: one machine short, nobody comes"
        await machines.open(1)
        assert placed(world) == {BASE: 10}
        assert world.ready() == 10
        await world.scale_group("w-0-sg-x", 3)
        await machines.open(3)
        assert placed(world) == {BASE: 10}, "GS-2: the gang of a further replica waits"
        await machines.open(1)
        assert placed(world) == {BASE: 10, SCALED: 4}
        await world.respec({"replicas": 2})
        await machines.open(9)
        assert placed(world) == {BASE: 10, SCALED: 4}, "GS-3: so does that of a further replica of the set"
        await machines.open(1)
        assert placed(world) == {BASE: 10, SCALED: 4, "w-1": 10}
        await world.scale_group("w-1-sg-x", 3)
        await machines.open(3)
        assert placed(world)["w-1-sg-x-0"] == 0, "GS-4: and that of its group"
        await machines.open(1)
        assert placed(world) == {BASE: 10, SCALED: 4, "w-1": 10, "w-1-sg-x-0": 4}
        assert world.ready() == 28

    told(story, *(SLOT,) * 28)


def test_gs_5_and_6_the_minimum_comes_first_then_the_rest_and_so_it_is_when_a_group_grows() -> None:
    async def story(world: CliqueWorld) -> None:
        machines = await closed(world)
        await world.apply(at_least())
        await machines.open(2)
        assert placed(world) == {}, "GS-5: one short of the minimum"
        await machines.open(1)
        assert placed(world) == {BASE: 3}
        assert [placed_of(world, name) for name in ("w-0-pc-a", "w-0-sg-x-0-pc-b", "w-0-sg-x-0-pc-c")] == [1, 1, 1]
        await machines.open(7)
        assert placed(world) == {BASE: 6, SCALED: 4}
        await world.scale_group("w-0-sg-x", 3)
        await machines.open(1)
        assert placed(world)[SECOND] == 0, "GS-6: one short of the new gang's minimum"
        await machines.open(1)
        assert placed(world) == {BASE: 6, SCALED: 4, SECOND: 2}
        await machines.open(2)
        assert placed(world) == {BASE: 6, SCALED: 4, SECOND: 4}

    told(story, *(SLOT,) * 14)


def test_gs_7_the_second_replica_of_a_group_is_let_in_by_itself() -> None:
    async def story(world: CliqueWorld) -> None:
        machines = await closed(world)
        await world.apply(at_least())
        await machines.open(3)
        assert placed(world) == {BASE: 3}
        await machines.open(2)
        assert placed(world) == {BASE: 3, SCALED: 2}
        await machines.open(5)
        assert placed(world) == {BASE: 6, SCALED: 4}
        await world.scale_group("w-0-sg-x", 3)
        await machines.open(2)
        assert placed(world) == {BASE: 6, SCALED: 4, SECOND: 2}
        await machines.open(2)
        assert placed(world) == {BASE: 6, SCALED: 4, SECOND: 4}

    told(story, *(SLOT,) * 14)


def test_gs_8_a_group_that_grows_before_anything_has_a_node_waits_for_the_base_gang() -> None:
    async def story(world: CliqueWorld) -> None:
        machines = await closed(world)
        await world.apply(at_least())
        await world.settle(30)
        await world.scale_group("w-0-sg-x", 3)
        await machines.open(2)
        assert placed(world) == {}, "two would do for a further replica, but it does not come before the base gang"
        await machines.open(1)
        assert placed(world) == {BASE: 3}
        await machines.open(4)
        assert placed(world) == {BASE: 3, SCALED: 2, SECOND: 2}
        await machines.open(7)
        assert placed(world) == {BASE: 6, SCALED: 4, SECOND: 4}

    told(story, *(SLOT,) * 14)


@pytest.mark.parametrize("running", [True, False], ids=["GS-9", "GS-10"])
def test_gs_9_and_10_a_set_grows_when_it_runs_or_before_anything_has_a_node(running: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        machines = await closed(world)
        await world.apply(at_least())
        await world.settle(30)
        if running:
            await machines.open(10)
        await world.respec({"replicas": 2})
        await machines.open(2)
        assert placed(world) == ({BASE: 6, SCALED: 4} if running else {})
        await machines.open(1 if running else 4)
        assert (placed(world)["w-1"], placed(world)[BASE]) == (3, 6 if running else 3)
        await machines.open_all()
        assert placed(world) == {BASE: 6, SCALED: 4, "w-1": 6, "w-1-sg-x-0": 4}

    told(story, *(SLOT,) * 20)


@pytest.mark.parametrize("running", [True, False], ids=["GS-11", "GS-12"])
def test_gs_11_and_12_groups_and_the_set_grow_one_after_the_other_or_while_all_is_pending(running: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        machines = await closed(world)
        await world.apply(at_least())
        await world.settle(30)
        for number, more in enumerate((10, 4, 10)):
            if running:
                await machines.open(more)
                assert world.ready() == machines.opened
            if number == 1:
                await world.respec({"replicas": 2})
            else:
                await world.scale_group(f"w-{number // 2}-sg-x", 3)
            await world.settle(30)
        if not running:
            assert placed(world) == {}
            await machines.open(6)
            assert placed(world) == {BASE: 3, "w-1": 3}
            await machines.open(8)
            assert placed(world) == {BASE: 3, "w-1": 3, **dict.fromkeys((SCALED, SECOND), 2), **second_groups(2)}
        await machines.open_all()
        assert placed(world) == {BASE: 6, "w-1": 6, **dict.fromkeys((SCALED, SECOND), 4), **second_groups(4)}

    told(story, *(SLOT,) * 28)


def second_groups(pods: int) -> dict[str, int]:
    return {"w-1-sg-x-0": pods, "w-1-sg-x-1": pods}


def ready_at(world: CliqueWorld, clique_name: str) -> list[datetime]:
    found = []
    for pod in world.pods(clique_name):
        ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
        moment = parse_time(ready["lastTransitionTime"])
        assert ready["status"] == "True"
        assert moment is not None
        found.append(moment)
    return sorted(found)


def one_after_another(world: CliqueWorld, *cliques: str) -> bool:
    """Whether all pods of each clique were ready before any of the next could have started."""
    times = [ready_at(world, name) for name in cliques]
    return all(before[-1] + timedelta(seconds=2) <= after[0] for before, after in pairwise(times))


IN_ORDER, EXPLICIT = "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"
SLOW = {"initContainers": [{"name": f"i{n}", "image": "setup"} for n in range(20)]}  # a second each


@pytest.mark.parametrize(
    ("startup", "then"), [(IN_ORDER, ("pc-b", "pc-c")), (EXPLICIT, ("pc-c", "pc-b"))], ids=["SO-1", "SO-3"]
)
def test_so_1_and_3_cliques_start_one_after_the_other_in_the_order_of_the_list_or_as_declared(
    startup: str, then: tuple[str, str]
) -> None:
    async def story(world: CliqueWorld) -> None:
        after = {"pc-c": ["pc-a"], "pc-b": ["pc-c"]} if startup == EXPLICIT else {}
        cliques = (
            clique(name, count, startsAfter=after.get(name, []))
            for name, count in (("pc-a", 2), ("pc-b", 1), ("pc-c", 3))
        )
        groups = [group("sg-x", "pc-b", "pc-c", least=2)]
        await world.apply(set_of(*cliques, cliqueStartupType=startup, podCliqueScalingGroups=groups))
        await world.settle(60)
        assert world.ready() == 10
        for first in (0, 1):
            # The replicas of the group that must be up are waited for together, whichever of them it is.
            for last in (0, 1):
                assert one_after_another(world, "w-0-pc-a", f"w-0-sg-x-{first}-{then[0]}", f"w-0-sg-x-{last}-{then[1]}")

    told(story)


@pytest.mark.parametrize(
    ("startup", "then"), [(IN_ORDER, ("pc-b", "pc-c")), (EXPLICIT, ("pc-c", "pc-b"))], ids=["SO-2", "SO-4"]
)
def test_so_2_and_4_the_order_is_kept_inside_of_each_gang_and_a_further_one_waits_for_no_other(
    startup: str, then: tuple[str, str]
) -> None:
    async def story(world: CliqueWorld) -> None:
        after = {"pc-c": ["pc-a"], "pc-b": ["pc-c"]} if startup == EXPLICIT else {}
        cliques = (
            clique("pc-a", 2, minAvailable=1, pods=SLOW),
            *(
                clique(name, n, minAvailable=1, startsAfter=after.get(name, []))
                for name, n in (("pc-b", 1), ("pc-c", 3))
            ),
        )
        groups = [group("sg-x", "pc-b", "pc-c")]
        await world.apply(set_of(*cliques, cliqueStartupType=startup, podCliqueScalingGroups=groups))
        await world.settle(90)
        assert world.ready() == 10
        inside, further = ([f"w-0-sg-x-{index}-{name}" for name in then] for index in (0, 1))
        assert one_after_another(world, "w-0-pc-a", *inside)
        assert one_after_another(world, *further)
        assert ready_at(world, further[1])[-1] < ready_at(world, "w-0-pc-a")[0], "it did not wait for pc-a"

    told(story)
