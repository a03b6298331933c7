"""Propagation that is killed, starved and lied to: each binding is one that could be meant, and the last one is."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from echelon.fleet.simulation import seeds
from tests.budgets import Lives
from tests.controllers.propagation_lives import SEEN, live


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in thousands of lives; of a single one it is worth reading."""
    if len(seeds(2)) > 1:
        logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lives("propagation")
def test_bindings_are_what_is_meant_whatever_goes_wrong(lives: Lives) -> None:
    for seed in lives:
        lives.note(live(seed))


@pytest.mark.full
def test_these_lives_are_not_boring() -> None:
    SEEN.clear()
    injected: Counter[str] = Counter()
    for seed in range(24):
        injected.update(live(seed).injected)
    assert SEEN.keys() >= {"lost", "gained", "kept", "held"}
    assert min(SEEN.values()) > 2
    assert injected.keys() >= {"kill", "crash", "stale", "conflict", "lost_answer", "late_write", "stall"}
