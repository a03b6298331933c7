"""Gangs that are broken for too long, line by line; and when they are left alone."""

import pytest

from echelon.engine.plan import Patch
from echelon.engine.pod_clique.set_spec import ON_DELETE
from tests.engine.pod_clique.oracle import Oracle
from tests.engine.pod_clique.test_on_delete import CLIQUE, GROUP, POD, SET, images, uids
from tests.engine.pod_clique.world import (
    World,
    clique,
    edit,
    group,
    image,
    is_ready,
    names,
    pod_clique_set,
    scale,
    world_of,
)

DELAY = 60


def gang(pc_a: int = 2, *, replicas: int = 2, minimum: int = 2, strategy: str | None = None, sets: int = 1) -> World:
    """Return a set with a standalone clique that tolerates a loss if `pc_a` is 1, and a group."""
    cliques = [clique("pc-a", 2, pc_a), clique("pc-b", 1), clique("pc-c", 2, 2)]
    groups = [group("sg-x", ["pc-b", "pc-c"], replicas, minimum)]
    body = pod_clique_set(cliques, groups, strategy=strategy, replicas=sets, terminationDelay=f"{DELAY}s")
    return world_of(body)


def lose(world: World, clique_name: str, count: int = 1) -> None:
    """Take pods away, and the nodes for others."""
    world.cordoned = True
    for name in names(world.live(clique_name))[:count]:
        world.delete(POD, name)


def owned(world: World, clique_name: str) -> set[str]:
    return {body["metadata"]["uid"] for body in world.live(clique_name)}


def test_gt_1_a_standalone_clique_that_needs_all_of_its_pods_brings_its_replica_down_after_the_delay() -> None:
    world = gang()
    before = uids(world)
    lose(world, "w-0-pc-a")
    world.settle(DELAY - 5)
    assert len(before & uids(world)) == 7
    world.settle(15)
    assert not before & uids(world)
    assert len(world.told("GangTerminated")) == 1
    world.cordoned = False
    world.settle(30)
    assert all(is_ready(pod) for pod in world.of(POD).values())
    assert "podGangStatuses" not in world.status(SET, "w")
    assert world.condition(GROUP, "w-0-sg-x", "GangTerminationInProgress") is None


def test_gt_2_a_loss_inside_a_group_that_needs_all_of_its_replicas_brings_the_whole_replica_down() -> None:
    world = gang()
    before = uids(world)
    lose(world, "w-0-sg-x-1-pc-c")
    world.settle(DELAY + 15)
    assert not before & uids(world)
    assert world.condition(GROUP, "w-0-sg-x", "GangTerminationInProgress") is not None


def test_gt_3_a_first_loss_is_tolerated_and_a_total_loss_is_not() -> None:
    world = gang(pc_a=1)
    before = uids(world)
    lose(world, "w-0-pc-a")
    world.settle(DELAY * 3)
    assert len(before & uids(world)) == 7
    lose(world, "w-0-pc-a", 2)
    world.settle(DELAY + 15)
    assert not before & uids(world)


def test_gt_4_group_replica_first_and_the_set_s_replica_when_too_many_are_down() -> None:
    world = gang(replicas=2, minimum=1)
    first, second = owned(world, "w-0-sg-x-1-pc-c"), owned(world, "w-0-sg-x-0-pc-b")
    alone = owned(world, "w-0-pc-a")
    lose(world, "w-0-sg-x-1-pc-b")
    world.settle(DELAY + 15)
    assert not first & uids(world), "only the broken replica of the group"
    assert second <= uids(world)
    assert alone <= uids(world)
    lose(world, "w-0-sg-x-0-pc-c")
    world.settle(1000, step=5)
    assert not (second | alone) & uids(world)


def test_gt_5_only_the_broken_replica_of_a_group_goes() -> None:
    world = gang(replicas=3, minimum=1)
    kept = {*owned(world, "w-0-pc-a")}
    for index in (0, 2):
        kept |= owned(world, f"w-0-sg-x-{index}-pc-b") | owned(world, f"w-0-sg-x-{index}-pc-c")
    lose(world, "w-0-sg-x-1-pc-b")
    world.settle(DELAY + 15)
    world.cordoned = False
    world.settle(20)
    assert kept <= uids(world)
    assert len(uids(world)) == len(kept) + 3
    assert all(is_ready(pod) for pod in world.of(POD).values())


def test_gt_6_a_loss_that_leaves_enough_is_replaced_one_for_one() -> None:
    cliques = [clique("pc-a", 1), clique("pc-b", 2, 1)]
    body = pod_clique_set(cliques, [group("sg-x", ["pc-b"], 3, 1)], terminationDelay=f"{DELAY}s")
    world = world_of(body)
    before = uids(world)
    lose(world, "w-0-sg-x-2-pc-b")
    world.settle(DELAY * 3)
    assert len(before & uids(world)) == len(before) - 1
    assert len(world.live("w-0-sg-x-2-pc-b")) == 2


