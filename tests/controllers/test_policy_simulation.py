"""Policies that are disturbed in every way there is: the rules hold at every moment, and in the end all is said.

The oracle counts replicas on the hub that have the content in force, and objects that enforce on clusters; it never
asks what Echelon says of them. Most lives have agents that only pretend; some have real ones, on real clusters.
"""

import logging
from collections.abc import Iterator

import pytest

from echelon.fleet.simulation import seeds
from tests.budgets import Lives
from tests.controllers.policy_fleet import live_for_real
from tests.controllers.policy_lives_world import live


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
