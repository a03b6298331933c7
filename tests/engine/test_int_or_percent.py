"""Numbers and percentages, and what each of those who read them makes of more than all."""

import pytest

from echelon.api.base import IntOrString
from echelon.engine.int_or_percent import IntOrPercent, NotIntOrPercent, Rounding, kept_by_partition, resolve
from echelon.engine.placement.groups import group_size
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.work.health_state import kept_old
from echelon.fleet.member.decide.budgets import clone_set_limits, deployment_limits, stateful_set_unavailable

UP, DOWN, UP_IN_FLOATS = Rounding.UP, Rounding.DOWN, Rounding.UP_IN_FLOATS


@pytest.mark.parametrize(
    ("value", "whole", "rounding", "number"),
    [
        (None, 10, UP, 0),
        (3, 10, UP, 3),
        (-3, 10, UP, -3),
        ("3", 10, UP, 3),
        ("25%", 10, UP, 3),
        ("25%", 10, DOWN, 2),
        ("-25%", 10, UP, -2),
        ("150%", 10, UP, 15),
        ("150%", 3, DOWN, 4),
        ("150%", 10, UP_IN_FLOATS, 15),
        ("7%", 100, UP, 7),  # exactly
        ("7%", 100, UP_IN_FLOATS, 8),  # 7 / 100 * 100 is a little more than 7 in binary
        ("12.5%", 10, UP_IN_FLOATS, 2),
        ("1e1%", 10, UP_IN_FLOATS, 1),
    ],
)
def test_a_part_is_rounded_as_the_caller_says(
    value: IntOrString | None, whole: int, rounding: Rounding, number: int
) -> None:
    assert resolve(value, whole, rounding) == number


def test_a_number_stays_finite_however_large_the_percentage_is() -> None:
    assert resolve("1e308%", 10**6, UP_IN_FLOATS) == 2**62
    assert resolve("-1e308%", 10**6, UP_IN_FLOATS) == -(2**62)


@pytest.mark.parametrize(
    "value", ["", "%", "ten", "5 %", " 5%", "5%%", "2.5", "nan%", "inf%", "0x1%", "1_0%", "\u0663%", "1e400%", "9" * 30]
)
def test_whatever_is_neither_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(NotIntOrPercent) as mistake:
        IntOrPercent.parse(value)
    assert mistake.value.value == value


@pytest.mark.parametrize("rounding", [UP, DOWN])
def test_workloads_know_whole_percentages_only(rounding: Rounding) -> None:
    with pytest.raises(NotIntOrPercent):
        resolve("12.5%", 10, rounding)


@pytest.mark.parametrize(
    ("partition", "replicas", "kept"),
    [
        (4, 10, 4),
        (40, 10, 10),
        ("25%", 10, 3),
        ("99%", 10, 9),
        ("99%", 5, 4),
        ("100%", 5, 5),
        ("150%", 5, 5),
        (-1, 5, 0),
        ("50%", 1, 1),
        (0, 5, 0),
    ],
)
def test_a_partition_below_a_hundred_percent_lets_at_least_one_pod_go(
    partition: IntOrString, replicas: int, kept: int
) -> None:
    assert kept_by_partition(partition, replicas) == kept


def test_each_of_those_who_read_it_knows_what_more_than_all_means() -> None:
    assert Threshold.read("150%").of(10, 0) == 10  # all of them, and not the default
    assert group_size("150%", 10) == 10  # no limit
    assert kept_old("150%", 10) == 10  # as the simulated controller does
    assert kept_by_partition("150%", 10) == 10
    assert deployment_limits("150%", "150%", 10) == (15, 10)  # a surge has no limit, and all may be missing
    assert clone_set_limits("150%", "150%", 10, paused=False) == (15, 15)
    assert stateful_set_unavailable("150%", 10) == 15


@pytest.mark.parametrize("partition", [None, True, 2.5, [], "some", "12.5%"])
def test_a_partition_that_cannot_be_read_keeps_nothing(partition: object) -> None:
    assert kept_old(partition, 5) == 0
