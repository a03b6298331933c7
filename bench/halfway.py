"""A fleet in the middle of a rollout, stored in a directory that a hub can be started on.

Every cluster has the first revision and has reported that it works. The second goes through groups of a tenth of the
fleet, one after the other: half of the fleet has it, one group is in flight and the rest waits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from bench.fleet import cluster, heartbeat, name_of
from echelon.api import registry
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.demo import apply
from echelon.cli.examples import example
from echelon.controllers.running import NAMES, Controllers
from echelon.fleet.local import _serve as serve_kinds
from echelon.hub.server import Hub, Settings
from echelon.kube.client import Client, JSONPatch, MergePatch
from echelon.kube.clock import SystemClock
from echelon.kube.metrics import Metrics

GROUPS = 10
NAMESPACE_OF_SET, SET = "observability", "node-agent"  # as the example has it
_IMAGE = "/spec/manifestWorkTemplate/workload/manifests/1/spec/template/spec/containers/0/image"


async def store(directory: Path, size: int, rolled_out: int) -> None:
    """Make a hub's data with so many clusters, and a rollout that is about some of them."""
    hub = await Hub.start(Settings(data=directory, keep_objects=True))
    try:
        client = hub.client(field_manager="bench")
        await serve_kinds(client, registry.crds())
        for number in range(size):
            await client.create(MANAGED_CLUSTER, cluster(number))
            await client.create(NAMESPACE.untyped(), {"metadata": {"name": name_of(number)}})
            await client.patch(MANAGED_CLUSTER, name_of(number), MergePatch(heartbeat(0)), subresource="status")
        made = Controllers(client, SystemClock(), NAMES, random=Random(0), metrics=Metrics(), instance="bench")  # noqa: S311
        working = asyncio.create_task(made.run(None))
        try:
            await _roll_out(client, rolled_out, lambda: made.idle)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    finally:
        await hub.stop()


async def _roll_out(client: Client, size: int, idle: Callable[[], bool]) -> None:
    documents = list(yaml.safe_load_all(example("everywhere.yaml").read_text()))
    (placement,) = [each for each in documents if each["kind"] == PLACEMENT.kind]
    group = {"clustersPerDecisionGroup": max(1, size // GROUPS)}
    placement["spec"] |= {"numberOfClusters": size, "decisionStrategy": {"groupStrategy": group}}
    reported: dict[str, int] = {}

    async def is_complete() -> bool:
        found = await client.get(MANIFEST_WORK_REPLICA_SET, SET, NAMESPACE_OF_SET)
        summary = found.status.rollout
        return summary is not None and summary.succeeded == size and idle()

    async def is_halfway() -> bool:
        works = (await client.list(MANIFEST_WORK)).items
        begun = sum(each.metadata.generation > 1 for each in works)
        return begun >= min(size, size // 2 + size // GROUPS) and idle()

    await apply(client, documents)
    await _agents(client, reported, 2 * size, is_complete)
    ref = {"name": placement["metadata"]["name"], "rolloutStrategy": {"type": "ProgressivePerGroup"}}
    change: list[JSONObject] = [
        {"op": "replace", "path": "/spec/placementRefs/0", "value": ref},
        {"op": "replace", "path": _IMAGE, "value": "registry.example.com/node-agent:1.5"},
    ]
    await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), SET, JSONPatch(change), NAMESPACE_OF_SET)
    await _agents(client, reported, size + size // 2, is_halfway)


async def _agents(client: Client, reported: dict[str, int], most: int, until: Callable[[], Awaitable[bool]]) -> None:
    """Report as agents do that what the works bring works, so often and no more, until something is so."""
    told = len(reported)
    while not await until():
        for work in (await client.list(MANIFEST_WORK)).items:
            known, present = reported.get(work.metadata.namespace, 0), work.metadata.generation
            if known < present and told < most:
                told, reported[work.metadata.namespace] = told + 1, present
                await report(client, work)
        await asyncio.sleep(0.2)


async def report(client: Client, work: ManifestWork, problem: str = "") -> None:
    """Report on a work as its agent would: that everything is there and works, or why it cannot be applied."""
    manifests: list[Any] = [
        {
            "resourceMeta": {
                "ordinal": number,
                "kind": each["kind"],
                "name": each["metadata"]["name"],
                "namespace": each["metadata"].get("namespace", ""),
            },
            "conditions": _conditions(work, problem),
        }
        for number, each in enumerate(work.spec.workload.manifests)
    ]
    told = {"conditions": _conditions(work, problem), "resourceStatus": {"manifests": manifests}}
    meta = work.metadata
    await client.patch(
        MANIFEST_WORK.untyped(), meta.name, MergePatch({"status": told}), meta.namespace, subresource="status"
    )


def _conditions(work: ManifestWork, problem: str) -> list[JSONObject]:
    return [
        {
            "type": each,
            "status": "False" if problem else "True",
            "reason": f"{each}{'Failed' if problem else 'Complete'}",
            "message": problem or f"{each.lower()}: everything",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": work.metadata.generation,
        }
        for each in ("Applied", "Available")
    ]
