"""What a user may do with which verbs: every server refuses the same."""

import asyncio
import os

from echelon.api.base import JSONObject
from echelon.api.rbac import GROUP as RBAC
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.kube.client import ApplyPatch, Client, MergePatch
from echelon.kube.errors import Forbidden
from tests.conformance.asking import CONFIG_MAP, config_map
from tests.conformance.targets import Target

USER = f"patching-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
READY_SECONDS = 30.0


async def _give(admin: Client, namespace: str, *verbs: str) -> None:
    """Give somebody these verbs on config maps, and no others."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
    name = "-".join(verbs)
    role: JSONObject = {**ROLE.type_meta, "metadata": {"name": name}, "rules": rules}
    await admin.create(ROLE.untyped(), role, namespace)
    reference = {"apiGroup": RBAC, "kind": "Role", "name": name}
    subject = {"apiGroup": RBAC, "kind": "User", "name": USER}
    binding = {**ROLE_BINDING.type_meta, "metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await admin.create(ROLE_BINDING.untyped(), binding, namespace)


async def _applied(user: Client, namespace: str, name: str) -> str:
    """Apply a config map; return why that is refused, if it is."""
    try:
        await user.patch(CONFIG_MAP, name, ApplyPatch(config_map(name), "tester"), namespace)
    except Forbidden as error:
        return str(error)
    return ""


async def test_what_is_not_there_is_applied_by_nobody_who_may_only_patch(target: Target, namespace: str) -> None:
    await target.client.create(CONFIG_MAP, config_map("there"), namespace)
    await _give(target.client, namespace, "get", "patch")
    async with target.as_user(USER) as user:
        async with asyncio.timeout(READY_SECONDS):  # a server reads new rights a moment after they were made
            while await _applied(user, namespace, "there"):  # noqa: ASYNC110 - elsewhere
                await asyncio.sleep(0.1)
        assert f'User "{USER}" cannot create resource "configmaps"' in await _applied(user, namespace, "missing")
        await user.patch(CONFIG_MAP, "there", MergePatch({"data": {"a": "b"}}), namespace)
        await _give(target.client, namespace, "create")
        async with asyncio.timeout(READY_SECONDS):
            while await _applied(user, namespace, "missing"):  # noqa: ASYNC110 - elsewhere
                await asyncio.sleep(0.1)
