"""The two clocks of a cluster: a deadline that no report moves, and a soak that every relapse starts again."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.rollout.annotations import TURNED_ANNOTATION, WRITTEN_ANNOTATION
from echelon.engine.rollout.model import Phase
from tests.engine.work_set.world import NAME, World, progressive
from tests.examples import examples

BAD: list[dict[str, str]] = [
    {"progressing": "True"},
    {"degraded": "True"},
    {"applied": "False"},
    {"applied": "Unknown"},
    {"progressing": "Unknown"},
    {"progressing": "", "available": "False"},
]


def one(**strategy: Any) -> World:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1, maxFailures=1, **strategy))
    world.settle()
    return world


def phase(world: World, cluster: str = "a") -> Phase:
    decision = world.rollout().references[0].decision
    assert decision is not None
    found = decision.of(cluster)
    assert found is not None
    return found.phase


@examples(60)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(BAD), st.booleans()), max_size=12))
def test_without_a_success_the_deadline_is_that_of_the_write_whatever_is_reported(
    reports: list[tuple[int, dict[str, str], bool]],
) -> None:
    world = one(progressDeadline="100s")
    written = world.now
    for seconds, report, restarts in reports:
        world.wait(seconds)
        world.report("a", **report)
        if restarts:
            world.restart()
        late = world.now - written >= timedelta(seconds=100)
        assert (phase(world) is Phase.TIMED_OUT) == late
        world.settle()


def test_a_cluster_that_flaps_is_timed_out_and_the_others_go_on() -> None:
    world = one(progressDeadline="60s")
    for _ in range(13):
        world.report("a", degraded="True")
        world.settle()
        world.wait(2.5)
        world.report("a", progressing="True")
        world.settle()
        world.wait(2.5)
    world.settle()
    assert phase(world) is Phase.TIMED_OUT
    assert world.at("1") == ["a", "b"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_worked_and_turned_bad_has_its_whole_deadline_from_then(restarts: bool) -> None:
    world = one(progressDeadline="60s", minSuccessTime="1h")
    world.wait(10)
    world.report("a")
    world.settle()
    world.wait(500)
    world.report("a", progressing="True")
    world.settle()
    turned = world.now
    if restarts:
        world.restart()
    for _ in range(5):  # and flaps do not move it either
        world.wait(10)
        world.report("a", degraded="True")
        world.settle()
        assert phase(world) is Phase.FAILED
        world.report("a", progressing="True")
        world.settle()
    assert phase(world) is Phase.PROGRESSING
    world.wait((turned + timedelta(seconds=60) - world.now).total_seconds())
    assert phase(world) is Phase.TIMED_OUT


def test_a_success_that_lasts_costs_no_write_and_a_relapse_one() -> None:
    world = one(progressDeadline="60s", minSuccessTime="1h")
    world.report("a")
    world.settle()
    annotations = world.works["a", NAME]["metadata"]["annotations"]
    assert TURNED_ANNOTATION not in annotations
    world.wait(5)
    world.report("a", progressing="True")
    world.settle()
    assert TURNED_ANNOTATION in world.works["a", NAME]["metadata"]["annotations"]
    world.wait(5)
    world.report("a", degraded="True")
    noted = world.works["a", NAME]["metadata"]["annotations"][TURNED_ANNOTATION]
    world.settle()
    assert world.works["a", NAME]["metadata"]["annotations"][TURNED_ANNOTATION] == noted


def test_the_next_content_starts_with_new_clocks() -> None:
    world = one(progressDeadline="60s", minSuccessTime="1h")
    world.report("a")
    world.settle()
    world.wait(5)
    world.report("a", progressing="True")
    world.settle()
    world.wait(50)
    world.upgrade("2")
    world.settle()
    assert world.at("2") == ["a"]
    assert TURNED_ANNOTATION not in world.works["a", NAME]["metadata"]["annotations"]
    world.wait(50)
    assert phase(world) is Phase.PROGRESSING


def test_a_soak_starts_again_after_a_relapse() -> None:
    world = one(progressDeadline="10m", minSuccessTime="60s")
    world.report("a")
    world.settle()
    world.wait(50)
    world.report("a", progressing="True")
    world.settle()
    world.report("a")
    world.wait(50)
    world.settle()
    assert world.at("1") == ["a"]
    world.wait(10)
    world.settle()
    assert world.at("1") == ["a", "b"]


def test_a_work_of_another_hub_that_is_not_done_gets_a_clock_that_no_flap_moves() -> None:
    world = World.of([("", ["a"])], progressive(progressDeadline="60s"))
    world.add_work("a", "theirs")
    world.report("a", progressing="True")
    world.settle()
    assert WRITTEN_ANNOTATION in world.works["a", "theirs"]["metadata"]["annotations"]
    world.wait(59)
    world.report("a", degraded="True")
    assert phase(world) is Phase.FAILED
    world.wait(1)
    assert phase(world) is Phase.TIMED_OUT


def test_a_retry_gives_a_cluster_that_flaps_one_whole_deadline_more() -> None:
    world = one(progressDeadline="60s")
    world.report("a", degraded="True")
    world.wait(70)
    world.settle()
    world.annotations["echelon.dev/retried-at"] = world.now.isoformat()
    world.settle()
    for _ in range(5):
        world.wait(10)
        world.report("a", progressing="True")
        world.settle()
        assert phase(world) is Phase.PROGRESSING
        world.report("a", degraded="True")
        assert phase(world) is Phase.FAILED
    world.wait(10)
    assert phase(world) is Phase.TIMED_OUT


def test_a_cluster_of_which_nothing_can_be_known_is_in_flight_until_its_deadline() -> None:
    world = World.of([("", ["a", "b"])], progressive(maxConcurrency=1, progressDeadline="60s"))
    world.settle()
    world.report("a", applied="Unknown", available="Unknown", progressing="Unknown", degraded="Unknown")
    world.wait(59)
    world.settle()
    assert phase(world) is Phase.PROGRESSING
    assert world.said("RolloutBlocked")[:2] == ("False", "NotBlocked")
    world.wait(1)
    world.settle()
    assert phase(world) is Phase.TIMED_OUT
    assert world.said("RolloutBlocked")[:2] == ("True", "MaxFailuresExceeded")
