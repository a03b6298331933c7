"""Fields of a policy that change nothing are named, and those that restrict where something may run are refused."""

from typing import Any

import pytest

from echelon.engine.workload.names import PLACEMENT
from echelon.engine.workload.policy_fields import mistakes, tolerations_of, without_effect
from tests.engine.workload.clusters import DEPLOYMENTS, policy

PLACED = {"annotations": {PLACEMENT: "p"}}
RESTRICTING = {"clusterAffinities": [{"affinityName": "a"}], "spreadConstraints": [{"maxGroups": 1}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"association": True}, "spec.association"),
        ({"propagateDeps": True}, "spec.propagateDeps"),
        ({"dependentOverrides": ["o"]}, "spec.dependentOverrides"),
        ({"schedulerName": "mine"}, "spec.schedulerName"),
        ({"failover": {"application": {}}}, "spec.failover"),
        ({"activationPreference": "Lazy"}, "spec.activationPreference"),
        ({"schedulePriority": {"priorityClassName": "high"}}, "spec.schedulePriority"),
        ({"placement": {"clusterAffinity": {}}, "metadata": PLACED}, "spec.placement.clusterAffinity"),
        ({"placement": RESTRICTING, "metadata": PLACED}, "spec.placement.clusterAffinities"),
        ({"placement": {"clusterTolerations": [{"operator": "Exists"}]}, "metadata": PLACED}, "clusterTolerations"),
    ],
)
def test_a_field_without_effect_is_named(spec: dict[str, Any], field: str) -> None:
    found = policy("a", **spec)
    assert any(field in each for each in without_effect(found))
    assert mistakes(found) == ()


def test_what_is_honoured_is_not_named() -> None:
    everything = policy(
        "a",
        DEPLOYMENTS,
        {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"},
        schedulerName="default-scheduler",
        propagateDeps=False,
        priority=3,
        preemption="Always",
        conflictResolution="Overwrite",
        suspension={"dispatching": True},
        preserveResourcesOnDeletion=True,
        placement={"clusterAffinity": {"clusterNames": ["a"]}, "replicaScheduling": {}, "clusterTolerations": []},
    )
    assert (without_effect(everything), mistakes(everything)) == ((), ())


def test_a_kind_that_is_not_propagated_is_named_with_its_place() -> None:
    found = policy("a", DEPLOYMENTS, {"apiVersion": "v1", "kind": "ConfigMap"})
    assert without_effect(found) == ("spec.resourceSelectors[1] (ConfigMap of v1 is not propagated)",)


@pytest.mark.parametrize(
    ("placement", "field"),
    [
        ({"clusterAffinities": [{"affinityName": "a"}]}, "spec.placement.clusterAffinities"),
        ({"spreadConstraints": [{"maxGroups": 1}]}, "spec.placement.spreadConstraints"),
        ({"clusterAffinity": {"labelSelector": {"matchLabels": {"a": "b c"}}}}, "spec.placement.clusterAffinity"),
        ({"clusterTolerations": [{"operator": "Equal"}]}, "spec.placement.clusterTolerations"),
        (
            {
                "replicaScheduling": {
                    "weightPreference": {
                        "staticWeightList": [
                            {"targetCluster": {"labelSelector": {"matchLabels": {"a": "b c"}}}, "weight": 1}
                        ]
                    }
                }
            },
            "staticWeightList[0].targetCluster",
        ),
    ],
)
def test_what_cannot_be_honoured_is_a_mistake_with_its_field(placement: dict[str, Any], field: str) -> None:
    [mistake] = mistakes(policy("a", placement=placement))
    assert field in mistake


def test_taints_of_clusters_are_tolerated_in_the_words_of_nodes() -> None:
    said = [{"key": each, "operator": "Exists", "effect": each} for each in ("NoExecute", "NoSchedule", "NoSelect")]
    found = tolerations_of(policy("a", placement={"clusterTolerations": said}))
    assert [each.effect for each in found] == ["NoSelect", "NoSelectIfNew", "NoSelect"]
