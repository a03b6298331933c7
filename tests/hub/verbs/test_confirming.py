"""A patch that changes nothing tells whether an object is still what somebody takes it for, and costs little."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.hub.client import InProcessClient
from echelon.hub.schema import cel
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.errors import Conflict, Invalid, NotFound

GADGET: Kind[Any] = Kind("example.com", "v1", "Gadget", "gadgets", dict, status=True)
GROWS = {"rule": "self.size > oldSelf.size", "message": "it has to grow"}
SMALL = {"rule": "self.size < 9"}


def run(scenario: Callable[[InProcessClient, JSONObject], Coroutine[Any, Any, None]], *rules: JSONObject) -> None:
    """Let something happen to a gadget whose spec has rules."""
    size = {"type": "integer"}
    spec = {"type": "object", "properties": {"size": size}, "x-kubernetes-validations": list(rules)}
    status = {"type": "object", "properties": {"size": size}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": GADGET.resource},
        "spec": {
            "group": GADGET.group,
            "scope": "Namespaced",
            "names": {"kind": GADGET.kind, "plural": GADGET.plural},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }

    async def inner() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        body = {**GADGET.type_meta, "metadata": {"name": "a"}, "spec": {"size": 3}}
        await scenario(client, await client.create(GADGET, body, "default"))

    asyncio.run(inner())


async def patch(client: InProcessClient, subresource: str = "", **metadata: object) -> JSONObject:
    body = {"metadata": metadata} if metadata else {}
    found: JSONObject = await client.patch(GADGET, "a", MergePatch(body), "default", subresource=subresource)
    return found


@pytest.mark.parametrize("subresource", ["", "status"])
def test_it_says_whether_this_is_the_object(subresource: str) -> None:
    async def scenario(client: InProcessClient, made: JSONObject) -> None:
        uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
        for said in ({}, {"uid": uid}, {"resourceVersion": version}, {"uid": uid, "resourceVersion": version}):
            assert await patch(client, subresource, **said) == made
        with pytest.raises(Conflict, match="has been modified"):
            await patch(client, subresource, uid=uid, resourceVersion="1")
        with pytest.raises(Invalid, match="field is immutable"):
            await patch(client, subresource, uid="another", resourceVersion=version)
        await client.delete(GADGET, "a", "default")
        with pytest.raises(NotFound):
            await patch(client, subresource, uid=uid)

    run(scenario, SMALL)


def test_a_rule_about_the_change_is_asked_all_the_same() -> None:
    async def scenario(client: InProcessClient, _: JSONObject) -> None:
        with pytest.raises(Invalid, match="it has to grow"):
            await patch(client)

    run(scenario, GROWS)


def test_so_is_an_admission_policy() -> None:
    async def scenario(client: InProcessClient, _: JSONObject) -> None:
        rule = {"apiGroups": [GADGET.group], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["gadgets"]}
        never = {"expression": "false", "message": "nothing goes"}
        spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [never]}
        about = {"metadata": {"name": "locked"}}
        policy = VALIDATING_ADMISSION_POLICY
        await client.create(policy.untyped(), {**policy.type_meta, **about, "spec": spec})
        bound = {"policyName": "locked", "validationActions": ["Deny"]}
        binding = VALIDATING_ADMISSION_POLICY_BINDING
        await client.create(binding.untyped(), {**binding.type_meta, **about, "spec": bound})
        with pytest.raises(Invalid, match="nothing goes"):
            await patch(client)

    run(scenario)


def test_what_was_accepted_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    walk = cel.Rules.walk

    def counted(self: cel.Rules, found: Any, obj: object, *others: Any, **more: Any) -> Any:
        asked.append(obj)
        return walk(self, found, obj, *others, **more)

    async def scenario(client: InProcessClient, made: JSONObject) -> None:
        monkeypatch.setattr(cel.Rules, "walk", counted)
        await patch(client, uid=made["metadata"]["uid"])
        assert asked == []
        await patch(client, labels={"a": "b"})
        assert len(asked) == 1

    run(scenario, SMALL)
