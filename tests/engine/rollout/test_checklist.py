"""Every case that others test their rollout library with, by the number under which we keep it.

R01 to R37 are whole decisions, J one cluster's report, C the time of the next look.
"""

from typing import Any

import pytest

from echelon.engine.rollout.model import Phase
from tests.engine.rollout.notation import NOW, decided, moving, seconds, strategy_of

TWO = "group1: 1 2 3 / 4 5 6"
THREE = "group1: 1 2 3 / 4 5 6 / 7 8 9"
PAIRS = "group1: 1 2 / 3 4 / 5 6"
MINUTE_AND_A_HALF: dict[str, Any] = {"progressDeadline": "90s"}
ALL, WINDOW, STEPS = "All", "Progressive", "ProgressivePerGroup"


def limits(**settings: Any) -> dict[str, Any]:
    return {**MINUTE_AND_A_HALF, **settings}


# number, type, settings, groups, reports; what moves, what timed out, what is removed, breach, seconds to the next look
CASES: list[tuple[str, str, dict[str, Any], str, str, str, str, str, bool, int | None]] = [
    ("R01", ALL, limits(), "group1: 1 2 / 3 4 5 6", "", "1A 2A 3A 4A 5A 6A", "", "", False, None),
    ("R02", ALL, limits(), "group1: 1 2 / 3 4 5 6", "1S-60 2F-120 3P-120 4F-60 5P-60",
     "4F+30 5P+30 6A", "2 3", "", False, 30),
    ("R03", WINDOW, limits(maxConcurrency=2), TWO, "", "1A 2A", "", "", False, None),
    ("R04", WINDOW, limits(maxConcurrency=2), TWO, "", "1A 2A", "", "", False, None),
    ("R05", WINDOW, limits(maxConcurrency=4), THREE, "1P-60 2A 3A 4A 5A 6A 7A 8A 9A 10A",
     "1P+30 2A 3A 4A", "", "10", False, 30),
    ("R06", WINDOW, limits(), THREE, "1P-60 2A 3A 4A 5A 6A 7A 8A 9A 10A",
     "1P+30 2A 3A 4A 5A 6A 7A 8A 9A", "", "10", False, 30),
    ("R07", WINDOW, limits(maxConcurrency=2), TWO, "1S-60 2F-120 3P-60", "3P+30", "2", "", True, 30),
    ("R08", WINDOW, limits(maxConcurrency=2, maxFailures="100%", minSuccessTime="60s"), TWO, "1S-30 2F-120 3P-30",
     "1S+30 3P+60", "2", "", False, 30),
    ("R09", WINDOW, limits(maxConcurrency=4, maxFailures="100%", minSuccessTime="60s"), "group1: 1 2 3 4",
     "1S-30 2P-60 3P-30 4S-120", "1S+30 2P+30 3P+60", "", "", False, 30),
    ("R10", WINDOW, limits(maxConcurrency=2, maxFailures=1), TWO, "1S-60 2F-120 3P-60", "3P+30 4A", "2", "", False, 30),
    ("R11", WINDOW, limits(maxConcurrency=2, maxFailures=3, progressDeadline="0s"), TWO, "1S-30 2P-30 3P-30",
     "4A 5A", "2 3", "", False, None),
    ("R12", WINDOW, limits(maxConcurrency=3, first=["group1"]), TWO, "1S-60 2F-120 3P-60", "3P+30", "2", "", True, 30),
    ("R13", WINDOW, {"maxConcurrency": "50%", "maxFailures": "100%"}, "group1: 1 2 / 3 4 5 6", "1S-60 2F-120 3P-60",
     "2F 3P 4A", "", "", False, None),
    ("R14", WINDOW, {"maxConcurrency": "50%", "maxFailures": "0%"}, "group1: 1 2 / 3 4 5 6", "1S-60 2F-120 3P-60",
     "2F 3P", "", "", True, None),
    ("R15", WINDOW, limits(maxConcurrency=3, first=["group1"]), PAIRS, "1F-120 2F-60", "2F+30", "1", "", True, 30),
    ("R16", WINDOW, {"maxConcurrency": 3, "first": ["group1"]}, PAIRS, "1S-60 2S-60", "3A 4A 5A", "", "", False, None),
    ("R17", STEPS, limits(), TWO, "", "1A 2A 3A", "", "", False, None),
    ("R18", STEPS, limits(), TWO, "1P-60 2A 3A 4A 5A 6A", "1P+30 2A 3A", "", "", False, 30),
    ("R19", STEPS, limits(), TWO, "1S-60 2F-120 3P-60", "3P+30", "2", "", True, 30),
    ("R20", STEPS, limits(maxFailures=2), THREE, "1S-60 2F-120 3S-60", "4A 5A 6A", "2", "", False, None),
    ("R21", STEPS, limits(maxFailures=2), THREE, "1S-60 2F-120 3S-60 4S-60 5S-60 6S-60", "7A 8A 9A", "2", "", False,
     None),
    ("R22", STEPS, {}, TWO, "1S-60 2F-120 3S-60", "2F", "", "", True, None),
    ("R23", STEPS, {"maxFailures": 2}, TWO, "1S-60 2F-120 3S-60", "2F 4A 5A 6A", "", "", False, None),
    ("R24", STEPS, {"maxFailures": "30%"}, TWO, "1S-60 2F-120 3F-120", "2F 3F", "", "", True, None),
    ("R25", STEPS, limits(first=["group1"]), TWO, "1S-60 2F-120 3F-120", "", "2 3", "", True, None),
    ("R26", STEPS, limits(first=["group1"], maxFailures=2), TWO, "1S-60 2F-120 3S-60", "", "2", "", True, None),
    ("R27", STEPS, limits(first=["group1"]), THREE, "1S-60 2S-60 3S-60", "4A 5A 6A", "", "", False, None),
    ("R28", STEPS, limits(maxFailures="50%", minSuccessTime="60s"), "group1: 1 2 3 / 4 5", "1S-30 2S-120 3P-30",
     "1S+30 3P+60", "", "", False, 30),
    ("R29", ALL, limits(), "group1: 1 2 7 / 3 4 5 6", "1S-60 2F-120 3P-120 4F-60 5P-60",
     "4F+30 5P+30 6A 7A", "2 3", "", False, 30),
    ("R30", WINDOW, limits(maxConcurrency=3, first=["group1"]), "group1: 1 2 7 / 3 4 8 / 5 6 9",
     "1S-60 2S-60 3S-60 4P-60 5P-60", "4P+30 5P+30 7A", "", "", False, 30),
    ("R31", STEPS, limits(), TWO, "1S-60 2S-60 4P-60 5P-60", "3A 4P+30 5P+30", "", "", False, 30),
    ("R32", ALL, limits(), "group1: 1 / 3 5", "1S-60 2F-120 3P-120 4F-60 5P-60", "5P+30", "3", "2 4", False, 30),
    ("R33", WINDOW, limits(maxConcurrency=2, maxFailures="100%"), "group1: 2 3 / 4 5 6", "1S-60 2F-120 3P-60",
     "3P+30 4A", "2", "1", False, 30),
    ("R34", WINDOW, limits(maxConcurrency=2, first=["group1"]), "group1: 1 3 / 4 5 6", "1S-60 2F-120 3S-60",
     "4A 5A", "", "2", False, None),
    ("R35", STEPS, limits(), "group1: 1 3 / 4 5 6", "1S-60 2F-60 3P-60", "3P+30", "", "2", False, 30),
    ("R36", STEPS, limits(maxFailures=2), "group1: 1 3 / 4 5 6", "1S-60 2F-60 3P-120", "4A 5A 6A", "3", "2", False,
     None),
    ("R37", STEPS, limits(first=["group1"]), "group1: 1 3 / 4 5 6", "1S-60 2F-120 3S-60", "4A 5A 6A", "", "2", False,
     None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_decision_is_as_elsewhere(
    case: tuple[str, str, dict[str, Any], str, str, str, str, str, bool, int | None],
) -> None:
    _, kind, settings, groups, reports, moves, timed_out, removed, breach, look = case
    decision = decided(strategy_of(kind, **settings), groups, reports)
    assert moving(decision) == moves
    assert " ".join(decision.newly_timed_out) == timed_out
    assert " ".join(status.cluster for status in decision.removed) == removed
    assert decision.breach is breach
    assert decision.recheck_after == (None if look is None else seconds(look))


def test_r01_each_cluster_is_in_its_own_group_and_in_the_order_of_names() -> None:
    decision = decided(strategy_of(ALL, **limits()), "group1: 2 1 / 4 3", "")
    assert [(one.cluster, one.group.index, one.group.name) for one in decision.cluster_decisions] == [
        ("1", 0, "group1"),
        ("2", 0, "group1"),
        ("3", 1, ""),
        ("4", 1, ""),
    ]


def test_r02_a_cluster_that_timed_out_says_since_when() -> None:
    decision = decided(strategy_of(ALL, **limits()), "1 2", "2F-120")
    entry = decision.of("2")
    assert entry
    assert (entry.phase, entry.until) == (Phase.TIMED_OUT, NOW - seconds(30))


# number, report, soak, deadline; where the cluster stands then, if it is in flight, and if it has just timed out
REPORTS: list[tuple[str, str, str, str, str, bool]] = [
    ("J01", "1A", "0", "60s", "1A", False),
    ("J02", "1K", "0", "60s", "", False),
    ("J03", "1S", "0", "60s", "", False),
    ("J04", "1S", "60s", "None", "1S+60", False),
    ("J05", "1S-120", "60s", "None", "", False),
    ("J06", "1S", "2m", "None", "1S+120", False),
    ("J07", "1T-30", "0", "60s", "", False),
    ("J08", "1P-30", "0", "60s", "1P+30", False),
    ("J09", "1F-60", "0", "60s", "", True),
    ("J10", "1U-60", "0", "60s", "", True),
    ("J11", "1U-30", "0", "60s", "1P+30", False),  # the word itself is not kept
    ("no time never expires", "1P", "0", "60s", "1P+60", False),
    ("but instantly", "1P", "0", "0s", "", True),
    ("a soak that ends this moment has ended", "1S-60", "60s", "None", "", False),
]


@pytest.mark.parametrize(("number", "report", "soak", "deadline", "moves", "timed_out"), REPORTS)
@pytest.mark.parametrize("kind", [WINDOW, STEPS])
def test_a_report_is_judged_as_elsewhere(
    *, number: str, report: str, soak: str, deadline: str, moves: str, timed_out: bool, kind: str
) -> None:
    del number
    strategy = strategy_of(kind, minSuccessTime=soak, progressDeadline=deadline, maxFailures="100%")
    decision = decided(strategy, "1", report)
    assert moving(decision) == moves
    assert decision.newly_timed_out == (("1",) if timed_out else ())


def test_j09_the_deadline_of_one_that_times_out_this_moment_is_now() -> None:
    entry = decided(strategy_of(WINDOW, progressDeadline="60s"), "1", "1F-60").of("1")
    assert entry
    assert entry.until == NOW


@pytest.mark.parametrize(
    ("number", "reports", "look"),
    [
        ("C01", "1P-60", 30),
        ("C02", "1P-30 2P-60 3P-30", 30),
        ("C03", "1S-30 2P-60 3P-30", 30),
        ("C04", "1S-99 2K", None),
        ("C05", "", None),
        ("C06", "1A 2P-30 3A", 60),
        ("a time-out is no reason to look again", "1P-91", None),
    ],
)
def test_the_next_look_is_when_the_first_soak_or_deadline_ends(number: str, reports: str, look: int | None) -> None:
    del number
    strategy = strategy_of(WINDOW, minSuccessTime="60s", **limits(maxFailures="100%"))
    decision = decided(strategy, "1 2 3", reports)
    assert decision.recheck_after == (None if look is None else seconds(look))
