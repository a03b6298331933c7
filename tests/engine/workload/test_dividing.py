"""Replicas over clusters: the sums, who gets more, and that nothing moves that does not have to."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.propagation import ReplicaScheduling
from echelon.engine.workload.dividing import (
    Shares,
    by_aggregation,
    by_capacity,
    by_weight,
    capacity,
    divide,
    pod_requests,
    static_weights,
)
from tests.engine.workload.clusters import cluster, template

NAMES = st.lists(st.sampled_from([f"c{number}" for number in range(12)]), min_size=1, max_size=12, unique=True)
TOTALS = st.integers(0, 60)


@st.composite
def weighed(draw: st.DrawFn, least: int = 0) -> Shares:
    weights = {name: draw(st.integers(least, 9)) for name in draw(NAMES)}
    return weights if any(weights.values()) else dict.fromkeys(weights, 1)


@st.composite
def held(draw: st.DrawFn) -> tuple[Shares, Shares]:
    """Draw capacities, and what clusters have."""
    rooms = {name: draw(st.integers(0, 20)) for name in draw(NAMES)}
    return rooms, {name: count for name in rooms if (count := draw(st.integers(0, 9)))}


def moves(before: Shares, after: Shares) -> int:
    return sum(max(0, count - before.get(name, 0)) for name, count in after.items())


# --- static weights ---------------------------------------------------------------------------------------------------


@given(TOTALS, weighed(), weighed())
def test_weighted_shares_add_up_and_are_near_their_quotas(total: int, weights: Shares, current: Shares) -> None:
    shares = by_weight(total, weights, current)
    assert sum(shares.values()) == total
    assert shares.keys() == weights.keys()
    for name, share in shares.items():
        assert share == 0 or weights[name] > 0
    # Nobody with half the claim gets more than one with the whole.
    for one in weights:
        for other in weights:
            if weights[one] >= weights[other]:
                assert shares[one] >= shares[other] - 1


@given(TOTALS, weighed())
def test_one_more_replica_takes_none_from_anybody(total: int, weights: Shares) -> None:
    before = by_weight(total, weights, {})
    assert all(share >= before[name] for name, share in by_weight(total + 1, weights, {}).items())
    assert all(share >= before[name] for name, share in by_weight(total + 1, weights, before).items())


@given(TOTALS, weighed())
def test_a_division_that_is_right_stays(total: int, weights: Shares) -> None:
    shares = by_weight(total, weights, {})
    assert by_weight(total, weights, shares) == shares
    reversed_ties = {f"z{9 - int(name[1:]) % 10}{name}": count for name, count in weights.items()}
    renamed = by_weight(total, reversed_ties, {})
    assert by_weight(total, reversed_ties, renamed) == renamed


@given(TOTALS, weighed(least=1), st.data())
def test_a_cluster_that_comes_takes_only_what_it_gets(total: int, weights: Shares, data: st.DataObject) -> None:
    before = by_weight(total, weights, {})
    after = by_weight(total, {**weights, "new": data.draw(st.integers(1, 9))}, before)
    assert moves(before, after) == after["new"]


@given(TOTALS, weighed(least=1))
def test_a_cluster_that_leaves_moves_only_what_it_had(total: int, weights: Shares) -> None:
    before = by_weight(total, weights, {})
    gone = min(weights)
    left = {name: weight for name, weight in weights.items() if name != gone}
    if left:
        assert moves(before, by_weight(total, left, before)) == before[gone]


def test_equal_claims_are_kept_by_those_who_have_the_replica() -> None:
    weights = {"a": 1, "b": 1, "c": 1}
    assert by_weight(4, weights, {}) == {"a": 2, "b": 1, "c": 1}
    assert by_weight(4, weights, {"a": 1, "b": 1, "c": 2}) == {"a": 1, "b": 1, "c": 2}


def test_weights_are_those_of_the_first_rule_and_nothing_for_clusters_without_one() -> None:
    rules = scheduling(
        replicaDivisionPreference="Weighted",
        weightPreference={
            "staticWeightList": [
                {"targetCluster": {"clusterNames": ["a"]}, "weight": 3},
                {"targetCluster": {"clusterNames": ["a", "b"]}, "weight": 1},
            ]
        },
    )
    clusters = [cluster(name) for name in "abc"]
    assert rules.weight_preference is not None
    assert static_weights(clusters, rules.weight_preference.static_weight_list) == {"a": 3, "b": 1, "c": 0}
    divided = divide(8, rules, clusters, {}, requests={})
    assert divided.shares == {"a": 6, "b": 2}
    assert divided.without == ("c",)


def test_weights_that_are_all_zero_count_as_equal() -> None:
    rules = [{"targetCluster": {"clusterNames": ["a", "b"]}, "weight": 0}]
    wanted = scheduling(weightPreference={"staticWeightList": rules})
    assert divide(4, wanted, [cluster("a"), cluster("b")], {}, requests={}).shares == {"a": 2, "b": 2}
    nobody = scheduling(
        weightPreference={"staticWeightList": [{"targetCluster": {"clusterNames": ["z"]}, "weight": 5}]}
    )
    assert divide(4, nobody, [cluster("a"), cluster("b")], {}, requests={}).shares == {"a": 2, "b": 2}


# --- capacity ---------------------------------------------------------------------------------------------------------


@given(TOTALS, held())
def test_shares_by_capacity_add_up_and_move_nothing(total: int, drawn: tuple[Shares, Shares]) -> None:
    rooms, current = drawn
    shares = by_capacity(total, rooms, current)
    assert sum(shares.values()) == total
    assert moves(current, shares) == max(0, total - sum(current.values()))
    assert moves(shares, current) == max(0, sum(current.values()) - total)
    assert by_capacity(total, rooms, shares) == shares


@given(TOTALS, held())
def test_one_more_replica_by_capacity_takes_none_from_anybody(total: int, drawn: tuple[Shares, Shares]) -> None:
    rooms, _ = drawn
    before, after = by_capacity(total, rooms, {}), by_capacity(total + 1, rooms, {})
    assert all(after[name] >= before[name] for name in rooms)


def test_capacity_is_a_weight() -> None:
    assert by_capacity(12, {"a": 6, "b": 12, "c": 18}, {}) == {"a": 2, "b": 4, "c": 6}
    assert by_capacity(4, {"a": 0, "b": 0}, {}) == {"a": 2, "b": 2}
    assert by_capacity(4, {"a": 0, "b": 9}, {"a": 1}) == {"a": 1, "b": 3}


def test_a_change_of_capacity_alone_moves_nothing() -> None:
    dynamic = scheduling(weightPreference={"dynamicWeight": "AvailableReplicas"})
    large, small = cluster("a", allocatable={"pods": "90"}), cluster("a", allocatable={"pods": "1"})
    other = cluster("b", allocatable={"pods": "10"})
    first = divide(10, dynamic, [large, other], {}, requests={})
    assert first.shares == {"a": 9, "b": 1}
    assert divide(10, dynamic, [small, other], first.shares, requests={}).shares == first.shares


@pytest.mark.parametrize(
    ("allocatable", "requests", "fits"),
    [
        ({"cpu": "4", "memory": "8Gi", "pods": "110"}, {"cpu": "500m", "memory": "3Gi"}, 2),
        ({"cpu": "4", "pods": "5"}, {"cpu": "500m"}, 5),
        ({"cpu": "4"}, {"cpu": "500m", "nvidia.com/gpu": "1"}, 8),
        ({"cpu": "3500m", "memory": "8Gi"}, {}, 3),
        ({"pods": "7", "cpu": "99"}, {}, 7),
        ({"memory": "8Gi"}, {}, 0),
        ({}, {"cpu": "1"}, 0),
        ({"cpu": "4"}, {"cpu": "0"}, 4),
        ({"cpu": "-4"}, {"cpu": "1"}, 0),
    ],
)
def test_capacity_is_how_many_pods_fit_into_what_a_cluster_reports(
    allocatable: dict[str, str], requests: dict[str, str], fits: int
) -> None:
    wanted = template(spec={"template": {"spec": {"containers": [{"resources": {"requests": requests}}]}}})
    assert capacity(cluster("a", allocatable=allocatable), pod_requests(wanted)) == fits


def test_requests_of_all_containers_add_up_and_nonsense_is_left_out() -> None:
    containers = [
        {"resources": {"requests": {"cpu": "500m", "memory": "much"}}},
        {"resources": {"requests": {"cpu": 1}}},
        "no container",
        {},
    ]
    wanted = template(spec={"template": {"spec": {"containers": containers}}})
    assert pod_requests(wanted) == {"cpu": Fraction(3, 2)}


# --- few clusters -----------------------------------------------------------------------------------------------------


@given(TOTALS, held())
def test_aggregated_shares_add_up_and_move_nothing(total: int, drawn: tuple[Shares, Shares]) -> None:
    rooms, current = drawn
    shares, crowded = by_aggregation(total, rooms, current)
    assert sum(shares.values()) == total
    assert moves(current, shares) == max(0, total - sum(current.values()))
    assert by_aggregation(total, rooms, shares)[0] == shares
    if not crowded and sum(current.values()) < total:
        assert all(share <= max(rooms[name], current.get(name, 0)) for name, share in shares.items())


@given(TOTALS, held())
def test_aggregated_needs_no_cluster_without_which_there_is_room(total: int, drawn: tuple[Shares, Shares]) -> None:
    rooms, _ = drawn
    shares, crowded = by_aggregation(total, rooms, {})
    used = [name for name, share in shares.items() if share]
    largest = sorted(rooms.values(), reverse=True)
    assert crowded or len(used) <= next(count for count in range(len(rooms) + 1) if sum(largest[:count]) >= total)


def test_aggregated_prefers_clusters_that_have_replicas_and_says_what_has_no_room() -> None:
    assert by_aggregation(3, {"a": 9, "b": 5}, {"b": 1}) == ({"a": 0, "b": 3}, 0)
    assert by_aggregation(2, {"a": 9, "b": 9}, {"a": 1, "b": 3}) == ({"a": 0, "b": 2}, 0)
    assert by_aggregation(9, {"a": 4, "b": 2}, {}) == ({"a": 6, "b": 3}, 3)


# --- the whole --------------------------------------------------------------------------------------------------------


def scheduling(**fields: object) -> ReplicaScheduling:
    return msgspec.convert({"replicaSchedulingType": "Divided", **fields}, ReplicaScheduling)


def test_duplicated_gives_everybody_everything() -> None:
    clusters = [cluster("a"), cluster("b")]
    for wanted in (None, scheduling(replicaSchedulingType="Duplicated")):
        assert divide(3, wanted, clusters, {"a": 1}, requests={}).shares == {"a": 3, "b": 3}


def test_fewer_replicas_than_clusters_leave_some_without_and_say_which() -> None:
    divided = divide(2, scheduling(), [cluster(name) for name in "abcd"], {}, requests={})
    assert divided.shares == {"a": 1, "b": 1}
    assert divided.without == ("c", "d")


def test_a_workload_of_no_replicas_is_everywhere_with_none() -> None:
    assert divide(0, scheduling(), [cluster("a"), cluster("b")], {}, requests={}).shares == {"a": 0, "b": 0}


def test_clusters_that_nobody_may_touch_keep_their_share_of_the_total() -> None:
    divided = divide(10, scheduling(), [cluster("a"), cluster("b")], {"a": 3, "x": 4}, requests={}, kept={"x": 4})
    assert divided.shares == {"a": 3, "b": 3, "x": 4}
    shrunk = divide(2, scheduling(), [cluster("a")], {"a": 3, "x": 4}, requests={}, kept={"x": 4})
    assert shrunk.shares == {"x": 4}
    assert shrunk.without == ("a",)


@pytest.mark.parametrize(
    "wanted",
    [{}, {"replicaDivisionPreference": "Aggregated"}, {"weightPreference": {"dynamicWeight": "AvailableReplicas"}}],
    ids=["weighted", "aggregated", "by capacity"],
)
def test_nobody_to_divide_among_is_no_mistake(wanted: JSONObject) -> None:
    assert divide(5, scheduling(**wanted), [], {"gone": 5}, requests={}).shares == {}
