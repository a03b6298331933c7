"""Decisions that are being rewritten by somebody who does not care for readers: clusters are in none for a while.

Upstream deletes slices and makes them again, and moves clusters by taking them out first. What the placement's status
says about the size of its groups is all there is to notice it by.
"""

from datetime import timedelta

from echelon.engine.plan import Delete
from echelon.engine.rollout.failed_writes import FAILED_WRITES, FailedWrite, decode
from echelon.engine.rollout.subject import WriteOutcomes
from tests.engine.work_set.world import PlacementState, World, per_group, progressive, writes_of

THREE = [("", ["a", "b"]), ("", ["c", "d"]), ("", ["e", "f"])]
CANARY: dict[str, object] = {"mandatoryDecisionGroups": [{"groupIndex": 0}]}


def world_of(strategy: dict[str, object]) -> World:
    """Return a world in which all clusters work with version 1."""
    world = World.of(THREE, {"type": "All"})
    world.settle()
    world.finish()
    world.spec["placementRefs"][0]["rolloutStrategy"] = strategy
    world.settle()
    world.upgrade("2")
    return world


def lose(world: World, *lost: int) -> None:
    """Take slices away, of which the placement's status still speaks."""
    world.placements["p"].lost = frozenset(lost)


def test_a_later_group_does_not_begin_while_the_group_before_it_is_in_no_decision() -> None:
    for strategy in (per_group(), progressive(maxConcurrency=2, **CANARY)):
        world = world_of(strategy)
        lose(world, 0)
        world.settle()
        assert world.at("2") == []
        lose(world)
        world.settle()
        assert world.at("2") == ["a", "b"]


def test_a_later_group_does_not_begin_while_clusters_in_flight_are_in_no_decision() -> None:
    for strategy in (per_group(), progressive(maxConcurrency=2, **CANARY)):
        world = world_of(strategy)
        world.settle()
        lose(world, 0)
        world.settle()
        assert world.at("2") == ["a", "b"]
        world.finish()
        world.settle()
        assert world.at("2") == ["a", "b"], "there may be others in that group"
        lose(world)
        world.settle()
        assert world.at("2") == ["a", "b", "c", "d"]


def test_the_groups_before_one_that_is_not_all_there_go_on() -> None:
    world = world_of(per_group())
    lose(world, 1)
    world.settle()
    assert world.at("2") == ["a", "b"]
    world.finish()
    world.settle()
    assert world.at("2") == ["a", "b"]
    assert "group 1 has more clusters than are decided; no group after it begins" in world.said("PlacementVerified")[2]
    rollout = world.told().rollout
    assert rollout is not None
    assert "group 1" in next(each.message for each in rollout.clusters if "e" in each.names)
    lose(world, 2)
    world.settle()
    assert world.at("2") == ["a", "b", "c", "d"]


def test_a_window_over_all_groups_moves_on_whatever_is_missing() -> None:
    world = world_of(progressive(maxConcurrency=3))
    world.settle()
    assert world.at("2") == ["a", "b", "c"]
    lose(world, 0)
    world.settle()
    assert world.at("2") == ["a", "b", "c"]
    world.report("c")
    world.settle()
    assert world.at("2") == ["a", "b", "c", "d"]


def test_a_placement_that_does_not_tell_of_its_groups_holds_nobody_back() -> None:
    world = world_of(per_group())
    world.placements["p"].silent = True
    world.settle()
    world.finish()
    world.settle()
    assert world.at("2") == ["a", "b", "c", "d"]


def shifted() -> World:
    """Return a world in which a cluster came and one is to go, and the first of the slices that shift is written.

    All numbers are as they were, and b is on its way from the first group to the second.
    """
    world = world_of(per_group())
    world.settle()
    world.report("a")
    world.settle()
    world.placements["p"].groups = [("", ["a", "x"]), ("", ["c", "d"]), ("", ["e", "f"])]
    world.placements["p"].doubtful = True
    return world


