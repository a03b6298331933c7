"""What people read of a cluster that does not move."""

from typing import Any

import pytest

from echelon.engine.rollout.model import Control, Wait
from tests.engine.rollout.notation import NOW, decided, seconds, strategy_of

WINDOW, STEPS = "Progressive", "ProgressivePerGroup"
SOAKING = {"minSuccessTime": "5m"}


def said(kind: str, settings: dict[str, Any], groups: str, reports: str, control: Control | None = None) -> list[str]:
    """Reason and message of the last cluster."""
    entry = decided(strategy_of(kind, **settings), groups, reports, control or Control()).cluster_decisions[-1]
    return [str(entry.wait), entry.message]


CASES: list[tuple[str, dict[str, Any], str, str, str, str]] = [
    (WINDOW, {"maxConcurrency": 2}, "1 2 3", "1P", "WaitingForSlot", "waits for a slot: 2 of 2 are in flight"),
    (WINDOW, {"maxConcurrency": 2, "maxFailures": 1}, "1 2 3", "1P 2F", "WaitingForSlot",
     "waits for a slot: 2 of 2 are in flight, 1 of them failed"),
    (WINDOW, {"maxConcurrency": 1}, "1 2 3", "1P 2P", "WaitingForSlot", "waits for a slot: 2 of 1 are in flight"),
    (STEPS, SOAKING, "canary: 1 2 / 3", "1S-200 2S-100", "WaitingForGroup",
     "waits for group canary (0): 2 soaks 3m20s more"),
    (STEPS, SOAKING, "canary: 1 2 / 3", "1S-200 2P-100", "WaitingForGroup",
     "waits for group canary (0): 2 progressing"),
    (STEPS, {}, "1 2 3 4 5 / 6", "", "WaitingForGroup", "waits for group 0: 1, 2, 3 and 2 more starting"),
    (WINDOW, {"first": [0]}, "canary: 1 / 2", "", "WaitingForMandatoryGroup",
     "waits for mandatory group canary (0): 1 starting"),
    (WINDOW, {"maxFailures": 1}, "7 8 9", "7T 8F", "TooManyFailures",
     "no further cluster starts: 2 failures (7, 8), 1 tolerated"),
    (STEPS, {}, "canary: 1 / 2", "1F", "TooManyFailures",
     "no further cluster starts: 1 failure in group canary (0) (1), none tolerated"),
    (WINDOW, {"progressDeadline": "10m"}, "1", "1P-240", "WaitingForReport", "progressing since 4m, deadline in 6m"),
    (WINDOW, {}, "1", "1P-240", "WaitingForReport", "progressing since 4m, no deadline"),
    (WINDOW, {}, "1", "1P", "WaitingForReport", "progressing, no deadline"),
    (WINDOW, {"progressDeadline": "10m"}, "1", "1F-240", "WaitingForReport", "failed since 4m, deadline in 6m"),
    (WINDOW, SOAKING, "1", "1S-100", "Soaking", "soaks 3m20s more"),
    (WINDOW, SOAKING, "1", "1S-7200", "", "succeeded 2h ago"),
    (WINDOW, {}, "1", "1S", "", "succeeded"),
    (WINDOW, {"progressDeadline": "10m"}, "1", "1P-660", "", "timed out 1m ago"),
    (WINDOW, {}, "1", "1T-60", "", "timed out"),
    (WINDOW, {}, "1", "1K", "", "is skipped"),
    (WINDOW, {}, "1", "", "", "starts now"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings", "groups", "reports", "wait", "message"), CASES)
def test_what_is_said_of_the_last_cluster(
    *, kind: str, settings: dict[str, Any], groups: str, reports: str, wait: str, message: str
) -> None:
    assert said(kind, settings, groups, reports) == [wait, message]


def test_paused_and_aborted() -> None:
    assert said(STEPS, {}, "1 / 2", "1S", Control(paused=True)) == ["Paused", "paused"]
    assert said(STEPS, {}, "1 / 2", "", Control(aborted=True)) == ["Aborted", "aborted"]


def test_an_approval_is_named_where_it_is_missing_and_where_it_is_waited_for() -> None:
    gated = Control(gated=frozenset({"prod"}))
    decision = decided(strategy_of(STEPS), "1 / prod: 2 / 3", "1S", gated)
    assert decision.explain("2") == "awaits approval of group prod (1)"
    assert decision.explain("3") == "waits for group prod (1): awaits approval"
    last = decision.of("3")
    assert last
    assert last.wait is Wait.GROUP


def test_a_pause_says_more_than_a_breach() -> None:
    decision = decided(strategy_of(WINDOW), "1 2", "1F", Control(paused=True))
    assert (decision.breach, decision.blocked, decision.explain("2")) == (True, Wait.PAUSED, "paused")


def test_a_retried_cluster_progresses_since_the_retry() -> None:
    decision = decided(strategy_of(WINDOW), "1", "1F-900", Control(retried=NOW - seconds(240)))
    assert decision.explain("1") == "progressing since 4m, deadline in 6m"


def test_a_cluster_that_is_in_no_group() -> None:
    assert decided(strategy_of(WINDOW), "1", "2S").explain("2") == "is in no decision group"
