"""What goes wrong with rollouts elsewhere and must not here, by the number under which we keep it."""

import pytest

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.model import Phase, Wait
from tests.engine.rollout.notation import NOW, decided, moving, starting, strategy_of

WINDOW, STEPS = "Progressive", "ProgressivePerGroup"


def test_d1_a_tolerated_failure_holds_no_later_group() -> None:
    decision = decided(strategy_of(STEPS, maxFailures=1), "1 2 / 3 4 / 5 6", "1S 2S 3S 4F-60")
    assert starting(decision) == "5 6"
    assert not decision.breach


def test_d2_a_time_out_hides_no_cluster_that_is_in_flight() -> None:
    strategy = strategy_of(STEPS, maxFailures=1, progressDeadline="90s")
    assert moving(decided(strategy, "1 2 3 / 4", "1S-100 2P-100 3P-30")) == "3P+60"


def test_d2_a_time_out_lets_no_two_groups_start_together() -> None:
    strategy = strategy_of(STEPS, maxFailures=1, progressDeadline="90s")
    assert starting(decided(strategy, "1 / 2 / 3", "1P-100")) == "2"


def test_d3_mandatory_groups_that_are_through_leave_the_window_a_window() -> None:
    strategy = strategy_of(WINDOW, first=[0], maxConcurrency=2)
    assert moving(decided(strategy, "1 / 2 3 4", "1S-60 2P-60")) == "2P 3A"


def test_d3_a_tolerated_time_out_after_the_mandatory_groups_stops_nothing() -> None:
    strategy = strategy_of(WINDOW, first=[0], maxConcurrency=1, maxFailures=1, progressDeadline="90s")
    decision = decided(strategy, "1 / 2 3 4", "1S-100 2P-100")
    assert (starting(decision), decision.newly_timed_out, decision.breach) == ("3", ("2",), False)


@pytest.mark.parametrize("kind", [WINDOW, STEPS])
def test_d4_who_tolerates_more_failures_than_there_are_clusters_tolerates_all(kind: str) -> None:
    strategy = strategy_of(kind, maxFailures=10, progressDeadline="90s")
    decision = decided(strategy, "1 2 / 3", "1F-100 2F-100")
    assert (starting(decision), decision.breach) == ("3", False)


def test_d5_a_cluster_that_never_answers_times_out() -> None:
    # What was written and not observed is handed in as progressing since it was written.
    strategy = strategy_of(WINDOW, maxConcurrency=1, maxFailures=1, progressDeadline="90s")
    decision = decided(strategy, "1 2", "1P-90")
    assert (decision.newly_timed_out, starting(decision)) == (("1",), "2")
    assert decided(strategy, "1 2", "1P-89").newly_timed_out == ()


@pytest.mark.parametrize("kind", [WINDOW, STEPS])
def test_d6_a_mandatory_cluster_that_timed_out_before_lets_nobody_past(kind: str) -> None:
    decision = decided(strategy_of(kind, first=[0], maxFailures="100%"), "1 2 / 3 4", "1S 2T-60")
    assert (starting(decision), decision.breach) == ("", True)


def test_d7_a_full_window_hides_no_failure() -> None:
    strategy = strategy_of(WINDOW, maxConcurrency=1, progressDeadline="90s")
    decision = decided(strategy, "1 2 3 4", "1P-30 2P-100 3F-100")
    assert decision.newly_timed_out == ("2", "3")
    assert decision.failures == {None: ("2", "3")}
    assert decision.breach


def test_d7_a_failure_that_comes_late_in_the_order_still_stops_those_before_it() -> None:
    decision = decided(strategy_of(WINDOW, maxConcurrency=2), "1 2 3 4", "1A 4T-60")
    assert (moving(decision), decision.breach) == ("", True)


@pytest.mark.parametrize("kind", ["All", WINDOW])
def test_d8_a_gap_in_the_indexes_loses_no_group(kind: str) -> None:
    decision = decided(strategy_of(kind), "0=: 1 / 7=: 2", "2S")
    assert decision.removed == ()
    assert [one.group for one in decision.cluster_decisions] == [GroupKey(0), GroupKey(7)]
    assert starting(decision) == "1"


def test_d8_groups_beyond_a_gap_wait_for_their_turn() -> None:
    assert starting(decided(strategy_of(STEPS), "0=: 1 / 7=: 2", "1S")) == "2"
    assert starting(decided(strategy_of(STEPS), "0=: 1 / 7=: 2", "1P")) == ""


def test_two_names_on_one_index_are_two_groups() -> None:
    assert starting(decided(strategy_of(STEPS), "0=canary: 1 / 0=: 2", "")) == "2"
    assert starting(decided(strategy_of(STEPS), "0=canary: 1 / 0=: 2", "2S")) == "1"


def test_a_group_that_breaches_starts_none_of_its_own_either() -> None:
    decision = decided(strategy_of(STEPS), "1 2 3 / 4", "1F-60")
    assert (moving(decision), decision.breach) == ("1F", True)


def test_what_was_written_already_takes_a_slot_before_new_names_do() -> None:
    assert starting(decided(strategy_of(WINDOW, maxConcurrency=2), "1 2 3 4", "4A")) == "1 4"


