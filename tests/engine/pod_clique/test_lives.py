"""Whole lives of sets: no deletion passes the floor, no two live pods share an index, every update ends; silence."""

import pytest

from tests.budgets import Lives
from tests.engine.pod_clique.lives import live


@pytest.mark.lives("pod cliques")
def test_sets_live_through_everything(lives: Lives) -> None:
    for seed in lives:
        life = live(seed)
        lives.note(life.outcome)
        assert not life.faults, f"seed {seed}: {life.faults[:3]}"


def test_a_life_is_the_same_whenever_it_is_lived() -> None:
    first, second = live(3), live(3)
    assert first.digest == second.digest
    assert first.counts["ready"], "something that was ready was taken"
