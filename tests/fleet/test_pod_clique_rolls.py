"""RollingRecreate on a simulated cluster: Grove's own stories, with somebody who counts at every committed state.

RU are the numbers of the stories in `tests/engine/pod_clique/checklist.py`.
"""

import asyncio
from collections.abc import Callable

import pytest

from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, is_ready, set_of
from tests.fleet.clique_stories import Machines, Watch, uids
from tests.fleet.test_pod_cliques import began, told, workload

pytestmark = pytest.mark.full

FRONT, GROUP = "w-0-pc-a", "w-0-sg-x"


async def rolled(world: CliqueWorld, watch: Watch, image: str, *cliques: str) -> None:
    """Edit cliques, all if none is named, and let it come to its end; one replica of the set may lack something."""
    watch.again()
    await world.roll(image, *cliques)
    await world.settle(120)
    await is_over(world)
    assert watch.one_replica_at_a_time()


async def is_over(world: CliqueWorld) -> None:
    status = (await world.set()).status
    assert status.update_progress is not None
    assert status.update_progress.update_ended_at
    assert status.update_progress.currently_updating == []
    assert (status.updated_replicas, status.outdated_pods_count) == (status.replicas, 0)
    assert world.ready() == len(world.names())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        await asyncio.sleep(0.25)
    raise AssertionError("it never came to that")


def has(world: CliqueWorld, image: str, clique_name: str, count: int = 1) -> Callable[[], bool]:
    return lambda: world.images(clique_name).count(image) >= count


def test_ru_7_to_9_one_pod_of_a_clique_one_replica_of_a_group_and_one_replica_of_the_set_at_a_time() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload("RollingRecreate", replicas=2))
        watch = Watch(world)
        grouped = uids(world) - uids(world, FRONT, "w-1-pc-a")
        await rolled(world, watch, "v2", "pc-a")
        assert watch.least == {FRONT: 1, "w-1-pc-a": 1, GROUP: 2, "w-1-sg-x": 2}, "RU-7"
        assert grouped <= uids(world)
        alone = uids(world, FRONT, "w-1-pc-a")
        await rolled(world, watch, "v2", "pc-b")
        assert watch.least == {FRONT: 2, "w-1-pc-a": 2, GROUP: 1, "w-1-sg-x": 1}, "RU-8"
        assert alone == uids(world, FRONT, "w-1-pc-a")
        await rolled(world, watch, "v3")
        assert set(watch.least.values()) == {1}, "RU-9"
        assert world.images() == ["v3"] * 20

    told(story)


def test_ru_10_without_machines_one_pod_waits_and_the_roll_goes_on_when_they_are_back() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload("RollingRecreate"))
        machines = Machines(world)
        await machines.close_all()
        await world.roll("v2", "pc-a")
        await world.settle(300)
        assert len(world.log.ended) == 1
        (waiting,) = (pod for pod in world.pods() if not is_ready(pod))
        assert waiting["spec"]["containers"][0]["image"] == "v2"
        assert waiting["status"]["phase"] == "Pending"
        await machines.open_all()
        await world.settle(60)
        await is_over(world)

    told(story)


def test_ru_11_to_13_the_set_grows_in_mid_roll_and_shrinks_while_and_after_its_last_replica_is_rolled() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload("RollingRecreate"))
        await world.roll("v2", "pc-a")
        await until(has(world, "v2", FRONT))
        await world.respec({"replicas": 2})
        await until(lambda: world.ready("w-1-pc-a") == 2)
        born = uids(world, "w-1-pc-a")
        assert world.images("w-1-pc-a") == ["v2"] * 2, "RU-11: it is born new"
        await world.settle(60)
        assert uids(world, "w-1-pc-a") == born
        await is_over(world)

        for image, count in (("v3", 1), ("v4", 2)):  # RU-12: one of its two pods is new; RU-13: both are
            await world.respec({"replicas": 2})
            await world.settle(60)
            await world.roll(image, "pc-a")
            await until(has(world, image, "w-1-pc-a", count))
            if count == 2:
                await until(lambda: world.ready("w-1-pc-a") == 2)
            await world.respec({"replicas": 1})
            await world.settle(60)
            await is_over(world)
            assert (world.images(FRONT), world.names("w-1-pc-a")) == ([image] * 2, [])

    told(story)


