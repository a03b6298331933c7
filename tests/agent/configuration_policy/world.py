"""A cluster with policies in virtual time, and an agent that evaluates them."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from echelon.agent.configuration_policy.controllers import configuration_policy_controllers
from echelon.agent.settings import Settings
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY, ConfigurationPolicy
from echelon.api.core import EVENT
from echelon.api.namespaces import NAMESPACE
from tests.agent import world as agents
from tests.agent.world import CLUSTER, World

FAMILIES = (configuration_policy_controllers,)
PARENT = {
    "apiVersion": "policy.open-cluster-management.io/v1",
    "kind": "Policy",
    "name": "policies.web",
    "uid": "parent-uid",
    "controller": True,
}


def told(story: Callable[[World], Awaitable[None]], *, settings: Settings | None = None, quiet: bool = True) -> None:
    """Run a story with an agent that only evaluates policies, and see that there is silence after it."""

    async def main(here: World) -> None:
        await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": CLUSTER}})
        here.start(settings, families=FAMILIES)
        await here.settle(3)
        await story(here)

    agents.told(main, started=False, settings=settings, quiet=quiet)


def template(definition: JSONObject, type_: str = "musthave", **more: Any) -> JSONObject:
    return {"complianceType": type_, "objectDefinition": definition, **more}


async def policy(
    here: World,
    *templates: JSONObject,
    name: str = "p",
    settle: float = 12,
    metadata: JSONObject | None = None,
    **spec: Any,
) -> ConfigurationPolicy:
    """Create a policy, or give it another spec, and let the agent do its part."""
    body: JSONObject = {"remediationAction": "enforce", "object-templates": list(templates), **spec}
    meta = {"name": name, "namespace": CLUSTER, "ownerReferences": [PARENT], **(metadata or {})}
    if await here.member.has(CONFIGURATION_POLICY, name, CLUSTER):
        before = (await here.member.get(CONFIGURATION_POLICY, name, CLUSTER))["spec"]
        change = {"spec": {**dict.fromkeys(before), **body}, "metadata": metadata or {}}
        await here.member.patch(CONFIGURATION_POLICY, name, change, CLUSTER)
    else:
        await here.member.create({**CONFIGURATION_POLICY.type_meta, "metadata": meta, "spec": body})
    await here.settle(settle)
    return await seen(here, name)


async def seen(here: World, name: str = "p") -> ConfigurationPolicy:
    found = await here.member.get(CONFIGURATION_POLICY, name, CLUSTER)
    return msgspec.convert(found, ConfigurationPolicy)


async def state(here: World, name: str = "p") -> str:
    return (await seen(here, name)).status.compliant


async def message(here: World, name: str = "p") -> str:
    return (await seen(here, name)).status.compliancy_details[0].conditions[0].message


async def events(here: World) -> list[JSONObject]:
    """Return the compliance events, oldest first."""
    found = await here.member.client.list(EVENT.untyped(), CLUSTER)
    return sorted(found.items, key=lambda each: int(each["metadata"]["name"].rpartition(".")[2], 16))
