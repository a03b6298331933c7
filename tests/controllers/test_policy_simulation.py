"""Policies that are disturbed in every way there is: the rules hold at every moment, and in the end all is said.

The oracle counts replicas on the hub that have the content in force, and objects that enforce on clusters; it never
asks what Echelon says of them. Most lives have agents that only pretend; some have real ones, on real clusters.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

from echelon.fleet.simulation import LifeOutcome, seeds
from tests.budgets import Lives
from tests.controllers.policy_agents import COURSES
from tests.controllers.policy_fleet import live_for_real
from tests.controllers.policy_lives_world import live
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_world import ANSWERS

ACTS = (
    *("upgrade", "undo", "give_up", "change_action", "change_strategy", "disable", "delete"),
    *("pause", "resume", "promote", "retry", "abort", "gate", "approve", "relabel"),
    *("bind", "restrict", "exclude", "edit_a_replica", "lose_a_replica"),
    *("move", "come_and_go", "shift", "make_anew"),
)
FAULTS = (
    *("conflict", "too_many_requests", "server_error", "lost_answer", "late_write", "stale", "gone", "stall", "close"),
    *("repeat", "delay", "crash", "kill", "pause"),
)
RULES = (
    *("hold", "release", "start", "deletion", "write on older knowledge", "report of another agent"),
    *(f"release beside one that is {word}" for word in ("to be written", "progressing", "soaking", "done")),
    *(f"release beside one that is {word}" for word in ("failed", "timed out")),
)
ENDS = (
    *("complete", "NotBlocked", "Paused", "Aborted", "AwaitingApproval", "MaxFailuresExceeded", "EmptyDecisionGroup"),
    *("a cluster is done", "a cluster is to be written", "a cluster is failed", "a cluster is timed out"),
    *("a cluster is progressing", "a cluster drifted"),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in thousands of lives; of a single one it is worth reading."""
    if len(seeds(2)) > 1:
        logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lives("policies")
def test_nobody_is_enforced_before_its_turn_whatever_goes_wrong(lives: Lives) -> None:
    for seed in lives:
        lives.note(live(seed))


@pytest.mark.lives("policies on real members")
def test_nothing_on_real_members_changes_before_its_turn(lives: Lives) -> None:
    for seed in lives:
        lives.note(live_for_real(seed))


def missing(
    life: Callable[[int], LifeOutcome], first: Iterable[int], expected: Iterable[str], faults: set[str]
) -> set[str]:
    """Return what does not happen in two hundred lives. Those that are tried first are known to have seen all of it."""
    before, left, not_injected = Counter(SEEN), set(expected), faults
    for seed in (*first, *range(200)):
        not_injected = not_injected - life(seed).injected.keys()
        left -= (SEEN - before).keys()
        if not left and not not_injected:
            break
    return left | not_injected


@pytest.mark.full
def test_these_policies_are_not_boring() -> None:
    answers = (each.__name__ for each in ANSWERS)
    expected = (*ACTS, *RULES, *COURSES, *answers, *(f"end: {each}" for each in ENDS), "kill of an agent")
    assert not missing(live, (*range(12), 17, 22, 45, 47, 59, 108), expected, set(FAULTS))


@pytest.mark.full
def test_these_members_are_not_boring() -> None:
    expected = (
        *("hold", "release", "start", "deletion", "refusal", "drift", "mended", "pruned", "end of a child"),
        *("verdict: Succeeded", "verdict: Failed", "end: complete", "end: MaxFailuresExceeded"),
        "end: a cluster is timed out",
    )
    faults = set(FAULTS) - {"pause"}  # there is one leader
    assert not missing(live_for_real, (14, 15, 17, 58, 68, 76), expected, faults)
