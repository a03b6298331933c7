from datetime import timedelta
from typing import Any

from echelon.api.keys import Key
from echelon.engine.placement.explain import Explanation, explain
from echelon.engine.placement.fleet import FleetIndex
from echelon.engine.placement.schedule import Part
from echelon.engine.placement.scheduler import Scheduler
from tests.engine.placement.building import (
    NOW,
    SET_LABEL,
    binding,
    cluster,
    cluster_set,
    fleet_of,
    placement,
    scheduled,
    selecting,
    taint,
    term,
)


def explained(fleet: FleetIndex, decided: Any = None, **spec: Any) -> dict[str, Explanation]:
    return {each.cluster: each for each in explain(scheduled(placement(**spec), fleet, decided), fleet)}


def reasons(fleet: FleetIndex, **spec: Any) -> dict[str, tuple[str, str]]:
    return {name: (each.reason, each.message) for name, each in explained(fleet, **spec).items()}


def test_a_selected_cluster_has_rank_total_and_parts() -> None:
    found = explained(fleet_of(cluster("a"), cluster("b")), {"p": ["b"], "q": ["a"]}, numberOfClusters=1)
    assert found["b"] == Explanation(
        "b", True, "Selected", "is selected", 1, 200, (Part("Balance", 1, 100), Part("Steady", 1, 100))
    )
    assert (found["a"].rank, found["a"].total, found["a"].selected) == (2, -100, False)
    assert (found["a"].reason, found["a"].message) == ("NotAmongTheBest", "is number 2 by score, and 1 are wanted")


def test_predicates_say_what_they_miss() -> None:
    predicates = [
        selecting({"matchExpressions": [term("env", "In", "prod")]}),
        selecting(claims=[term("v", "Exists")]),
        selecting(cel=["true", "managedCluster.metadata.name == 'x'"]),
    ]
    found = reasons(fleet_of(cluster("a", {"env": "dev"}), cluster("b", {"env": "prod"})), predicates=predicates)
    assert found["b"][0] == "Selected"
    assert found["a"] == (
        "NoPredicateMatches",
        (
            "predicates[0]: label env in (prod): the cluster has 'dev'; "
            "predicates[1]: claim v: the cluster has none; predicates[2]: celExpressions[1] is not true"
        ),
    )


def test_taints_are_named_and_so_is_the_end_of_a_toleration() -> None:
    fleet = fleet_of(
        cluster("a", taints=[taint("gpu", value="yes")]),
        cluster("b", taints=[taint("slow", added=-60)]),
        cluster("c", taints=[taint("slow", added=-5)]),
    )
    tolerations = [{"key": "slow", "operator": "Exists", "tolerationSeconds": 10}]
    found = explained(fleet, tolerations=tolerations)
    assert found["a"].message == "taint gpu=yes:NoSelect is not tolerated"
    assert found["b"].message == "taint slow:NoSelect is not tolerated since 2025-12-31T23:59:10Z"
    assert (found["c"].selected, found["c"].until) == (True, NOW + timedelta(seconds=5))


def test_sets_and_deletion_come_first() -> None:
    hub = Scheduler()
    for name in ("one", "two"):
        hub.cluster_set(cluster_set(name))
        hub.binding(binding(name))
    hub.placement(placement(predicates=[selecting({"matchLabels": {"x": "y"}})]))
    hub.cluster(cluster("gone", {SET_LABEL: "one"}, deleting=True))
    hub.cluster(cluster("out", {SET_LABEL: "three"}))
    result = hub.schedule(Key("ns", "p"), NOW)
    assert result is not None
    found = {each.cluster: (each.reason, each.message) for each in explain(result, hub.fleet)}
    assert found["gone"] == ("Deleting", "is being deleted")
    assert found["out"] == ("NotInClusterSet", "is in none of the eligible cluster sets [one,two]")


def test_spread_constraints_are_a_reason() -> None:
    constraint = {"topologyKey": "zone", "topologyKeyType": "Label", "whenUnsatisfiable": "DoNotSchedule"}
    fleet = fleet_of(*(cluster(name, {"zone": name[0]}) for name in ("a1", "a2", "a3", "b1")), cluster("lost"))
    found = reasons(fleet, spreadPolicy={"spreadConstraints": [constraint]})
    assert found["a3"] == ("SpreadConstraint", "would break a hard spread constraint")
    assert found["lost"][0] == "NoTopology"
    assert found["a2"][0] == "Selected"


def test_a_mistake_is_the_reason_for_everybody() -> None:
    found = reasons(fleet_of(cluster("a")), numberOfClusters=-1)
    assert found["a"][0] == "Misconfigured"
    assert "spec.numberOfClusters" in found["a"][1]


def test_some_clusters_can_be_asked_for() -> None:
    fleet = fleet_of(cluster("a"), cluster("b"), cluster("c"))
    result = scheduled(placement(), fleet)
    assert [each.cluster for each in explain(result, fleet, ["c", "a", "unknown"])] == ["a", "c"]


def test_every_cluster_has_a_reason_and_the_selected_ones_are_those_of_the_schedule() -> None:
    fleet = fleet_of(
        *(
            cluster(f"c{i}", {"env": "prod" if i % 3 else "dev"}, taints=[taint("t")] if i % 4 == 1 else [])
            for i in range(20)
        )
    )
    result = scheduled(placement(numberOfClusters=5, predicates=[selecting({"matchLabels": {"env": "prod"}})]), fleet)
    found = explain(result, fleet)
    assert len(found) == 20
    assert {each.cluster for each in found if each.selected} == result.members
    assert {each.reason for each in found} == {"Selected", "NotAmongTheBest", "NoPredicateMatches", "TaintNotTolerated"}
