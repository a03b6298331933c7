"""Fleets for plans: drawn by chance, brought to life, and asked what a change would do before it is made."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
from tests.controllers.strict import STRICT

from echelon.api.base import JSONObject
from echelon.cli.change_admission import Admission, HubAdmission, OfflineAdmission, new_namespaces
from echelon.cli.change_files import Document
from echelon.cli.fleet_capturing import capture_fleet
from echelon.cli.plan_making import ChangePlan, make_plan
from echelon.engine.forecast.model import Assumptions
from echelon.fleet.capture import Capture, kind_of, read_capture, to_document
from echelon.fleet.loop import VirtualLoop, running
from echelon.fleet.member.profile import Pace
from echelon.fleet.member.trouble import Script
from echelon.fleet.rehearsal.world import WARM_UP_SECONDS, Rehearsal, Write

NS = "shop"
TAKEN = datetime(2026, 11, 18, tzinfo=UTC)
CLUSTERS, POLICIES = "cluster.open-cluster-management.io", "policy.open-cluster-management.io"
START_SECONDS = 60.0  # of every pod
APART = 30.0  # starts that are nearer to each other are of one wave
_JOINED = ("HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable")


def made(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> JSONObject:
    """Return an object as a capture has it."""
    meta: JSONObject = {"name": name, "uid": f"{kind}-{namespace}-{name}", "generation": 1, **fields.pop("meta", {})}
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**meta, **where}, **fields}


def cluster(name: str, **labels: str) -> JSONObject:
    conditions = [
        {"type": each, "status": "True", "reason": "Said", "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z"}
        for each in _JOINED
    ]
    return made(
        f"{CLUSTERS}/v1",
        "ManagedCluster",
        name,
        meta={"labels": {f"{CLUSTERS}/clusterset": "all", **labels}},
        spec={"hubAcceptsClient": True},
        status={"conditions": conditions},
    )


def fleet(clusters: Mapping[str, Mapping[str, str]], **placement: Any) -> list[JSONObject]:
    """Return clusters with their labels, bound to the namespace, and a placement `p`."""
    return [
        made("v1", "Namespace", NS),
        *(made("v1", "Namespace", name) for name in clusters),
        *(cluster(name, **labels) for name, labels in clusters.items()),
        made(f"{CLUSTERS}/v1beta2", "ManagedClusterSet", "all", spec={}),
        made(f"{CLUSTERS}/v1beta2", "ManagedClusterSetBinding", "all", NS, spec={"clusterSet": "all"}),
        made(f"{CLUSTERS}/v1beta1", "Placement", "p", NS, spec={"clusterSets": ["all"], **placement}),
    ]


def deployment(image: str, replicas: int = 1) -> JSONObject:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    spec = {"replicas": replicas, "progressDeadlineSeconds": 3600, "selector": {"matchLabels": labels}, "template": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }


def work_set(image: str, strategy: JSONObject, **meta: Any) -> JSONObject:
    spec = {
        "manifestWorkTemplate": {"workload": {"manifests": [deployment(image)]}},
        "placementRefs": [{"name": "p", "rolloutStrategy": strategy}],
    }
    return made("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet", "web", NS, spec=spec, meta=meta)


def policy(version: str, strategy: JSONObject) -> list[JSONObject]:
    """Return a policy that enforces a config map where there is a namespace for it, with its binding."""
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "demo", "namespace": "default" if version == "1" else "apart"},
        "data": {"version": version},
    }
    definition = {
        "apiVersion": f"{POLICIES}/v1",
        "kind": "ConfigurationPolicy",
        "metadata": {"name": "demo"},
        "spec": {"object-templates": [{"complianceType": "musthave", "objectDefinition": wanted}]},
    }
    spec = {
        "disabled": False,
        "remediationAction": "enforce",
        "policy-templates": [{"objectDefinition": definition}],
        "rolloutStrategy": strategy,
    }
    ref = {"apiGroup": CLUSTERS, "kind": "Placement", "name": "p"}
    subjects = [{"apiGroup": POLICIES, "kind": "Policy", "name": "audit"}]
    return [
        made(f"{POLICIES}/v1", "Policy", "audit", NS, spec=spec),
        made(f"{POLICIES}/v1", "PlacementBinding", "b", NS, placementRef=ref, subjects=subjects),
    ]


def documents(*objects: JSONObject) -> list[Document]:
    """Return objects as files have them."""
    plain = [{**each, "metadata": _written(each["metadata"])} for each in objects]
    return [Document("change.yaml", each, kind_of(each)) for each in plain]


def _written(meta: JSONObject) -> JSONObject:
    return {name: value for name, value in meta.items() if name not in ("uid", "generation")}


@dataclass
class PlanWorld:
    """A fleet that lives, and can be asked."""

    rehearsal: Rehearsal
    captured: Capture | None = field(default=None)

    async def capture(self) -> Capture:
        """Write the fleet down and read it again, as `echelon fleet capture` and `echelon plan --fleet` do."""
        found = await capture_fleet(self.rehearsal.client, running().clock.now())
        self.captured = read_capture(msgspec.json.encode(to_document(found)))
        return self.captured

    async def plan(self, change: Sequence[Document], assumed: Assumptions) -> ChangePlan:
        """Plan without a hub, for the fleet as it is now."""
        found = await self.capture()
        return await make_plan(found.snapshot(), OfflineAdmission(), change, found.taken, assumed)

    async def plan_with_hub(self, change: Sequence[Document], assumed: Assumptions) -> ChangePlan:
        """Plan with the hub."""
        admission: Admission = HubAdmission(self.rehearsal.client, new_namespaces(change))
        now = self.captured.taken if self.captured is not None else running().clock.now()
        return await make_plan(self.rehearsal.client, admission, change, now, assumed)

    async def make(self, plan: ChangePlan) -> None:
        """Make the change that a plan is about."""
        await self.rehearsal.apply(
            Write(each.kind, each.before, each.after) for each in plan.changed if each.after is not None
        )


@asynccontextmanager
async def plan_world(
    objects: Sequence[JSONObject], scripts: Mapping[str, Script] | None = None
) -> AsyncIterator[PlanWorld]:
    """Bring a fleet to life, and wait until everything that it has is everywhere."""
    pace = Pace(start=START_SECONDS, spread=0.0)
    here = await Rehearsal.begin(Capture(TAKEN, tuple(objects)), pace=pace, scripts=scripts, settings=STRICT)
    try:
        yield PlanWorld(here)
    finally:
        await here.stop()


def loop_of(seed: int) -> VirtualLoop:
    return VirtualLoop(seed, TAKEN - timedelta(seconds=WARM_UP_SECONDS))


def strategy_of(random: Random, *, soak: str = "") -> JSONObject:
    """Draw a strategy."""
    settings: JSONObject = {
        "minSuccessTime": soak or random.choice(["0", "2m", "5m"]),
        "progressDeadline": random.choice(["5m", "10m"]),
        "maxFailures": random.choice([0, 0, 1, "30%"]),
    }
    kind = random.choice(["All", "Progressive", "ProgressivePerGroup"])
    if kind == "All":
        return {"type": kind, "all": {"progressDeadline": settings["progressDeadline"]}}
    if kind == "ProgressivePerGroup":
        return {"type": kind, "progressivePerGroup": settings}
    mandatory = {"mandatoryDecisionGroups": [{"groupIndex": 0}]} if random.random() < 0.4 else {}
    return {"type": kind, "progressive": {**settings, "maxConcurrency": random.choice([1, 2, "50%"]), **mandatory}}


def small_fleet(first: JSONObject, *more: JSONObject) -> Capture:
    """Return six clusters, five of them chosen in groups of two, that have a work set everywhere, and more."""
    first = {**first, "spec": {**first["spec"], "placementRefs": [{"name": "p", "rolloutStrategy": {"type": "All"}}]}}

    async def life() -> Capture:
        labels = {f"c{number}": {"in": "yes" if number < 5 else "no"} for number in range(6)}
        chosen = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"in": "yes"}}}}]
        before = fleet(labels, predicates=chosen, decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 2}})
        async with plan_world([*before, first, *more]) as here:
            await here.rehearsal.start_controllers()
            await asyncio.sleep(600)
            return await here.capture()

    loop = loop_of(0)
    try:
        return loop.run_until_complete(life())
    finally:
        loop.close()
