"""Mistakes that the lives of policies must notice, or they are worth nothing.

Each is put into the product, and some life has to fail because of it, by the rule that forbids it. The seeds that are
tried first are known to notice; where they do not any more, all below two hundred are tried.
"""

import logging
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from echelon.fleet.simulation import LifeOutcome, SimulationFailed
from tests.controllers.policy_fleet import live_for_real
from tests.controllers.policy_lives_world import live
from tests.controllers.policy_mutations import Mutation, demotion, no_hold, pruning_while_held, status_before_spec

SEEDS = 200


class Mistake(NamedTuple):
    """A mistake, the world that has to notice, the seeds that do, and the words of the rule."""

    make: Mutation
    live: Callable[[int], LifeOutcome]
    seeds: tuple[int, ...]
    rule: str


MISTAKES = (
    Mistake(status_before_spec, live, (6, 5, 1, 2), r"rules: the hub says \w+ of c\d, which is (not )?held"),
    Mistake(demotion, live, (1, 8, 3, 5), r"rules: c\d gets .* held although it is in force there"),
    Mistake(no_hold, live, (2, 6, 8, 3), r"rules: c\d gets .* although it had something else, or nothing, to look at"),
    Mistake(pruning_while_held, live_for_real, (23, 17, 1, 6), r"members: c\d los.* while it (is|was) held"),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.full
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.make.__name__)
def test_some_life_notices(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake.make(monkeypatch)
    others = set(range(SEEDS)) - set(mistake.seeds)
    for seed in (*mistake.seeds, *sorted(others)):
        try:
            mistake.live(seed)
        except SimulationFailed as failed:
            if re.search(mistake.rule, failed.text):
                return
    pytest.fail(f"no seed below {SEEDS} notices")
