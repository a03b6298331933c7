import sys
from collections import Counter
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.scheduling import SpreadConstraint
from echelon.engine.placement import spread
from echelon.engine.placement.schedule import Schedule
from tests.engine.placement import spread_reference
from tests.engine.placement.building import addon, builtin, cluster, exactly, fleet_of, placement, scheduled, score


def over(key: str, kind: str = "Label", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "topologyKeyType": kind, **more}


def hard(key: str, skew: int = 1) -> dict[str, Any]:
    return over(key, maxSkew=skew, whenUnsatisfiable="DoNotSchedule")


def spread_over(*constraints: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spreadPolicy": {"spreadConstraints": list(constraints)}, **spec}


def zoned(*names: str) -> list[Any]:
    """Clusters named like east1: the zone, then a number."""
    return [cluster(name, {"zone": name.rstrip("0123456789")}) for name in names]


def test_the_example_of_the_proposal() -> None:
    fleet = fleet_of(
        cluster("c1", {"region": "us-east", "zone": "us-east-1a"}),
        cluster("c2", {"region": "us-east", "zone": "us-east-1a"}),
        cluster("c3", {"region": "us-east", "zone": "us-east-1b"}),
        cluster("c4", {"region": "us-west", "zone": "us-west-1a"}),
        cluster("c5", {"region": "us-west", "zone": "us-west-1a"}),
    )
    given = [score(name, "r", s=50) for name in ("c1", "c2", "c5")]
    wanted = placement(
        **spread_over(over("region"), hard("zone"), numberOfClusters=2),
        prioritizerPolicy=exactly(addon("r", "s"), builtin("Spread", 2)),
    )
    result = scheduled(wanted, fleet, scores=given)
    assert result.selected == ("c1", "c5")
    assert result.spread_scores[fleet.names.find("c5") or 0] == 100


def test_by_default_spreading_outweighs_the_order_of_names() -> None:
    fleet = fleet_of(*zoned("a1", "a2", "a3", "b1", "b2", "b3"))
    assert scheduled(placement(**spread_over(over("zone"), numberOfClusters=4)), fleet).selected == (
        "a1",
        "b1",
        "a2",
        "b2",
    )


def test_without_a_policy_there_is_no_spreading() -> None:
    fleet = fleet_of(*zoned("a1", "a2", "b1"))
    assert scheduled(placement(numberOfClusters=2), fleet).selected == ("a1", "a2")


def test_soft_constraints_leave_nobody_out() -> None:
    fleet = fleet_of(*zoned("a1", "a2", "a3", "b1"), cluster("nowhere"))
    assert len(scheduled(placement(**spread_over(over("zone"))), fleet).selected) == 5


def test_a_hard_constraint_limits_the_skew_even_if_all_are_wanted() -> None:
    fleet = fleet_of(*zoned("a1", "a2", "a3", "b1"))
    result = scheduled(placement(**spread_over(hard("zone"))), fleet)
    assert sorted(result.selected) == ["a1", "a2", "b1"]
    short = scheduled(placement(**spread_over(hard("zone"), numberOfClusters=4)), fleet)
    assert short.unscheduled == 1


def test_a_cluster_without_a_place_cannot_meet_a_hard_constraint() -> None:
    fleet = fleet_of(*zoned("a1"), cluster("nowhere"))
    assert scheduled(placement(**spread_over(hard("zone"))), fleet).selected == ("a1",)


def test_two_zones_of_one_name_in_two_regions_are_two_places() -> None:
    fleet = fleet_of(
        *(cluster(f"{region}{index}", {"region": region, "zone": "1"}) for region in "ew" for index in "12")
    )
    result = scheduled(placement(**spread_over(over("region"), hard("zone"), numberOfClusters=4)), fleet)
    assert len(result.selected) == 4


def test_regions_first_then_zones() -> None:
    places = ["us-east-1a", "us-east-1b", "us-west-1a"]
    fleet = fleet_of(
        *(cluster(f"{zone}-{index}", {"region": zone[:7], "zone": zone}) for zone in places for index in range(4))
    )
    result = scheduled(placement(**spread_over(over("region"), over("zone"), numberOfClusters=4)), fleet)
    assert Counter(name[:10] for name in result.selected) == {"us-east-1a": 1, "us-east-1b": 1, "us-west-1a": 2}


def test_claims_are_places_too() -> None:
    fleet = fleet_of(*(cluster(f"{zone}{index}", claims={"zone": zone}) for zone in "ab" for index in "12"))
    wanted = placement(**spread_over(over("zone", "Claim"), numberOfClusters=2))
    assert scheduled(wanted, fleet).selected == ("a1", "b1")


def test_spread_can_be_switched_off() -> None:
    fleet = fleet_of(*zoned("a1", "a2", "b1"))
    policy = {"configurations": [builtin("Spread", 0)]}
    wanted = placement(**spread_over(over("zone"), numberOfClusters=2), prioritizerPolicy=policy)
    assert scheduled(wanted, fleet).selected == ("a1", "a2")


@given(st.lists(st.sampled_from("abc"), max_size=15), st.integers(1, 3), st.none() | st.integers(0, 12))
def test_no_choice_breaks_a_hard_constraint_and_none_that_fits_is_missing(
    zones: list[str], skew: int, limit: int | None
) -> None:
    fleet = fleet_of(*(cluster(f"{zone}{index}", {"zone": zone}) for index, zone in enumerate(zones)))
    spec = spread_over(hard("zone", skew), **({} if limit is None else {"numberOfClusters": limit}))
    result: Schedule = scheduled(placement(**spec), fleet)
    chosen = Counter(name[0] for name in result.selected)
    least = min((chosen[zone] for zone in set(zones)), default=0)
    assert all(chosen[zone] - least <= skew for zone in set(zones))
    if limit is None or len(result.selected) < limit:
        left = [name for name in result.scores if name not in result.selected]
        assert all(chosen[name[0]] + 1 - least > skew for name in left)


WHERE = st.fixed_dictionaries({}, optional={key: st.sampled_from("abc") for key in ("region", "zone", "rack")})
CONSTRAINTS = st.lists(
    st.builds(
        SpreadConstraint,
        topology_key=st.sampled_from(["region", "zone", "rack"]),
        topology_key_type=st.just("Label"),
        max_skew=st.integers(1, 3),
        when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    ),
    min_size=1,
    max_size=4,
)


@given(
    CONSTRAINTS,
    st.lists(st.tuples(WHERE, st.sampled_from([-100, 0, 0, 7, 50, 100, 400])), max_size=40),
    st.integers(0, 45),
    st.integers(-10, 10),
)
def test_choosing_step_by_step_is_the_same_as_scoring_every_place_anew(
    constraints: list[SpreadConstraint], drawn: list[tuple[dict[str, str], int]], limit: int, weight: int
) -> None:
    fleet = fleet_of(*(cluster(f"c{index:02d}", where) for index, (where, _) in enumerate(drawn)))
    candidates = {each.id: each for each in fleet}
    totals = {index: total for index, (_, total) in enumerate(drawn)}
    expected = spread_reference.spread(constraints, candidates, totals, limit=limit, weight=weight)
    found = spread.spread(constraints, candidates, totals, limit=limit, weight=weight)
    assert found == expected
    assert list(found.scores) == list(found.chosen)


def work(size: int, weight: int, *levels: int) -> int:
    """Count the lines that are run to choose from so many clusters, which are in places of these numbers per level."""
    keys = [f"level{depth}" for depth in range(len(levels))]
    constraints = [
        msgspec.convert(over(key, maxSkew=3, whenUnsatisfiable="ScheduleAnyway"), SpreadConstraint) for key in keys
    ]
    candidates = {}
    for index in range(size):
        rest, labels = index, {}
        for key, places in zip(keys, levels, strict=True):
            rest, labels[key] = rest // places, str(rest % places)
        candidates[index] = next(iter(fleet_of(cluster(f"c{index:06d}", labels))))
    totals = {index: index * 7919 % 401 - 200 for index in range(size)}
    lines = 0

    def count(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        spread.spread(constraints, candidates, totals, limit=size, weight=weight)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("weight", [0, 1, 10])
def test_twice_the_clusters_in_twice_the_places_are_about_twice_the_work(weight: int) -> None:
    assert work(400, weight, 80) < 2.5 * work(200, weight, 40)
    assert work(400, weight, 4, 20) < 2.5 * work(200, weight, 4, 10)
    assert work(400, weight, 2, 40) < 2.5 * work(200, weight, 2, 20)
