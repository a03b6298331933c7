"""Whole federated rollouts, with everything late, lost and out of order, and what people and fate do to them.

Each seed is one life of one family; its kind, sizes, budgets and delays are drawn from it.
"""

import pytest

from tests.budgets import Lives
from tests.engine.align.lives import live
from tests.engine.align.world import FAMILIES, KINDS


def run(seed: int) -> None:
    family = FAMILIES[seed % len(FAMILIES)]
    outcome = live(family, seed)
    name = f"{family} {seed} ({outcome.kind})"
    assert not outcome.excused, f"{name}: {outcome.excused}\n{outcome.notes}"
    assert not outcome.stuck, f"{outcome.stuck}\n{outcome.notes}"
    # What is not excused may only happen where pods die by themselves.
    assert outcome.deaths or not outcome.strict, f"{name}: {outcome.strict}"


@pytest.mark.lives("federated budgets")
def test_budgets_hold_over_all_clusters_and_nobody_is_stuck(lives: Lives) -> None:
    for seed in lives:
        run(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_rolled_out_within_its_budgets(kind: str) -> None:
    for seed in range(6):
        outcome = live("static", seed, kind=kind)
        assert (outcome.strict, outcome.excused, outcome.stuck) == ([], [], "")


def test_a_life_can_be_lived_again() -> None:
    assert live("mix", 7).digest == live("mix", 7).digest
