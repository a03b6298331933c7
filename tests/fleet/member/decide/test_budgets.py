import pytest

from echelon.api.base import IntOrString
from echelon.fleet.member.decide.budgets import (
    clone_set_limits,
    daemon_set_limits,
    deployment_limits,
    stateful_set_unavailable,
)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 10, (3, 2)),  # up and down
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 0, (0, 0)),
        (0, "1%", 10, (0, 1)),  # two zeros would stand still
        (0, 5, 3, (0, 3)),  # no more than there are
        (2, 0, 4, (2, 0)),
        ("100%", "100%", 4, (4, 4)),
        ("150%", "150%", 4, (6, 4)),  # a surge has no limit, and no more than all can be missing
    ],
)
def test_a_deployment_rounds_its_surge_up_and_its_unavailability_down(
    surge: IntOrString, unavailable: IntOrString, replicas: int, expected: tuple[int, int]
) -> None:
    assert deployment_limits(surge, unavailable, replicas) == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "paused", "expected"),
    [
        (0, "25%", False, (0, 3)),  # up where there is no surge
        ("25%", "25%", False, (3, 2)),  # down where there is
        ("25%", "25%", True, (0, 3)),  # a pause takes the surge away
        (1, 2, False, (1, 2)),
    ],
)
def test_a_clone_set_rounds_its_unavailability_by_whether_it_surges(
    surge: IntOrString, unavailable: IntOrString, paused: bool, expected: tuple[int, int]
) -> None:
    assert clone_set_limits(surge, unavailable, 10, paused=paused) == expected


@pytest.mark.parametrize(("value", "expected"), [(None, 1), (3, 3), ("10%", 1), ("35%", 3), ("1%", 1)])
def test_a_stateful_set_may_always_have_one_pod_down(value: IntOrString | None, expected: int) -> None:
    assert stateful_set_unavailable(value, 10) == expected


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"), [(0, 1, (0, 1)), ("10%", 0, (1, 0)), (0, "25%", (0, 2)), (0, 0, (0, 1))]
)
def test_a_daemon_set_rounds_up(surge: IntOrString, unavailable: IntOrString, expected: tuple[int, int]) -> None:
    assert daemon_set_limits(surge, unavailable, 7) == expected
