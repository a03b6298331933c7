"""Templates, policies and clusters on a hub, as people would write them, and what becomes of them."""

from typing import Any

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.events import EVENT
from echelon.api.karmada import RESOURCE_BINDING, ResourceBinding
from echelon.api.kinds import Kind
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from tests.controllers.hub import NS, Hub
from tests.controllers.policy_set_world import serve

DEPLOYMENTS: JSONObject = {"apiVersion": "apps/v1", "kind": "Deployment"}
DIVIDED: JSONObject = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}


async def serve_workloads(hub: Hub) -> None:
    resources = [kind.resource for kind in (RESOURCE_BINDING, PROPAGATION_POLICY, CLUSTER_PROPAGATION_POLICY)]
    await serve(hub, *resources)


async def fleet(hub: Hub, *names: str) -> None:
    """Make a hub that serves what is needed, with clusters of a set that is bound to the namespace."""
    await serve_workloads(hub)
    await hub.bound_set()
    await hub.clusters(names)


async def template(hub: Hub, name: str = "web", kind: Kind[Any] = DEPLOYMENT, **spec: Any) -> None:
    labels = {"app": name}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}
    whole = {"selector": {"matchLabels": labels}, "template": pods, **spec}
    await hub.create(kind, name, NS, labels=labels, spec=whole)


async def policy(
    hub: Hub, name: str = "p", *, everywhere: bool = False, annotations: JSONObject | None = None, **spec: Any
) -> None:
    kind = CLUSTER_PROPAGATION_POLICY if everywhere else PROPAGATION_POLICY
    body = {"resourceSelectors": [DEPLOYMENTS], **spec}
    await hub.create(kind, name, "" if everywhere else NS, annotations=annotations or {}, spec=body)


async def respec(hub: Hub, name: str = "p", **spec: Any) -> None:
    await hub.patch(PROPAGATION_POLICY, name, {"spec": spec}, NS)


async def bindings(hub: Hub) -> dict[str, ResourceBinding]:
    found = (await hub.client.list(RESOURCE_BINDING, NS)).items
    return {each.metadata.name: each for each in found}


async def binding(hub: Hub, name: str = "web-deployment") -> ResourceBinding:
    return await hub.client.get(RESOURCE_BINDING, name, NS)


async def shares(hub: Hub, name: str = "web-deployment") -> dict[str, int]:
    return {each.name: each.replicas for each in (await binding(hub, name)).spec.clusters}


async def said(hub: Hub, kind: str = "Scheduled", name: str = "web-deployment") -> tuple[str, str, str]:
    """Return what a condition of a binding says, having checked that it is about the present binding."""
    found = await binding(hub, name)
    condition = next(each for each in found.status.conditions if each.type == kind)
    assert condition.observed_generation == found.metadata.generation
    return condition.status, condition.reason, condition.message


async def warnings(hub: Hub, namespace: str = NS) -> list[tuple[str, str, str]]:
    """Return what was warned of: kind and reason, and the words."""
    found = (await hub.client.list(EVENT.untyped(), namespace)).items
    return [(each["regarding"]["kind"], each["reason"], each["note"]) for each in found if each["type"] == "Warning"]


def told_of(found: list[tuple[str, str, str]], kind: str, reason: str) -> list[str]:
    return [note for each, why, note in found if (each, why) == (kind, reason)]
