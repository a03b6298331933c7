"""A work that is applied on behalf of an account does only what that account may do."""

import asyncio
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE
from tests.agent.world import World, condition, config_map, target, told

ALL = ["create", "update", "patch", "get", "delete"]
EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "runner"}}}
RBAC = "rbac.authorization.k8s.io"


async def grant(here: World, *rules: JSONObject, role: str = "runner") -> None:
    """Give the account rights, in the place of those that it had."""
    if await here.member.has(CLUSTER_ROLE, role):
        await here.member.patch(CLUSTER_ROLE, role, {"rules": list(rules)})
        return
    made = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": role}, "rules": list(rules)}
    await here.member.create(made)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": "default"}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
    }
    await here.member.create(binding)


def may(verbs: list[str], resource: str = "configmaps", group: str = "", names: tuple[str, ...] = ()) -> JSONObject:
    rule: JSONObject = {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    return {**rule, "resourceNames": list(names)} if names else rule


def test_without_rights_nothing_is_applied_and_rights_take_effect_within_a_minute() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"), executor=EXECUTOR)
        assert (await here.status("Applied"), await here.status("Available")) == ("False", "Unknown")
        assert not await here.member.has(CONFIG_MAP, "one")
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert said.reason == "AppliedManifestFailed"
        assert said.message.endswith("will try again in 1m0s")
        await grant(here, may(ALL, names=("one",)))
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True", "False"]
        assert await here.each("Available") == ["True", "Unknown"]
        await grant(here, may(ALL))
        await asyncio.sleep(61)
        assert (await here.status("Applied"), await here.status("Available")) == ("True", "True")

    told(story)


def test_rights_that_are_taken_away_do_not_take_objects_along() -> None:
    async def story(here: World) -> None:
        await grant(here, may(ALL))
        await here.work(config_map("one"), executor=EXECUTOR)
        await here.member.delete(CLUSTER_ROLE_BINDING, "runner")
        await here.touch()
        assert await here.each("Applied") == ["False"]
        assert await here.member.has(CONFIG_MAP, "one")
        assert await here.resources() == ["configmaps one"]

    told(story)


def test_what_goes_with_its_work_needs_the_right_to_delete() -> None:
    async def story(here: World) -> None:
        await grant(here, may(["create", "update", "patch", "get"]))
        manifests = config_map("one"), config_map("two")
        await here.work(*manifests, executor=EXECUTOR)
        assert await here.each("Applied") == ["False", "False"]
        await here.work(*manifests, executor=EXECUTOR, deleteOption={"propagationPolicy": "Orphan"})
        assert await here.each("Applied") == ["True", "True"]
        rules = {"orphaningRules": [target("configmaps", "one")]}
        option = {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": rules}
        await here.work(*manifests, executor=EXECUTOR, deleteOption=option)
        assert await here.each("Applied") == ["True", "False"]

    told(story)


def role(*rules: JSONObject) -> JSONObject:
    metadata = {"name": "granted", "namespace": "apps"}
    return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)}


def test_an_account_cannot_grant_more_than_it_has() -> None:
    async def story(here: World) -> None:
        await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": "apps"}})
        roles: Any = may(ALL, "roles", RBAC)
        await grant(here, roles)
        await here.work(role(may(["get"])), executor=EXECUTOR)
        said = condition((await here.manifests())[0].conditions, "Applied")
        assert said.status == "False"
        assert "escalation" in said.message
        assert not await here.member.has(ROLE, "granted", "apps")
        await grant(here, roles, may(["get"]))
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True"]
        await here.work(role(may(["get", "delete"])), executor=EXECUTOR)
        assert await here.each("Applied") == ["False"]
        live = await here.member.get(ROLE, "granted", "apps")
        assert live["rules"] == [may(["get"])]
        await grant(here, roles, may(["get", "delete"]))
        await asyncio.sleep(61)
        assert await here.each("Applied") == ["True"]

    told(story)
