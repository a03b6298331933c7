"""The end of a placement on a real hub: what was decided goes with it because it is owned, not because we delete it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from echelon.api import multicluster, registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from echelon.api.multicluster import MULTICLUSTER_DECISION
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.running import Controllers
from echelon.kube.clock import SystemClock
from echelon.kube.config import load
from echelon.kube.errors import NotFound
from echelon.kube.http import HttpClient
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS, NS, SET_LABEL
from tests.controllers.strict import STRICT, end
from tests.environment import ControlPlane, Programs

PATIENCE_SECONDS = 120.0


async def eventually(ask: Callable[[], Awaitable[object]], wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            found = await ask()
        except NotFound:  # a kind that is not served yet
            found = None
        if found == wanted:
            return
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.1)


async def live(client: HttpClient) -> None:
    async def create(kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> None:
        metadata = {"name": name, **body.pop("metadata", {})}
        wire = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}
        await client.create(kind.untyped(), wire, namespace)

    async def decided() -> list[int]:
        found = (await client.list(PLACEMENT_DECISION, NS)).items
        return [len(each.status.decisions) if each.status else 0 for each in found]

    async def published() -> list[int]:
        return [len(each.decisions) for each in (await client.list(MULTICLUSTER_DECISION, NS)).items]

    for definition in (*CRDS, *registry.collect(multicluster.KINDS).crds()):
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    for kind in (MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING, PLACEMENT, MULTICLUSTER_DECISION):
        await eventually(lambda kind=kind: _is_empty(client, kind), True)  # type: ignore[misc]
    await create(NAMESPACE, NS)
    await create(MANAGED_CLUSTER_SET, "set")
    await create(MANAGED_CLUSTER_SET_BINDING, "set", NS, spec={"clusterSet": "set"})
    for number in range(3):
        await create(MANAGED_CLUSTER, f"c{number}", metadata={"labels": {SET_LABEL: "set"}}, spec={})
    await create(PLACEMENT, "p", NS, spec={})
    await eventually(decided, [3])
    await eventually(published, [3])
    await client.delete(PLACEMENT, "p", NS)
    await eventually(decided, [])
    await eventually(published, [])


async def _is_empty(client: HttpClient, kind: Kind[Any]) -> bool:
    return not (await client.list(kind)).items


def test_what_was_decided_goes_with_the_placement(kubernetes: Programs, tmp_path: Path) -> None:
    async def main(kubeconfig: Path) -> None:
        async with HttpClient(load(kubeconfig)) as client:
            made = Controllers(
                client,
                SystemClock(),
                ["placement", "multicluster"],
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

    with ControlPlane(kubernetes, tmp_path, controller_manager=True) as plane:
        asyncio.run(main(plane.access.kubeconfig))
