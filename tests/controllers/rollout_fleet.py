"""A rollout with everything real: placement and work sets on the hub, and an agent and a cluster for each of six.

Nothing is stood in for. Decisions are published by the placement controller, objects are applied and judged by agents,
and Deployments come to life on simulated clusters. It costs more than a world in which agents only pretend, so it is
for the few runs that have to show that both worlds are alike.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings, hub_hash
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import Controllers
from echelon.fleet.loop import running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import Pace, Profile
from echelon.fleet.member.timers import Timers
from echelon.fleet.member.trouble import Script
from echelon.fleet.simulation import Component, World
from echelon.hub.cluster import LogicalCluster
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import ServerTimeout
from echelon.kube.faults import Crash, Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS as CLUSTER_CRDS
from tests.controllers.hub import NS, SET_LABEL
from tests.controllers.placement_world import cluster, create
from tests.controllers.rollout_people import CLUSTERS
from tests.controllers.rollout_witness import Witness
from tests.controllers.rollout_world import WATCHED, observer_of
from tests.controllers.strict import STRICT
from tests.controllers.work_world import CRDS, template

GROUPS = ("canary", "one", "two")
HOME = {name: GROUPS[number // 2] for number, name in enumerate(CLUSTERS)}
HUB = hub_hash("https://hub.example")
MODES = ("before", "after", "lost")


@dataclass
class Fate:
    """At which of its writes a process dies, or does not hear the answer; through all its lives."""

    at: int = 0
    how: str = ""
    writes: int = 0


class Doomed:
    """The client protocol over a client of a process that has a fate."""

    def __init__(self, client: FaultyClient, fate: Fate) -> None:
        self._client = client
        self._fate = fate
        self.get, self.list, self.watch = client.get, client.list, client.watch

    async def create(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._client.create, args, options)

    async def patch(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._client.patch, args, options)

    async def delete(self, *args: Any, **options: Any) -> Any:
        return await self._write(self._client.delete, args, options)

    async def _write(self, call: Callable[..., Awaitable[Any]], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        self._fate.writes += 1
        fated = self._fate.how if self._fate.writes == self._fate.at else ""
        if fated == "before":
            raise self._end()
        answer = await call(*args, **options)
        if fated == "after":
            raise self._end()
        if fated == "lost":
            raise ServerTimeout("the connection was lost before the answer came")
        return answer

    def _end(self) -> Crash:
        self._client.process.die()
        return Crash(f"at write {self._fate.at}")


@dataclass
class Fleet:
    """What runs in such a world, besides the hub."""

    world: World
    strategy: JSONObject
    deployed: bool = False  # whether there is a Deployment besides the ConfigMap
    scripts: Mapping[str, Script] = field(default_factory=dict)  # of what goes wrong on clusters
    fates: dict[str, Fate] = field(default_factory=dict)  # by process
    members: dict[str, Member] = field(default_factory=dict)

    async def build(self) -> None:
        world = self.world
        await world.add_cluster()
        await self._furnish(world.client())
        observer_of(world).furnished = True
        timers = Timers()
        for number, name in enumerate(CLUSTERS):
            made = await clone_cluster(name, clock=world.loop.clock.now, seed=number, groups=())
            await world.add_cluster(name, made)
            self._start_member(name, made, timers)
            world.start(Component(f"agent {name}", partial(self._agent, name), ("", name)))
        for name in ("placement", "work-sets"):
            world.start(Component(name, partial(self._controller, name)))

    async def _furnish(self, client: Client) -> None:
        for definition in (*CLUSTER_CRDS, *CRDS):
            if definition["spec"]["names"]["kind"] != "AppliedManifestWork":
                await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        await create(client, NAMESPACE, NS)
        await create(client, MANAGED_CLUSTER_SET, "set")
        await create(client, MANAGED_CLUSTER_SET_BINDING, "set", NS, spec={"clusterSet": "set"})
        for name, group in HOME.items():
            await create(client, NAMESPACE, name)
            await cluster(client, name, **{SET_LABEL: "set", "group": group})
        named = [
            {"groupName": name, "groupClusterSelector": {"labelSelector": {"matchLabels": {"group": name}}}}
            for name in GROUPS
        ]
        strategy = {"groupStrategy": {"decisionGroups": named}, "updateStrategy": {"type": "RollingUpdate"}}
        await create(client, PLACEMENT, "p", NS, spec={"decisionStrategy": strategy})
        refs = [{"name": "p", "rolloutStrategy": self.strategy}]
        spec = {"manifestWorkTemplate": self.template("1"), "placementRefs": refs}
        await create(client, MANIFEST_WORK_REPLICA_SET, "web", NS, spec=spec)
        # Replicas that lag must not show a time before the beginning.
        for number in range(Faults().stale_revisions):
            await create(client, CONFIG_MAP, f"filler{number}", NS)

    def template(self, version: str) -> JSONObject:
        found = template(version)
        if self.deployed:
            containers = [{"name": "main", "image": f"web:{version}"}]
            pods = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
            spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": pods}
            metadata = {"name": "web", "namespace": "default"}
            found["workload"]["manifests"].append(
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
            )
        return found

    async def upgrade(self, version: str) -> None:
        await self.alter({"spec": {"manifestWorkTemplate": self.template(version)}})

    async def say(self, **words: str | None) -> None:
        await self.alter({"metadata": {"annotations": {f"echelon.dev/{name}": word for name, word in words.items()}}})

    async def alter(self, body: JSONObject) -> None:
        await self.world.client().patch(MANIFEST_WORK_REPLICA_SET, "web", MergePatch(body), NS)

    async def move(self, name: str, group: str) -> None:
        """Let a cluster belong to another group."""
        change = MergePatch({"metadata": {"labels": {"group": group}}})
        await self.world.client().patch(MANAGED_CLUSTER, name, change)

    def _start_member(self, name: str, made: LogicalCluster, timers: Timers) -> None:
        profile = Profile(name, pace=Pace(start=1.0), script=self.scripts.get(name, Script()))
        self.members[name] = Member(profile, made, timers)
        if self.deployed:
            self.world.spawn(self.members[name].run(), f"member {name}")

    async def _controller(self, name: str, client: FaultyClient) -> None:
        chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
        observer = observer_of(self.world)
        seen = Witness(self._fated(name, client), observer.register, WATCHED)
        controllers = Controllers(
            seen, running().clock, [name], random=chance, metrics=Metrics(), instance=name, settings=STRICT
        )
        await controllers.run()

    async def _agent(self, name: str, hub: FaultyClient, member: FaultyClient) -> None:
        fated = f"agent {name}"
        agent = Agent(
            self._fated(fated, hub),
            self._fated(fated, member),
            name,
            server=self.world.client(name),
            clock=running().clock,
            random=Random(running().random.getrandbits(64)),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            hub_hash=HUB,
            settings=Settings(strict=True),
        )
        await agent.run()

    def _fated(self, name: str, client: FaultyClient) -> Client:
        return Doomed(client, self.fates.setdefault(name, Fate()))


def end_of(world: World) -> dict[str, Any]:
    """Return everything about how a world ended that must not depend on what went wrong on the way."""
    (work_set,) = world.objects(MANIFEST_WORK_REPLICA_SET.resource, namespace=NS)
    status = work_set["status"]
    rollout = {name: value for name, value in status["rollout"].items() if name != "clusters"}
    return {
        "set": (work_set["metadata"]["generation"], _said(status), status["summary"], rollout),
        "works": [
            (_made(work), work["spec"], _said(work["status"]), _applied(world, work["metadata"]["namespace"]))
            for work in world.objects(MANIFEST_WORK.resource)
        ],
        "decisions": [(each["metadata"]["labels"], each["status"]) for each in _all(world, PLACEMENT_DECISION)],
        "revisions": [
            (each["metadata"]["name"], each["revision"], "echelon.dev/completed-at" in each["metadata"]["annotations"])
            for each in _all(world, CONTROLLER_REVISION)
        ],
    }


def _all(world: World, kind: Kind[Any]) -> list[JSONObject]:
    return world.objects(kind.resource, namespace=NS)


def _made(work: JSONObject) -> tuple[Any, ...]:
    meta = work["metadata"]
    found = (meta["namespace"], meta["name"], meta["generation"], meta["labels"])
    return (*found, meta["annotations"]["echelon.dev/revision"])


def _said(status: JSONObject) -> list[tuple[str, str, str, int]]:
    return sorted(
        (each["type"], each["status"], each["reason"], each.get("observedGeneration", 0))
        for each in status["conditions"]
    )


def _applied(world: World, name: str) -> list[JSONObject]:
    found = world.objects("configmaps", name, "default")
    return [each["data"] for each in found if each["metadata"]["name"] == "demo"]


async def wait_until(done: Callable[[], bool], patience: float = 600.0) -> None:
    """Look every second; who waits too long goes on, and the end of the world tells what is wrong."""
    end = running().time() + patience
    while not done() and running().time() < end:  # noqa: ASYNC110 - the world tells nobody
        await asyncio.sleep(1.0)
