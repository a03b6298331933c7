from typing import Any

import msgspec
import pytest

from echelon.api.scheduling import PrioritizerPolicy
from echelon.engine.placement.scores import PolicyError, compile_prioritizers
from tests.engine.placement.building import (
    addon,
    builtin,
    cluster,
    exactly,
    fleet_of,
    placement,
    scheduled,
    score,
    taint,
)

ABC = fleet_of(cluster("a"), cluster("b"), cluster("c"))


def scores(*configurations: dict[str, Any], **more: Any) -> dict[str, int]:
    return scheduled(placement(prioritizerPolicy=exactly(*configurations)), **{"fleet": ABC, **more}).scores


def held(times: int, of: int, name: str = "a") -> dict[str, list[str]]:
    """Decisions in which one cluster has some of the placements, and another cluster has all of them."""
    return {f"other{index}": [name, "z"] if index < times else ["z"] for index in range(of)}


@pytest.mark.parametrize(
    ("count", "highest", "expected"),
    [(1, 1, -100), (1, 2, 0), (1, 3, 32), (2, 3, -32), (1, 4, 50), (3, 4, -50), (1, 7, 70)],
)
def test_balance_is_relative_to_the_cluster_that_most_placements_have(count: int, highest: int, expected: int) -> None:
    fleet = fleet_of(cluster("a"), cluster("b"))
    found = scores(builtin("Balance"), fleet=fleet, decided=held(count, highest))
    assert found == {"a": expected, "b": 100}


def test_balance_does_not_count_the_placement_itself() -> None:
    assert scores(builtin("Balance"), decided={"p": ["a", "b"], "q": ["b"]}) == {"a": 100, "b": -100, "c": 100}
    assert scores(builtin("Balance"), decided={"p": ["a", "b"]}) == {"a": 100, "b": 100, "c": 100}


def test_steady_prefers_what_the_placement_has() -> None:
    assert scores(builtin("Steady"), decided={"p": ["b"], "q": ["a"]}) == {"a": 0, "b": 100, "c": 0}


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        (["20", "60", "100"], [-100, 0, 100]),
        (["5", "5", "5"], [100, 100, 100]),
        (["0", "0", "0"], [100, 100, 100]),
        (["500m", "1", "1500m"], [-100, 0, 100]),
        ([None, "1", "2"], [0, -100, 100]),
        ([None, None, None], [0, 0, 0]),
        (["1", "2", "4"], [-100, -33, 100]),
    ],
)
def test_allocatable_is_on_the_scale_from_least_to_most(amounts: list[str | None], expected: list[int]) -> None:
    for resource, name in (("cpu", "ResourceAllocatableCPU"), ("memory", "ResourceAllocatableMemory")):
        clusters = [cluster(key, **{resource: amount}) for key, amount in zip("abc", amounts, strict=True)]  # type: ignore[arg-type]
        assert list(scores(builtin(name), fleet=fleet_of(*clusters)).values()) == expected


def test_the_scale_is_over_clusters_that_passed_the_filters() -> None:
    fleet = fleet_of(cluster("a", cpu="1"), cluster("b", cpu="3"), cluster("c", cpu="99", taints=[taint("t")]))
    assert scores(builtin("ResourceAllocatableCPU"), fleet=fleet) == {"a": -100, "b": 100}


def test_add_on_scores_are_taken_as_they_are() -> None:
    given = [score("a", "demo", cpu=-27, mem=5), score("b", "demo", mem=7), score("x", "demo", cpu=1)]
    assert scores(addon("demo", "cpu"), scores=given) == {"a": -27, "b": 0, "c": 0}


def test_expired_add_on_scores_count_nothing_and_are_named() -> None:
    given = [score("a", "demo", -1, cpu=50), score("b", "demo", -1, cpu=50), score("c", "demo", 0, cpu=50)]
    result = scheduled(placement(prioritizerPolicy=exactly(addon("demo", "cpu"))), ABC, scores=given)
    assert result.scores == {"a": 0, "b": 0, "c": 50}
    assert (result.outcome.code, result.outcome.plugin) == ("Warning", "AddOn/demo/cpu")
    assert result.outcome.message == "AddOnPlacementScores a/demo b/demo expired"


