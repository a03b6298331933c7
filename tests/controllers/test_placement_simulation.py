"""A placement controller that is killed, starved and lied to: no cluster that stays selected is ever missing.

One life proves little, so there are as many as the budget allows, of a tenth of a second each.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from unittest.mock import patch

import pytest

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.controllers.placement.index import PlacementIndex
from echelon.fleet.simulation import SimulationFailed, seeds
from echelon.kube.informer import Delta
from tests.budgets import Lives
from tests.controllers.placement_world import SEEN, live


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep to oneself what goes wrong in thousands of lives; of a single one it is worth reading."""
    if len(seeds(2)) > 1:
        logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.lives("placement")
def test_nobody_vanishes_whatever_goes_wrong(lives: Lives) -> None:
    for seed in lives:
        assert lives.note(live(seed)).commits > 60


@pytest.mark.parametrize("seed", [4912, 1272])
def test_a_plan_on_an_old_view_of_its_own_groups_hides_nobody(seed: int) -> None:
    """In these lives the stream of decisions is lost in the middle of an update, and something changes meanwhile."""
    live(seed)


def test_a_change_that_an_index_missed_is_noticed() -> None:
    def forgetful(index: PlacementIndex, delta: Delta[ManagedCluster]) -> Iterable[Key]:
        return () if delta.object.metadata.name == "s1" else followed(index, delta)

    followed = PlacementIndex.cluster_changed
    with (
        patch.object(PlacementIndex, "cluster_changed", forgetful),
        pytest.raises(SimulationFailed, match="indexes were not what the caches say: cluster s1 is missing"),
    ):
        live(0)


@pytest.mark.full
def test_these_lives_are_not_boring() -> None:
    SEEN.clear()
    injected: Counter[str] = Counter()
    for seed in range(24):
        injected.update(live(seed).injected)
    assert SEEN.keys() >= {"surge", "deletion", "regrouping", "sets", "two leaders"}
    assert injected.keys() >= {"kill", "crash", "pause", "stale", "conflict", "lost_answer", "late_write", "stall"}
