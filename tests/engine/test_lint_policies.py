"""What is found in policies and their bindings before they are applied."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.lint import Finding, lint
from tests.engine.test_lint import SHAPES, grouped
from tests.engine.work_set.world import per_group, progressive

POLICY = "policy.open-cluster-management.io"
CLUSTER = "cluster.open-cluster-management.io"
TEMPLATE = "spec.policy-templates[0].objectDefinition"
OBJECT = f"{TEMPLATE}.spec.object-templates[0].objectDefinition"


def found(*documents: Any) -> list[Finding]:
    return list(lint(("f.yaml", each) for each in documents))


def template(kind: str = "musthave", **definition: Any) -> dict[str, Any]:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, **definition}
    spec = {"object-templates": [{"complianceType": kind, "objectDefinition": whole}]}
    return {"apiVersion": f"{POLICY}/v1", "kind": "ConfigurationPolicy", "metadata": {"name": "t"}, "spec": spec}


def policy(*templates: Any, strategy: Any = None, action: str = "enforce", **metadata: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "disabled": False,
        "policy-templates": [{"objectDefinition": each} for each in templates or (template(),)],
    }
    if action:
        spec["remediationAction"] = action
    if strategy is not None:
        spec["rolloutStrategy"] = strategy
    metadata = {"name": "limits", "namespace": "apps", **metadata}
    return {"apiVersion": f"{POLICY}/v1", "kind": "Policy", "metadata": metadata, "spec": spec}


def binding(*subjects: tuple[str, str], to: str = "p", **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{POLICY}/v1",
        "kind": "PlacementBinding",
        "metadata": {"name": "bind", "namespace": "apps"},
        "placementRef": {"apiGroup": CLUSTER, "kind": "Placement", "name": to},
        "subjects": [{"apiGroup": POLICY, "kind": kind, "name": name} for kind, name in subjects],
        **fields,
    }


def policy_set(*policies: str) -> dict[str, Any]:
    metadata = {"name": "basics", "namespace": "apps"}
    return {
        "apiVersion": f"{POLICY}/v1beta1",
        "kind": "PolicySet",
        "metadata": metadata,
        "spec": {"policies": list(policies)},
    }


ENFORCING: dict[str, Any] = {"bindingOverrides": {"remediationAction": "enforce"}}
FEW = progressive(maxConcurrency=2)


def test_an_ordinary_policy_has_no_findings() -> None:
    assert found(policy(strategy=FEW), binding(("Policy", "limits")), policy_set("limits")) == []


# --- strategies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "field", "modern"),
    [
        (policy(strategy={"rolloutType": "All"}), "spec.rolloutStrategy.rolloutType", "type"),
        (
            policy(strategy=progressive(timeout="5m", maxConcurrency=1)),
            "spec.rolloutStrategy.progressive.timeout",
            "progressDeadline",
        ),
        (
            binding(bindingOverrides={"remediationActionOverride": "enforce"}),
            "bindingOverrides.remediationActionOverride",
            "remediationAction",
        ),
        (binding(subFilter=True), "subFilter", "subFilter: restricted"),
    ],
)
def test_older_spellings_are_named_with_the_modern_one(document: Any, field: str, modern: str) -> None:
    (one,) = found(document)
    assert (one.field, one.severity) == (field, "error")
    assert f"called {modern} now" in one.problem


def test_the_seeds_spelling_of_decision_groups_is_named() -> None:
    placement = grouped()
    placement["spec"]["decisionStrategy"]["groupStrategy"] = {"DecisionGroups": [{"groupName": "a"}]}
    (one,) = found(placement)
    assert one.field == "spec.decisionStrategy.groupStrategy.DecisionGroups"


def test_a_strategy_that_cannot_be_carried_out_is_named_with_its_rule() -> None:
    (one,) = found(policy(strategy=progressive(maxConcurrency="lots")))
    assert (one.field, one.severity) == ("spec.rolloutStrategy.progressive.maxConcurrency", "error")


@pytest.mark.parametrize(("strategy", "words"), [(progressive(), "not given"), (progressive(maxConcurrency=0), "zero")])
def test_that_one_cluster_goes_at_a_time_is_told_where_nobody_asked_for_a_number(strategy: Any, words: str) -> None:
    (one,) = found(policy(strategy=strategy))
    assert (one.field, one.severity) == ("spec.rolloutStrategy.progressive.maxConcurrency", "warning")
    assert words in one.problem
    assert "one cluster is enforced at a time" in one.problem


@pytest.mark.parametrize("action", ["inform", "Inform"])
def test_a_strategy_of_a_policy_that_enforces_nothing_has_no_effect(action: str) -> None:
    (one,) = found(policy(strategy=FEW, action=action))
    assert (one.field, one.severity) == ("spec.rolloutStrategy", "warning")
    assert "everywhere at once" in one.problem
    assert found(policy(strategy={"type": "All"}, action=action)) == []


def test_a_policy_without_an_action_of_its_own_is_as_its_templates() -> None:
    quiet, loud = template(), template()
    loud["spec"]["remediationAction"] = "Enforce"
    assert [each.severity for each in found(policy(quiet, strategy=FEW, action=""))] == ["warning"]
    assert found(policy(quiet, loud, strategy=FEW, action="")) == []


def test_the_annotation_that_carries_a_strategy_is_read_as_the_field_is() -> None:
    carried = "echelon.dev/rollout-strategy"
    at = f"metadata.annotations[{carried}]"
    (one,) = found(policy(annotations={carried: json.dumps(progressive(maxConcurrency="lots"))}))
    assert one.field == f"{at}.progressive.maxConcurrency"
    for broken in ("{", "[]", "3"):
        (one,) = found(policy(annotations={carried: broken}))
        assert (one.field, one.problem) == (at, "it must be the JSON of a rolloutStrategy")
    assert found(policy(annotations={carried: json.dumps(FEW)})) == []


def test_a_mandatory_group_that_no_bound_placement_has() -> None:
    wrong = policy(strategy=per_group(mandatoryDecisionGroups=[{"groupName": "canary"}, {"groupName": "canari"}]))
    bound, placement = binding(("PolicySet", "basics")), grouped({"groupName": "canary"})
    (one,) = found(wrong, bound, policy_set("limits"), placement)
    assert one.field == "spec.rolloutStrategy.progressivePerGroup.mandatoryDecisionGroups[1].groupName"
    assert "placement p has no group canari; it has canary" in one.problem
    assert found(wrong, bound, placement) == [], "the set is not among the files"
    elsewhere = binding(("Policy", "limits"), to="q")
    assert found(wrong, bound, policy_set("limits"), placement, elsewhere) == [], "another placement may have it"


def test_a_name_that_no_label_can_hold() -> None:
    long = "l" * 59
    (one,) = found(policy(name=long))
    assert one.field == "metadata.name"
    assert "have 63" in one.problem
    assert found(policy(name=long[1:])) == []
    assert found(policy(name=long, labels={f"{POLICY}/root-policy": "a.b"})) == []


# --- bindings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", [("Policy", "limits"), ("PolicySet", "basics")])
def test_an_override_beside_a_strategy_is_ignored(subject: tuple[str, str]) -> None:
    documents = (policy(strategy=FEW), policy_set("limits"), binding(subject, **ENFORCING))
    (one,) = found(*documents)
    assert (one.kind, one.field, one.severity) == ("PlacementBinding", "bindingOverrides.remediationAction", "warning")
    assert "policy limits has a strategy of type Progressive" in one.problem
    assert found(policy(strategy={"type": "All"}), *documents[1:]) == []
    assert found(policy(), *documents[1:]) == []


def test_a_restricted_binding_without_an_override_has_no_effect() -> None:
    (one,) = found(binding(subFilter="restricted"))
    assert (one.field, one.severity) == ("subFilter", "warning")
    assert found(binding(subFilter="restricted", **ENFORCING)) == []


# --- templates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [('{{hub fromConfigMap "" "a" "b" hub}}', "hub templates ({{hub)"), ("{{ .ClusterName }}", "templates ({{)")],
)
def test_templates_in_templates_are_never_enforced(text: str, words: str) -> None:
    (one,) = found(policy(template(data={"region": f"is {text}"})))
    assert (one.field, one.severity) == (f"{OBJECT}.data.region", "error")
    assert one.problem.startswith(words)
    raw = template()
    raw["spec"] = {"object-templates-raw": text}
    assert [each.field for each in found(policy(raw))] == [f"{TEMPLATE}.spec.object-templates-raw"]


def test_a_template_needs_a_kind_and_a_version() -> None:
    fields = [each.field for each in found(policy({"metadata": {"name": "t"}}))]
    assert fields == [f"{TEMPLATE}.apiVersion", f"{TEMPLATE}.kind"]


@pytest.mark.parametrize("kind", ["mustnothave", "MustNotHave"])
def test_a_named_object_that_must_not_be_there_is_known_by_its_name_alone(kind: str) -> None:
    (one,) = found(policy(template(kind, data={"a": "b"}, metadata={"name": "settings", "labels": {}})))
    assert (one.field, one.severity) == (OBJECT, "warning")
    assert one.problem.endswith(": data, metadata.labels")
    assert found(policy(template(kind, metadata={"name": "settings", "namespace": "shop"}))) == []
    assert found(policy(template(kind, metadata={}, data={"a": "b"}))) == []


@pytest.mark.parametrize("items", [["--verbose"], [{"key": "a"}], [{"name": "a"}, {"name": ""}]])
def test_items_without_a_name_are_added_and_not_replaced(items: list[Any]) -> None:
    (one,) = found(policy(template("MustHave", spec={"deep": {"items": items}})))
    assert (one.field, one.severity) == (f"{OBJECT}.spec.deep.items", "warning")
    assert found(policy(template("mustonlyhave", spec={"deep": {"items": items}}))) == []


def test_items_with_names_are_told_apart_and_looked_into() -> None:
    containers = [{"name": "web", "args": ["--verbose"]}, {"name": "proxy", "ports": [{"name": "http"}]}]
    (one,) = found(policy(template(spec={"containers": containers})))
    assert one.field == f"{OBJECT}.spec.containers[0].args"


@given(SHAPES, st.sampled_from([policy(), binding(), policy_set()]))
def test_no_shape_of_a_document_is_a_reason_to_fail(shape: Any, document: dict[str, Any]) -> None:
    found({**document, "spec": shape}, binding(("Policy", "limits"), ("PolicySet", "basics"), **ENFORCING))
    for field in ("bindingOverrides", "placementRef", "subjects", "metadata"):
        found({**document, field: shape}, policy_set("limits"))
    for field in ("policy-templates", "rolloutStrategy", "policies", "remediationAction"):
        found({**document, "spec": {field: shape}}, binding(("PolicySet", "basics")))
    found(policy(shape), policy(template(spec=shape)), policy(template(shape)))
