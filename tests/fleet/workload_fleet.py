"""A simulated fleet that workloads are propagated to: hub, controllers, agents and members in one virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from echelon.api import karmada, kruise, propagation, registry, rollout_ledger
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING, ResourceBinding
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.api.propagation import PROPAGATION_POLICY
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.controllers.running import NAMES, WORKLOAD_NAMES, Controllers
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import running
from echelon.fleet.member.fleet import Fleet
from echelon.fleet.member.fleet_spec import profiles
from echelon.fleet.member.profile import Pace
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.storage.store import Change
from echelon.kube.client import Client, MergePatch
from echelon.kube.metrics import Metrics
from tests.controllers.strict import STRICT, end
from tests.fleet.late_client import LateClient
from tests.fleet.pod_counter import Limits, PodCounter
from tests.fleet.test_leaving import NS, agent, create, furnish

KINDS = (*karmada.KINDS, *propagation.KINDS, *rollout_ledger.KINDS, *kruise.KINDS)
LOOP_SECONDS = 1.0
TEMPLATES: Mapping[str, Kind[Any]] = {"Deployment": DEPLOYMENT, "CloneSet": CLONE_SET}


@dataclass
class WorkloadFleet:
    """What a story is told with."""

    logical: LogicalCluster
    client: InProcessClient
    fleet: Fleet
    counter: PodCounter
    seconds: Callable[[], float]  # how far the members are away, in each direction
    _controllers: list[asyncio.Task[None]] = field(default_factory=list)
    _agents: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The clusters."""
        return sorted(self.fleet.members)

    async def propagate(self, kind: str, api_version: str, weights: Mapping[str, int]) -> None:
        """Have `demo` sent to clusters, divided by weights."""
        listed = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights.items()]
        spec: JSONObject = {
            "resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": "demo"}],
            "placement": {
                "clusterAffinity": {"clusterNames": list(weights)},
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"staticWeightList": listed},
                },
            },
        }
        await create(self.client, PROPAGATION_POLICY, "demo", spec, NS)

    async def bind(self, kind: str, sizes: Mapping[str, int]) -> None:
        """Have `demo` sent to clusters by a binding that somebody wrote."""
        of = TEMPLATES[kind]
        spec: JSONObject = {
            "resource": {"apiVersion": of.api_version, "kind": kind, "namespace": NS, "name": "demo"},
            "replicas": sum(sizes.values()),
            "clusters": [{"name": name, "replicas": size} for name, size in sizes.items()],
        }
        await create(self.client, RESOURCE_BINDING, f"demo-{kind.lower()}", spec, NS)

    async def make(self, kind: str, spec: JSONObject) -> None:
        """Make `demo`."""
        await create(self.client, TEMPLATES[kind], "demo", spec, NS)

    async def change(self, kind: str, **spec: object) -> None:
        """Change some fields of the spec of `demo`."""
        await self.client.patch(TEMPLATES[kind].untyped(), "demo", MergePatch({"spec": spec}), NS)

    async def roll_out(self, kind: str, image: str) -> None:
        """Change the image."""
        self.counter.newest = image
        await self.change(kind, template=_template(image))

    async def binding(self, kind: str) -> ResourceBinding:
        """Return the binding of `demo`."""
        return await self.client.get(RESOURCE_BINDING, f"demo-{kind.lower()}", NS)

    async def until(self, so: Callable[[], bool], within: float = 1800.0) -> float:
        """Wait until something is true of the pods; return how long that took."""
        return await until(self.counter, so, within)

    def is_complete(self, image: str, replicas: int) -> bool:
        """Whether all pods have an image and are available."""
        return is_complete(self.counter, image, replicas)

    def start_controllers(self) -> None:
        """Start the controllers, with no memory of a life before."""
        chance = Random(len(self._controllers))  # noqa: S311 - repeatable on purpose
        controllers = Controllers(
            self.client,
            running().clock,
            (*NAMES, *WORKLOAD_NAMES),
            random=chance,
            metrics=Metrics(),
            instance=f"test-{len(self._controllers)}",
            settings=STRICT,
        )
        self._controllers.append(asyncio.create_task(controllers.run()))

    async def kill_after_the_next_ledger(self) -> None:
        """End the controllers when they have written a ledger, and nothing of what it reserves."""
        written = asyncio.Event()
        task = self._controllers[-1]

        def committed(change: Change) -> None:
            if change.entry.key.resource == ROLLOUT_LEDGER.resource and not written.is_set():
                task.cancel()
                written.set()

        self.logical.store.on_commit(committed)
        await written.wait()
        await end(task)

    def start_agents(self) -> None:
        """Start the agent of every member, as far away from the hub as the members are."""
        for member in self.fleet.members.values():
            hub: Client = LateClient(InProcessClient(self.logical, agent_user(member.name)), self.seconds)
            self._agents.append(asyncio.create_task(agent(hub, member).run()))

    async def stop(self) -> None:
        """End everything."""
        await end(*(task for task in (*self._controllers, *self._agents) if not task.done()))


