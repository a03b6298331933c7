"""A whole fleet in one process: how long a change takes from `kubectl apply` to every cluster.

Hub, controllers, agents and simulated members share one interpreter, so all of it runs on one core. Each cluster gets
a ConfigMap and a Deployment whose pod takes a second to start. The other figures are what KubeFleet publishes for a
thousand clusters, on 32 cores.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import report
from bench.figures import MIB
from bench.processes import usage
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET, ManifestWorkReplicaSet
from echelon.cli.process import bear_large_caches
from echelon.controllers.running import freeze
from echelon.fleet.local import Local, Settings
from echelon.kube.client import Client

NS = "bench"
CLUSTERS = 1_000
SETS = 100  # at once, of a hundred clusters each
MANY = 10  # of all clusters, before the restart
_GROUPS = (("first", 20), ("second", 30), ("third", 50))  # in percent
_QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Lap:
    """A figure: seconds, what is allowed, and what is published elsewhere."""

    title: str
    seconds: float
    cpu: float
    limit: float
    elsewhere: float


async def measure(progress: Progress, clusters: int = CLUSTERS) -> tuple[list[Lap], float]:
    """Take all figures; return them and the most memory that the process had, in MiB."""
    bear_large_caches()
    progress.begin(f"starting {clusters} clusters")
    clauses = f"{clusters} clusters; regions eu/us/ap"
    local = await Local.start(Settings(clauses))
    try:
        await local.wait_joined()
        freeze()
        bench = _Bench(local, clusters)
        await bench.prepare()
        laps = []
        for title, lap, limit, elsewhere in (
            ("all at once", bench.everywhere, 30.0, 20.0),
            ("three groups of 20, 30 and 50 %", bench.in_groups, 60.0, 96.0),
            (f"{SETS} rollouts of {clusters * 100 // CLUSTERS} clusters at once", bench.many, 120.0, 135.0),
            (f"restart with {MANY} rollouts on all", bench.restart, 20.0, 675.0),
        ):
            progress.begin(title)
            seconds, cpu = await lap()
            laps.append(Lap(title, seconds, cpu, limit, elsewhere))
        return laps, usage([os.getpid()]).peak / MIB
    finally:
        await local.stop()


@dataclass
class _Bench:
    local: Local
    clusters: int

    @property
    def client(self) -> Client:
        return self.local.hub.client()

    async def prepare(self) -> None:
        await self._create(NAMESPACE, NS)
        await self._create(MANAGED_CLUSTER_SET_BINDING, "global", NS, spec={"clusterSet": "global"})
        await self._create(PLACEMENT, "all", NS, spec={})
        await self._create(PLACEMENT, "grouped", NS, spec={"decisionStrategy": self._thirds()})
        for number in range(SETS):
            few = {"numberOfClusters": max(1, self.clusters * 100 // CLUSTERS)}
            await self._create(PLACEMENT, f"few-{number}", NS, spec=few)
        await asyncio.sleep(_QUIET_SECONDS)

    def _thirds(self) -> JSONObject:
        """Groups by name: the label `name` of a cluster is its own, so shares are exact."""
        names = sorted(self.local.fleet.members)
        groups, begin = [], 0
        for name, share in _GROUPS:
            end = begin + len(names) * share // 100 if share < 50 else len(names)
            chosen = [{"key": "name", "operator": "In", "values": names[begin:end]}]
            groups.append({"groupName": name, "groupClusterSelector": {"labelSelector": {"matchExpressions": chosen}}})
            begin = end
        return {"groupStrategy": {"decisionGroups": groups}}

    async def everywhere(self) -> tuple[float, float]:
        return await self._roll({"everywhere": ("all", {"type": "All"})})

    async def in_groups(self) -> tuple[float, float]:
        per_group = {"type": "ProgressivePerGroup", "progressivePerGroup": {}}
        return await self._roll({"in-groups": ("grouped", per_group)})

    async def many(self) -> tuple[float, float]:
        progressive = {"type": "Progressive", "progressive": {"maxConcurrency": "25%"}}
        return await self._roll({f"many-{number}": (f"few-{number}", progressive) for number in range(SETS)})

    async def restart(self) -> tuple[float, float]:
        """Have many works, then start another set of controllers and wait until it has looked at everything."""
        await self._roll({f"restart-{number}": ("all", {"type": "All"}) for number in range(MANY - 1)})
        begun, cpu = time.monotonic(), time.process_time()
        await self.local.restart_controllers()
        return time.monotonic() - begun, time.process_time() - cpu

    async def _roll(self, sets: dict[str, tuple[str, JSONObject]]) -> tuple[float, float]:
        begun, cpu = time.monotonic(), time.process_time()
        for name, (placement, strategy) in sets.items():
            await self._create(MANIFEST_WORK_REPLICA_SET, name, NS, spec=_spec(name, placement, strategy))
        waiting = set(sets)
        while waiting:
            await asyncio.sleep(0.1)
            found = (await self.client.list(MANIFEST_WORK_REPLICA_SET, NS)).items
            waiting -= {each.metadata.name for each in found if _is_done(each)}
        return time.monotonic() - begun, time.process_time() - cpu

    async def _create(self, kind: Kind[Any], name: str, namespace: str = "", **fields: Any) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **fields}
        await self.client.create(kind.untyped(), body, namespace)


def _spec(name: str, placement: str, strategy: JSONObject) -> JSONObject:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    manifests = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default"},
            "data": {"a": "b"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
        },
    ]
    return {
        "manifestWorkTemplate": {"workload": {"manifests": manifests}},
        "placementRefs": [{"name": placement, "rolloutStrategy": strategy}],
    }


def _is_done(work_set: ManifestWorkReplicaSet) -> bool:
    told = {each.type: each for each in work_set.status.conditions}
    rolled_out = told.get("PlacementRolledOut")
    return rolled_out is not None and rolled_out.status == "True" and work_set.status.summary.total > 0


def table(laps: Sequence[Lap], memory: float) -> str:
    """Return the figures next to what is allowed and what is published elsewhere."""
    rows = [("1,000 clusters, one process", "seconds", "CPU s", "limit", "KubeFleet, 32 cores")]
    rows += [
        (one.title, f"{one.seconds:.1f}", f"{one.cpu:.1f}", f"{one.limit:g}", f"{one.elsewhere:g}") for one in laps
    ]
    return report.aligned([*rows, ("memory", f"{memory:,.0f} MiB", "", "2,048 MiB", "")])
