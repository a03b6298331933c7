"""What a set takes away, and what it does not: a mistake costs no workload, and nothing goes without a word."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.plan import Delete, InOrder, Together
from echelon.engine.rollout import control
from echelon.engine.rollout.removal import MAX_REMOVALS, approve_removal
from echelon.engine.rollout.thresholds import Threshold
from tests.engine.work_set.world import PlacementState, World, progressive, writes_of
from tests.examples import examples

SIX = ["a", "b", "c", "d", "e", "f"]
NOBODY = "No ManagedCluster matches any of the cluster predicate"


def world_of(strategy: dict[str, object] | None = None, clusters: list[str] = SIX) -> World:
    """Return a world in which all clusters work."""
    world = World.of([("", clusters)], strategy)
    for _ in clusters:
        world.settle()
        world.finish()
    world.settle()
    assert world.said("PlacementRolledOut")[:2] == ("True", "Complete")
    world.events.clear()
    return world


def select(world: World, *clusters: str, why: str = "") -> None:
    world.placements["p"] = PlacementState([("", list(clusters))], why=why)


def approve(world: World) -> None:
    held = world.rollout().allocations.removal.held
    world.annotations |= {name: value for name, value in approve_removal(held).items() if value is not None}


def notes(world: World, reason: str) -> list[str]:
    return [each.note for each in world.events if each.reason == reason]


def test_a_placement_that_selects_nobody_any_more_takes_nothing_away() -> None:
    world = world_of()
    select(world, why=NOBODY)
    world.settle()
    assert world.at("1") == SIX
    status, reason, message = world.said("PlacementRolledOut")
    assert (status, reason) == ("False", "RemovalHeld")
    assert f"placement p selects no cluster: {NOBODY}" in message
    assert world.said("PlacementVerified")[:2] == ("False", "PlacementDecisionEmpty")
    (event,) = [each for each in world.events if each.reason == "RemovalHeld"]
    assert event.type == "Warning"
    assert NOBODY in event.note
    assert "a, b, c, d, e, f" in event.note
    assert not notes(world, "RolloutComplete")
    # It is told where the clusters stand, and which works there are.
    assert world.told().summary.total == 6
    rollout = world.told().rollout
    assert rollout is not None
    assert [(each.names, each.reason) for each in rollout.clusters] == [(tuple(SIX), "RemovalHeld")]


def test_what_was_held_is_forgotten_when_clusters_are_selected_again() -> None:
    world = world_of()
    select(world, why=NOBODY)
    world.settle()
    select(world, *SIX)
    world.settle()
    assert world.at("1") == SIX
    assert world.said("PlacementRolledOut")[:2] == ("True", "Complete")
    select(world, *SIX[1:])
    world.settle()
    assert world.at("1") == SIX[1:]


def test_an_approved_removal_goes_and_covers_nobody_else() -> None:
    world = world_of()
    select(world)
    world.settle()
    approve(world)
    world.settle()
    assert world.at("1") == []
    assert world.said("PlacementRolledOut")[:2] == ("False", "PlacementDecisionEmpty")
    assert notes(world, "WorksRemoved") == ["the work of a, b, c, d, e, f is deleted: placement p does not select it"]
    select(world, "x", "y")
    world.settle()
    select(world)
    world.settle()
    assert world.at("1") == ["x", "y"]
    assert world.said("PlacementRolledOut")[:2] == ("False", "RemovalHeld")


def test_the_last_cluster_goes_without_a_word() -> None:
    world = world_of(clusters=["a"])
    select(world)
    world.settle()
    assert world.at("1") == []


def test_a_placement_that_is_to_select_nobody_takes_everything_away() -> None:
    world = world_of()
    world.placements["p"] = PlacementState([("", [])], wanted=0)
    world.settle()
    assert world.at("1") == []


def test_a_placement_that_is_missing_holds_and_shows_the_works_that_exist() -> None:
    world = world_of()
    world.placements.clear()
    world.settle()
    assert world.at("1") == SIX
    assert world.said("PlacementVerified")[:2] == ("False", "PlacementDecisionNotFound")
    status, reason, message = world.said("PlacementRolledOut")
    assert (status, reason) == ("False", "RemovalHeld")
    assert "there is no placement p in namespace apps" in message
    assert world.told().summary.total == 6
    approve(world)
    world.settle()
    assert world.at("1") == []


def test_a_reference_that_is_taken_out_takes_its_clusters_along_unless_its_successor_is_missing() -> None:
    world = world_of()
    world.change(placementRefs=[{"name": "typo", "rolloutStrategy": {"type": "All"}}])
    world.settle()
    assert world.at("1") == SIX
    world.placements["typo"] = PlacementState([("", ["a", "b"])])
    world.settle()
    assert world.at("1") == ["a", "b"]
    assert notes(world, "WorksRemoved") == ["the work of c, d, e, f is deleted: the spec does not refer to p any more"]


def test_a_set_that_is_deleted_goes_whatever_is_selected() -> None:
    world = world_of()
    select(world, why=NOBODY)
    world.annotations[control.PAUSED] = "true"
    world.metadata["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    world.step()
    assert world.at("1") == []
    assert notes(world, "WorksRemoved") == ["the work of a, b, c, d, e, f is deleted: the set is deleted"]


def test_nothing_is_removed_while_paused() -> None:
    world = world_of()
    world.annotations[control.PAUSED] = "true"
    select(world, "a")
    world.settle()
    assert world.at("1") == SIX
    assert "5 are still to lose what they have" in world.said("PlacementRolledOut")[2]
    del world.annotations[control.PAUSED]
    world.settle()
    assert world.at("1") == ["a"]


def test_no_more_clusters_than_allowed_lose_their_works_at_once() -> None:
    world = world_of()
    world.slow = True
    world.annotations[MAX_REMOVALS] = "2"
    select(world, "f")
    world.settle()
    assert world.ending() == ["a", "b"]
    assert world.said("PlacementRolledOut")[:2] == ("False", "Progressing")
    world.end("a")
    world.settle()
    assert world.ending() == ["b", "c"]
    world.end("b", "c")
    world.settle()
    assert world.ending() == ["d", "e"]
    world.end("d", "e")
    world.settle()
    assert world.at("1") == ["f"]
    assert world.said("PlacementRolledOut")[:2] == ("True", "Complete")


def test_the_limit_of_the_controller_holds_where_the_set_says_nothing() -> None:
    world = world_of()
    world.slow = True
    world.max_removals = Threshold(percent=25.0)
    select(world, "f")
    world.settle()
    assert world.ending() == ["a", "b"]


def test_a_limit_that_cannot_be_read_removes_nothing_and_is_named() -> None:
    world = world_of()
    world.annotations[MAX_REMOVALS] = "0"
    select(world, "f")
    world.settle()
    assert world.at("1") == SIX
    assert MAX_REMOVALS in world.said("RolloutBlocked")[2]


def test_a_cluster_that_may_come_back_keeps_its_work_for_a_while() -> None:
    world = world_of()
    world.spared = {"a": world.now + timedelta(seconds=300)}
    select(world, *SIX[1:])
    assert world.plan().look_again_after == timedelta(seconds=300)
    world.settle()
    assert world.at("1") == SIX
    world.wait(300)
    world.settle()
    assert world.at("1") == SIX[1:]


@pytest.mark.parametrize("slow", [False, True])
def test_a_cluster_that_leaves_as_a_failure_stays_one_for_as_long_as_its_work_exists(slow: bool) -> None:
    world = world_of(progressive(maxConcurrency=1, progressDeadline="30s"))
    world.upgrade("2")
    world.settle()
    assert world.at("2") == ["a"]
    world.report("a", degraded="True")
    world.settle()
    assert world.said("RolloutBlocked")[:2] == ("True", "MaxFailuresExceeded")
    world.slow = slow
    world.spared = {"a": world.now + timedelta(seconds=300)}
    select(world, *SIX[1:])
    world.settle()
    assert world.at("2") == ["a"]
    assert world.said("RolloutBlocked")[:2] == ("True", "MaxFailuresExceeded")
    world.wait(300)
    world.step()  # in which its work is deleted
    assert world.said("RolloutBlocked")[:2] == ("True", "MaxFailuresExceeded")
    assert world.at("2") == (["a"] if slow else [])
    world.settle()
    assert world.said("RolloutBlocked")[:2] == (("True", "MaxFailuresExceeded") if slow else ("False", "NotBlocked"))
    if slow:
        world.end("a")
        world.settle()
    assert world.at("2") == ["b"]


def test_a_work_that_goes_is_written_once_although_a_retry_is_due() -> None:
    world = world_of(progressive(maxConcurrency=1, progressDeadline="30s"))
    world.upgrade("2")
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    select(world, *SIX[1:])
    world.annotations["echelon.dev/retried-at"] = world.now.isoformat()
    bursts = [action for action in world.plan().actions if isinstance(action, Together)]
    written = [write.namespace for burst in bursts for write in burst.actions if not isinstance(write, InOrder)]
    assert written.count("a") == 1


def test_a_cluster_that_leaves_while_it_is_fine_is_forgotten() -> None:
    world = world_of(progressive(maxConcurrency=1))
    world.slow = True
    world.upgrade("2")
    world.settle()
    world.report("a")
    world.settle()
    select(world, *SIX[1:])
    world.settle()
    assert world.ending() == ["a"]
    rollout = world.told().rollout
    assert rollout is not None
    assert "a" not in {name for each in rollout.clusters for name in each.names}


def test_a_cluster_of_no_bound_set_starts_nothing_and_loses_nothing() -> None:
    world = world_of()
    world.unbound = {"a", "x"}
    select(world, "b", "x", *SIX[3:])
    world.settle()
    assert world.at("1") == ["a", "b", "d", "e", "f"], "c was deselected"
    status, reason, message = world.said("PlacementVerified")
    assert (status, reason) == ("False", "ClusterNotBound")
    assert message.startswith("x: selected, but in no cluster set that is bound to namespace apps")
    assert world.said("PlacementRolledOut")[:2] == ("False", "RemovalHeld")
    assert notes(world, "ClusterNotBound")
    world.upgrade("2")
    world.settle()
    assert world.at("2") == ["b", "d", "e", "f"]
    world.finish()
    world.unbound = set()
    world.settle()
    world.finish()
    world.settle()
    assert world.at("2") == ["b", "d", "e", "f", "x"]
    assert world.said("PlacementRolledOut")[:2] == ("True", "Complete")


def test_a_reference_that_shares_clusters_comes_to_its_own_total() -> None:
    world = World.of([("", ["a", "b"])])
    world.placements["q"] = PlacementState([("", ["b", "c"])])
    world.spec["placementRefs"].append({"name": "q", "rolloutStrategy": {"type": "All"}})
    world.settle()
    world.finish()
    world.settle()
    texts = [each.available_decision_groups for each in world.told().placement_summary]
    assert texts == ["1 (2 / 2 clusters applied)", "1 (2 / 2 clusters applied)"]
    assert world.told().summary.total == 3


def test_a_set_without_clusters_has_a_summary() -> None:
    world = World.of([("", [])])
    world.settle()
    assert world.status["summary"]["total"] == 0


WORDS = st.fixed_dictionaries(
    {}, optional={control.PAUSED: st.just("true"), MAX_REMOVALS: st.sampled_from(["1", "2", "50%"])}
)


@examples(100)
@given(
    st.lists(st.sampled_from(SIX), unique=True),
    WORDS,
    st.sets(st.sampled_from(SIX)),
    st.sets(st.sampled_from(SIX)),
    st.booleans(),
)
def test_whatever_is_selected_removal_keeps_its_promises(
    selected: list[str], words: dict[str, str], unbound: set[str], spared: set[str], approved: bool
) -> None:
    world = world_of()
    world.slow = True
    select(world, *selected)
    world.annotations |= words
    world.unbound = unbound
    world.spared = dict.fromkeys(spared, world.now + timedelta(seconds=10))
    named = set(world.rollout().allocations.removal.held)
    if approved:
        approve(world)
    limit = {"1": 1, "2": 2, "50%": 3}.get(words.get(MAX_REMOVALS, ""), 6)
    for _ in range(4):
        assert world.plan() == world.plan()
        found = world.step()
        for deletion in writes_of(found, Delete):
            cluster = deletion.namespace
            assert cluster not in selected
            assert control.PAUSED not in words
            assert cluster not in spared
            assert approved or cluster not in named
            assert selected or approved
        assert len(world.ending()) <= limit
        if control.PAUSED in words or (not selected and not approved):
            assert world.at("1") == SIX
