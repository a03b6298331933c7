from typing import Any

import pytest

from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.engine.placement.scheduler import Scheduler
from tests.engine.placement.building import (
    NOW,
    SET_LABEL,
    addon,
    binding,
    builtin,
    cluster,
    cluster_set,
    exactly,
    placement,
    score,
    selecting,
    taint,
    term,
)


def scheduler(**specs: dict[str, Any]) -> Scheduler:
    """A hub with the set one, some members of it, and placements with these specs."""
    made = Scheduler()
    made.cluster_set(cluster_set("one"))
    made.binding(binding("one"))
    for name, spec in specs.items():
        made.placement(placement(name, **spec))
    for name in ("x", "y", "z"):
        made.cluster(member(name))
    return made


def member(name: str, labels: dict[str, str] | None = None, **more: Any) -> ManagedCluster:
    return cluster(name, {SET_LABEL: "one", **(labels or {})}, **more)


def names(keys: set[Key]) -> set[str]:
    return {name for _, name in keys}


def by_label(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"predicates": [selecting({"matchExpressions": list(terms)})]}


def test_a_label_concerns_those_who_ask_for_its_old_or_new_value() -> None:
    hub = scheduler(
        prod=by_label(term("env", "In", "prod")),
        dev=by_label(term("env", "In", "dev", "test")),
        other=by_label(term("env", "In", "stage")),
        not_prod=by_label(term("env", "NotIn", "prod")),
        any=by_label(term("env", "Exists")),
        zone=by_label(term("zone", "Exists")),
        all={},
    )
    assert names(hub.cluster(member("x", {"env": "prod"}))) == {"prod", "not_prod", "any"}
    assert names(hub.cluster(member("x", {"env": "dev"}))) == {"prod", "dev", "not_prod"}
    assert names(hub.cluster(member("x", {"env": "what"}))) == {"dev"}
    assert names(hub.cluster(member("x"))) == {"any"}


def test_a_label_that_nobody_asks_for_concerns_nobody() -> None:
    hub = scheduler(prod=by_label(term("env", "In", "prod")), all={})
    assert hub.cluster(member("x", {"colour": "red"})) == set()


def test_a_cluster_that_another_label_keeps_out_concerns_nobody() -> None:
    hub = scheduler(p=by_label(term("env", "In", "prod"), term("zone", "In", "1")))
    assert hub.cluster(member("x", {"zone": "1"})) == set()
    assert names(hub.cluster(member("x", {"zone": "1", "env": "prod"}))) == {"p"}


