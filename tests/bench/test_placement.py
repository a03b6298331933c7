"""The cost of a label is measured from end to end on small fleets; what it is, is not judged here."""

import pytest

from bench import placement
from bench.progress import Progress


@pytest.mark.full
def test_a_label_that_takes_a_cluster_from_one_placement_to_another_is_measured() -> None:
    figures = placement.measure(Progress(), (200, 400))
    assert [len(one.microseconds) for one in figures] == [2, 2]
    assert all(cost > 0 for one in figures for cost in one.microseconds)
    lines = placement.table(figures, (200, 400)).splitlines()
    assert len(lines) == 3
    assert "of 400" in lines[0]


def test_the_ratio_is_that_of_the_most_expensive_fleet_to_the_smallest() -> None:
    assert placement.Growth("", (10.0, 30.0, 20.0)).ratio == 3.0
