from datetime import timedelta
from typing import Any

import pytest

from echelon.engine.placement.schedule import OutdatedSchedule, Part
from tests.engine.placement.building import (
    NOW,
    addon,
    builtin,
    cluster,
    exactly,
    fleet_of,
    placement,
    scheduled,
    score,
    selecting,
    taint,
    term,
)

FIVE = fleet_of(*(cluster(f"c{number}", {"env": "prod" if number % 2 else "dev"}) for number in range(5)))


def test_without_wishes_all_clusters_are_selected_by_name() -> None:
    result = scheduled(placement(), FIVE)
    assert result.selected == ("c0", "c1", "c2", "c3", "c4")
    assert result.members == set(result.selected)
    assert (result.unscheduled, result.outcome.code) == (0, "Success")


@pytest.mark.parametrize(("wanted", "found", "missing"), [(0, 0, 0), (2, 2, 0), (5, 5, 0), (8, 5, 3)])
def test_a_number_of_clusters_is_an_upper_limit(wanted: int, found: int, missing: int) -> None:
    result = scheduled(placement(numberOfClusters=wanted), FIVE)
    assert (len(result.selected), result.unscheduled) == (found, missing)


def test_a_cluster_needs_to_match_one_predicate() -> None:
    predicates = [
        selecting({"matchLabels": {"env": "prod"}}),
        selecting({"matchExpressions": [term("none", "Exists")]}),
    ]
    assert scheduled(placement(predicates=predicates), FIVE).selected == ("c1", "c3")
    predicates.append(selecting({"matchLabels": {"env": "dev"}}))
    assert len(scheduled(placement(predicates=predicates), FIVE).selected) == 5


def test_clusters_that_are_being_deleted_are_not_selected() -> None:
    fleet = fleet_of(cluster("a"), cluster("b", deleting=True))
    assert scheduled(placement(), fleet).selected == ("a",)


def test_steady_keeps_what_balance_would_give_away() -> None:
    result = scheduled(placement(numberOfClusters=1), FIVE, {"p": ["c3"]})
    assert result.selected == ("c3",)
    assert result.scores == {"c0": 100, "c1": 100, "c2": 100, "c3": 200, "c4": 100}


CAPACITIES = [
    cluster(f"c{i}", cpu=cpu, memory=mem) for i, (cpu, mem) in enumerate([("10", "50"), ("7", "90"), ("9", "80")])
]
CPU_AND_MEMORY = [builtin("ResourceAllocatableCPU"), builtin("ResourceAllocatableMemory")]


def test_exact_resources_choose_the_best_sum() -> None:
    wanted = placement(numberOfClusters=2, prioritizerPolicy=exactly(*CPU_AND_MEMORY))
    assert set(scheduled(wanted, fleet_of(*CAPACITIES)).selected) == {"c0", "c2"}
    better = cluster("c9", cpu="10", memory="100")
    assert set(scheduled(wanted, fleet_of(*CAPACITIES, better)).selected) == {"c2", "c9"}


def test_a_heavy_steady_stays_when_something_better_comes() -> None:
    policy = {"mode": "Additive", "configurations": [builtin("Steady", 3), *CPU_AND_MEMORY]}
    wanted = placement(numberOfClusters=2, prioritizerPolicy=policy)
    fleet = fleet_of(*CAPACITIES, cluster("c9", cpu="10", memory="100"))
    assert set(scheduled(wanted, fleet, {"p": ["c0", "c2"], "q": ["c1"]}).selected) == {"c0", "c2"}


def test_balance_avoids_clusters_of_other_placements() -> None:
    policy = exactly(builtin("Balance", 2), builtin("ResourceAllocatableCPU"))
    wanted = placement(numberOfClusters=2, prioritizerPolicy=policy)
    assert set(scheduled(wanted, fleet_of(*CAPACITIES), {"q": ["c0"]}).selected) == {"c1", "c2"}


def test_add_on_scores_choose_and_ties_go_by_name() -> None:
    wanted = placement(numberOfClusters=2, prioritizerPolicy=exactly(addon("demo", "cpu")))
    fleet = fleet_of(*CAPACITIES)
    assert scheduled(wanted, fleet).selected == ("c0", "c1")
    first = [score("c0", "demo", cpu=80), score("c1", "demo", cpu=90), score("c2", "demo", cpu=100)]
    assert scheduled(wanted, fleet, scores=first).selected == ("c2", "c1")
    later = [score("c0", "demo", cpu=100), score("c1", "demo", cpu=90), score("c2", "demo", cpu=100)]
    assert scheduled(wanted, fleet, scores=later).selected == ("c0", "c2")


