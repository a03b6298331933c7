"""What clusters get of a policy: digests tell contents apart by what would be done, and dependencies mean the same."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.policy import GROUP
from echelon.engine.policy.content import (
    INFORM,
    body_of,
    digest_of,
    read_content,
    rollback_patch,
    stored_fields,
    with_stored,
)
from echelon.engine.policy.names import HUB_TEMPLATES_ERROR
from echelon.engine.rollout.stored_revision import StoredRevision
from tests.controllers.policy_world import template

ROOT = Key("apps", "audit")
SETS = {"basics": ("one", "two"), "empty": ()}
ACTIONS = st.sampled_from(["", "inform", "Inform", "enforce", "Enforce"])
OWN = st.sampled_from([None, "inform", "enforce", "Enforce", "informonly", "InformOnly"])


@st.composite
def templates(draw: st.DrawFn) -> list[JSONObject]:
    found = []
    for number in range(draw(st.integers(0, 3))):
        own = draw(OWN)
        spec = {"remediationAction": own} if own is not None else {}
        found.append(template(draw(st.sampled_from("12")), f"t{number}", **spec))
    return found


@st.composite
def specs(draw: st.DrawFn) -> JSONObject:
    spec: JSONObject = {"disabled": False, "policy-templates": draw(templates())}
    if action := draw(ACTIONS):
        spec["remediationAction"] = action
    if draw(st.booleans()):
        spec["dependencies"] = [{"apiVersion": f"{GROUP}/v1", "kind": "Policy", "name": "x", "compliance": "Compliant"}]
    return spec


def enforces(action: str, own: str) -> bool:
    """Whether a template is enforced, in the words of the specification."""
    if own.lower() == "informonly":
        return False
    return (action or own).lower() == "enforce"


@given(specs())
def test_a_policy_is_enforceable_if_a_template_would_be_enforced(spec: JSONObject) -> None:
    content = read_content(ROOT, spec, SETS)
    own = [each["objectDefinition"]["spec"].get("remediationAction") or "" for each in spec["policy-templates"]]
    assert content.enforceable == any(enforces(spec.get("remediationAction", ""), each) for each in own)


@given(specs())
def test_what_is_held_differs_from_what_is_in_force_unless_the_policy_only_informs(spec: JSONObject) -> None:
    content = read_content(ROOT, spec, SETS)
    held, full = content.digest(INFORM), content.revision
    assert (held == full) == (spec.get("remediationAction", "").lower() == "inform")
    assert content.spec_with(INFORM)["remediationAction"] == INFORM


@given(specs(), ACTIONS)
def test_a_replica_has_the_digest_of_the_content_that_was_written_to_it(spec: JSONObject, action: str) -> None:
    content = read_content(ROOT, spec, SETS)
    written = content.spec_with(action)
    assert digest_of(body_of(written), written.get("remediationAction", "")) == content.digest(action)


@given(specs(), specs())
def test_two_contents_have_one_digest_only_if_they_are_the_same(one: JSONObject, other: JSONObject) -> None:
    def means(spec: JSONObject) -> tuple[Any, ...]:
        action = spec.get("remediationAction", "").lower()
        return spec["policy-templates"], spec.get("dependencies", []), action

    same = means(one) == means(other)
    assert (read_content(ROOT, one, SETS).revision == read_content(ROOT, other, SETS).revision) == same


@given(specs(), st.booleans(), st.sampled_from([None, {"type": "Progressive"}]))
def test_what_is_no_content_starts_nothing(spec: JSONObject, copies: bool, strategy: JSONObject | None) -> None:
    other = {**spec, "copyPolicyMetadata": copies, "rolloutStrategy": strategy, "of-a-newer-client": 1}
    assert read_content(ROOT, other, SETS).revision == read_content(ROOT, spec, SETS).revision
    assert read_content(ROOT, other, SETS).spec["of-a-newer-client"] == 1


@given(specs())
def test_reading_a_policy_leaves_it_as_it_is(spec: JSONObject) -> None:
    before = deepcopy(spec)
    read_content(ROOT, spec, SETS)
    assert spec == before


@given(specs(), specs())
def test_a_stored_content_is_what_it_was_wherever_it_is_put_back(stored: JSONObject, spec: JSONObject) -> None:
    back = with_stored(spec, stored_fields(stored))
    assert read_content(ROOT, back, SETS).revision == read_content(ROOT, stored, SETS).revision


@given(specs(), specs())
def test_the_patch_of_an_undo_does_just_that(stored: JSONObject, spec: JSONObject) -> None:
    revision = StoredRevision("audit-1", "uid", "1", 1, "1", "", stored_fields(stored))
    patched = deepcopy(spec)
    for step in rollback_patch(revision):
        field = step["path"].removeprefix("/spec/")
        if step["op"] == "add":
            patched[field] = step["value"]
        else:
            del patched[field]
    assert patched == with_stored(spec, stored_fields(stored))


def dependency(kind: str, name: str, namespace: str | None = None, version: str = "v1") -> JSONObject:
    found = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "name": name, "compliance": "Compliant"}
    return found if namespace is None else {**found, "namespace": namespace}


@pytest.mark.parametrize(
    ("given_as", "meant"),
    [
        (dependency("Policy", "x"), [("Policy", "", "apps.x")]),
        (dependency("Policy", "x", "other"), [("Policy", "", "other.x")]),
        (dependency("Policy", "other.x"), [("Policy", "", "other.x")]),
        (dependency("Policy", "x.y", "other"), [("Policy", "", "other.x.y")]),
        (
            dependency("PolicySet", "basics", version="v1beta1"),
            [("Policy", "", "apps.one"), ("Policy", "", "apps.two")],
        ),
        (dependency("PolicySet", "missing", version="v1beta1"), [("PolicySet", "apps", "missing")]),
        (dependency("ConfigurationPolicy", "x"), [("ConfigurationPolicy", "", "x")]),
        (dependency("PolicySet", "empty", version="v1beta1"), []),
        (dependency("PolicySet", "basics", "other", "v1beta1"), [("PolicySet", "other", "basics")]),
        (dependency("Policy", "x", version="v2"), [("Policy", "", "x")]),
    ],
)
@pytest.mark.parametrize("extra", [False, True])
def test_dependencies_mean_on_clusters_what_they_mean_here(
    given_as: JSONObject, meant: list[tuple[str, str, str]], extra: bool
) -> None:
    spec: JSONObject = {"disabled": False, "policy-templates": [template()]}
    if extra:
        spec["policy-templates"] = [{**template(), "extraDependencies": [given_as]}]
    else:
        spec["dependencies"] = [given_as]
    replica = read_content(ROOT, spec, SETS).spec
    found = replica["policy-templates"][0]["extraDependencies"] if extra else replica["dependencies"]
    assert [(each["kind"], each.get("namespace", ""), each["name"]) for each in found] == meant
    assert all(each["compliance"] == "Compliant" for each in found)


@pytest.mark.parametrize("where", ["value", "key", "list"])
def test_a_template_for_the_hub_is_marked_as_one_that_cannot_be_filled_in(where: str) -> None:
    definition = template()["objectDefinition"]
    text = '{{hub fromSecret "" "x" "y" hub}}'
    definition["spec"]["x"] = {"value": text, "key": {text: 1}, "list": [[text]]}[where]
    definition["metadata"]["annotations"] = {"mine": "stays"}
    spec = {"policy-templates": [{"objectDefinition": definition}, template(name="other")]}
    marked, other = read_content(ROOT, spec, SETS).spec["policy-templates"]
    annotations = marked["objectDefinition"]["metadata"]["annotations"]
    assert annotations["mine"] == "stays"
    assert "hub templates" in annotations[HUB_TEMPLATES_ERROR]
    assert marked["objectDefinition"]["spec"] == definition["spec"]
    assert other == template(name="other")


@pytest.mark.parametrize(
    ("templates", "named"),
    [(None, "spec.policy-templates"), ({}, "spec.policy-templates"), (["x"], "spec.policy-templates[0]")],
)
def test_what_cannot_be_read_is_named(templates: Any, named: str) -> None:
    assert named in read_content(ROOT, {"policy-templates": templates}, SETS).problem
