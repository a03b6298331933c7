"""What a rollout is called where nothing is selected: never complete, and its works are shown."""

import pytest
from tests.engine.work_set.world import PlacementState, World

from echelon.rollouts.picture import COMPLETE, DONE, FINISHED, HELD, MISCONFIGURED, NO_CLUSTERS, Picture, draw


def drawn(world: World) -> Picture:
    return draw(world.rollout().subject, {}, world.now)


def complete() -> World:
    world = World.of([("", ["a", "b"])])
    world.settle()
    world.finish()
    world.settle()
    assert drawn(world).state == COMPLETE
    return world


def test_a_set_that_never_had_clusters_is_over_and_not_complete() -> None:
    picture = drawn(World.of([("", [])]))
    assert picture.state == NO_CLUSTERS
    assert picture.over
    assert picture.state not in (COMPLETE, FINISHED)
    assert picture.message == "placement p selects nobody"


def test_a_placement_that_has_not_decided_yet_is_waited_for() -> None:
    world = World.of([])
    assert not drawn(world).over


@pytest.mark.parametrize("missing", [False, True])
def test_works_that_exist_are_shown_though_nobody_selects_their_clusters(missing: bool) -> None:
    world = complete()
    if missing:
        world.placements.clear()
    else:
        world.placements["p"] = PlacementState([("", [])], why="No ManagedCluster matches")
    picture = drawn(world)
    assert picture.state == HELD
    assert picture.over
    assert picture.counts == {DONE: 2}
    assert ("there is no placement p" if missing else "No ManagedCluster matches") in picture.message


def test_a_placement_that_never_existed_is_a_mistake() -> None:
    world = World.of([])
    world.placements.clear()
    assert drawn(world).state == MISCONFIGURED
