"""Everything in one process: a hub, the controllers, a simulated fleet and its agents.

It is the real thing except for the members' machines: the hub is served over HTTPS, each member is a cluster of its own
there, and each agent has the rights of its cluster and no others.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings as AgentSettings
from echelon.agent.settings import hub_hash
from echelon.api import registry
from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.crd import crd
from echelon.api.grove import GROUP as GROVE
from echelon.api.guards import GUARDED, guards
from echelon.api.kinds import Kind
from echelon.api.kruise import GROUP as KRUISE
from echelon.api.podgangs import GROUP as PODGANGS
from echelon.api.policy import POLICY
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.controllers.running import NAMES, POLICY_NAMES, WORKLOAD_NAMES, Controllers, Lease
from echelon.engine.cel import CEL_AVAILABLE
from echelon.fleet.member.clone import fill, make_template
from echelon.fleet.member.fleet import ClusterFor, Fleet
from echelon.fleet.member.member import Member
from echelon.fleet.pod_cliques import MemberControllers
from echelon.hub.access.identity import AUTHENTICATED, User
from echelon.hub.access.impersonation import as_user
from echelon.hub.cluster import LogicalCluster
from echelon.hub.server import Hub
from echelon.hub.server import Settings as HubSettings
from echelon.hub.storage.store import Entry
from echelon.kube.client import ApplyPatch, Client
from echelon.kube.clock import SystemClock
from echelon.kube.errors import AlreadyExists
from echelon.kube.metrics import Metrics
from echelon.kube.turns import Turns

JOINED, AVAILABLE = "ManagedClusterJoined", "ManagedClusterConditionAvailable"
_GROUPS = frozenset((KRUISE, GROVE, PODGANGS))
_ON_MEMBERS = tuple(
    each
    for each in registry.crds()
    if each["spec"]["group"] in _GROUPS or each["metadata"]["name"] == APPLIED_MANIFEST_WORK.resource
)
# Agents define these with the first policy. A thousand agents that do so at once are waited for.
_FOR_POLICIES = tuple(crd(kind) for kind in (POLICY, CONFIGURATION_POLICY))

_INSTALLED: dict[str, Kind[Any]] = {
    kind.kind: kind
    for kind in (CUSTOM_RESOURCE_DEFINITION, VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING)
}

# Changes that a member remembers: its few watches keep up, and a thousand members must fit into memory.
_MEMBER_HISTORY = 200

_LOOK_SECONDS = 0.2  # between two counts of those that have joined
_PAUSE = 20  # times as long as the count took

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """What to run. Without a data directory everything is in memory and gone at the end."""

    fleet: str
    seed: int = 0
    data: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    lease_seconds: int = 60


@dataclass
class Local:
    """A running whole. Make one with `start`, end it with `stop`."""

    hub: Hub
    fleet: Fleet
    _settings: Settings
    _chance: Random
    _metrics: Metrics = field(default_factory=Metrics)
    _turns: Turns = field(default_factory=Turns)
    _pod_cliques: MemberControllers = field(default_factory=lambda: MemberControllers(SystemClock()))
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _controllers: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, settings: Settings, *, on_member: Callable[[int], None] | None = None) -> "Local":
        """Start everything. `on_member` hears how many members there are already."""
        hub = await Hub.start(
            HubSettings(data=settings.data, host=settings.host, port=settings.port, keep_objects=True)
        )
        try:
            await _serve(hub.client(), [*registry.crds(), *_guards()])
            cluster_for = await _cluster_maker(hub, on_member)
            fleet = await Fleet.build(settings.fleet, seed=settings.seed, cluster_for=cluster_for)
            local = cls(hub, fleet, settings, Random(settings.seed))  # noqa: S311 - jitter is no secret
            await local._begin()
        except BaseException:
            await hub.stop()
            raise
        return local

    async def _begin(self) -> None:
        client = self.hub.client(field_manager="echelon")
        self._work()
        await self.fleet.start()
        self._pod_cliques.follow(self.fleet.members.values())
        for member in self.fleet.members.values():
            await register(client, member)
            self._spawn(self._agent(member).run(), f"agent of {member.name}")

    def _work(self) -> Controllers:
        controllers = Controllers(
            self.hub.client(field_manager="echelon"),
            SystemClock(),
            (*NAMES, *POLICY_NAMES, *WORKLOAD_NAMES),
            random=self._chance,
            metrics=Metrics(),
            instance="echelon-up",
        )
        # Nobody else has to take over here. But whoever points `echelon run` at this hub must not work beside it.
        self._controllers = self._spawn(controllers.run(Lease(seconds=60.0)), "controllers")
        return controllers

    async def restart_controllers(self) -> None:
        """Stop the controllers, start them with empty hands, and wait until they have looked at everything."""
        if self._controllers is not None:
            self._controllers.cancel()
            with suppress(asyncio.CancelledError):
                await self._controllers
        controllers = self._work()
        while not controllers.idle:  # noqa: ASYNC110 - queues have no event for being empty
            await asyncio.sleep(0.05)

    def _agent(self, member: Member) -> Agent:
        name, cluster = member.name, member.cluster

        async def act_as(account: str) -> Client:
            return member.client(as_user(account))

        return Agent(
            self.hub.client(user=agent_user(name), field_manager="echelon-agent"),
            member.client(field_manager="work-agent"),
            name,
            server=self.hub.client(cluster.name),
            clock=SystemClock(),
            random=Random(f"{self._settings.seed} {name}"),  # noqa: S311 - jitter is no secret
            metrics=self._metrics,
            hub_hash=hub_hash(self.hub.url()),
            settings=AgentSettings(lease_seconds=self._settings.lease_seconds),
            act_as=act_as,
            turns=self._turns,
        )

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_say_if_failed)
        self._tasks.append(task)
        return task

    async def joined(self) -> int:
        """Return how many clusters have joined and are available."""
        found = await self.hub.client().list(MANAGED_CLUSTER)
        return sum(1 for cluster in found.items if {JOINED, AVAILABLE} <= set(_true(cluster)))

    async def wait_joined(self, heard: Callable[[int], None] = lambda _: None) -> None:
        """Wait until every cluster that can be reached has joined; `heard` hears how many have."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            count = await self.joined()
            heard(count)
            if count >= sum(not member.offline for member in self.fleet.members.values()):
                return
            # To look at ten thousand takes a while, in which nobody joins.
            await asyncio.sleep(max(_LOOK_SECONDS, _PAUSE * (loop.time() - began)))

    async def stop(self) -> None:
        """End everything, agents before what they talk to."""
        for task in reversed(self._tasks):
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError, Exception):  # what failed has been logged when it did
                await task
        await self._pod_cliques.stop()
        await self.fleet.stop()
        await self.hub.stop()


