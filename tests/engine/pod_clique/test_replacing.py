"""Pods that are lacking, and pods that have ended."""

from datetime import timedelta

import pytest

from echelon.engine.pod_clique.pod_facts import ENDED_BEFORE
from echelon.engine.pod_clique.replacing import wait_after
from echelon.engine.pod_clique.set_spec import ON_DELETE
from tests.engine.pod_clique.test_on_delete import CLIQUE, POD, SET, images
from tests.engine.pod_clique.world import (
    World,
    clique,
    edit,
    image,
    is_live,
    names,
    pod_clique_set,
    pod_index,
    scale,
    world_of,
)


def one(replicas: int = 3, strategy: str | None = None) -> World:
    return world_of(pod_clique_set([clique("a", replicas, 1)], strategy=strategy))


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_replaced_and_cleared_away(phase: str) -> None:
    """Upstream: it kept its place for ever, and counted as scheduled."""
    world = one()
    gone = world.live("w-0-a")[1]
    world.fail(gone["metadata"]["name"], phase)
    world.settle(5)
    assert len(world.live("w-0-a")) == 2, "not before ten seconds"
    assert world.status(CLIQUE, "w-0-a")["scheduledReplicas"] == 2
    world.settle(20)
    assert [pod_index(pod) for pod in world.live("w-0-a")] == [0, 1, 2]
    assert gone["metadata"]["name"] not in world.of(POD)


def test_an_evicted_pod_comes_back_with_the_new_template_under_on_delete() -> None:
    world = one(strategy=ON_DELETE)
    edit(world, "a", "v2")
    world.settle(2)
    world.fail(names(world.live("w-0-a"))[0])
    world.settle(30)
    assert images(world, "w-0-a") == ["v1", "v1", "v2"]
    assert not [each for each in world.deleted if is_live(each.seen[POD, each.name])]


def test_pods_that_end_again_and_again_are_replaced_more_and_more_slowly() -> None:
    world = one(1)
    waits = []
    for _ in range(7):
        world.fail(names(world.live("w-0-a"))[0])
        failed = world.now
        while not world.live("w-0-a"):
            world.work()
            world.tick()
        waits.append(round((world.now - failed).total_seconds()) - 1)
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    (pod,) = world.live("w-0-a")
    assert pod["metadata"]["annotations"][ENDED_BEFORE] == "7"
    world.settle(700, step=20)
    world.fail(names(world.live("w-0-a"))[0])
    world.settle(15)
    assert len(world.live("w-0-a")) == 1, "one that ran well ends the row"


def test_the_waits_are_between_ten_seconds_and_five_minutes() -> None:
    assert wait_after(0) == timedelta(seconds=10)
    assert wait_after(4) == timedelta(seconds=160)
    assert wait_after(5) == wait_after(9999) == timedelta(minutes=5)


def test_a_plan_says_when_the_next_one_may_be_replaced() -> None:
    world = one()
    world.fail(names(world.live("w-0-a"))[0])
    world.work()
    assert world.plans[-1].look_again_after == timedelta(seconds=10)


def test_a_pod_on_a_dead_node_is_replaced_at_once_under_its_index_and_another_name() -> None:
    world = one()
    lost = world.live("w-0-a")[1]
    world.lost.add(lost["metadata"]["name"])
    world.delete(POD, lost["metadata"]["name"])
    world.settle(10)
    assert [pod_index(pod) for pod in world.live("w-0-a")] == [0, 1, 2]
    assert lost["metadata"]["name"] in world.of(POD)
    assert lost["metadata"]["name"] not in names(world.live("w-0-a"))


def test_after_a_restart_with_terminating_pods_the_same_is_done() -> None:
    """Upstream: an operator that started anew waited for terminating pods to vanish."""
    world = one()
    lost = names(world.live("w-0-a"))
    world.lost.update(lost)
    for name in lost:
        world.delete(POD, name)
    world.forget()
    world.settle(10)
    assert len(world.live("w-0-a")) == 3


def test_holes_are_filled_first_and_each_index_is_held_once() -> None:
    world = one(5)
    for index in (3, 1):
        world.delete(POD, names(world.live("w-0-a"))[index], force=True)
    scale(world, CLIQUE, "w-0-a", 4)
    world.settle(10)
    assert [pod_index(pod) for pod in world.live("w-0-a")] == [0, 1, 2, 4]


def test_the_same_hole_is_never_filled_twice_whoever_plans_from_an_old_view() -> None:
    world = one()
    world.delete(POD, names(world.live("w-0-a"))[0])
    old = dict(world.store)
    world.reconcile()
    world.reconcile(old)
    world.reconcile(old)
    assert sorted(pod_index(pod) for pod in world.live("w-0-a")) == [0, 1, 2]
    assert len(world.live("w-0-a")) == 3


def test_two_pods_of_one_index_or_one_without_an_index_keep_pods_from_being_made_and_it_is_told() -> None:
    world = one()
    stray = {**world.live("w-0-a")[0], "metadata": {**world.live("w-0-a")[0]["metadata"], "name": "w-0-a-stray"}}
    world.create(stray)
    scale(world, CLIQUE, "w-0-a", 6)
    made = len(world.made)
    world.settle(5)
    assert len(world.made) == made
    (error,) = world.status(CLIQUE, "w-0-a")["lastErrors"]
    assert "w-0-a-stray" in error["description"]
    assert len(world.told("PodIndexConflict")) == 1
    world.delete(POD, "w-0-a-stray", force=True)
    world.settle(10)
    assert [pod_index(pod) for pod in world.live("w-0-a")] == [0, 1, 2, 3, 4, 5]
    assert "lastErrors" not in world.status(CLIQUE, "w-0-a")


def test_pods_are_only_made_from_a_set_that_was_read_after_they_went() -> None:
    world = one()
    world.delete(POD, names(world.live("w-0-a"))[0], force=True)
    world.reread = False
    planned = world.reconcile()
    assert planned.read is not None
    assert not planned.empty
    assert len(world.live("w-0-a")) == 2
    world.reread = True
    world.settle(5)
    assert len(world.live("w-0-a")) == 3


def test_an_ended_pod_that_is_not_wanted_any_more_is_cleared_away_at_once() -> None:
    world = one()
    world.fail(names(world.live("w-0-a"))[0])
    scale(world, CLIQUE, "w-0-a", 2)
    world.work()
    assert len(world.of(POD)) == 2
    assert {image(pod) for pod in world.of(POD).values()} == {"v1"}
    assert world.status(SET, "w")["availableReplicas"] == 1
