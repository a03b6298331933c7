"""A copy of a captured fleet that is alive: a hub with what was captured, its controllers, and a member and an agent
for each cluster.

Members begin empty. Before the controllers start, agents bring to them what the captured works and policies say, and
what the clusters had reported is put back where they report the same again: a soak that has gone on for an hour must
not begin anew. What the fleet was like is not simulated again, so the labels, claims and resources of clusters stay as
they were captured; nobody says that clusters are alive, and nobody asks, until one is cut off.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings as AgentSettings
from echelon.agent.settings import hub_hash
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.karmada import WORK
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import POLICY
from echelon.api.work import MANIFEST_WORK
from echelon.controllers.running import NAMES, POLICY_NAMES, WORKLOAD_NAMES, Controllers
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.merge_patch import merge_difference
from echelon.engine.workload.names import execution_namespace
from echelon.fleet.capture import Capture, kind_of
from echelon.fleet.local import member_template
from echelon.fleet.loop import VirtualLoop, running
from echelon.fleet.member.clone import fill, make_template
from echelon.fleet.member.fleet import Fleet
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import VERSION, Pace, Profile
from echelon.fleet.member.trouble import Script
from echelon.fleet.pod_cliques import MemberControllers
from echelon.fleet.rehearsal.reports import ReportingClient
from echelon.fleet.rehearsal.steady_informer import SteadyInformer
from echelon.hub.access.impersonation import as_user
from echelon.hub.client import BOOKMARK_SECONDS, InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, memory_cluster
from echelon.hub.storage.store import Change, Entry, Key, Store
from echelon.kube.client import Client, MergePatch
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics
from echelon.kube.turns import Turns

WARM_UP_SECONDS = 600.0  # within which agents have brought to members what is captured
_SETTLED_SECONDS = 45.0  # without a write: longer than agents wait before they look again
_BRIEF_SECONDS = 1.0  # between two looks of kubelets, where the work is to be short
_NEVER = 10 * 365 * 24 * 3600  # seconds: how often a cluster says that it is alive, where nobody listens
_HISTORY = 200
_HUB = hub_hash("https://rehearsal.example")
# What is on clusters is what agents bring there, and those who joined need nobody to let them in.
_LEFT_OUT = (POD, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET)
_CONTROLLERS = tuple(
    name for name in (*NAMES, *POLICY_NAMES, *WORKLOAD_NAMES) if name not in ("cluster-registration", "cluster-joining")
)
_REPORTED = (MANIFEST_WORK.resource, POLICY.resource, WORK.resource)
_HEARTBEATS = ("leases.coordination.k8s.io", "events.events.k8s.io", "events")

_hub_template: list[Entry] = []


@dataclass(frozen=True)
class Write:
    """An object of a change: as it is, if it is there, and as it is to be."""

    kind: Kind[Any]
    before: JSONObject | None
    after: JSONObject


@dataclass
class Rehearsal:
    """A copy of a fleet that lives. Make one with `begin`, end it with `stop`."""

    loop: VirtualLoop
    hub: LogicalCluster
    fleet: Fleet
    settings: ControllerSettings
    brief: bool = False
    last_write: float = 0.0  # on the hub, that is no heartbeat
    _pod_cliques: MemberControllers = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _lease_seconds: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Watch who writes."""
        self._pod_cliques = MemberControllers(self.loop.clock, settings=self.settings, leases=False)
        self.hub.store.on_commit(self._committed)

    @classmethod
    async def begin(
        cls,
        capture: Capture,
        *,
        pace: Pace | None = None,
        scripts: Mapping[str, Script] | None = None,
        settings: ControllerSettings = DEFAULTS,
        brief: bool = False,
    ) -> "Rehearsal":
        """Bring a copy of a fleet to life, up to the moment in which its controllers start.

        A `brief` one comes to the same end with half the work: members write less, and their kubelets look once a
        second; reports take a short way to the hub; streams never end.
        """
        loop = running()
        hub = memory_cluster(clock=loop.clock.now, seed=1)
        if not _hub_template:
            _hub_template.extend(await make_template(_define_everything))
        await fill(hub, _hub_template)
        clusters = _joined(capture)
        pace = pace or Pace(grain=_BRIEF_SECONDS if brief else 0.0)
        profiles = [
            Profile(
                name, version=version, pace=pace, seed=number, script=(scripts or {}).get(name) or Script(), brief=brief
            )
            for number, (name, version) in enumerate(clusters.items())
        ]
        fleet = await Fleet.build(profiles, clock=loop.clock.now, cluster_for=await _member_maker(loop))
        here = cls(loop, hub, fleet, settings, brief)
        await here._load(capture, [*clusters])
        here.spawn(run_controllers(hub), "controllers of the hub")
        await fleet.start()
        here._pod_cliques.follow(fleet.members.values())
        here._start_agents()
        await here.settled(WARM_UP_SECONDS)
        await here._put_back(capture)
        return here

    @property
    def client(self) -> InProcessClient:
        """A client of the hub that may do everything."""
        return InProcessClient(self.hub, ROOT, field_manager="echelon")

    def _client(self, manager: str, bookmark_seconds: float = BOOKMARK_SECONDS) -> InProcessClient:
        """Return the client of an agent, or of the controllers."""
        kind = ReportingClient if self.brief else InProcessClient
        return kind(self.hub, ROOT, field_manager=manager, bookmark_seconds=bookmark_seconds)

    async def start_controllers(self) -> None:
        """Start the controllers, and wait until they have looked at everything."""
        controllers = Controllers(
            self._client("echelon"),
            self.loop.clock,
            _CONTROLLERS,
            random=Random(1),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            instance="rehearsal",
            settings=self.settings,
        )
        self.spawn(controllers.run(), "controllers")
        while not controllers.idle:  # noqa: ASYNC110 - queues have no event for being empty
            await asyncio.sleep(1.0)

    async def apply(self, writes: Iterable[Write]) -> None:
        """Make a change, as whoever applies files would."""
        for each in writes:
            meta = each.after["metadata"]
            where = meta.get("namespace", "")
            if each.before is None:
                new = {name: value for name, value in meta.items() if name not in ("uid", "generation")}
                await self.client.create(each.kind.untyped(), {**each.after, "metadata": new}, where)
            elif patch := merge_difference(each.before, each.after):
                await self.client.patch(each.kind.untyped(), meta["name"], MergePatch(patch), where)

    async def settled(self, within: float) -> bool:
        """Wait until nobody writes any more; return whether that was so in time."""
        began = self.loop.time()
        self.last_write = max(self.last_write, began)
        while self.loop.time() - self.last_write < _SETTLED_SECONDS:
            if self.loop.time() - began > within:
                return False
            await asyncio.sleep(5.0)
        return True

    async def stop(self) -> None:
        """End everything, agents before what they talk to."""
        for task in reversed(self._tasks):
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self._pod_cliques.stop()
        await self.fleet.stop()

    async def _load(self, capture: Capture, clusters: Iterable[str]) -> None:
        """Put what was captured on the hub, as it was: nobody else would be believed by what refers to it."""
        store, listed = self.hub.store, set(clusters)
        left_out = {kind.resource for kind in _LEFT_OUT}
        objects = [
            (kind, each) for each in capture.objects if (kind := kind_of(each)) and kind.resource not in left_out
        ]
        for kind, each in sorted(objects, key=lambda pair: pair[0] != NAMESPACE):
            meta = {name: value for name, value in each["metadata"].items() if name != "resourceVersion"}
            meta.setdefault("uid", self.hub.new_uid())
            key = Key(kind.resource, meta.get("namespace", ""), meta["name"])
            found = {**kind.type_meta, **each, "metadata": meta}
            if kind == MANAGED_CLUSTER and meta["name"] in listed:
                found["spec"] = {**(found.get("spec") or {}), "leaseDurationSeconds": _NEVER}
            if store.latest(key) is None:
                await store.put(key, found, expected=0)
        executing = map(execution_namespace, clusters)
        for name in {*clusters, *executing, *(each["metadata"].get("namespace", "") for _, each in objects)} - {""}:
            if store.latest(Key(NAMESPACE.resource, "", name)) is None:
                await self.client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})

    def _start_agents(self) -> None:
        turns, metrics = Turns(), Metrics()
        settings = AgentSettings(resync_seconds=float(_NEVER), lease_seconds=_NEVER)
        for name, member in self.fleet.members.items():
            entry = self.hub.store.latest(Key(MANAGED_CLUSTER.resource, "", name))
            agent = Agent(
                self._client("echelon-agent", math.inf if self.brief else BOOKMARK_SECONDS),
                member.client(field_manager="work-agent"),
                name,
                server=InProcessClient(member.cluster, ROOT),
                clock=self.loop.clock,
                random=Random(name),  # noqa: S311 - repeatable on purpose
                metrics=metrics,
                hub_hash=_HUB,
                settings=settings,
                act_as=partial(_acting, member),
                turns=turns,
                make_informer=SteadyInformer if self.brief else Informer,
            )
            uid = entry.object["metadata"]["uid"] if entry is not None else ""
            self.spawn(agent.work(uid), f"agent of {name}")

    async def _put_back(self, capture: Capture) -> None:
        """Let clusters have reported when they did, where they report the same."""
        for each in capture.objects:
            kind, status = kind_of(each), each.get("status")
            if kind is None or kind.resource not in _REPORTED or not isinstance(status, dict):
                continue
            meta = each["metadata"]
            entry = self.hub.store.latest(Key(kind.resource, meta.get("namespace", ""), meta["name"]))
            if entry is not None and _verdict(entry.object.get("status")) == _verdict(status):
                await self.hub.store.put(entry.key, {**entry.object, "status": status}, expected=entry.revision)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something beside the rest."""
        self._tasks.append(asyncio.create_task(work, name=name))

    def _committed(self, change: Change) -> None:
        if change.entry.key.resource not in _HEARTBEATS:
            self.last_write = self.loop.time()


def _verdict(status: Any) -> Any:
    """Return what a report says, without when."""
    if not isinstance(status, dict):
        return None
    conditions = status.get("conditions")
    said = [each for each in conditions if isinstance(each, dict)] if isinstance(conditions, list) else []
    told = {(each.get("type"), each.get("status"), each.get("observedGeneration")) for each in said}
    return told, status.get("compliant"), status.get("rolloutStatus"), status.get("observedGeneration")


def _joined(capture: Capture) -> dict[str, str]:
    """Return the clusters that are part of the fleet, with the version of their Kubernetes."""
    found = sorted(capture.of(MANAGED_CLUSTER), key=lambda each: str(each["metadata"]["name"]))
    return {
        each["metadata"]["name"]: ((each.get("status") or {}).get("version") or {}).get("kubernetes") or VERSION
        for each in found
        if (each.get("spec") or {}).get("hubAcceptsClient")
    }


async def _acting(member: Member, account: str) -> Client:
    return member.client(as_user(account))


async def _define_everything(client: InProcessClient) -> None:
    for each in registry.crds():
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), each)


async def _member_maker(loop: VirtualLoop) -> Any:
    template = await member_template()

    async def make(name: str) -> LogicalCluster:
        store = Store(None, name, keep_objects=True, history=_HISTORY)
        cluster = LogicalCluster(name, store, clock=loop.clock.now, random=Random(name))  # noqa: S311 - repeatable
        await fill(cluster, template)
        return cluster

    return make
