"""A controller of PodCliqueSets that is killed, starved and lied to, while people change their minds."""

import logging
from collections.abc import Iterator

import pytest

from echelon.fleet.simulation import Invariant, Scenario, simulate
from tests.budgets import Lives
from tests.controllers.clique_lives import (
    build,
    goal,
    nothing_is_deleted_for_an_edit,
    one_pod_an_index,
    the_floor_is_kept,
    updated_within_replicas,
)

SCENARIO = Scenario(
    "pod clique sets",
    build,
    goal,
    invariants=(
        Invariant("one live pod an index", one_pod_an_index),
        Invariant("OnDelete deletes nothing for an edit", nothing_is_deleted_for_an_edit),
        Invariant("the floor is kept", the_floor_is_kept),
        Invariant("updated ≤ replicas", updated_within_replicas),
    ),
    chaos_seconds=600.0,
    settle_seconds=3600.0,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in hundreds of lives."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lives("pod clique sets")
def test_whatever_happens_everything_runs_the_last_template_in_the_end(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))
