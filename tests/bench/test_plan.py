"""The measurement of plans measures a plan."""

from bench import plan
from bench.progress import Progress


def test_a_plan_of_a_small_fleet_is_measured() -> None:
    (found,) = plan.measure(Progress(), [150])
    assert found.cpu > 0
    assert "150 clusters" in plan.table([found])
