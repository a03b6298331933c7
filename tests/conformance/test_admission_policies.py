"""Admission policies: the same requests pass, and the same are refused, in the same words, on every server."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from echelon.api.admissionregistration import (
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
)
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.kube.client import Client, MergePatch, WriteOptions
from echelon.kube.errors import ApiError, Invalid
from tests.conformance.targets import Target

POLICIES, BINDINGS = VALIDATING_ADMISSION_POLICY.untyped(), VALIDATING_ADMISSION_POLICY_BINDING.untyped()
MAPS = CONFIG_MAP.untyped()
READY_SECONDS = 30.0
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
LABEL = "policies-are-tried-here"


def _rules(*operations: str, **more: Any) -> JSONObject:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": ["configmaps"]}
    return {"resourceRules": [rule], "namespaceSelector": {"matchLabels": {LABEL: WORKER}}, **more}


SPECS: dict[str, JSONObject] = {
    "words": {
        "matchConstraints": _rules("CREATE", "UPDATE"),
        "matchConditions": [
            {"name": "not-exempt", "expression": "object.metadata.?labels[?'exempt'].orValue('') != 'true'"}
        ],
        "variables": [
            {"name": "data", "expression": "object.?data.orValue({})"},
            {"name": "size", "expression": "variables.data[?'size'].orValue('small')"},
            {"name": "broken", "expression": "object.nothing.here"},
        ],
        "validations": [
            {"expression": "variables.size != 'large'", "message": " no large ones ", "reason": "Forbidden"},
            {"expression": "variables.size != 'huge'"},
            {"expression": "variables.size != 'odd' || object.nothing == 'x'"},
            {"expression": "variables.size != 'even' || variables.broken == 'x'"},
            {
                "expression": "variables.size != 'told' || (oldObject == null) != (request.operation == 'CREATE')",
                "messageExpression": "request.operation + ' of ' + request.namespace + '/' + request.name + ' as '"
                " + request.userInfo.username + ' in ' + namespaceObject.metadata.name",
                "reason": "RequestEntityTooLarge",
            },
            {
                "expression": "variables.size != 'mute'",
                "message": "said otherwise",
                "messageExpression": "string(object.nothing)",
            },
            {
                "expression": "variables.size != 'asked' || !authorizer.group('').resource('configmaps')"
                ".namespace(request.namespace).check('create').allowed() || "
                "authorizer.serviceAccount('default', 'default').path('/metrics').check('get')"
                ".allowed()",
                "message": "asked",
            },
        ],
    },
    "deletions": {
        "matchConstraints": _rules("DELETE"),
        "validations": [
            {"expression": "object == null && oldObject.data.?kept.orValue('') != 'true'", "message": "it is kept"}
        ],
    },
    "lenient": {
        "failurePolicy": "Ignore",
        "matchConstraints": _rules("CREATE", objectSelector={"matchLabels": {"lenient": "true"}}),
        "validations": [
            {"expression": "object.nothing == 'x'"},
            {"expression": "object.?data.?size.orValue('') != 'wrong'", "message": "wrong"},
        ],
    },
}


def _name(name: str) -> str:
    return f"tried-{WORKER}-{name}"


@pytest.fixture(scope="module")
def policed(target: Target, runner: asyncio.Runner) -> Iterator[str]:
    """Return a namespace in which the policies are in force."""
    name = f"policed-{WORKER}-{target.name}"
    runner.run(_install(target.client, name))
    yield name
    runner.run(_remove(target.client, name))


async def _install(client: Client, namespace: str) -> None:
    labelled = {"name": namespace, "labels": {LABEL: WORKER}}
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
    for name, spec in SPECS.items():
        await client.create(POLICIES, _document(POLICIES.kind, name, spec))
        binding = {"policyName": _name(name), "validationActions": ["Deny"]}
        await client.create(BINDINGS, _document(BINDINGS.kind, name, binding))
    await _make(client, namespace, "probe", {"kept": "true"})
    async with asyncio.timeout(READY_SECONDS):
        while not await _in_force(client, namespace):  # noqa: ASYNC110 - elsewhere
            await asyncio.sleep(0.1)


def _document(kind: str, name: str, spec: JSONObject) -> JSONObject:
    return {"apiVersion": POLICIES.api_version, "kind": kind, "metadata": {"name": _name(name)}, "spec": spec}


async def _in_force(client: Client, namespace: str) -> bool:
    tried = [
        await _tried(client, namespace, {"size": "large"}),
        await _tried(client, namespace, {"size": "wrong"}, lenient="true"),
    ]
    try:
        await client.delete(MAPS, "probe", namespace)
    except ApiError:
        return all(tried)
    await _make(client, namespace, "probe", {"kept": "true"})
    return False


async def _remove(client: Client, namespace: str) -> None:
    for name in SPECS:
        await client.delete(BINDINGS, _name(name))
        await client.delete(POLICIES, _name(name))
    await client.delete(NAMESPACE, namespace)


async def _make(client: Client, namespace: str, name: str, data: JSONObject, **labels: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": data}
    await client.create(MAPS, body, namespace)


async def _tried(client: Client, namespace: str, data: JSONObject, **labels: str) -> ApiError | None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "labels": labels}, "data": data}
    try:
        await client.create(MAPS, body, namespace, options=WriteOptions(dry_run=True))
    except ApiError as error:
        return error
    return None


REFUSALS = {
    "large": (403, "Forbidden", "no large ones"),
    "huge": (422, "Invalid", "failed expression: variables.size != 'huge'"),
    "odd": (
        422,
        "Invalid",
        "expression 'variables.size != 'odd' || object.nothing == 'x'' resulted in error: no such key: nothing",
    ),
    "even": (
        422,
        "Invalid",
        (
            "expression 'variables.size != 'even' || variables.broken == 'x'' resulted in error: composited variable "
            '"broken" fails to evaluate: no such key: nothing'
        ),
    ),
    "mute": (422, "Invalid", "said otherwise"),
    "asked": (422, "Invalid", "asked"),
}


@pytest.mark.parametrize("size", REFUSALS)
async def test_a_refusal_has_the_reason_and_the_words_that_the_policy_asks_for(
    target: Target, policed: str, size: str
) -> None:
    refused = await _tried(target.client, policed, {"size": size})
    assert refused is not None
    code, reason, why = REFUSALS[size]
    name = _name("words")
    message = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {why}"
    assert refused.message == f'configmaps "web" is forbidden: {message}'
    assert (refused.status_code, refused.status_reason) == (code, reason)
    assert refused.details == {"name": "web", "kind": "configmaps", "causes": [{"message": message}]}


async def test_a_message_can_tell_who_did_what_where(target: Target, policed: str) -> None:
    refused = await _tried(target.client, policed, {"size": "told"})
    assert refused is not None
    assert refused.status_code == 413
    assert f"denied request: CREATE of {policed}/web as " in refused.message
    assert refused.message.endswith(f" in {policed}")
    await _make(target.client, policed, "changing", {"size": "small"})
    with pytest.raises(ApiError, match=f"denied request: UPDATE of {policed}/changing as"):
        await target.client.patch(MAPS, "changing", MergePatch({"data": {"size": "told"}}), policed)


async def test_what_is_no_mistake_or_not_meant_passes(target: Target, policed: str, namespace: str) -> None:
    assert await _tried(target.client, policed, {"size": "small"}) is None
    assert await _tried(target.client, policed, {"size": "large"}, exempt="true") is None
    assert await _tried(target.client, namespace, {"size": "large"}) is None


async def test_an_expression_without_a_value_passes_only_a_policy_that_ignores_failures(
    target: Target, policed: str
) -> None:
    assert await _tried(target.client, policed, {"size": "small"}, lenient="true") is None
    refused = await _tried(target.client, policed, {"size": "wrong"}, lenient="true")
    assert refused is not None
    assert refused.message.endswith("denied request: wrong")
    assert await _tried(target.client, policed, {"size": "wrong"}) is None


async def test_a_deletion_is_seen_by_its_old_state(target: Target, policed: str) -> None:
    await _make(target.client, policed, "kept", {"kept": "true"})
    await _make(target.client, policed, "not-kept", {"kept": "false"})
    with pytest.raises(Invalid) as refused:
        await target.client.delete(MAPS, "kept", policed)
    assert refused.value.message.endswith("denied request: it is kept")
    await target.client.delete(MAPS, "not-kept", policed)
    await target.client.patch(MAPS, "kept", MergePatch({"data": {"kept": "false"}}), policed)
    await target.client.delete(MAPS, "kept", policed)


BAD_POLICIES: dict[str, tuple[JSONObject, str]] = {
    "unknown variable": (
        {"validations": [{"expression": "objekt == null"}]},
        (
            'spec.validations[0].expression: Invalid value: "objekt == null": compilation failed: ERROR: <input>:1:1: '
            "undeclared reference to 'objekt'"
        ),
    ),
    "no bool": (
        {"validations": [{"expression": "object.spec.replicas"}]},
        'spec.validations[0].expression: Invalid value: "object.spec.replicas": must evaluate to bool',
    ),
    "no expression": (
        {"validations": [{"expression": " "}]},
        "spec.validations[0].expression: Required value: expression is not specified",
    ),
    "message that is no text": (
        {"validations": [{"expression": "true", "messageExpression": "1 + 1"}]},
        'spec.validations[0].messageExpression: Invalid value: "1 + 1": must evaluate to string',
    ),
    "message that asks for rights": (
        {"validations": [{"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}]},
        "undeclared reference to 'authorizer'",
    ),
    "unknown reason": (
        {"validations": [{"expression": "true", "reason": "Because"}]},
        (
            'spec.validations[0].reason: Unsupported value: "Because": supported values: "Forbidden", "Invalid", '
            '"RequestEntityTooLarge"'
        ),
    ),
    "line breaks": (
        {"validations": [{"expression": "true", "message": "a\nb"}]},
        'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
    ),
    "nothing to validate": (
        {"validations": []},
        "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
    ),
    "variable that is used before it is made": (
        {"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]},
        'spec.variables[0].expression: Invalid value: "variables.b": compilation failed',
    ),
    "variable with a bad name": (
        {"variables": [{"name": "a-b", "expression": "1"}]},
        'spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier',
    ),
    "condition that uses a variable": (
        {
            "variables": [{"name": "a", "expression": "true"}],
            "matchConditions": [{"name": "x", "expression": "variables.a"}],
        },
        'spec.matchConditions[0].expression: Invalid value: "variables.a": compilation failed: ERROR',
    ),
    "failure policy": (
        {"failurePolicy": "Explode"},
        'spec.failurePolicy: Unsupported value: "Explode": supported values: "Fail", "Ignore"',
    ),
    "no rules": ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules: Required value"),
    "operation": (
        {"matchConstraints": _rules("CREATE", "READ")},
        (
            'spec.matchConstraints.resourceRules[0].operations[1]: Unsupported value: "READ": supported values: "*", '
            '"CONNECT", "CREATE", "DELETE", "UPDATE"'
        ),
    ),
    "scope": (
        {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [], "apiVersions": ["*", "v1"], "operations": ["*"], "resources": [""], "scope": "x"}
                ]
            }
        },
        "spec.matchConstraints.resourceRules[0].apiGroups: Required value",
    ),
    "selector": (
        {"matchConstraints": _rules("CREATE", objectSelector={"matchLabels": {"a b": "c"}})},
        'spec.matchConstraints.objectSelector.matchLabels: Invalid value: "a b"',
    ),
}


@pytest.mark.parametrize("mistake", BAD_POLICIES)
async def test_a_policy_that_cannot_be_understood_is_refused_with_the_field(target: Target, mistake: str) -> None:
    change, why = BAD_POLICIES[mistake]
    spec = {"matchConstraints": _rules("CREATE"), "validations": [{"expression": "true"}], **change}
    with pytest.raises(Invalid) as refused:
        await target.client.create(POLICIES, _document(POLICIES.kind, "bad", spec))
    assert why in refused.value.message


BAD_BINDINGS: dict[str, tuple[JSONObject, str]] = {
    "no policy": ({"policyName": ""}, "spec.policyName: Required value"),
    "no action": (
        {"validationActions": []},
        "spec.validationActions: Required value: at least one validation action is required",
    ),
    "unknown action": (
        {"validationActions": ["Shout"]},
        'spec.validationActions[0]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"',
    ),
    "both": ({"validationActions": ["Deny", "Warn"]}, "must not contain both Deny and Warn"),
}


@pytest.mark.parametrize("mistake", BAD_BINDINGS)
async def test_a_binding_that_cannot_be_understood_is_refused_with_the_field(target: Target, mistake: str) -> None:
    change, why = BAD_BINDINGS[mistake]
    spec = {"policyName": "some-policy", "validationActions": ["Deny"], **change}
    with pytest.raises(Invalid) as refused:
        await target.client.create(BINDINGS, _document(BINDINGS.kind, "bad", spec))
    assert why in refused.value.message


async def test_defaults_and_generations_are_those_of_kubernetes(target: Target) -> None:
    spec: JSONObject = {
        "matchConstraints": {"resourceRules": _rules("CREATE")["resourceRules"]},
        "validations": [{"expression": "true"}],
    }
    made = await target.client.create(POLICIES, _document(POLICIES.kind, "plain", spec))
    try:
        assert made["metadata"]["generation"] == 1
        assert made["spec"]["failurePolicy"] == "Fail"
        constraints = made["spec"]["matchConstraints"]
        assert constraints["matchPolicy"] == "Equivalent"
        assert constraints["namespaceSelector"] == constraints["objectSelector"] == {}
        assert constraints["resourceRules"][0]["scope"] == "*"
        change = MergePatch({"spec": {"validations": [{"expression": "1 == 1"}]}})
        changed = await target.client.patch(POLICIES, _name("plain"), change)
        assert changed["metadata"]["generation"] == 2
    finally:
        await target.client.delete(POLICIES, _name("plain"))
