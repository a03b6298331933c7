"""Conditions that users' rules make (A46 to A49)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.manifest_config import ConditionRule
from echelon.engine.work import rules
from echelon.engine.work.rules import EVALUATED, EXPRESSION_ERROR, INTERNAL_ERROR, INVALID, RuleResult, evaluate

COMPLETE = ConditionRule(condition="Complete", type="WellKnownConditions")


def cel(*expressions: str, condition: str = "Progressing", **more: Any) -> ConditionRule:
    return ConditionRule(condition=condition, type="CEL", cel_expressions=list(expressions), **more)


def one(rule: ConditionRule, obj: JSONObject) -> RuleResult:
    (finding,) = evaluate([rule], obj)
    return finding


def job(*conditions: str) -> JSONObject:
    told = [{"type": kind, "status": "True"} for kind in conditions]
    return {"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": told}}


def test_a46_a_job_is_complete_once_it_has_succeeded_or_failed() -> None:
    assert one(COMPLETE, job()) == RuleResult("Complete", "False", EVALUATED, "Manifest is not Complete")
    assert one(COMPLETE, job("Suspended")).status == "False"
    assert one(COMPLETE, job("Complete")) == RuleResult("Complete", "True", EVALUATED, "Manifest is Complete")
    assert one(COMPLETE, job("Failed")).status == "True"


@pytest.mark.parametrize(
    ("phase", "status"), [("Pending", "False"), ("Running", "False"), ("Succeeded", "True"), ("Failed", "True")]
)
def test_a46_a_pod_is_complete_once_it_is_over(phase: str, status: str) -> None:
    assert one(COMPLETE, {"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}}).status == status


OBJ: JSONObject = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w", "generation": 2},
    "status": {"ready": 2, "wanted": 3, "conditions": [{"type": "Ready", "status": "False"}]},
}


def test_a47_all_expressions_must_hold() -> None:
    assert one(cel("object.status.ready < object.status.wanted", "true"), OBJ).status == "True"
    assert one(cel("true", "object.status.ready == 3", "object.nothing.at.all"), OBJ) == RuleResult(
        "Progressing", "False", EVALUATED, "Manifest is not Progressing"
    )


def test_a47_the_message_comes_from_the_expression_else_from_the_rule_else_from_the_condition() -> None:
    told = "'ready: ' + string(object.status.ready) + ' ' + string(result)"
    assert one(cel("true", message="m", message_expression=told), OBJ).message == "ready: 2 true"
    assert one(cel("false", message="m", message_expression="object.nothing"), OBJ).message == "m"
    assert one(cel("true", message="m", message_expression="''"), OBJ).message == "m"
    assert one(cel("true", message_expression="1"), OBJ).message == "Manifest is Progressing"
    assert one(cel("false"), OBJ).message == "Manifest is not Progressing"


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("hasConditions(object.status)", "True"),
        ("hasConditions({'conditions': []})", "False"),
        ("hasConditions({})", "False"),
        ("object.?spec.?replicas.orValue(1) == 1", "True"),
        ("quantity('1Gi').isGreaterThan(quantity('1G'))", "True"),
        ("semver('1.2.3').isLessThan(semver('1.10.0'))", "True"),
        ("object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'False')", "True"),
    ],
)
def test_a47_expressions_have_the_library(expression: str, status: str) -> None:
    finding = one(cel(expression), OBJ)
    assert (finding.status, finding.reason) == (status, EVALUATED)


def test_a48_a_well_known_condition_that_is_not_known_adds_nothing() -> None:
    other = ConditionRule(condition="Shiny", type="WellKnownConditions")
    assert evaluate([other], job("Complete")) == ()
    assert evaluate([COMPLETE], OBJ) == ()


@pytest.mark.parametrize(
    "expression", ["object.status.", "object.status.nothing", "object.status.ready", "nobody == 1"]
)
def test_a49_an_expression_that_cannot_be_evaluated_says_false(expression: str) -> None:
    finding = one(cel(expression), OBJ)
    assert (finding.status, finding.reason) == ("False", EXPRESSION_ERROR)
    assert finding.message


def test_a49_one_bad_rule_does_not_harm_another() -> None:
    bad, good = evaluate([cel("1 +", condition="Bad"), cel("true", condition="Good")], OBJ)
    assert (bad.status, good.status) == ("False", "True")


def test_a_type_of_rule_that_is_not_known_is_unknown() -> None:
    finding = one(ConditionRule(condition="X", type="Rego"), OBJ)
    assert (finding.status, finding.reason) == ("Unknown", INVALID)


def test_an_agent_without_a_runtime_knows_nothing_but_does_not_claim_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "CEL_AVAILABLE", False)
    finding = one(cel("true"), OBJ)
    assert (finding.status, finding.reason) == ("Unknown", INTERNAL_ERROR)
    assert one(COMPLETE, job("Complete")).status == "True"


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


@given(
    status=st.dictionaries(st.sampled_from(["a", "conditions"]), VALUES),
    expression=st.sampled_from(
        ["object.status.a", "object.status.a == 1", "hasConditions(object.status)", "has(object.x)"]
    ),
)
def test_whatever_the_object_a_rule_has_an_answer(status: JSONObject, expression: str) -> None:
    finding = one(cel(expression, message_expression="string(object.status.a)"), {"status": status})
    assert finding.status in ("True", "False")
    assert finding.message
