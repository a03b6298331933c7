"""Propagation on real Kubernetes: who runs a template there, and that a binding goes with its template."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from echelon.api.apps import DEPLOYMENT, STATEFUL_SET
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY
from echelon.controllers.running import Controllers
from echelon.kube.clock import SystemClock
from echelon.kube.config import load
from echelon.kube.errors import NotFound
from echelon.kube.http import HttpClient
from echelon.kube.metrics import Metrics
from tests.conformance.targets import serve_crds
from tests.controllers.hub import NS
from tests.controllers.strict import STRICT, end
from tests.environment import ControlPlane, Programs

PATIENCE_SECONDS = 120.0
# The controller of Deployments runs on this hub, and that of StatefulSets does not.
OPTIONS = ("--controllers=*,-statefulset-controller",)


async def eventually(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            found = await ask()
        except NotFound:
            found = None
        if found == wanted:
            return
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.1)


async def create(client: HttpClient, kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> None:
    await client.create(kind.untyped(), {**kind.type_meta, "metadata": {"name": name}, **body}, namespace)


def workload(**fields: Any) -> JSONObject:
    labels = {"app": "web"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:v1"}]}}
    return {"replicas": 3, "selector": {"matchLabels": labels}, "template": pods, **fields}


async def live(client: HttpClient) -> None:
    async def outcome(name: str) -> tuple[str, dict[str, int]]:
        found = await client.get(RESOURCE_BINDING, name, NS)
        said = [each.reason for each in found.status.conditions if each.type == "Scheduled"]
        return said[0] if said else "", {each.name: each.replicas for each in found.spec.clusters}

    async def observed() -> bool:
        found = await client.get(DEPLOYMENT.untyped(), "web", NS)
        return bool(found.get("status", {}).get("observedGeneration"))

    async def bindings() -> list[str]:
        return sorted(each.metadata.name for each in (await client.list(RESOURCE_BINDING, NS)).items)

    await create(client, NAMESPACE, NS)
    await create(client, MANAGED_CLUSTER, "c1", spec={"hubAcceptsClient": True})
    selectors = [{"apiVersion": kind.api_version, "kind": kind.kind} for kind in (DEPLOYMENT, STATEFUL_SET)]
    await create(client, DEPLOYMENT, "web", NS, spec=workload())
    await create(client, STATEFUL_SET, "web", NS, spec=workload(serviceName="web"))
    # Its controller has to have seen it: how soon that is depends on the machine.
    await eventually(observed, True)
    await create(client, CLUSTER_PROPAGATION_POLICY, "all", spec={"resourceSelectors": selectors})
    await eventually(lambda: outcome("web-deployment"), ("HubRunsTemplate", {}))
    await eventually(lambda: outcome("web-statefulset"), ("Success", {"c1": 3}))
    await client.delete(STATEFUL_SET, "web", NS)
    await eventually(bindings, ["web-deployment"])


def test_what_the_hub_runs_itself_is_not_propagated_and_bindings_go_with_templates(
    kubernetes: Programs, tmp_path: Path
) -> None:
    async def main(kubeconfig: Path) -> None:
        async with HttpClient(load(kubeconfig)) as client:
            await serve_crds(client)
            made = Controllers(
                client,
                SystemClock(),
                ["workload-propagation"],
                random=Random(1),  # noqa: S311 - jitter is no secret
                metrics=Metrics(),
                instance="test",
                settings=STRICT,
            )
            working = asyncio.create_task(made.run())
            try:
                await live(client)
            finally:
                await end(working)

    with ControlPlane(kubernetes, tmp_path, controller_manager=True, manager_options=OPTIONS) as plane:
        asyncio.run(main(plane.access.kubeconfig))
