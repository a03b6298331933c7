"""Numbers and percentages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import IntOrString
from echelon.engine.rollout.thresholds import NotAThreshold, Threshold


@pytest.mark.parametrize(
    ("number", "value", "count"),
    [
        ("N01", 50, 50),
        ("N02", "30%", 30),
        ("N04", 0, 100),
        ("N05", 101, 100),
        ("N06", "200%", 100),
        ("D19", "2", 2),
        ("negative", -3, 100),
        ("negative share", "-5%", 100),
        ("half a percent", "12.5%", 13),
        ("rounded up", "0.1%", 1),
        ("binary", "7%", 8),  # 7 / 100 * 100 is a little more than 7 in binary
        ("an exponent", "1e1%", 10),
        ("far more than all", "1e308%", 100),
    ],
)
def test_how_many_of_a_hundred(number: str, value: IntOrString, count: int) -> None:
    del number
    assert Threshold.read(value).of(100, 100) == count


@pytest.mark.parametrize(
    "value", ["invalid", "", "%", "5 %", "1e400%", "inf%", "nan%", "0x1%", "5%%", "2.5", "٣%", "9" * 30]
)
def test_n03_neither_a_number_nor_a_percentage(value: str) -> None:
    with pytest.raises(NotAThreshold) as mistake:
        Threshold.read(value)
    assert str(mistake.value) == f"'{value}' is an invalid maximum threshold value: string is not a percentage"


def test_more_than_the_total_is_the_total_and_not_the_default() -> None:
    assert Threshold.read(10).of(6, 0) == 6
    assert Threshold.read("200%").of(6, 0) == 6


def test_nothing_is_the_default() -> None:
    assert Threshold.read(None).of(6, 0) == 0
    assert Threshold.read(None).of(6, 4) == 4


@given(st.integers(-5, 2000) | st.integers(0, 300).map("{}%".format), st.integers(0, 1000), st.integers(0, 1000))
def test_never_more_than_there_are(value: IntOrString, total: int, default: int) -> None:
    assert 0 <= Threshold.read(value).of(total, default) <= total
