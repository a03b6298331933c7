from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from echelon.api.scheduling import Toleration
from echelon.engine.placement.taints import TolerationError, judge, tolerated, validate
from tests.engine.placement.building import NOW, cluster, fleet_of, taint


def tolerating(*tolerations: dict[str, Any]) -> list[Toleration]:
    return [msgspec.convert(each, Toleration) for each in tolerations]


def passes(with_taint: dict[str, Any], *tolerations: dict[str, Any], decided: bool = False) -> bool:
    (found,) = fleet_of(cluster("a", taints=[with_taint]))
    return judge(found, tolerating(*tolerations), decided=decided, now=NOW).tolerated


@pytest.mark.parametrize(
    ("with_taint", "toleration", "expected"),
    [
        (taint("k"), {"key": "k", "operator": "Exists"}, True),
        (taint("k", value="v"), {"key": "k", "operator": "Exists"}, True),
        (taint("k", value="v"), {"key": "k", "value": "v"}, True),
        (taint("k", value="v"), {"key": "k", "operator": "", "value": "v"}, True),
        (taint("k", value="v"), {"key": "k", "value": "w"}, False),
        (taint("k", value="v"), {"key": "k"}, False),
        (taint("k"), {"key": "other", "operator": "Exists"}, False),
        (taint("k"), {"operator": "Exists"}, True),
        (taint("k"), {"operator": "Exists", "effect": "NoSelectIfNew"}, False),
        (taint("k", "NoSelectIfNew"), {"operator": "Exists", "effect": "NoSelectIfNew"}, True),
        (taint("k"), {"key": "k", "operator": "Like"}, False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(with_taint: Any, toleration: Any, expected: bool) -> None:
    assert passes(with_taint, toleration) is expected


def test_without_a_toleration_only_the_wish_to_be_avoided_passes() -> None:
    assert not passes(taint("k"))
    assert not passes(taint("k", "NoSelectIfNew"))
    assert passes(taint("k", "PreferNoSelect"))


def test_no_select_if_new_leaves_what_is_there() -> None:
    assert passes(taint("k", "NoSelectIfNew"), decided=True)
    assert not passes(taint("k"), decided=True)


@pytest.mark.parametrize(("age", "expected"), [(8, True), (9, True), (10, False), (60, False)])
def test_a_toleration_ends_after_its_seconds(age: int, expected: bool) -> None:
    assert passes(taint("k", added=-age), {"key": "k", "operator": "Exists", "tolerationSeconds": 10}) is expected


def test_a_taint_without_a_time_is_older_than_any_toleration() -> None:
    assert not passes(taint("k"), {"key": "k", "operator": "Exists", "tolerationSeconds": 2**40})


def test_seconds_beyond_all_times_are_for_ever() -> None:
    assert passes(taint("k", added=0), {"key": "k", "operator": "Exists", "tolerationSeconds": 2**62})
    assert not passes(taint("k", added=0), {"key": "k", "operator": "Exists", "tolerationSeconds": -(2**62)})


def test_the_earliest_end_over_all_taints_counts() -> None:
    (found,) = fleet_of(cluster("a", taints=[taint("k", added=0), taint("l", added=-5)]))
    timed = tolerating({"operator": "Exists", "tolerationSeconds": 10})
    assert judge(found, timed, decided=False, now=NOW).until == NOW + timedelta(seconds=5)


def test_a_later_toleration_takes_over_from_one_that_ended() -> None:
    both = ({"key": "k", "operator": "Exists", "tolerationSeconds": 1}, {"key": "k", "operator": "Exists"})
    assert passes(taint("k", added=-60), *both)


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        ({"operator": "Equal"}, "If the key is empty, operator must be Exists."),
        ({"key": "k", "operator": "Exists", "value": "v"}, "If the operator is Exists, the value should be empty."),
    ],
)
def test_tolerations_that_contradict_themselves_are_refused(toleration: Any, message: str) -> None:
    with pytest.raises(TolerationError) as refused:
        validate(tolerating(toleration))
    assert str(refused.value) == message


TAINT = st.builds(
    taint,
    st.sampled_from("kl"),
    st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect"]),
    st.sampled_from(["", "v"]),
    st.none() | st.integers(-20, 0),
)
TOLERATION = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"]), "key": st.sampled_from("kl")},
    optional={
        "effect": st.sampled_from(["NoSelect", "NoSelectIfNew"]),
        "value": st.sampled_from(["", "v"]),
        "tolerationSeconds": st.integers(0, 20),
    },
)


@given(st.lists(st.lists(TAINT, max_size=3), max_size=6), st.lists(TOLERATION, max_size=3), st.sets(st.integers(0, 5)))
def test_the_fleet_and_one_cluster_are_judged_alike(taints: Any, tolerations: Any, decided: set[int]) -> None:
    fleet = fleet_of(*(cluster(f"c{index}", taints=each) for index, each in enumerate(taints)))
    rules = tolerating(*tolerations)
    passed, until = tolerated(fleet, fleet.live, rules, BitMap(decided), NOW)
    for each in fleet:
        verdict = judge(each, rules, decided=each.id in decided, now=NOW)
        assert (each.id in passed) is verdict.tolerated
        if verdict.tolerated:
            assert until.get(each.id) == verdict.until
