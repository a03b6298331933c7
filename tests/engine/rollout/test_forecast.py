"""The coming waves."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.forecast import Wave, forecast
from echelon.engine.rollout.model import ClusterStatus, Control, Phase, Wait
from echelon.engine.rollout.strategy import Strategy
from echelon.engine.rollout.walk import decide
from tests.engine.rollout.drawing import ROLLOUTS, Rollout
from tests.engine.rollout.notation import NOW, groups_of, reports_of, seconds, strategy_of

WINDOW, STEPS = "Progressive", "ProgressivePerGroup"
MINUTE = seconds(60)


def foretold(strategy: Strategy, groups: str, reports: str = "", control: Control | None = None) -> list[str]:
    """Waves as `60 a,b`, and the end as `180 finished`, with clusters that take a minute."""
    waves = forecast(
        strategy, groups_of(groups), reports_of(reports), NOW, control or Control(), duration=timedelta(minutes=1)
    )
    return [f"{wave.after.total_seconds():.0f} {','.join(wave.starts) or wave.message}" for wave in waves]


def test_a_window_moves_on_as_clusters_succeed_and_soak() -> None:
    strategy = strategy_of(WINDOW, maxConcurrency=2, minSuccessTime="30s")
    assert foretold(strategy, "1 2 3 4 5") == ["0 1,2", "90 3,4", "180 5", "270 finished"]


def test_groups_go_one_after_the_other() -> None:
    assert foretold(strategy_of(STEPS), "1 2 / 3 / 4") == ["0 1,2", "60 3", "120 4", "180 finished"]


def test_mandatory_groups_go_first() -> None:
    strategy = strategy_of(WINDOW, first=["west"], maxConcurrency=1)
    assert foretold(strategy, "1 2 / west: 3 4") == ["0 3,4", "60 1", "120 2", "180 finished"]


def test_what_is_in_flight_takes_what_is_left_of_its_time() -> None:
    strategy = strategy_of(WINDOW, maxConcurrency=2, minSuccessTime="30s")
    assert foretold(strategy, "1 2 3 4", "1P-40 2S-10") == ["20 3", "50 4", "140 finished"]


def test_a_wave_names_its_groups() -> None:
    waves = forecast(strategy_of("All"), groups_of("a: 1 / 2"), [], NOW)
    assert waves[0] == Wave(timedelta(), ("1", "2"), (GroupKey(0, "a"), GroupKey(1)))


def test_a_finished_rollout_ends_now() -> None:
    assert foretold(strategy_of(STEPS), "1 / 2", "1S 2K") == ["0 finished"]


@pytest.mark.parametrize(
    ("control", "wait"), [(Control(paused=True), Wait.PAUSED), (Control(aborted=True), Wait.ABORTED)]
)
def test_a_word_of_people_is_the_end(control: Control, wait: Wait) -> None:
    (end,) = forecast(strategy_of(STEPS), groups_of("1 / 2"), [], NOW, control)
    assert (end.starts, end.wait) == ((), wait)
    assert end.message


def test_a_pause_of_what_is_done_keeps_nobody() -> None:
    assert foretold(strategy_of(STEPS), "1 / 2", "1S 2S", Control(paused=True)) == ["0 finished"]


def test_a_group_without_approval_is_the_end_after_those_before_it() -> None:
    gated = Control(gated=frozenset({"prod"}))
    assert foretold(strategy_of(STEPS), "1 / prod: 2 / 3", control=gated) == [
        "0 1",
        "60 awaits approval of group prod (1)",
    ]


def test_in_a_window_the_others_go_on_without_an_approval() -> None:
    gated = Control(gated=frozenset({"prod"}))
    assert foretold(strategy_of(WINDOW, maxConcurrency=1), "1 / prod: 2 / 3", control=gated) == [
        "0 1",
        "60 3",
        "120 awaits approval of group prod (1)",
    ]


def test_a_breach_is_the_end() -> None:
    assert foretold(strategy_of(WINDOW), "1 2", "1F") == ["0 no further cluster starts: 1 failure (1), none tolerated"]


def test_a_breach_further_on_is_the_end_when_the_rollout_gets_there() -> None:
    assert foretold(strategy_of(STEPS), "1 / 2 / 3", "2T") == [
        "0 1",
        "60 no further cluster starts: 1 failure in group 1 (2), none tolerated",
    ]


def test_failures_that_keep_their_slots_for_ever_are_the_end() -> None:
    strategy = strategy_of(WINDOW, maxConcurrency=2, maxFailures="100%")
    assert foretold(strategy, "1 2 3", "1F 2F") == ["0 waits for a slot: 2 of 2 are in flight, 2 of them failed"]


def test_failures_leave_their_slots_at_the_deadline() -> None:
    strategy = strategy_of(WINDOW, maxConcurrency=1, maxFailures=1, progressDeadline="100s")
    assert foretold(strategy, "1 2", "1F-60") == ["40 2", "100 finished"]


def test_no_cluster_takes_longer_than_its_deadline() -> None:
    strategy = strategy_of(WINDOW, maxConcurrency=1, progressDeadline="30s")
    assert foretold(strategy, "1 2") == ["0 1", "30 2", "60 finished"]


def test_ten_thousand_waves_are_foretold_to_the_end() -> None:
    names = " ".join(f"{number:05d}" for number in range(10_000))
    waves = forecast(strategy_of(WINDOW, maxConcurrency=1), groups_of(names), [], NOW, duration=MINUTE)
    assert len(waves) == 10_001
    assert waves[-1] == Wave(timedelta(minutes=10_000), message="finished")


def lived_through(rollout: Rollout) -> list[Any]:
    """The same by deciding again and again, each time that a cluster is done or a soak or a deadline ends."""
    known = {one.cluster: ClusterStatus(one.cluster, one.phase, one.since or NOW) for one in rollout.statuses}
    now, waves = NOW, []
    while True:
        for name, one in known.items():
            done = (one.since or NOW) + MINUTE
            if one.phase is Phase.PROGRESSING and done <= now:
                known[name] = ClusterStatus(name, Phase.SUCCEEDED, max(done, NOW))
        decision = decide(rollout.strategy, rollout.groups, known.values(), now, rollout.control)
        starts = {one.cluster for one in decision.to_start}
        if starts:
            waves.append((now - NOW, starts))
            known.update({name: ClusterStatus(name, Phase.PROGRESSING, now) for name in starts})
        ends = [(one.since or NOW) + MINUTE for one in known.values() if one.phase is Phase.PROGRESSING]
        ends += [now + decision.recheck_after] if decision.recheck_after else []
        later = [end for end in ends if end > now]
        if not later:
            return waves
        now = min(later)


@given(ROLLOUTS)
def test_a_forecast_is_what_deciding_again_and_again_comes_to(rollout: Rollout) -> None:
    assume(rollout.control.retried is None)  # it would turn old progress into new
    assume(rollout.strategy.deadline is None or rollout.strategy.deadline > MINUTE)
    names = [one.cluster for one in rollout.statuses]
    assume(len(set(names)) == len(names))
    decision = rollout.decided()
    assume(not decision.newly_timed_out)
    waves = forecast(
        rollout.strategy,
        rollout.groups,
        [ClusterStatus(one.cluster, one.phase, one.since or NOW) for one in rollout.statuses],
        NOW,
        rollout.control,
        duration=MINUTE,
    )
    assert [(wave.after, set(wave.starts)) for wave in waves[:-1]] == lived_through(rollout)
    left = {one.cluster for one in decision.standings if one.phase is Phase.TO_APPLY}
    started = {name for wave in waves for name in wave.starts}
    assert (waves[-1].wait is Wait.NOTHING) is (left == started)