@pytest.mark.parametrize("during", [True, False], ids=["RU-14", "RU-15"])
def test_ru_14_and_15_a_replica_that_a_group_gets_during_or_before_its_roll_is_born_new(during: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload("RollingRecreate"))
        await world.roll("v2", "pc-b")
        if during:
            await until(has(world, "v2", f"{GROUP}-0-pc-b"))
        await world.scale_group(GROUP, 3)
        await until(lambda: world.ready(f"{GROUP}-2-pc-b") == 1)
        born = uids(world, f"{GROUP}-2-pc-b", f"{GROUP}-2-pc-c")
        assert world.images(f"{GROUP}-2-pc-b") == ["v2"]
        await world.settle(120)
        assert uids(world, f"{GROUP}-2-pc-b", f"{GROUP}-2-pc-c") == born
        await is_over(world)
        found = (await world.client.get(POD_CLIQUE_SCALING_GROUP, GROUP, NS)).status
        assert (found.replicas, found.updated_replicas) == (3, 3)

    told(story)


@pytest.mark.parametrize("during", [True, False], ids=["RU-16", "RU-17"])
def test_ru_16_and_17_a_group_shrinks_during_its_roll_or_before_the_edit(during: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        cliques = (clique("pc-a", 2, minAvailable=1), clique("pc-b", 1), clique("pc-c", 3))
        groups = [group("sg-x", "pc-b", "pc-c", replicas=3, least=2)]
        await began(world, set_of(*cliques, podCliqueScalingGroups=groups))
        watch = Watch(world)
        if not during:
            await world.scale_group(GROUP, 2)
            await world.settle(30)
        await world.roll("v2", "pc-b")
        await until(has(world, "v2", f"{GROUP}-0-pc-b"))
        await world.scale_group(GROUP, 2)
        await world.settle(120)
        await is_over(world)
        assert [world.images(f"{GROUP}-{index}-pc-b") for index in range(3)] == [["v2"], ["v2"], []]
        assert watch.least[GROUP] >= 1

    told(story)


@pytest.mark.parametrize("during", [True, False], ids=["RU-18", "RU-19"])
def test_ru_18_and_19_a_clique_grows_during_its_roll_or_before_the_edit(during: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, workload("RollingRecreate"))
        if not during:
            await world.scale(FRONT, 4)
            await world.settle(30)
        await world.roll("v2", "pc-a")
        await until(has(world, "v2", FRONT))
        before = set(world.names(FRONT))
        await world.scale(FRONT, 4)
        await until(lambda: len(world.names(FRONT)) == 4)
        born = set(world.names(FRONT)) - before
        await world.settle(120)
        await is_over(world)
        assert world.images(FRONT) == ["v2"] * 4
        assert born <= set(world.names(FRONT)), "what was born new is not rolled again"

    told(story)


@pytest.mark.parametrize("during", [True, False], ids=["RU-20", "RU-21"])
def test_ru_20_and_21_a_clique_shrinks_to_its_minimum_during_its_roll_or_before_the_edit(during: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("pc-a", 3, minAvailable=2)))
        watch = Watch(world)
        if not during:
            await world.scale(FRONT, 2)
            await world.settle(30)
        await world.roll("v2")
        await until(has(world, "v2", FRONT))
        await world.scale(FRONT, 2)
        await world.settle(120)
        await is_over(world)
        assert world.images(FRONT) == ["v2"] * 2
        assert watch.least[FRONT] >= 1
        found = (await world.client.get(POD_CLIQUE, FRONT, NS)).status
        assert (found.replicas, found.updated_replicas) == (2, 2)

    told(story)


def test_pods_that_recovered_long_ago_are_not_all_taken_at_once() -> None:
    """Upstream 697, and 765 as a user met it: replicas 2, minAvailable 1, and nobody served."""

    async def story(world: CliqueWorld) -> None:
        await began(world, set_of(clique("pc-a", 2, minAvailable=1)))
        for pod in world.pods():
            (container,) = pod["status"]["containerStatuses"]
            before = {**container, "lastState": {"terminated": {"exitCode": 1}}, "restartCount": 1}
            await world.patch(POD, pod["metadata"]["name"], {"status": {"containerStatuses": [before]}}, "status")
        assert world.ready() == 2
        watch = Watch(world)
        await rolled(world, watch, "v2")
        assert watch.least == {FRONT: 1}

    told(story)