def test_clusters_in_flight_count_in_the_group_where_they_were_last_while_decisions_may_be_rewritten() -> None:
    world = shifted()
    world.settle()
    world.report("x")
    world.settle()
    assert world.at("2") == ["a", "b", "x"], "b is in flight"
    world.report("b")
    world.settle()
    assert world.at("2") == ["a", "b", "c", "d", "x"]


def test_nothing_is_deleted_while_decisions_may_be_rewritten() -> None:
    world = shifted()
    found = world.step()
    assert not writes_of(found, Delete)
    assert found.look_again_after is not None
    world.settle()
    world.placements["p"].doubtful = False
    assert [each.namespace for each in writes_of(world.plan(), Delete)] == ["b"]


def test_a_window_counts_those_in_flight_that_are_in_no_decision_while_decisions_may_be_rewritten() -> None:
    world = world_of(progressive(maxConcurrency=1))
    world.settle()
    assert world.at("2") == ["a"]
    world.placements["p"] = PlacementState([("", ["b", "x"]), ("", ["c", "d"]), ("", ["e", "f"])], doubtful=True)
    world.settle()
    assert world.at("2") == ["a"]
    world.report("a")
    world.settle()
    assert world.at("2") == ["a", "b"]


def test_a_cluster_that_nobody_lists_is_not_written_also_if_it_missed_its_deadline() -> None:
    for doubtful in (False, True):
        world = World.of([("", ["a", "b"])], progressive(maxConcurrency=2, maxFailures=2, progressDeadline="30s"))
        world.settle()
        world.wait(31)
        world.upgrade("2")
        world.placements["p"] = PlacementState([("", ["b", "x"])], settled=doubtful, doubtful=doubtful)
        world.settle()
        assert world.at("2") == ["b", "x"]
        assert world.at("1") == ["a"]


def refuse(world: World, cluster: str) -> None:
    """Let the server refuse the work of a cluster; what is known of that afterwards is what the set itself says."""
    refused = FailedWrite(world.rollout().revision, world.now, True, "no")
    later = world.now + timedelta(hours=1)
    world.outcomes = WriteOutcomes({cluster: refused}, next_try=later)
    world.settle()
    world.outcomes = WriteOutcomes(decode(world.annotations[FAILED_WRITES]), next_try=later)


def test_what_stopped_a_rollout_is_remembered_while_its_cluster_is_in_no_decision() -> None:
    world = World.of(THREE, per_group(maxConcurrency=1))
    refuse(world, "a")
    assert world.at("1") == []
    for lost in ((0,), (0, 1, 2)):
        lose(world, *lost)
        world.settle()
        assert "RolloutBlocked" in [each.type for each in world.told().conditions if each.status == "True"]
        assert list(decode(world.annotations[FAILED_WRITES])) == ["a"]
        assert world.at("1") == []
    lose(world)
    world.settle()
    assert world.said("RolloutBlocked")[:2] == ("True", "MaxFailuresExceeded")


def test_what_failed_on_a_cluster_that_nobody_selects_any_more_is_forgotten_when_that_is_certain() -> None:
    world = World.of(THREE, per_group())
    refuse(world, "a")
    world.placements["p"].groups = [("", ["b"]), ("", ["c", "d"]), ("", ["e", "f"])]
    world.settle()
    assert FAILED_WRITES not in world.annotations
    assert world.at("1") == ["b"]


def test_a_failure_belongs_to_the_placement_where_its_cluster_was_last() -> None:
    world = World.of(THREE, per_group(maxConcurrency=1))
    world.placements["q"] = PlacementState([("", ["x", "y"])])
    world.spec["placementRefs"].append({"name": "q", "rolloutStrategy": per_group(maxConcurrency=1)})
    refuse(world, "x")
    lose(world, 0)
    world.placements["q"].groups = [("", ["y"])]
    world.step()
    assert FAILED_WRITES not in world.annotations, "q is certain that it does not want it"
    assert "y" in world.at("1")