def test_what_never_had_its_nodes_is_not_terminated() -> None:
    """However slow the first look at it was: upstream went by five seconds after its creation."""
    body = pod_clique_set([clique("pc-a", 2, 2)], terminationDelay=f"{DELAY}s")
    world = world_of(body, settled=False)
    world.cordoned = True
    world.refuse = lambda write: isinstance(write, Patch) and write.subresource == "status"
    while not world.of(CLIQUE):
        world.reconcile()
    world.tick(30)
    world.refuse = lambda _: False
    world.settle(DELAY * 5)
    assert not world.told("GangTerminated")
    found = world.condition(CLIQUE, "w-0-pc-a", "MinAvailableBreached")
    assert found is not None
    assert found["reason"] == "ScheduledReplicasBelowMinAvailable"


def test_each_breach_starts_the_clock_anew() -> None:
    world = gang()
    for _ in range(3):
        lose(world, "w-0-pc-a")
        world.settle(DELAY - 10)
        world.cordoned = False
        world.settle(15)
    assert not world.told("GangTerminated")


def test_a_terminated_gang_is_not_terminated_again_until_it_got_its_nodes() -> None:
    world = gang()
    lose(world, "w-0-pc-a")
    world.settle(DELAY * 8)
    assert len(world.told("GangTerminated")) == 1
    world.cordoned = False
    world.sick.add("v1")
    world.settle(DELAY + 40)
    assert len(world.told("GangTerminated")) == 2, "it has its nodes and still does not work"


def test_one_gang_is_terminated_at_a_time() -> None:
    world = gang(sets=3)
    oracle = Oracle(world)
    for replica in range(3):
        lose(world, f"w-{replica}-pc-a")
    world.settle(DELAY + 60)
    assert len(world.told("GangTerminated")) == 1
    world.settle(700, step=10)
    assert len(world.told("GangTerminated")) == 2, "the next one when the first is not waited for any longer"
    world.cordoned = False
    world.settle(60)
    assert all(is_ready(pod) for pod in world.of(POD).values())
    assert not oracle.faults


def test_sizes_that_people_chose_survive_a_termination() -> None:
    """Upstream 826: cliques came back from the template, and lost them."""
    world = gang(pc_a=1)
    scale(world, CLIQUE, "w-0-pc-a", 4)
    world.settle(15)
    lose(world, "w-0-sg-x-0-pc-b")
    world.settle(DELAY + 10)
    assert world.told("GangTerminated")
    world.cordoned = False
    world.settle(30)
    assert len(world.live("w-0-pc-a")) == 4


@pytest.mark.parametrize("annotation", [None, "always", "alwyas"])
def test_under_on_delete_an_edit_that_no_node_takes_does_not_become_a_restart_of_everything(
    annotation: str | None,
) -> None:
    world = gang(strategy=ON_DELETE)
    world.patch(SET, "w", {"metadata": {"annotations": {"echelon.dev/gang-termination": annotation}}})
    before = uids(world)
    world.homeless.add("v2")
    edit(world, "pc-a", "v2")
    world.settle(3)
    world.delete(POD, names(world.live("w-0-pc-a"))[0])
    world.settle(DELAY * 3)
    if annotation == "always":
        assert not before & uids(world)
        return
    assert len(before & uids(world)) == 7
    assert len(world.told("GangTerminationHeld")) == 1
    assert ("alwyas" in world.told("GangTerminationHeld")[0].note) == (annotation == "alwyas")
    assert world.status(SET, "w")["podGangStatuses"][0]["conditions"][0]["type"] == "GangTerminationHeld"
    world.homeless.clear()
    world.settle(20)
    assert "podGangStatuses" not in world.status(SET, "w")
    assert images(world, "w-0-pc-a") == ["v1", "v2"]


def test_under_on_delete_what_is_lost_on_the_template_that_worked_is_terminated() -> None:
    world = gang(strategy=ON_DELETE)
    before = uids(world)
    lose(world, "w-0-pc-a")
    world.settle(DELAY + 15)
    assert not before & uids(world)


def test_all_scheduled_pods_lost_is_told_once() -> None:
    world = gang(pc_a=1)
    lose(world, "w-0-pc-a", 2)
    world.settle(10)
    assert len(world.told("AllScheduledReplicasLost")) == 1
    assert not [event for event in world.events if event.reason == "AllScheduledReplicasLost" and "pc-b" in event.note]


def test_a_pod_that_starts_counts_as_healthy_and_one_that_has_started_and_is_not_ready_does_not() -> None:
    world = gang()
    world.starts_in = 500
    for name in names(world.live("w-0-pc-a")):
        world.delete(POD, name)
    world.settle(DELAY + 20)
    assert not world.told("GangTerminated")
    found = world.condition(CLIQUE, "w-0-pc-a", "MinAvailableBreached")
    assert found is not None
    assert found["status"] == "False"
    assert {image(pod) for pod in world.of(POD).values()} == {"v1"}
