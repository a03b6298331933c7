"""The measurement of simulations measures lives."""

import pytest

from bench import simulate
from bench.progress import Progress


@pytest.mark.full
def test_the_lives_of_a_small_fleet_are_measured() -> None:
    found = simulate.measure(Progress(), 12, 1)
    assert found.reached > 0
    assert found.cpu > 0
    assert "12 clusters, 1 lives" in simulate.table([found])