def test_prefer_no_select_avoids_taints_that_are_not_tolerated() -> None:
    fleet = fleet_of(
        cluster("a", taints=[taint("slow", "PreferNoSelect")]),
        cluster("b", taints=[taint("old", "PreferNoSelect")]),
        cluster("c"),
    )
    wanted = placement(
        prioritizerPolicy=exactly(builtin("PreferNoSelect")), tolerations=[{"key": "old", "operator": "Exists"}]
    )
    assert scheduled(wanted, fleet).scores == {"a": -100, "b": 0, "c": 0}


def test_prefer_no_select_does_nothing_unless_it_is_asked_for() -> None:
    fleet = fleet_of(cluster("a", taints=[taint("slow", "PreferNoSelect")]), cluster("b"))
    assert scheduled(placement(numberOfClusters=1), fleet).selected == ("a",)


def weights(policy: dict[str, Any]) -> list[tuple[str, int]]:
    found = compile_prioritizers(msgspec.convert(policy, PrioritizerPolicy))
    return [(prioritizer.name, weight) for prioritizer, weight in found.weighted]


def test_additive_keeps_the_defaults_and_exact_does_not() -> None:
    more = [builtin("ResourceAllocatableCPU", 3)]
    cpu = ("ResourceAllocatableCPU", 3)
    assert weights({"configurations": more}) == [("Balance", 1), ("Steady", 1), cpu]
    assert weights({"mode": "", "configurations": more}) == [("Balance", 1), ("Steady", 1), cpu]
    assert weights({"mode": "Exact", "configurations": more}) == [cpu]


def test_a_default_can_be_weighed_otherwise_or_switched_off() -> None:
    assert weights({"configurations": [builtin("Steady", 3), builtin("Balance", 0)]}) == [("Steady", 3)]


def test_of_two_built_in_entries_the_last_weight_wins_but_add_ons_count_twice() -> None:
    twice = exactly(builtin("Steady", 2), builtin("Steady", 5), addon("r", "s", 1), addon("r", "s", 2))
    assert weights(twice) == [("Steady", 5), ("AddOn/r/s", 1), ("AddOn/r/s", 2)]


def test_a_built_in_entry_that_carries_an_add_on_is_one_of_its_own() -> None:
    odd = {"scoreCoordinate": {"builtIn": "Steady", "addOn": {"resourceName": "r", "scoreName": "s"}}, "weight": 4}
    assert weights({"configurations": [odd]}) == [("Balance", 1), ("Steady", 1), ("Steady", 4)]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"mode": "Some"}, "incorrect prioritizer policy mode: Some"),
        (exactly(builtin("Speed")), "incorrect builtin prioritizer: Speed"),
        (exactly({"scoreCoordinate": {"type": "AddOn"}}), "addOn should not be empty"),
    ],
)
def test_policies_that_mean_nothing_are_refused(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        compile_prioritizers(msgspec.convert(policy, PrioritizerPolicy))
    assert str(refused.value) == message


def test_what_weighs_nothing_is_not_looked_at() -> None:
    assert weights(exactly(builtin("Speed", 0))) == []


def test_totals_are_weighted_sums() -> None:
    fleet = fleet_of(cluster("a", memory="50"), cluster("b", memory="90"), cluster("c", memory="80"))
    configured = [builtin("Balance", 3), builtin("ResourceAllocatableMemory", -2), addon("demo", "cpu")]
    found = scores(*configured, fleet=fleet, decided={"q": ["c"]}, scores=[score("b", "demo", cpu=7)])
    assert found == {"a": 300 + 200, "b": 300 - 200 + 7, "c": -300 - 2 * 50}
