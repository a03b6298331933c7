"""`from echelon.engine import placement`: every name is there, the example runs, and importing it costs nothing."""

import doctest
import subprocess
import sys

import pytest

from echelon.engine import placement
from echelon.engine.placement import NoRange, normalized_score


def test_every_name_is_there() -> None:
    assert {name for name in placement.__all__ if not hasattr(placement, name)} == set()
    assert placement.__all__ == sorted(placement.__all__)
    assert not hasattr(placement, "nothing_of_the_kind")


def test_the_example_runs() -> None:
    result = doctest.testmod(placement)
    assert (result.failed, result.attempted > 20) == (0, True)


def test_who_reads_decisions_loads_no_scheduler() -> None:
    code = "import sys, echelon.engine.placement.decisions; print('echelon.engine.placement.scheduler' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("value", "score"),
    [(25, 0), (50, 100), (-10, -100), (60, 100), (0, -100), (0.1, -99), (12.4, -50), (37.7, 50)],
)
def test_a_measurement_becomes_a_score_between_its_ends(value: float, score: int) -> None:
    assert normalized_score(value, 0, 50) == score


def test_a_range_without_width_is_refused() -> None:
    with pytest.raises(NoRange, match="there is nothing between 3 and 3"):
        normalized_score(3, 3, 3)
