"""A budget decides how many seeds are tried, never fewer than the minimum, and what is asked for is tried in full."""

import math
import threading
import time
from pathlib import Path

import pytest

from tests.budgets import BUDGETS, FULL_SECONDS, QUICK_SECONDS, SHARE_SECONDS, BadSeeds, Budget, Lives, plan_of, told

BUDGET = Budget(at_least=10, quick=12, full=100)
CHAINED = Budget(at_least=10, quick=12, full=100, chained=True)


def lives(tmp_path: Path, environment: dict[str, str], budget: Budget = BUDGET) -> list[Lives]:
    plan = plan_of(budget, environment)
    return [Lives("runtime", plan, tmp_path / "counter") for _ in range(plan.shares)]


def test_all_budgets_together_can_be_afforded() -> None:
    assert sum(each.quick for each in BUDGETS.values()) <= QUICK_SECONDS
    assert sum(each.full for each in BUDGETS.values()) <= FULL_SECONDS


def test_no_share_comes_near_the_limit_of_a_test_that_hangs() -> None:
    for environment in ({}, {"ECHELON_FULL": "1"}):
        for name, budget in BUDGETS.items():
            limit = 2 * SHARE_SECONDS if budget.chained else SHARE_SECONDS
            assert plan_of(budget, environment).seconds <= limit, name


def test_the_minimum_is_tried_however_slow_the_machine_is(tmp_path: Path) -> None:
    shares = lives(tmp_path, {"ECHELON_FULL": "1"}, Budget(at_least=10, quick=0.5, full=math.ulp(1.0)))
    assert [list(share) for share in shares] == [list(range(10))]


def test_seeds_are_tried_until_the_seconds_are_used_up(tmp_path: Path) -> None:
    (share,) = lives(tmp_path, {}, Budget(at_least=1, quick=0.05, full=1))
    began, tried = time.monotonic(), list(share)
    assert time.monotonic() - began >= 0.05
    assert tried == list(range(len(tried)))


@pytest.mark.parametrize("asked", ["ECHELON_SEEDS", "ECHELON_SEED"])
def test_one_seed_can_be_run_again(tmp_path: Path, asked: str) -> None:
    assert [list(share) for share in lives(tmp_path, {asked: "1234", "ECHELON_FULL": "1"})] == [[1234]]


def test_seeds_that_are_asked_for_are_tried_once_each_whatever_they_cost(tmp_path: Path) -> None:
    shares = lives(tmp_path, {"ECHELON_SEEDS": "100-399"})
    assert len(shares) > 2
    threads = [threading.Thread(target=list, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seed for share in shares for seed in share.seen) == list(range(100, 400))


def test_there_are_no_more_cases_than_there_are(tmp_path: Path) -> None:
    shares = lives(tmp_path, {"ECHELON_SEEDS": "0-99"})
    assert [seed for share in shares for seed in share.below(30)] == list(range(30))


def test_lives_that_hang_together_are_in_one_share(tmp_path: Path) -> None:
    assert [list(share) for share in lives(tmp_path, {"ECHELON_SEEDS": "0-99"}, CHAINED)] == [list(range(100))]
    assert plan_of(CHAINED, {"ECHELON_SEED": "7"}) == plan_of(CHAINED, {})


@pytest.mark.parametrize("wrong", ["all", "7-3", "1,2", "-5", "3-"])
def test_what_is_no_seed_is_refused(wrong: str) -> None:
    with pytest.raises(BadSeeds, match="neither a seed nor a range"):
        plan_of(BUDGET, {"ECHELON_SEEDS": wrong})


def test_a_run_tells_which_seeds_it_has_tried_and_what_came_out() -> None:
    outcomes = {seed: f"outcome of {seed}" for seed in range(20)}
    odd, even = ({seed: outcomes[seed] for seed in range(first, 20, 2)} for first in (1, 0))
    (line,) = told([("runtime", odd, 3.0), ("runtime", even, 4.4)])
    assert line.startswith("runtime: 20 seeds, 0 to 19, digest ")
    assert line.endswith(f" up to {BUDGETS['runtime'].at_least - 1}), 7 s")
    assert told([("runtime", outcomes, 7.4)]) == [line]
    (other,) = told([("runtime", outcomes | {19: "another"}, 7.4)])
    assert other.split("digest ")[1].split()[0] != line.split("digest ")[1].split()[0]
    assert other.partition("(")[2] == line.partition("(")[2]


def test_what_was_not_tried_in_between_is_told() -> None:
    assert told([("runtime", {0: "", 2: ""}, 1.0)]) == ["runtime: 2 seeds, 0 to 2 with gaps, 1 s"]