def test_labels_of_decision_groups_count_too() -> None:
    groups = [{"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}]
    hub = scheduler(grouped={"decisionStrategy": {"groupStrategy": {"decisionGroups": groups}}}, all={})
    assert names(hub.cluster(member("x", {"canary": "yes"}))) == {"grouped"}


def test_claims_concern_those_who_ask_for_them() -> None:
    hub = scheduler(
        p={"predicates": [selecting(claims=[term("v", "In", "1")])]}, by_label=by_label(term("v", "In", "1"))
    )
    assert names(hub.cluster(member("x", claims={"v": "1"}))) == {"p"}


def test_places_to_spread_over_count_with_any_value() -> None:
    constraints = [{"topologyKey": "zone", "topologyKeyType": "Label"}]
    hub = scheduler(p={"numberOfClusters": 2, "spreadPolicy": {"spreadConstraints": constraints}}, all={})
    assert names(hub.cluster(member("x", {"zone": "7"}))) == {"p"}


def test_taints_concern_everybody_who_could_have_the_cluster() -> None:
    hub = scheduler(all={}, prod=by_label(term("env", "In", "prod")))
    assert names(hub.cluster(member("x", taints=[taint("t")]))) == {"all"}
    assert hub.cluster(member("x", taints=[taint("t"), taint("u", "PreferNoSelect")])) == set()


def test_a_wish_to_be_avoided_concerns_those_who_heed_it() -> None:
    heeding = {"prioritizerPolicy": {"configurations": [builtin("PreferNoSelect")]}}
    hub = scheduler(heeding={**heeding, "numberOfClusters": 1}, deaf={}, taking_all=heeding)
    assert names(hub.cluster(member("x", taints=[taint("u", "PreferNoSelect")]))) == {"heeding"}


def test_resources_concern_those_whose_choice_they_decide() -> None:
    policy = {"prioritizerPolicy": exactly(builtin("ResourceAllocatableCPU"))}
    hub = scheduler(two={**policy, "numberOfClusters": 2}, all=policy, none={"numberOfClusters": 2})
    assert names(hub.cluster(member("x", cpu="4"))) == {"two"}
    assert hub.cluster(member("x", cpu="4", memory="4Gi")) == set()


def test_expressions_may_look_at_anything() -> None:
    condition = {
        "type": "T",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    hub = scheduler(cel={"predicates": [selecting(cel=["true"])]}, all={})
    assert names(hub.cluster(member("x", conditions=[condition]))) == {"cel"}
    assert hub.cluster(member("x", conditions=[condition])) == set()
    assert names(hub.score(score("x", "any", s=1))) == {"cel"}


def test_scores_concern_those_who_use_the_resource() -> None:
    policy = {"prioritizerPolicy": exactly(addon("demo", "s")), "numberOfClusters": 1}
    hub = scheduler(demo=policy, prod={**policy, **by_label(term("env", "In", "prod"))}, all={})
    assert names(hub.score(score("x", "demo", s=1))) == {"demo"}
    assert hub.score(score("x", "demo", s=1)) == set()
    assert hub.score(score("x", "other", s=1)) == set()
    assert hub.score(score("unknown", "demo", s=1)) == set()
    assert names(hub.score_gone("x", "demo")) == {"demo"}
    assert hub.score_gone("x", "demo") == set()


def test_coming_and_going_concerns_those_who_could_have_the_cluster() -> None:
    hub = scheduler(all={}, prod=by_label(term("env", "In", "prod")))
    hub.cluster_set(cluster_set("two"))
    hub.binding(binding("two", "other"))
    hub.placement(placement("far", namespace="other"))
    assert names(hub.cluster(member("new"))) == {"all"}
    assert names(hub.cluster(member("prod", {"env": "prod"}))) == {"all", "prod"}
    assert names(hub.cluster(member("prod", {"env": "prod"}, deleting=True))) == {"all", "prod"}
    assert hub.cluster_gone("prod") == set()
    assert hub.cluster(cluster("outside")) == set()


def test_moving_between_sets_concerns_both() -> None:
    hub = scheduler(one={})
    hub.cluster_set(cluster_set("two"))
    hub.cluster_set(cluster_set("labelled", {"matchLabels": {"env": "prod"}}))
    for name, namespace in (("two", "b"), ("labelled", "c")):
        hub.binding(binding(name, namespace))
        hub.placement(placement(name, namespace=namespace))
        hub.cluster(cluster(f"{name}-1", {SET_LABEL: "two", "env": "prod"}))
    assert names(hub.cluster(cluster("x", {SET_LABEL: "two"}))) == {"one", "two"}
    assert names(hub.cluster(cluster("x", {SET_LABEL: "two", "env": "prod"}))) == {"labelled"}


def test_the_first_and_the_last_cluster_of_a_set_concern_even_those_who_do_not_want_it() -> None:
    made = Scheduler()
    made.cluster_set(cluster_set("one"))
    made.binding(binding("one"))
    made.placement(placement("prod", **by_label(term("env", "In", "prod"))))
    made.placement(placement("wrong", numberOfClusters=-1))
    assert names(made.cluster(member("x"))) == {"prod", "wrong"}
    assert made.cluster(member("y")) == set()
    made.cluster_gone("x")
    assert names(made.cluster_gone("y")) == {"prod", "wrong"}


def test_sets_and_bindings_concern_the_placements_that_use_them() -> None:
    hub = scheduler(any={}, one={"clusterSets": ["one"]}, two={"clusterSets": ["two"]})
    assert hub.cluster_set(cluster_set("two")) == set()
    assert names(hub.binding(binding("two"))) == {"any", "two", "one"}
    assert names(hub.cluster_set(cluster_set("two", {}))) == {"any", "two"}
    assert hub.cluster_set(cluster_set("two", {})) == set()
    assert names(hub.cluster_set_gone("two")) == {"any", "two", "one"}


def test_a_placement_that_is_gone_is_concerned_by_nothing() -> None:
    hub = scheduler(all={})
    hub.placement_gone(Key("ns", "all"))
    assert hub.cluster(member("new")) == set()
    assert hub.schedule(Key("ns", "all"), NOW) is None


@pytest.mark.parametrize("fleet", [10, 1000])
def test_the_work_for_one_change_does_not_depend_on_the_fleet(fleet: int) -> None:
    """Counts what is looked at, because time on a busy machine proves nothing."""
    hub = scheduler(prod=by_label(term("env", "In", "prod")), two={"numberOfClusters": 2})
    for number in range(fleet):
        hub.cluster(member(f"c{number}", {"env": "prod"}))
    for name in ("prod", "two"):
        result = hub.schedule(Key("ns", name), NOW)
        assert result is not None
        hub.decided(Key("ns", name), result.members)
        hub.schedule(Key("ns", name), NOW)
    looked_at: list[int] = []
    get = hub.fleet.get
    hub.fleet.get = lambda number: looked_at.append(number) or get(number)  # type: ignore[method-assign,func-returns-value]
    for key in hub.cluster(member("c5", {"env": "dev"}, taints=[taint("t")])):
        hub.schedule(key, NOW)
    assert len(looked_at) == 2  # once for each placement