def test_what_was_written_already_starts_no_more_after_a_breach() -> None:
    assert moving(decided(strategy_of(WINDOW, maxConcurrency=3), "1 2 3", "1A 2F-60 3A")) == "2F"


def test_names_are_ordered_by_bytes() -> None:
    assert starting(decided(strategy_of(WINDOW, maxConcurrency=2), "c1 c2 c10", "")) == "c1 c10"


def test_equal_to_what_is_tolerated_is_tolerated() -> None:
    strategy = strategy_of(WINDOW, maxFailures=2)
    assert not decided(strategy, "1 2 3 4", "1F 2T").breach
    assert decided(strategy, "1 2 3 4", "1F 2T 3F").breach


def test_failures_without_a_deadline_keep_their_slots() -> None:
    strategy = strategy_of(WINDOW, maxFailures="100%", maxConcurrency=2)
    assert moving(decided(strategy, "1 2 3", "1F-60 2F-60")) == "1F 2F"


def test_concurrency_is_a_share_of_those_that_are_not_mandatory() -> None:
    strategy = strategy_of(WINDOW, first=[0], maxConcurrency="50%")
    assert starting(decided(strategy, "1 2 3 4 / 5 6 7 8", "1S 2S 3S 4S")) == "5 6"


def test_failures_are_a_share_of_all() -> None:
    strategy = strategy_of(WINDOW, first=[0], maxFailures="25%")
    assert not decided(strategy, "1 2 3 4 / 5 6 7 8", "1S 2S 3S 4S 5T 6T").breach
    assert decided(strategy, "1 2 3 4 / 5 6 7 8", "1S 2S 3S 4S 5T 6T 7T").breach


@pytest.mark.parametrize("kind", ["All", WINDOW, STEPS])
def test_a_skipped_cluster_is_neither_started_nor_waited_for_nor_a_failure(kind: str) -> None:
    decision = decided(strategy_of(kind), "1 2 / 3", "1K 2S")
    assert (starting(decision), decision.breach) == ("3", False)


def test_a_skipped_cluster_completes_a_mandatory_group() -> None:
    assert starting(decided(strategy_of(WINDOW, first=[0]), "1 2 / 3", "1K 2S")) == "3"


def test_mandatory_groups_go_by_index_whatever_their_order_in_the_list() -> None:
    strategy = strategy_of(WINDOW, first=["b", "a"])
    assert starting(decided(strategy, "rest: 1 / a: 2 / b: 3", "")) == "2"
    assert starting(decided(strategy, "rest: 1 / a: 2 / b: 3", "2S")) == "3"
    assert starting(decided(strategy, "rest: 1 / a: 2 / b: 3", "2S 3S")) == "1"


def test_a_mandatory_group_is_not_complete_before_it_has_soaked() -> None:
    strategy = strategy_of(WINDOW, first=[0], minSuccessTime="60s")
    assert starting(decided(strategy, "1 / 2", "1S-59")) == ""
    assert starting(decided(strategy, "1 / 2", "1S-60")) == "2"


@pytest.mark.parametrize("reports", ["1S-600 1P-60", "1P-60 1S-600"])
def test_of_two_reports_on_one_cluster_the_more_worrying_counts_and_once(reports: str) -> None:
    decision = decided(strategy_of(WINDOW, maxConcurrency=2), "1 2 3", reports)
    assert moving(decision) == "1P 2A"


@pytest.mark.parametrize("reports", ["1P 1P-0", "1P-0 1P"])
def test_a_report_without_a_time_yields_to_one_with_it(reports: str) -> None:
    entry = decided(strategy_of(WINDOW), "1", reports).of("1")
    assert entry
    assert entry.since == NOW


@pytest.mark.parametrize("reports", ["1F-60 1F-60", "1F-60 1T-60", "1S 1F-10"])
def test_a_cluster_that_failed_twice_is_one_failure(reports: str) -> None:
    assert not decided(strategy_of(WINDOW, maxFailures=1), "1 2", reports).breach


def test_reports_without_a_name_are_about_nobody() -> None:
    decision = decided(strategy_of(WINDOW), "1 2", "F-60 1S")
    assert (starting(decision), decision.breach, decision.removed) == ("2", False, ())


def test_a_word_that_nobody_knows_is_progress() -> None:
    entry = decided(strategy_of(WINDOW), "1", "1U-60").of("1")
    assert entry
    assert (entry.phase, entry.wait) == (Phase.PROGRESSING, Wait.REPORT)


def test_a_cluster_that_is_listed_in_two_groups_waits_for_the_later_one() -> None:
    decision = decided(strategy_of(STEPS), "1 2 / 2 3", "")
    assert starting(decision) == "1"
    assert [one.cluster for one in decision.cluster_decisions] == ["1", "2", "3"]


def test_all_ignores_soaks_and_failures() -> None:
    decision = decided(strategy_of("All", minSuccessTime="1h", maxFailures=0), "1 2 3", "1F 2S")
    assert (moving(decision), decision.breach) == ("1F 3A", False)
    assert decision.failures == {None: ("1",)}
