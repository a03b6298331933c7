"""Policies on a whole fleet in one process: the first pass of ten of them, and one that is rolled out.

Hub, controllers, agents and simulated members share one interpreter, so all of it runs on one core. Each policy wants
a ConfigMap. In the first pass every cluster gets every policy to look at, and reports what it found; then one policy is
changed and enforced, a tenth of the clusters at a time.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench import report
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER_SET_BINDING
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.policy import GROUP, POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING
from echelon.cli.process import bear_large_caches
from echelon.controllers.running import freeze
from echelon.engine.rollout.control import PAUSED
from echelon.fleet.local import Local, Settings
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import NotFound

NS = "bench"
CLUSTERS = 1_000
POLICIES = 10
_QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Lap:
    """A figure: what was measured, and what is allowed."""

    title: str
    value: float
    unit: str
    limit: float


async def measure(progress: Progress, clusters: int = CLUSTERS) -> list[Lap]:
    """Take all figures."""
    bear_large_caches()
    progress.begin(f"starting {clusters} clusters")
    local = await Local.start(Settings(f"{clusters} clusters; regions eu/us/ap"))
    try:
        await local.wait_joined()
        freeze()
        bench = _Bench(local, clusters)
        await bench.prepare()
        progress.begin(f"the first pass of {POLICIES} policies")
        laps = await bench.first_pass()
        progress.begin("a policy, a tenth of the clusters at a time")
        return [*laps, *await bench.roll_out()]
    finally:
        await local.stop()


@dataclass
class _Bench:
    local: Local
    clusters: int
    told: int = 0  # states of policies, as somebody sees them who watches

    @property
    def client(self) -> Client:
        return self.local.hub.client()

    async def prepare(self) -> None:
        await self._create(NAMESPACE, NS)
        await self._create(MANAGED_CLUSTER_SET_BINDING, "global", NS, spec={"clusterSet": "global"})
        await self._create(PLACEMENT, "all", NS, spec={})
        subjects = [{"apiGroup": GROUP, "kind": "Policy", "name": f"policy-{number}"} for number in range(POLICIES)]
        ref = {"apiGroup": PLACEMENT.group, "kind": "Placement", "name": "all"}
        await self._create(PLACEMENT_BINDING, "all", NS, placementRef=ref, subjects=subjects)
        await asyncio.sleep(_QUIET_SECONDS)

    async def first_pass(self) -> list[Lap]:
        """Have policies that nobody may enforce yet, and wait until everybody has looked at them."""
        begun, cpu = time.monotonic(), time.process_time()
        for number in range(POLICIES):
            await self._create(POLICY, f"policy-{number}", NS, {PAUSED: "true"}, spec=_spec(f"policy-{number}", "1"))
        await self._until(lambda replica: replica["status"].get("rolloutStatus") == "ToApply")
        placed, spent = time.monotonic() - begun, time.process_time() - cpu
        await self._until(_is_evaluated)
        return [
            Lap("first pass: every cluster has them, and waits", placed, "s", 30),
            Lap("first pass: CPU until then", spent, "s", 0),
            Lap("every cluster has reported on them", time.monotonic() - begun, "s", 0),
            Lap("CPU until then", time.process_time() - cpu, "s", 0),
        ]

    async def roll_out(self) -> list[Lap]:
        """Change a policy, let it go, and wait until it is enforced everywhere."""
        watching = asyncio.create_task(self._count("policy-0"))
        begun, cpu = time.monotonic(), time.process_time()
        body: JSONObject = {"metadata": {"annotations": {PAUSED: None}}, "spec": _spec("policy-0", "2")}
        await self.client.patch(POLICY.untyped(), "policy-0", MergePatch(body), NS)
        while True:
            await asyncio.sleep(0.1)
            found = await self.client.get(POLICY, "policy-0", NS)
            done = sum(each.rollout_status == "Succeeded" for each in found.status.status)
            if found.status.rollout_status == "Succeeded" and done == self.clusters:
                break
        seconds, spent = time.monotonic() - begun, time.process_time() - cpu
        watching.cancel()
        return [
            Lap("one policy, 10 % at a time", seconds, "s", 90),
            Lap("one policy, 10 % at a time: CPU", spent, "s", 0),
            Lap("states of its own status on the way", self.told, "", 200),
        ]

    async def _count(self, name: str) -> None:
        async for event in self.client.watch(POLICY.untyped(), NS, fields=f"metadata.name={name}"):
            self.told += event.type == "MODIFIED"

    async def _until(self, holds: Callable[[JSONObject], bool]) -> None:
        """Wait until something holds for every replica of every policy.

        To read ten thousand of them takes a while of the core that the others want to have, so each is waited for.
        """
        namespaces = list(self.local.fleet.members)
        waiting = [(f"{NS}.policy-{number}", each) for each in namespaces for number in range(POLICIES)]
        while True:
            while waiting and await self._holds(holds, *waiting[-1]):
                waiting.pop()
            if not waiting:
                return
            await asyncio.sleep(0.1)

    async def _holds(self, holds: Callable[[JSONObject], bool], name: str, namespace: str) -> bool:
        try:
            replica = await self.client.get(POLICY.untyped(), name, namespace)
        except NotFound:
            return False
        return holds({"status": {}, **replica})

    async def _create(
        self, kind: Kind[Any], name: str, namespace: str = "", annotations: dict[str, str] | None = None, **fields: Any
    ) -> None:
        metadata = {"name": name, "annotations": annotations or {}}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
        await self.client.create(kind.untyped(), body, namespace)


def _is_evaluated(replica: JSONObject) -> bool:
    return bool(replica["status"].get("observedGeneration") == replica["metadata"]["generation"])


def _spec(name: str, version: str) -> JSONObject:
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"version": version},
    }
    definition = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ConfigurationPolicy",
        "metadata": {"name": name},
        "spec": {"object-templates": [{"complianceType": "musthave", "objectDefinition": wanted}]},
    }
    return {
        "disabled": False,
        "remediationAction": "enforce",
        "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": "10%"}},
        "policy-templates": [{"objectDefinition": definition}],
    }


def table(laps: Sequence[Lap]) -> str:
    """Return the figures next to what is allowed."""
    rows = [(f"{CLUSTERS:,} clusters, {POLICIES} policies, one process", "measured", "limit")]
    rows += [
        (one.title, f"{one.value:,.1f} {one.unit}".strip(), f"{one.limit:g} {one.unit}".strip() if one.limit else "")
        for one in laps
    ]
    return report.aligned(rows)
