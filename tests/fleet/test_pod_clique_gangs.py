"""Gangs that are broken for too long, on a simulated cluster; and what becomes of pods when a set or its keeper goes.

GT are the numbers of the stories in `tests/engine/pod_clique/checklist.py`. A machine is withheld by closing all of
them before a pod is deleted.
"""

from dataclasses import replace
from typing import Any

import pytest

from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import POD, SECRET, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.podgangs import POD_GANG
from echelon.api.service_accounts import SERVICE_ACCOUNT
from tests.controllers import clique_world
from tests.controllers.clique_world import NS, CliqueWorld, clique, group, is_ready, set_of
from tests.fleet.clique_stories import Machines, uids
from tests.fleet.test_pod_cliques import began, told

DELAY = 60.0
FRONT, GROUP = "w-0-pc-a", "w-0-sg-x"


def gang(least: int = 2, *, replicas: int = 2, group_least: int = 2, members: int = 2, strategy: str = "") -> Any:
    """Return a set whose standalone clique needs so many of its two pods, and whose group so many of its replicas."""
    cliques = (clique("pc-a", 2, minAvailable=least), clique("pc-b", 1), clique("pc-c", 2, minAvailable=members))
    groups = [group("sg-x", "pc-b", "pc-c", replicas=replicas, least=group_least)]
    return set_of(*cliques, strategy=strategy, terminationDelay=f"{DELAY:.0f}s", podCliqueScalingGroups=groups)


async def lose(world: CliqueWorld, clique_name: str, count: int = 1) -> None:
    """Take pods away, and the machines for others."""
    await Machines(world).close_all()
    await world.delete(*world.names(clique_name)[:count])


async def recovered(world: CliqueWorld) -> None:
    await Machines(world).open_all()
    await world.settle(60)
    assert world.ready() == len(world.names())
    assert (await world.set()).status.available_replicas == 1


async def terminations(world: CliqueWorld) -> int:
    return [reason for reason, _ in await world.events()].count("GangTerminated")


@pytest.mark.parametrize("lost", [FRONT, f"{GROUP}-1-pc-c"], ids=["GT-1", "GT-2"])
def test_gt_1_and_2_a_loss_that_nothing_tolerates_brings_the_whole_replica_down_after_the_delay(lost: str) -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, gang())
        before = uids(world)
        await lose(world, lost)
        await world.settle(DELAY - 10)
        assert len(before & uids(world)) == len(before) - 1, "not before the delay is over"
        await world.settle(20)
        assert not before & uids(world)
        assert await terminations(world) == 1
        await recovered(world)
        assert await terminations(world) == 1

    told(story)


def test_gt_3_a_first_loss_is_tolerated_and_a_total_loss_is_not() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, gang(least=1))
        before = uids(world)
        await lose(world, FRONT)
        await world.settle(DELAY * 3)
        assert len(before & uids(world)) == len(before) - 1
        await lose(world, FRONT, 2)
        await world.settle(DELAY + 20)
        assert not before & uids(world)
        await recovered(world)

    told(story)


def test_gt_4_a_replica_of_the_group_goes_first_and_the_replica_of_the_set_when_none_is_left() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, gang(group_least=1))
        first, others = uids(world, f"{GROUP}-1-pc-b", f"{GROUP}-1-pc-c"), uids(world, FRONT, f"{GROUP}-0-pc-b")
        await lose(world, f"{GROUP}-1-pc-c")
        await world.settle(DELAY + 20)
        assert not first & uids(world)
        assert others <= uids(world), "only the broken replica of the group"
        await lose(world, f"{GROUP}-0-pc-c")
        await world.settle(DELAY + 700)  # the next gang goes when nobody waits for the first one any more
        assert not others & uids(world)
        await recovered(world)

    told(story)


def test_gt_5_and_6_only_the_broken_replica_goes_and_a_loss_that_leaves_enough_is_replaced_one_for_one() -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, gang(replicas=3, group_least=1, members=1))
        before = uids(world)
        await lose(world, f"{GROUP}-2-pc-c")
        await world.settle(DELAY * 3)
        assert len(before & uids(world)) == len(before) - 1, "GT-6: one pod of a further gang, which has enough"
        assert len(world.names(f"{GROUP}-2-pc-c")) == 2
        await recovered(world)
        broken = uids(world, f"{GROUP}-1-pc-b", f"{GROUP}-1-pc-c")
        kept = uids(world) - broken
        await lose(world, f"{GROUP}-1-pc-b")
        await world.settle(DELAY + 20)
        assert not broken & uids(world), "GT-5"
        await recovered(world)
        assert kept < uids(world)
        assert await terminations(world) == 1

    told(story)


@pytest.mark.parametrize("always", [False, True])
def test_under_on_delete_an_edit_that_no_machine_takes_does_not_become_a_restart_of_everything(always: bool) -> None:
    async def story(world: CliqueWorld) -> None:
        await began(world, gang(strategy="OnDelete"))
        if always:
            note = {"metadata": {"annotations": {"echelon.dev/gang-termination": "always"}}}
            await world.patch(POD_CLIQUE_SET, "w", note)
        before = uids(world)

        def choosy(spec: Any) -> None:
            spec["template"]["cliques"][0]["spec"]["podSpec"]["nodeSelector"] = {"disk": "none"}

        await world.edit(choosy)
        await world.settle()
        await world.delete(world.names(FRONT)[0])
        await world.settle(DELAY * 3)
        told_of = [reason for reason, _ in await world.events()]
        assert (len(before & uids(world)), told_of.count("GangTerminationHeld")) == (
            (0, 0) if always else (len(before) - 1, 1)
        )

    told(story)


def test_deleting_a_set_removes_the_whole_tree() -> None:
    async def story(world: CliqueWorld) -> None:
        spec = gang()
        spec["template"]["cliqueStartupType"] = "CliqueStartupTypeInOrder"
        await began(world, spec)
        kinds: tuple[Kind[Any], ...] = (POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_GANG, POD)
        kinds += (SERVICE, SERVICE_ACCOUNT, SECRET, CONTROLLER_REVISION)
        assert all([(await world.client.list(kind, NS)).items for kind in kinds])
        await world.delete("w", kind=POD_CLIQUE_SET)
        await world.settle()
        for kind in kinds:
            assert (await world.client.list(kind, NS)).items == []

    told(story)


def test_another_version_of_the_controller_keeps_every_pod_and_only_new_ones_get_its_waiter() -> None:
    async def story(world: CliqueWorld) -> None:
        world.start()
        cliques = (clique("pc-a", 2), clique("pc-b", 2))
        await world.apply(set_of(*cliques, cliqueStartupType="CliqueStartupTypeInOrder"))
        await world.settle()
        before = uids(world)
        world.settings = replace(world.settings, init_image="wait:next")
        await world.restart()
        await world.settle()
        assert uids(world) == before
        status = (await world.set()).status
        assert (status.updated_replicas, status.outdated_pods_count, status.update_progress) == (1, 0, None)
        gone = world.names("w-0-pc-b")[0]
        await world.delete(gone)
        await world.settle()
        waiters = sorted(pod["spec"]["initContainers"][-1]["image"] for pod in world.pods("w-0-pc-b"))
        assert waiters == ["wait", "wait:next"]
        assert all(map(is_ready, world.pods()))

    clique_world.told(story)