@asynccontextmanager
async def workload_fleet(
    clusters: int, limits: Limits, *, seconds: float = 0.0, pace: Pace | None = None
) -> AsyncIterator[WorkloadFleet]:
    """Run a fleet of so many clusters, each so many seconds away from the hub."""
    logical = memory_cluster(clock=running().clock.now, seed=1)
    await bootstrap(logical)
    client = InProcessClient(logical, ROOT)
    await furnish(client)
    for definition in registry.collect(KINDS).crds():
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    wanted = [replace(each, pace=pace or each.pace) for each in profiles(f"{clusters} clusters; nodes 1")]
    fleet = await Fleet.build(wanted, clock=running().clock.now)
    counter = PodCounter(running().time, NS, limits, loop_seconds=2 * seconds + LOOP_SECONDS)
    for member in fleet.members.values():
        member.cluster.store.on_commit(counter.follow(member.name))
    await fleet.start()
    here = WorkloadFleet(logical, client, fleet, counter, lambda: seconds)
    hub = asyncio.create_task(run_controllers(logical))
    here.start_controllers()
    for member in fleet.members.values():
        await register(client, member)
    here.start_agents()
    await asyncio.sleep(120)
    try:
        yield here
    finally:
        await here.stop()
        await end(hub)
        await fleet.stop()


def _template(image: str) -> JSONObject:
    return {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "main", "image": image}]}}


def workload_spec(kind: str, image: str, replicas: int, unavailable: int | str, surge: int | str) -> JSONObject:
    """Return the spec of a Deployment or CloneSet."""
    budget = {"maxUnavailable": unavailable, "maxSurge": surge}
    strategy = {"strategy": {"rollingUpdate": budget}} if kind == "Deployment" else {"updateStrategy": budget}
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "demo"}},
        "template": _template(image),
        **strategy,
    }


def is_complete(counter: PodCounter, image: str, replicas: int) -> bool:
    """Whether all pods have an image and are available."""
    return counter.available == counter.pods == counter.images.get(image) == replicas


async def until(counter: PodCounter, so: Callable[[], bool], within: float = 1800.0) -> float:
    """Wait until something is true; return how long that took."""
    began = running().time()
    while not so():
        assert running().time() - began < within, f"not within {within:g} s: {dict(counter.images)}"
        await asyncio.sleep(0.25)
    return running().time() - began


async def until_counted(counter: PodCounter, image: str, replicas: int) -> float:
    """Wait until all pods have an image and are available; return how long that took."""
    return await until(counter, lambda: is_complete(counter, image, replicas))


def voluntary(counter: PodCounter) -> Sequence[str]:
    """Return the steps over a limit that nothing excuses."""
    return [f"at {each.at:.1f} s {each.text}" for each in counter.breaches if not each.excused]
