"""Admission policies of the embedded hub, beyond what the conformance suite holds against Kubernetes."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, EVENT, SECRET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.policy.expressions import expressions_of
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.errors import ApiError, Invalid
from tests.hub.api import Api
from tests.hub.conftest import HubProcess

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
NOT_LARGE = {
    "expression": "[object, oldObject].all(each, each == null || each.?data.?size.orValue('') != 'large')",
    "message": "no large ones",
}


def policy(name: str, *, rule: JSONObject | None = None, **spec: Any) -> JSONObject:
    usual = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    constraints = {"resourceRules": [{**usual, **(rule or {})}], **spec.pop("constraints", {})}
    whole = {"matchConstraints": constraints, "validations": [NOT_LARGE], **spec}
    kind = VALIDATING_ADMISSION_POLICY
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": whole}


def binding(name: str, *actions: str, **spec: Any) -> JSONObject:
    kind = VALIDATING_ADMISSION_POLICY_BINDING
    whole = {"policyName": name, "validationActions": list(actions or ("Deny",)), **spec}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": whole}


def config_map(name: str, size: str, **labels: str) -> JSONObject:
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"size": size}}


Scenario = Callable[[LogicalCluster, InProcessClient], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    async def inner() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        await scenario(cluster, InProcessClient(cluster, ROOT))

    asyncio.run(inner())


async def install(client: InProcessClient, wanted: JSONObject, bound: JSONObject | None = None) -> None:
    await client.create(VALIDATING_ADMISSION_POLICY.untyped(), wanted)
    body = bound or binding(wanted["metadata"]["name"])
    await client.create(VALIDATING_ADMISSION_POLICY_BINDING.untyped(), body)


async def refused(client: InProcessClient, kind: Kind[Any], body: JSONObject, namespace: str = "default") -> str:
    try:
        await client.create(kind.untyped(), body, namespace)
    except ApiError as error:
        return error.message
    return ""


# --- over HTTP, by a hub that remembers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    directory = tmp_path_factory.mktemp("policies")
    running = HubProcess(directory, ["--data", str(directory / "data")])
    running.start()
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.log()


@pytest.mark.full
def test_policies_are_in_force_again_after_a_restart(hub: HubProcess) -> None:
    api = Api.of(hub.kubeconfig)
    api.ok("POST", POLICIES, policy("strict", constraints={"objectSelector": {"matchLabels": {"strict": "true"}}}))
    api.ok("POST", BINDINGS, binding("strict"))
    assert api("POST", MAPS, config_map("a", "large", strict="true")).status == 422
    assert hub.stop() == 0
    hub.start()
    api = Api.of(hub.kubeconfig)
    answer = api("POST", MAPS, config_map("a", "large", strict="true"))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.message == (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'strict' with binding 'strict' denied request: "
        "no large ones"
    )
    api.ok("DELETE", f"{BINDINGS}/strict")
    assert api("POST", MAPS, config_map("a", "large", strict="true")).status == 201


def test_a_binding_can_warn_and_note_instead_of_denying(hub: HubProcess) -> None:
    api = Api.of(hub.kubeconfig)
    api.ok("POST", POLICIES, policy("noted", constraints={"objectSelector": {"matchLabels": {"noted": "true"}}}))
    api.ok("POST", BINDINGS, binding("noted", "Warn", "Audit"))
    made = api("POST", MAPS, config_map("noted", "large", noted="true"))
    warning = "Validation failed for ValidatingAdmissionPolicy 'noted' with binding 'noted': no large ones"
    assert made.status == 201
    assert [warning in each for each in made.warnings] == [True]
    gone = api("DELETE", f"{MAPS}/noted")
    assert gone.status == 200
    assert [warning in each for each in gone.warnings] == [True]
    assert hub.stop() == 0  # writes the rest of the audit log
    events = [json.loads(line) for line in (hub.directory / "data" / "audit.log").read_text().splitlines()]
    key = "validation.policy.admission.k8s.io/validation_failure"
    notes = {each["verb"]: each["annotations"][key] for each in events if key in each.get("annotations", {})}
    assert notes.keys() == {"create", "delete"}
    assert json.loads(notes["create"]) == [
        {
            "message": "no large ones",
            "policy": "noted",
            "binding": "noted",
            "expressionIndex": 0,
            "validationActions": ["Warn", "Audit"],
        }
    ]
    hub.start()


# --- what is asked of whom --------------------------------------------------------------------------------------------


def test_writes_that_no_policy_is_about_are_not_asked_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: LogicalCluster, client: InProcessClient) -> None:
        secrets = cluster.catalogue.find("", "v1", "secrets")
        assert cluster.policies.about(secrets, "", cluster.catalogue) == ()
        await install(client, policy("strict"))
        assert cluster.policies.about(secrets, "", cluster.catalogue) == ()
        # What was worked out once for a resource is not worked out again for a request.
        monkeypatch.setattr(type(cluster.policies), "_work_out", None)
        assert cluster.policies.about(secrets, "", cluster.catalogue) == ()
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        assert await refused(client, SECRET, body) == ""

    run(scenario)


def test_equal_policies_are_compiled_once_for_all_clusters() -> None:
    assert expressions_of(policy("one")["spec"]) is expressions_of(policy("other")["spec"])


def test_a_change_of_a_policy_or_binding_is_in_force_at_once() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        policies, bindings = VALIDATING_ADMISSION_POLICY.untyped(), VALIDATING_ADMISSION_POLICY_BINDING.untyped()
        await client.create(policies, policy("strict"))
        assert await refused(client, CONFIG_MAP, config_map("a", "large")) == ""  # nothing binds it yet
        await client.create(bindings, binding("strict"))
        assert "no large ones" in await refused(client, CONFIG_MAP, config_map("b", "large"))
        stricter = [{"expression": "object.data.size == 'small'", "message": "only small ones"}]
        await client.patch(policies, "strict", MergePatch({"spec": {"validations": stricter}}))
        assert "only small ones" in await refused(client, CONFIG_MAP, config_map("b", "medium"))
        await client.delete(policies, "strict")
        assert await refused(client, CONFIG_MAP, config_map("b", "large")) == ""

    run(scenario)


def test_a_binding_narrows_down_and_an_exclusion_excepts() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        except_b = {"excludeResourceRules": [{**_rule("configmaps"), "resourceNames": ["b"]}]}
        narrowed = binding("strict", matchResources={"namespaceSelector": {"matchLabels": {"team": "blue"}}})
        await install(client, policy("strict", constraints=except_b), narrowed)
        labelled = {"name": "blue", "labels": {"team": "blue"}}
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
        assert await refused(client, CONFIG_MAP, config_map("a", "large"), "default") == ""
        assert "no large ones" in await refused(client, CONFIG_MAP, config_map("a", "large"), "blue")
        assert await refused(client, CONFIG_MAP, config_map("b", "large"), "blue") == ""

    run(scenario)


def _rule(resource: str, **more: Any) -> JSONObject:
    return {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [resource], **more}


def test_a_namespace_is_selected_by_its_own_labels() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        blue = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
        never = [{"expression": "request.namespace != object.metadata.name", "message": "no blue ones"}]
        rule = _rule("namespaces", scope="Cluster")
        await install(client, policy("strict", rule=rule, constraints=blue, validations=never))

        def named(name: str, **labels: str) -> JSONObject:
            return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}

        assert await refused(client, NAMESPACE, named("red", team="red"), "") == ""
        assert "no blue ones" in await refused(client, NAMESPACE, named("blue", team="blue"), "")

    run(scenario)


def test_policies_are_never_about_policies() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        nothing = [{"expression": "false", "message": "nothing goes"}]
        await install(client, policy("locked", rule=_rule("*"), validations=nothing))
        assert "nothing goes" in await refused(client, CONFIG_MAP, config_map("a", "small"))
        await client.delete(VALIDATING_ADMISSION_POLICY, "locked")
        assert await refused(client, CONFIG_MAP, config_map("a", "small")) == ""

    run(scenario)


GADGETS: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets"},
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
            for name in ("v1beta1", "v1")
        ],
    },
}
BETA, STABLE = (Kind("example.com", version, "Gadget", "gadgets", dict, status=True) for version in ("v1beta1", "v1"))


@pytest.mark.parametrize(("exactly", "meant"), [("Equivalent", True), ("Exact", False)])
def test_a_request_in_another_version_is_meant_too_unless_the_policy_is_exact(*, exactly: str, meant: bool) -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), GADGETS)
        rule = {"apiGroups": ["example.com"], "resources": ["gadgets"], "apiVersions": ["v1"]}
        told = "object.apiVersion + ' ' + request.kind.version + ' ' + request.requestKind.version"
        validations = [{"expression": "object.large == 'no'", "messageExpression": told}]
        constraints = {"matchPolicy": exactly}
        await install(client, policy("strict", rule=rule, constraints=constraints, validations=validations))
        body = {"apiVersion": "example.com/v1beta1", "kind": "Gadget", "metadata": {"name": "a"}, "large": "yes"}
        said = await refused(client, BETA, body)
        assert said.endswith("denied request: example.com/v1 v1 v1beta1") if meant else said == ""
        assert "v1 v1 v1" in await refused(client, STABLE, {**body, "apiVersion": "example.com/v1"})

    run(scenario)


def test_events_of_both_groups_are_the_same_to_a_policy() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        rule = {"apiGroups": ["events.k8s.io"], "resources": ["events"]}
        validations = [{"expression": "object.note != 'large'", "message": "no large ones"}]
        await install(client, policy("strict", rule=rule, validations=validations))
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"namespace": "default"},
            "message": "large",
        }
        assert "no large ones" in await refused(client, EVENT, body)

    run(scenario)


def test_the_status_is_asked_about_only_when_it_is_named() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), GADGETS)
        body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}}
        await client.create(STABLE, body, "default")
        validations = [{"expression": "object.status.phase != 'wrong'", "messageExpression": "request.subResource"}]
        rule = {"apiGroups": ["example.com"], "resources": ["gadgets/status"]}
        await install(client, policy("strict", rule=rule, validations=validations))
        await client.patch(STABLE, "a", MergePatch({"metadata": {"labels": {"a": "b"}}}), "default")
        wrong = MergePatch({"status": {"phase": "wrong"}})
        with pytest.raises(Invalid, match="denied request: status"):
            await client.patch(STABLE, "a", wrong, "default", subresource="status")

    run(scenario)


# --- what the hub does not do is refused ------------------------------------------------------------------------------

UNSUPPORTED: dict[str, tuple[JSONObject, str]] = {
    "parameters": ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, "spec.paramKind: Forbidden:"),
    "audit annotations": (
        {"auditAnnotations": [{"key": "a", "valueExpression": "'b'"}]},
        "spec.auditAnnotations: Forbidden:",
    ),
    "subresources": (
        {"matchConstraints": {"resourceRules": [_rule("pods/*")]}},
        'spec.matchConstraints.resourceRules[0].resources[0]: Forbidden: "pods/*"',
    ),
    "field selectors of rights": (
        {
            "validations": [
                {
                    "expression": "authorizer.group('').resource('pods').fieldSelector('spec.nodeName=a')"
                    ".check('list').allowed()"
                }
            ]
        },
        "spec.validations[0].expression: Invalid value:",
    ),
    "parameters in expressions": (
        {"validations": [{"expression": "params == null"}]},
        "undeclared reference to 'params'",
    ),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_the_hub_does_not_do_is_refused_with_the_field(what: str) -> None:
    change, why = UNSUPPORTED[what]

    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        with pytest.raises(Invalid) as found:
            await client.create(VALIDATING_ADMISSION_POLICY.untyped(), policy("p", **change))
        assert why in found.value.message

    run(scenario)


def test_a_binding_with_parameters_is_refused() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        body = binding("p", paramRef={"name": "x", "parameterNotFoundAction": "Deny"})
        with pytest.raises(Invalid, match=r"spec\.paramRef: Forbidden"):
            await client.create(VALIDATING_ADMISSION_POLICY_BINDING.untyped(), body)

    run(scenario)


def test_a_question_that_is_asked_halfway_has_no_answer() -> None:
    async def scenario(_: LogicalCluster, client: InProcessClient) -> None:
        validations = [{"expression": "authorizer.resource('configmaps').check('get').allowed()"}]
        await install(client, policy("strict", validations=validations))
        assert "resulted in error" in await refused(client, CONFIG_MAP, config_map("a", "small"))

    run(scenario)


@pytest.mark.parametrize(("failure_policy", "passes"), [("Fail", False), ("Ignore", True)])
def test_a_stored_policy_that_cannot_be_used_any_more_denies_unless_failures_are_ignored(
    *, failure_policy: str, passes: bool
) -> None:
    async def scenario(cluster: LogicalCluster, client: InProcessClient) -> None:
        await install(client, policy("old", failurePolicy=failure_policy))
        stored = policy("old", failurePolicy=failure_policy, validations=[{"expression": "lost(object)"}])
        cluster.policies.changed(VALIDATING_ADMISSION_POLICY.resource, "old", stored)  # by a version that could do more
        said = await refused(client, CONFIG_MAP, config_map("a", "small"))
        words = "ValidatingAdmissionPolicy 'old' denied request: failed to configure policy: spec.validations[0]"
        assert said == "" if passes else words in said

    run(scenario)
