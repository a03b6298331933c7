"""Objects of the kinds that people write policies about: made, compared and removed on a whole server."""

from typing import Any

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import ROLE, ROLE_BINDING
from tests.agent.configuration_policy.world import message, policy, state, template, told
from tests.agent.world import World

RBAC = "rbac.authorization.k8s.io"
CAN_LOOK = {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list", "watch"]}
CAN_CHANGE = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}


def pod(**spec: Any) -> JSONObject:
    meta = {"name": "web", "namespace": "default"}
    containers = [{"name": "main", "image": "web:1", "args": ["sh", "-c", "sleep  1; echo a b"]}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers, **spec}}


def role(*rules: JSONObject) -> JSONObject:
    meta = {"name": "reader", "namespace": "default"}
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": list(rules)}


def role_binding() -> JSONObject:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": "default"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }


def test_a_pod_is_missed_made_and_removed() -> None:
    async def story(here: World) -> None:
        await policy(here, template(pod()), remediationAction="inform")
        assert (await state(here), await here.member.has(POD, "web")) == ("NonCompliant", False)
        await policy(here, template(pod()))
        assert (await state(here), await here.member.has(POD, "web")) == ("Compliant", True)
        await policy(here, template(pod(), "mustnothave"), remediationAction="inform")
        assert (await state(here), await here.member.has(POD, "web")) == ("NonCompliant", True)
        await policy(here, template(pod(), "mustnothave"), settle=60)
        assert (await state(here), await here.member.has(POD, "web")) == ("Compliant", False)

    told(story)


def test_roles_and_bindings_are_made_and_their_lists_merged() -> None:
    async def story(here: World) -> None:
        await policy(here, template(role(CAN_LOOK)), template(role_binding()))
        assert (await state(here), await here.member.has(ROLE_BINDING, "reader")) == ("Compliant", True)
        # Fewer items than there are, in another order, are there already; a further rule is added to the one that is.
        fewer = {**CAN_LOOK, "resources": ["deployments", "pods"], "verbs": ["watch", "get"]}
        await policy(here, template(role(fewer)), remediationAction="inform")
        assert await state(here) == "Compliant"
        await policy(here, template(role(CAN_CHANGE)))
        assert (await here.member.get(ROLE, "reader"))["rules"] == [CAN_LOOK, CAN_CHANGE]
        await policy(here, template(role(CAN_CHANGE), "mustonlyhave"))
        assert (await here.member.get(ROLE, "reader"))["rules"] == [CAN_CHANGE]
        await policy(here, template(role(), "mustnothave"), template(role_binding(), "mustnothave"))
        assert not await here.member.has(ROLE, "reader")
        assert not await here.member.has(ROLE_BINDING, "reader")

    told(story)


def test_a_kind_that_comes_later_is_enforced_then_also_without_a_namespace() -> None:
    names = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "metadata": {"name": "gadgets.example.io"},
        "spec": {"group": "example.io", "names": names, "scope": "Cluster", "versions": [version]},
    }
    gadget = {"apiVersion": "example.io/v1", "kind": "Gadget", "metadata": {"name": "g"}, "size": 1}

    async def story(here: World) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made"}}
        await policy(here, template(gadget), template(namespace))
        assert await state(here) == "NonCompliant"
        assert "Gadget" in await message(here)
        assert await here.member.has(NAMESPACE, "made"), "one that cannot be had holds up no other"
        await here.member.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        await here.settle(120)
        assert await state(here) == "Compliant"

    told(story)


@pytest.mark.parametrize("type_", ["musthave", "mustonlyhave"])
def test_what_is_empty_is_neither_missed_nor_written_again(type_: str) -> None:
    async def story(here: World) -> None:
        empty = pod(volumes=[{"name": "scratch", "emptyDir": {}}], nodeSelector={}, tolerations=[])
        empty["metadata"]["labels"] = {}
        listed = template(empty, "musthave", metadataComplianceType=type_)
        await policy(here, listed)
        before = await here.member.get(POD, "web")
        assert before["spec"]["volumes"][0]["emptyDir"] == {}
        await policy(here, listed, severity="high")
        assert await state(here) == "Compliant"
        assert await here.member.get(POD, "web") == before

    told(story)