def agent_user(cluster: str) -> User:
    """Return who the agent of a cluster is on the hub."""
    groups = (f"system:open-cluster-management:{cluster}", "system:open-cluster-management", AUTHENTICATED)
    return User(f"system:open-cluster-management:{cluster}:echelon", groups)


async def member_template() -> list[Entry]:
    """Make what every simulated member begins with."""
    return await make_template(partial(_serve, documents=[*_ON_MEMBERS, *_FOR_POLICIES]))


async def _cluster_maker(hub: Hub, heard: Callable[[int], None] | None) -> ClusterFor:
    count = 0
    stored = frozenset(hub.cluster_names())
    template = await member_template()

    async def make(name: str) -> LogicalCluster:
        nonlocal count
        cluster = await hub.add_cluster(name, history=_MEMBER_HISTORY, fill=partial(fill, template=template))
        if name in stored:  # by an earlier version, perhaps
            await _serve(hub.client(name), _ON_MEMBERS)
        count += 1
        if heard is not None:
            heard(count)
        return cluster

    return make


def _guards() -> list[JSONObject]:
    """Return the policies about who may bind, join and accept."""
    if CEL_AVAILABLE:
        return guards(*GUARDED)
    _log.warning("CEL is not installed: whoever may write bindings and clusters here may bind, join and accept any")
    return []


async def _serve(client: Client, documents: Sequence[JSONObject]) -> None:
    for document in documents:
        kind = _INSTALLED[document["kind"]].untyped()
        await client.patch(kind, document["metadata"]["name"], ApplyPatch(document, manager="echelon"))


async def register(client: Client, member: Member) -> None:
    """Accept a cluster before it asks, as an administrator would who trusts whom they invited."""
    body = {
        **MANAGED_CLUSTER.type_meta,
        "metadata": {"name": member.name, "labels": dict(member.profile.cluster_labels)},
        "spec": {"hubAcceptsClient": True},
    }
    with suppress(AlreadyExists):
        await client.create(MANAGED_CLUSTER.untyped(), body)


def _true(cluster: ManagedCluster) -> Iterator[str]:
    return (each.type for each in cluster.status.conditions if each.status == "True")


def _say_if_failed(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s ended: %r", task.get_name(), error, exc_info=error)
