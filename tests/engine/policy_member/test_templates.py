"""What a template asks for, and what can be wrong with it."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.engine.policy_member.templates import action_of, is_enforced, object_of, read_templates
from tests.engine.policy_member.world import CLUSTER, HELD, NAME, PARENT, policy, template

GROUP = "policy.open-cluster-management.io"


def read(*listed: Any, **spec: Any) -> list[tuple[str, str]]:
    return [(each.name, each.error) for each in read_templates({"policy-templates": list(listed), **spec})]


def defined(**change: Any) -> JSONObject:
    return {"objectDefinition": {**template()["objectDefinition"], **change}}


def test_templates_have_the_names_of_their_objects() -> None:
    assert read(template("a"), template("b")) == [("a", ""), ("b", "")]
    assert read() == []


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("text", "Failed to decode policy template: objectDefinition must be an object"),
        ({}, "Failed to decode policy template: objectDefinition must be an object"),
        (defined(kind=""), "Failed to decode policy template: objectDefinition.kind must be a text that is not empty"),
        (
            defined(apiVersion=3),
            "Failed to decode policy template: objectDefinition.apiVersion must be a text that is not empty",
        ),
        (defined(spec=[]), "Failed to decode policy template: objectDefinition.spec must be an object"),
        (defined(metadata="x"), "Failed to decode policy template: objectDefinition.metadata must be an object"),
        (
            defined(metadata={"name": "a", "labels": {"x": 1}}),
            "Failed to decode policy template: objectDefinition.metadata.labels must map texts to texts",
        ),
        (defined(metadata={}), "Failed to get name from policy template at index 1"),
        ({"objectDefinition": {"apiVersion": "v1", "kind": "K"}}, "Failed to get name from policy template at index 1"),
    ],
)
def test_a_template_that_cannot_be_read_has_a_number_for_a_name_and_stops_no_other(listed: Any, said: str) -> None:
    assert read(template("a"), listed, template("c")) == [("a", ""), ("template-1", said), ("c", "")]


def test_two_templates_of_one_name_are_an_error_of_all() -> None:
    said = "All policy-template names must be unique within a policy"
    assert read(template("a"), template("b"), template("a")) == [("a", said), ("b", said), ("a", said)]


def test_what_waits_to_be_filled_in_is_an_error_that_names_the_place_and_not_the_text() -> None:
    secret = 'objectDefinition.spec.object-templates[0].objectDefinition.data.value contains "{{"'
    ((_, said),) = read(template(value="x {{ fromSecret }} y"))
    assert said == f"{secret}, and templates are not filled in on this cluster"
    ((_, said),) = read(defined(**{"{{ key }}": 1}))
    assert said.startswith('objectDefinition contains "{{"')
    assert read(template(value="{ {")) == [("web", "")]


def test_what_the_hub_could_not_fill_in_is_told_in_its_words() -> None:
    note = {f"{GROUP}/hub-templates-error": "no such thing"}
    wrong = defined(metadata={"name": "a", "annotations": note})
    (found,) = read_templates({"policy-templates": [wrong]})
    assert (found.error, found.lost) == ("no such thing", True)


@pytest.mark.parametrize(
    ("own", "of_policy", "action"),
    [
        ("", "enforce", "enforce"),
        ("inform", "Enforce", "Enforce"),  # as it is written
        ("enforce", "inform", "inform"),
        ("enforce", "", "enforce"),
        ("", "", ""),
        ("informonly", "enforce", "inform"),
        ("InformOnly", "", "inform"),
    ],
)
def test_the_action_of_the_policy_wins_except_over_informonly(own: str, of_policy: str, action: str) -> None:
    (found,) = read_templates({"policy-templates": [template(action=own)]})
    parent = policy(template(action=own), action=of_policy)
    assert action_of(found, parent) == action
    assert is_enforced(found, parent) == (action.lower() == "enforce")
    spec = object_of(found, parent)["spec"]
    assert spec["remediationAction"] == (action or "inform")


def test_an_object_is_in_the_cluster_namespace_labelled_and_the_policys_own() -> None:
    listed = defined(
        metadata={
            "name": "web",
            "namespace": "elsewhere",
            "labels": {"a": "b"},
            "annotations": {"c": "d", HELD: "true"},
        },
        status={"compliant": "Compliant"},
    )
    (found,) = read_templates({"policy-templates": [listed]})
    made = object_of(found, policy(listed))
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"], meta["annotations"]) == ("web", CLUSTER, {"c": "d"})
    assert meta["labels"] == {
        "a": "b",
        PARENT: NAME,
        "cluster-name": CLUSTER,
        "cluster-namespace": CLUSTER,
        f"{GROUP}/cluster-name": CLUSTER,
        f"{GROUP}/cluster-namespace": CLUSTER,
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Policy", NAME, "u1", True)
    assert "status" not in made
    assert made["spec"]["pruneObjectBehavior"] == "None"
    assert made["spec"]["object-templates"][0]["recreateOption"] == "None"
