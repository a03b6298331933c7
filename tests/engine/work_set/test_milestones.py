"""What a revision has gone through outlives whatever happens afterwards: completion, and a stop that is final."""

from datetime import timedelta

import pytest

from echelon.engine.rollout import control
from tests.engine.work_set.world import World, per_group, progressive

BLOCKED, ROLLED_OUT = "RolloutBlocked", "PlacementRolledOut"


def done(world: World) -> World:
    """Let a rollout come to its end."""
    for _ in range(8):
        world.finish()
        world.settle()
    assert world.said(ROLLED_OUT)[0] == "True"
    world.wait(60)
    return world


@pytest.mark.parametrize("bad", [{"progressing": "True"}, {"degraded": "True"}, {"applied": "False"}])
@pytest.mark.parametrize(
    "strategy",
    [
        progressive(maxConcurrency=1, progressDeadline="60s", minSuccessTime="10s"),
        per_group(mandatoryDecisionGroups=[{"groupName": "canary"}]),
    ],
)
def test_trouble_after_the_end_is_told_and_is_no_breach(strategy: dict[str, object], bad: dict[str, str]) -> None:
    world = World.of([("canary", ["a"]), ("", ["b", "c"])], strategy)
    for _ in range(8):
        world.finish()
        world.wait(20)
        world.settle()
    assert world.said(ROLLED_OUT)[0] == "True"
    world.report("a", **bad)
    for _ in range(3):
        world.restart()
        world.settle()
        assert world.said(ROLLED_OUT)[0] == "False"
        assert world.said(BLOCKED)[:2] == ("False", "NotBlocked")
        world.wait(100)
    world.placements["p"].groups[1][1].append("d")
    world.settle()
    assert "d" in world.at("1"), "who comes later is served although a has failed"
    world.report("a", "d")
    world.settle()
    world.wait(20)
    world.settle()
    assert world.said(ROLLED_OUT)[0] == "True"


def test_drift_takes_no_place_from_those_who_come_later_and_their_own_failures_count() -> None:
    world = done(World.of([("", ["a", "b"])], progressive(maxConcurrency=1, minSuccessTime="0")))
    world.report("a", progressing="True")
    world.placements["p"].groups[0][1].extend(["c", "d"])
    world.settle()
    assert world.at("1") == ["a", "b", "c"], "one at a time"
    world.report("c", degraded="True")
    world.settle()
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")
    assert world.at("1") == ["a", "b", "c"]


def test_drift_and_its_repair_cost_no_write_but_the_status() -> None:
    world = done(World.of([("", ["a", "b"])], progressive(maxConcurrency=1)))
    for report in ({"progressing": "True"}, {}):
        world.report("a", **report)
        found = world.plan()
        assert found.actions == ()
        world.settle()
    assert [each.reason for each in world.events].count("RolloutComplete") == 1


def test_a_work_that_is_written_anew_is_part_of_the_rollout_again() -> None:
    world = done(World.of([("", ["a", "b"])], progressive(maxConcurrency=1)))
    del world.works["a", "web"]
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")


def test_going_back_to_a_revision_that_was_complete_is_a_rollout_like_any_other() -> None:
    world = done(World.of([("", ["a", "b"])], progressive(maxConcurrency=1)))
    world.upgrade("2")
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    world.wait(1)
    world.upgrade("1")
    world.settle()
    assert world.at("1") == ["a", "b"]
    world.report("a", degraded="True")
    world.settle()
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")
    assert not world.rollout().was_complete
    assert done(world)
    assert world.rollout().was_complete


def test_an_abort_of_what_is_complete_does_nothing_and_is_told_once() -> None:
    world = done(World.of([("", ["a", "b"])], {"type": "All"}))
    world.upgrade("2")
    world.settle()
    done(world)
    world.annotations[control.ABORTED] = world.view().content.digest
    world.settle()
    assert world.at("2") == ["a", "b"]
    assert world.said(BLOCKED)[:2] == ("False", "NotBlocked")
    assert "undo" in world.said(BLOCKED)[2]
    assert world.said(ROLLED_OUT)[0] == "True"
    world.report("a", degraded="True")  # nor when a cluster falls ill, or comes
    world.placements["p"].groups[0][1].append("c")
    world.restart()
    world.settle()
    assert world.at("2") == ["a", "b", "c"]
    assert [each.reason for each in world.events].count("AbortIgnored") == 1


def stopped(on_breach: str | None = "stop") -> World:
    """Return a world that stopped because of a cluster, which then was mended."""
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=1))
    if on_breach is not None:
        world.annotations[control.ON_BREACH] = on_breach
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")
    assert "(a)" in world.said(BLOCKED)[2]
    world.wait(60)
    world.report("a")
    world.restart()
    world.settle()
    return world


@pytest.mark.parametrize("on_breach", [None, "wait"])
def test_a_rollout_goes_on_when_the_failed_cluster_recovers(on_breach: str | None) -> None:
    assert stopped(on_breach).at("1") == ["a", "b"]


def test_a_stop_can_be_final_whatever_becomes_of_the_failed_cluster() -> None:
    world = stopped()
    assert world.at("1") == ["a"]
    assert world.said(BLOCKED)[:2] == ("True", "MaxFailuresExceeded")
    assert "final" in world.said(BLOCKED)[2]
    assert world.plan().empty
    world.change(revisionHistoryLimit=5)  # which is no new revision
    world.settle()
    assert world.at("1") == ["a"]


@pytest.mark.parametrize("word", ["retry", "resume", "wait", "revision"])
def test_a_final_stop_ends_with_a_word_or_a_new_revision(word: str) -> None:
    world = stopped()
    world.wait(1)
    if word == "revision":
        world.upgrade("2")
    elif word == "wait":
        world.annotations[control.ON_BREACH] = "wait"
    else:
        told = control.retry(world.now) if word == "retry" else control.resume(world.now)
        world.annotations |= {name: value for name, value in told.items() if value is not None}
    world.settle()
    assert world.at("2") == ["a"] if word == "revision" else world.at("1") == ["a", "b"]
    assert world.said(BLOCKED)[:2] == ("False", "NotBlocked")


@pytest.mark.parametrize("ahead", [0, 3600])
def test_a_resumed_rollout_in_which_too_many_still_fail_stops_again(ahead: int) -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1))
    world.annotations[control.ON_BREACH] = "stop"
    world.settle()
    world.report("a", degraded="True")
    world.settle()
    world.wait(1)
    resumed = control.resume(world.now + timedelta(seconds=ahead))[control.RESUMED]
    world.annotations[control.RESUMED] = str(resumed)
    world.settle()
    assert world.plan().empty, "whatever the clock of whoever resumed it says"
    world.report("a")
    world.settle()
    assert world.at("1") == ["a"]


def test_what_a_zero_stands_for_is_said_once() -> None:
    world = World.of([("", ["a", "b", "c"])], progressive(maxConcurrency=0))
    world.settle()
    assert world.at("1") == ["a", "b", "c"]
    assert "maxConcurrency is 0" in world.said("PlacementVerified")[2]
    assert "3 at a time" in world.said("PlacementVerified")[2]
    world.spec["placementRefs"].append({"name": "missing"})  # whose trouble is told instead
    world.finish()
    world.settle()
    world.step()
    assert [each.reason for each in world.events].count("ConcurrencyNotLimited") == 1
