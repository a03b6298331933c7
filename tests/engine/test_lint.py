"""What is found in files before they are applied."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.lint import Finding, lint
from tests.engine.work_set.world import per_group, progressive

CLUSTER = "cluster.open-cluster-management.io"
TOLERANT = [{"key": f"{CLUSTER}/unreachable"}, {"key": f"{CLUSTER}/unavailable"}]


def placement(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "apps"}
    return {
        "apiVersion": f"{CLUSTER}/v1beta1",
        "kind": "Placement",
        "metadata": metadata,
        "spec": {"tolerations": TOLERANT, **spec},
    }


def work_set(strategy: Any, name: str = "p", **metadata: Any) -> dict[str, Any]:
    spec = {"placementRefs": [{"name": name, "rolloutStrategy": strategy}], "manifestWorkTemplate": {}}
    return {
        "apiVersion": "work.open-cluster-management.io/v1alpha1",
        "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "web", "namespace": "apps", **metadata},
        "spec": spec,
    }


def grouped(*groups: dict[str, Any]) -> dict[str, Any]:
    return placement(decisionStrategy={"groupStrategy": {"decisionGroups": list(groups)}})


def found(*documents: Any) -> list[Finding]:
    return list(lint(("f.yaml", each) for each in documents))


REF = "spec.placementRefs[0].rolloutStrategy"
GROUPS = "spec.decisionStrategy.groupStrategy.decisionGroups"


@pytest.mark.parametrize(
    ("document", "field", "modern"),
    [
        (work_set({"rolloutType": "Progressive", "progressive": {}}), f"{REF}.rolloutType", "type"),
        (work_set(progressive(timeout="5m")), f"{REF}.progressive.timeout", "progressDeadline"),
        (work_set({"type": "All", "all": {"timeout": "5m"}}), f"{REF}.all.timeout", "progressDeadline"),
        (grouped({"groupName": "a", "clusterSelector": {}}), f"{GROUPS}[0].clusterSelector", "groupClusterSelector"),
        (grouped({"GroupName": "a"}), f"{GROUPS}[0].GroupName", "groupName"),
        (placement(DecisionStrategy={}), "spec.DecisionStrategy", "decisionStrategy"),
        (
            placement(decisionStrategy={"decisionGroups": []}),
            "spec.decisionStrategy.decisionGroups",
            "spec.decisionStrategy.groupStrategy.decisionGroups",
        ),
        (
            placement(tolerations=[*TOLERANT, {"key": "x", "operator": "Exist"}]),
            "spec.tolerations[2].operator",
            "Exists",
        ),
        (
            placement(predicates=[{"labels": {f"{CLUSTER}/decisiongroupname": "a"}}]),
            f"spec.predicates[0].labels.{CLUSTER}/decisiongroupname",
            f"{CLUSTER}/decision-group-name",
        ),
    ],
)
def test_older_spellings_are_named_with_the_modern_one(document: Any, field: str, modern: str) -> None:
    (one,) = found(document)
    assert (one.field, one.severity) == (field, "error")
    assert f"called {modern}" in one.problem


def test_a_strategy_that_cannot_be_carried_out_is_named_with_its_rule() -> None:
    (one,) = found(work_set(progressive(maxConcurrency="lots")))
    assert (one.field, one.severity) == (f"{REF}.progressive.maxConcurrency", "error")
    assert '"lots"' in one.problem
    (one,) = found(work_set({"type": "Sideways"}))
    assert one.field == f"{REF}.type"
    (one,) = found(work_set({"type": "Progressive", "progressive": {"mandatoryDecisionGroups": "canary"}}))
    assert one.field == REF


@pytest.mark.parametrize("zero", [0, "0%", "0"])
def test_a_zero_is_told_for_what_it_means(zero: Any) -> None:
    (one,) = found(work_set(progressive(maxConcurrency=zero)))
    assert (one.field, one.severity) == (f"{REF}.progressive.maxConcurrency", "warning")
    assert found(work_set(progressive(maxConcurrency=1))) == []
    assert found(work_set(progressive())) == []


@pytest.mark.parametrize("strategy", [progressive, per_group])
def test_a_mandatory_group_that_the_placement_beside_it_does_not_have(strategy: Any) -> None:
    wrong = work_set(strategy(mandatoryDecisionGroups=[{"groupName": "canary"}, {"groupName": "canari"}]))
    beside = grouped({"groupName": "canary", "groupClusterSelector": {}})
    (one,) = found(beside, wrong)
    assert one.field.endswith("mandatoryDecisionGroups[1].groupName")
    assert "it has canary" in one.problem
    assert found(wrong) == [], "the placement is not among the files"
    assert found({**beside, "metadata": {"name": "p", "namespace": "other"}}, wrong) == []


def test_taints_that_nobody_tolerates_are_a_warning() -> None:
    warned = found(placement(tolerations=[TOLERANT[0]]))
    assert [(each.field, each.severity) for each in warned] == [("spec.tolerations", "warning")]
    assert "unavailable" in warned[0].problem
    assert found(placement(tolerations=[{"operator": "Exists"}])) == []


def test_an_annotation_that_cannot_be_read() -> None:
    (one,) = found(work_set({}, annotations={"echelon.dev/on-breach": "halt"}))
    assert one.field == "metadata.annotations[echelon.dev/on-breach]"
    assert "wait or stop" in one.problem


def test_lists_are_looked_into_and_what_clusters_get_is_not() -> None:
    inner = work_set({})
    inner["spec"]["manifestWorkTemplate"] = {"manifests": [{"operator": "Exist"}]}
    assert found({"kind": "List", "items": [inner, {"kind": "ConfigMap"}, placement(DecisionStrategy={})]}) == [
        Finding(
            "f.yaml",
            "Placement",
            "p",
            "spec.DecisionStrategy",
            "this is an older spelling, which no server takes; it is called decisionStrategy now",
        )
    ]


_WORDS = [
    "spec",
    "metadata",
    "placementRefs",
    "rolloutStrategy",
    "progressive",
    "decisionStrategy",
    "tolerations",
    "decisionGroups",
    "groupStrategy",
    "mandatoryDecisionGroups",
    "annotations",
    "items",
    "operator",
    "type",
    "key",
]
SHAPES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(_WORDS),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(SHAPES, st.sampled_from([placement(), work_set({})]))
def test_no_shape_of_a_document_is_a_reason_to_fail(shape: Any, document: dict[str, Any]) -> None:
    found(shape)
    found({**document, "spec": shape})
    if isinstance(shape, dict):
        found({**document, **shape})
        found(work_set(shape))
