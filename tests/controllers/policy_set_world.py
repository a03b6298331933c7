"""Policies, sets of them and bindings on a hub, as people and the controller of policies would write them."""

from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.placement import PLACEMENT
from echelon.api.placement_rule import PLACEMENT_RULE
from echelon.api.policy import GROUP, POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET, PolicySetStatus
from tests.controllers.hub import NS, Hub

REPORTING = "All policies are reporting status"


async def serve(hub: Hub, *resources: str) -> None:
    """Have a hub serve more than it does."""
    for definition in registry.crds():
        if definition["metadata"]["name"] in resources:
            await hub.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


async def serve_policies(hub: Hub) -> None:
    await serve(hub, POLICY.resource, PLACEMENT_BINDING.resource, POLICY_SET.resource)


async def policy(hub: Hub, name: str, *, disabled: bool = False, **states: str) -> None:
    await hub.create(POLICY, name, NS, spec={"disabled": disabled, "policy-templates": []})
    if states:
        await report(hub, name, **states)


async def report(hub: Hub, name: str, **states: str) -> None:
    listed = [{"clustername": on, "clusternamespace": on, "compliant": state} for on, state in states.items()]
    await hub.patch(POLICY, name, {"status": {"status": listed}}, NS, "status")


async def bind(hub: Hub, name: str, *sets: str, to: str = "p", rule: bool = False) -> None:
    kind = PLACEMENT_RULE if rule else PLACEMENT
    ref = {"apiGroup": kind.group, "kind": kind.kind, "name": to}
    subjects = [{"apiGroup": GROUP, "kind": "PolicySet", "name": each} for each in sets]
    await hub.create(PLACEMENT_BINDING, name, NS, placementRef=ref, subjects=subjects)


async def status_of(hub: Hub, name: str = "basics") -> PolicySetStatus:
    return (await hub.client.get(POLICY_SET, name, NS)).status


async def said(hub: Hub, name: str = "basics") -> tuple[str, str]:
    status = await status_of(hub, name)
    return status.compliant, status.status_message


async def placed_set(hub: Hub, *policies: str, **spec: object) -> None:
    """Make a set of policies that is bound to a placement of two clusters."""
    await serve_policies(hub)
    await hub.bound_set()
    await hub.clusters(["c1", "c2"])
    await hub.place()
    await hub.create(POLICY_SET, "basics", NS, spec={"policies": list(policies), **spec})
    await bind(hub, "bind", "basics")
