"""Which policy claims a template, by Karmada's rules, and which clusters an affinity means."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.karmada_selectors import ClusterAffinity, ResourceSelector
from echelon.api.labels import SelectorError
from echelon.engine.workload.affinity import affinity_match, can_have_works
from echelon.engine.workload.selecting import Policy, claimant_of, claiming
from tests.engine.workload.clusters import DEPLOYMENTS, cluster, cluster_policy, named, policy, template

BY_NAME: JSONObject = {**DEPLOYMENTS, "name": "web"}
BY_LABEL: JSONObject = {**DEPLOYMENTS, "labelSelector": {"matchLabels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("policies", "winner"),
    [
        ([policy("b"), policy("a")], "a"),
        ([policy("a"), policy("b", BY_LABEL)], "b"),
        ([policy("a", BY_LABEL), policy("b", BY_NAME)], "b"),
        ([policy("a", BY_NAME), policy("b", priority=1)], "b"),
        ([policy("b"), cluster_policy("a", BY_NAME, priority=9)], "b"),
        ([cluster_policy("b"), cluster_policy("a")], "a"),
        ([policy("a", {**DEPLOYMENTS, "name": "other"}), policy("b")], "b"),
        ([policy("a", {**DEPLOYMENTS, "kind": "StatefulSet"})], ""),
        ([policy("a", {**DEPLOYMENTS, "namespace": "elsewhere"})], ""),
        ([policy("a", metadata={"namespace": "elsewhere"})], ""),
        ([policy("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), policy("b")], "b"),
        ([policy("a", {**DEPLOYMENTS, "labelSelector": {"matchLabels": {"app": "b a d"}}}), policy("b")], "b"),
        ([policy("a", {**DEPLOYMENTS, "kind": "StatefulSet"}, BY_NAME)], "a"),
    ],
    ids=[
        "the first name",
        "labels before the whole kind",
        "a name before labels",
        "priority before precision",
        "the namespace's own before those for all",
        "the first name of those for all",
        "another name does not match",
        "another kind does not match",
        "another namespace does not match",
        "a policy of another namespace has no say",
        "a policy that is going claims nothing",
        "a selector that means nothing claims nothing",
        "one selector of several is enough",
    ],
)
def test_the_policy_that_claims_a_template_is_karmadas(policies: list[Policy], winner: str) -> None:
    assert named(claiming(template(), policies)) == winner
    assert named(claiming(template(), policies[::-1])) == winner


@pytest.mark.parametrize(
    ("comes", "holds", "winner"),
    [
        (policy("new", priority=9), policy("old"), "old"),
        (policy("new", priority=9, preemption="Always"), policy("old"), "new"),
        (policy("new", preemption="Always"), policy("old"), "old"),
        (policy("new"), cluster_policy("old"), "old"),
        (policy("new", preemption="Always"), cluster_policy("old", priority=9), "new"),
        (cluster_policy("new", priority=9, preemption="Always"), policy("old"), "old"),
        (cluster_policy("new", priority=9, preemption="Always"), cluster_policy("old"), "new"),
    ],
    ids=[
        "who has it keeps it",
        "unless what comes preempts",
        "which takes a higher priority",
        "also from one for all namespaces",
        "from which the namespace's own takes at any priority",
        "and which never takes from those",
        "only from its like",
    ],
)
def test_a_claim_lasts_unless_it_is_preempted(comes: Policy, holds: Policy, winner: str) -> None:
    assert named(claiming(template(), [comes, holds], claimant_of(holds))) == winner


def test_a_claim_ends_with_the_policy_and_with_its_selector() -> None:
    other = policy("other")
    assert named(claiming(template(), [other], ("apps", "gone"))) == "other"
    elsewhere = policy("a", {**DEPLOYMENTS, "name": "else"})
    assert named(claiming(template(), [elsewhere, other], claimant_of(elsewhere))) == "other"


@pytest.mark.parametrize("namespace", ["kube-system", "karmada-es-c1", "karmada-system", "echelon-system"])
def test_policies_for_all_namespaces_leave_those_of_the_system_alone(namespace: str) -> None:
    mine = template(metadata={"namespace": namespace})
    assert claiming(mine, [cluster_policy("a")]) is None


@pytest.mark.parametrize("said", ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"])
@pytest.mark.parametrize("served", ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"])
def test_a_clone_set_is_one_object_in_both_versions(said: str, served: str) -> None:
    selector = msgspec.to_builtins(ResourceSelector(api_version=said, kind="CloneSet"))
    assert named(claiming(template(kind="CloneSet", api_version=served), [policy("a", selector)])) == "a"


@given(st.permutations([policy("a"), policy("b", BY_NAME), policy("c", priority=1), cluster_policy("d", priority=5)]))
def test_the_order_in_which_policies_come_does_not_matter(policies: list[Policy]) -> None:
    assert named(claiming(template(), policies)) == "c"


# --- clusters --------------------------------------------------------------------------------------------------------

EU = cluster("eu", labels={"env": "prod"}, claims={"region.open-cluster-management.io": "eu-1"})
US = cluster("us", labels={"env": "prod", "topology.kubernetes.io/region": "us-1", "zone": "a"})
LAB = cluster("lab", labels={"env": "lab", "cloud": "own"})


@pytest.mark.parametrize(
    ("affinity", "meant"),
    [
        (None, "eu us lab"),
        ({}, "eu us lab"),
        ({"clusterNames": ["us", "nobody"]}, "us"),
        ({"exclude": ["us"]}, "eu lab"),
        ({"clusterNames": ["us"], "exclude": ["us"]}, ""),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, "eu us"),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}, "clusterNames": ["lab"]}, ""),
        (
            {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["eu-1", "us-1"]}]}},
            "eu us",
        ),
        (
            {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["eu-1"]}]}},
            "us lab",
        ),
        ({"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}, "us"),
        ({"fieldSelector": {"matchExpressions": [{"key": "provider", "operator": "In", "values": ["own"]}]}}, "lab"),
        ({"fieldSelector": {}}, "eu us lab"),
    ],
)
def test_an_affinity_means_the_clusters_for_which_all_of_it_holds(affinity: JSONObject | None, meant: str) -> None:
    matches = affinity_match(msgspec.convert(affinity, ClusterAffinity | None))
    assert [each.metadata.name for each in (EU, US, LAB) if matches(each)] == meant.split()


@pytest.mark.parametrize(
    ("affinity", "field"),
    [
        ({"labelSelector": {"matchLabels": {"env": "p r o d"}}}, "p.labelSelector.matchLabels"),
        ({"fieldSelector": {"matchExpressions": [{"key": "regoin", "operator": "NotIn"}]}}, "matchExpressions[0].key"),
        ({"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "Gt"}]}}, "matchExpressions[0].operator"),
    ],
)
def test_an_affinity_that_means_nothing_is_refused_with_its_field(affinity: JSONObject, field: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        affinity_match(msgspec.convert(affinity, ClusterAffinity), "p")
    assert field in str(refusal.value)


def test_works_go_to_clusters_that_were_let_in_and_stay_and_have_a_namespace() -> None:
    assert can_have_works(cluster("c" * 52))
    assert not can_have_works(cluster("c" * 53))
    assert not can_have_works(cluster("c", accepted=False))
    assert not can_have_works(cluster("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