def test_tolerations_end_one_after_the_other() -> None:
    fleet = fleet_of(
        cluster("short", taints=[taint("a", added=0)]),
        cluster("long", taints=[taint("b", added=0)]),
        cluster("late", taints=[taint("a", added=-60)]),
        cluster("clean"),
    )
    tolerations = [
        {"key": "a", "operator": "Exists", "tolerationSeconds": 10},
        {"key": "b", "operator": "Exists", "tolerationSeconds": 20},
    ]
    seen = []
    moment = NOW
    while True:
        result = scheduled(placement(tolerations=tolerations), fleet, now=moment)
        seen.append(sorted(result.selected))
        if result.look_again is None:
            break
        before = scheduled(placement(tolerations=tolerations), fleet, now=result.look_again - timedelta(microseconds=1))
        assert sorted(before.selected) == seen[-1]
        moment = result.look_again
    assert seen == [["clean", "long", "short"], ["clean", "long"], ["clean"]]
    assert moment == NOW + timedelta(seconds=20)


def test_scores_ask_to_be_looked_at_when_they_expire() -> None:
    wanted = placement(prioritizerPolicy=exactly(addon("demo", "cpu")))
    given = [score("c0", "demo", 30, cpu=1), score("c1", "demo", 90, cpu=1), score("c2", "demo", -5, cpu=1)]
    result = scheduled(wanted, FIVE, scores=given)
    assert result.look_again is not None
    assert result.look_again > NOW + timedelta(seconds=30)
    after = scheduled(wanted, FIVE, scores=given, now=result.look_again)
    assert after.outcome.message == "AddOnPlacementScores c0/demo c2/demo expired"


@pytest.mark.parametrize(
    ("spec", "plugin", "message"),
    [
        (
            {"numberOfClusters": -1},
            "Placement",
            "spec.numberOfClusters: Invalid value: -1: must be greater than or equal",
        ),
        (
            {"predicates": [selecting({"matchExpressions": [term("a", "Is")]})]},
            "Predicate",
            '"Is" is not a valid label',
        ),
        ({"tolerations": [{"operator": "Equal"}]}, "TaintToleration", "If the key is empty, operator must be Exists."),
        ({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]}, "TaintToleration", "the value should be"),
        ({"prioritizerPolicy": {"mode": "Some"}}, "", "incorrect prioritizer policy mode: Some"),
        ({"prioritizerPolicy": exactly(builtin("Speed"))}, "", "incorrect builtin prioritizer: Speed"),
        (
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "10"}}},
            "",
            "10 invalid type: string is not a percentage",
        ),
        (
            {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": -1}}},
            "",
            "must be greater than or equal",
        ),
        (
            {
                "decisionStrategy": {
                    "groupStrategy": {
                        "decisionGroups": [
                            {"groupName": "ca", "groupClusterSelector": {"labelSelector": {"matchLabels": {"-": "x"}}}}
                        ]
                    }
                }
            },
            "",
            "spec.decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector.labelSelector.matchLabels",
        ),
    ],
)
def test_a_mistake_selects_nothing_and_is_named(spec: dict[str, Any], plugin: str, message: str) -> None:
    result = scheduled(placement(**spec), FIVE, {"p": ["c1"]})
    assert (result.outcome.code, result.outcome.plugin) == ("Misconfigured", plugin)
    assert message in result.outcome.message
    assert (result.selected, result.scores, result.added, result.removed) == ((), {}, (), ())
    assert result.outcome.failed


def test_a_name_that_no_label_can_hold_is_a_mistake() -> None:
    assert "metadata.name" in scheduled(placement("p" * 64), FIVE).outcome.message


def test_what_came_and_went_is_told_against_the_decisions() -> None:
    wanted = placement(predicates=[selecting({"matchLabels": {"env": "prod"}})])
    result = scheduled(wanted, FIVE, {"p": ["c0", "c1", "gone"]})
    assert (result.added, result.removed) == (("c3",), ("c0", "gone"))


def test_clusters_know_their_named_group_and_the_first_one_wins() -> None:
    groups = [
        {"groupName": "first", "groupClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}},
        {
            "groupName": "second",
            "groupClusterSelector": {"labelSelector": {"matchExpressions": [term("env", "Exists")]}},
        },
    ]
    wanted = placement(decisionStrategy={"groupStrategy": {"decisionGroups": groups}})
    fleet = fleet_of(cluster("a", {"env": "prod"}), cluster("b", {"env": "dev"}), cluster("c"))
    assert scheduled(wanted, fleet).groups == {"a": "first", "b": "second", "c": ""}


def test_scores_can_be_taken_apart() -> None:
    result = scheduled(placement(), FIVE, {"p": ["c3"], "q": ["c3", "c4"]})
    parts = result.breakdown(result.feasible)
    assert parts["c3"] == (Part("Balance", 1, -100), Part("Steady", 1, 100))
    assert {name: sum(part.weight * part.score for part in each) for name, each in parts.items()} == result.scores


def test_scores_can_be_walked_by_name() -> None:
    fleet = fleet_of(*(cluster(f"c{number:03}") for number in reversed(range(200))))
    result = scheduled(placement(), fleet, {"q": ["c150"]})
    walked = list(result.scored())
    assert walked == sorted(result.scores.items())


def test_a_schedule_notices_that_the_fleet_has_moved_on() -> None:
    fleet = fleet_of(cluster("a"))
    result = scheduled(placement(), fleet)
    fleet.update(cluster("b"))
    with pytest.raises(OutdatedSchedule):
        _ = result.scores
