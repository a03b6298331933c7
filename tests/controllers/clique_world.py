"""A simulated cluster with PodCliqueSets on it, their controller, and somebody who sees every pod come and go."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.events import EVENT
from echelon.api.grove import GROUP, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET, PodCliqueSet
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.podgangs import GROUP as GANGS
from echelon.controllers.running import POD_CLIQUES, Controllers, Lease
from echelon.controllers.settings import ControllerSettings
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import NodeShape, Pace, Profile
from echelon.fleet.member.trouble import Script
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT
from echelon.hub.storage.store import Change
from echelon.kube.client import Client, MergePatch
from echelon.kube.metrics import Metrics
from tests.controllers.strict import STRICT, end

NS = "apps"
STEADY = Pace(spread=0)
WELL = Script()
SETTINGS: ControllerSettings = replace(STRICT, init_image="wait")


def clique(name: str, replicas: int = 2, image: str = "v1", **fields: Any) -> JSONObject:
    """Return a clique of a set; fields are those of its spec, but for `template`, which is its other ones."""
    beside = fields.pop("template", {})
    pods: JSONObject = {"containers": [{"name": "main", "image": image}], **fields.pop("pods", {})}
    return {"name": name, **beside, "spec": {"roleName": name, "replicas": replicas, "podSpec": pods, **fields}}


def group(name: str, *cliques: str, replicas: int = 2, least: int = 1) -> JSONObject:
    """Return a scaling group of a set."""
    return {"name": name, "cliqueNames": list(cliques), "replicas": replicas, "minAvailable": least}


def set_of(*cliques: JSONObject, replicas: int = 1, strategy: str = "", **template: Any) -> JSONObject:
    """Return the spec of a set."""
    spec: JSONObject = {"replicas": replicas, "template": {"cliques": list(cliques), **template}}
    return {**spec, "updateStrategy": {"type": strategy}} if strategy else spec


@dataclass
class PodLog:
    """Which pods there were, and which ended, at every committed state of the cluster."""

    living: dict[str, JSONObject] = field(default_factory=dict)  # by name, without those that are being deleted
    made: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)  # two live pods with one host name
    writes: list[str] = field(default_factory=list)  # all commits but those of leases

    def committed(self, change: Change) -> None:
        key, obj = change.entry.key, change.entry.object
        if key.resource != "leases.coordination.k8s.io":
            self.writes.append(f"{change.type} {key.resource} {key.name}")
        if key.resource != POD.resource:
            return
        over = obj.get("status", {}).get("phase") in ("Failed", "Succeeded")
        if change.type == "DELETED" or obj["metadata"].get("deletionTimestamp") or over:
            if self.living.pop(key.name, None) is not None:
                self.ended.append(key.name)
            return
        if key.name not in self.living:
            self.made.append(key.name)
            host = obj["spec"].get("hostname")
            if any(each["spec"].get("hostname") == host for each in self.living.values()):
                self.doubled.append(key.name)
        self.living[key.name] = obj


@dataclass
class CliqueWorld:
    """What a story is told with."""

    member: Member
    client: InProcessClient
    log: PodLog
    settings: ControllerSettings = SETTINGS
    controllers: list[asyncio.Task[None]] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    collecting: asyncio.Task[None] | None = None  # garbage, as Kubernetes does

    def collect_garbage(self) -> None:
        self.collecting = asyncio.create_task(run_controllers(self.member.cluster))

    async def leave_garbage(self) -> None:
        """Let nobody take what has no owner any more."""
        if self.collecting is not None:
            await end(self.collecting)
            self.collecting = None

    def start(self, client: Client | None = None, lease: Lease | None = None, name: str = "test") -> asyncio.Task[None]:
        """Start the controller, with no memory of a life before."""
        self.metrics = Metrics()
        made = Controllers(
            client or self.client,
            running().clock,
            (POD_CLIQUES,),
            random=Random(len(self.controllers)),  # noqa: S311 - repeatable on purpose
            metrics=self.metrics,
            instance=name,
            settings=self.settings,
        )
        self.controllers.append(asyncio.create_task(made.run(lease)))
        return self.controllers[-1]

    async def restart(self) -> None:
        await end(*self.controllers)
        self.controllers.clear()
        self.start()

    async def apply(self, spec: JSONObject, name: str = "w", **meta: Any) -> None:
        await self.create(POD_CLIQUE_SET, name, spec=spec, **meta)

    async def create(self, kind: Kind[Any], name: str, **fields: Any) -> None:
        meta = {"name": name, **fields.pop("metadata", {})}
        await self.client.create(kind.untyped(), {**kind.type_meta, "metadata": meta, **fields}, NS)

    async def patch(self, kind: Kind[Any], name: str, body: JSONObject, subresource: str = "") -> None:
        await self.client.patch(kind.untyped(), name, MergePatch(body), NS, subresource=subresource)

    async def respec(self, spec: JSONObject, name: str = "w") -> None:
        await self.patch(POD_CLIQUE_SET, name, {"spec": spec})

    async def edit(self, changed: Callable[[JSONObject], None], name: str = "w") -> None:
        """Change the spec of a set as somebody with an editor does."""
        found = await self.client.get(POD_CLIQUE_SET.untyped(), name, NS)
        spec = json.loads(json.dumps(found["spec"]))  # the server's own document is what the client returns
        changed(spec)
        await self.respec(spec, name)

    async def roll(self, image: str, *cliques: str, name: str = "w") -> None:
        """Give cliques another image; all if none is named."""

        def change(spec: JSONObject) -> None:
            for each in spec["template"]["cliques"]:
                if not cliques or each["name"] in cliques:
                    each["spec"]["podSpec"]["containers"][0]["image"] = image

        await self.edit(change, name)

    async def scale(self, name: str, replicas: int, kind: Kind[Any] = POD_CLIQUE) -> None:
        await self.patch(kind, name, {"spec": {"replicas": replicas}})

    async def scale_group(self, name: str, replicas: int) -> None:
        await self.scale(name, replicas, POD_CLIQUE_SCALING_GROUP)

    async def delete(self, *pods: str, kind: Kind[Any] = POD) -> None:
        for each in pods:
            await self.client.delete(kind, each, NS)

    async def set(self, name: str = "w") -> PodCliqueSet:
        return await self.client.get(POD_CLIQUE_SET, name, NS)

    async def condition(self, kind: str, name: str = "w") -> tuple[str, str]:
        found = next(each for each in (await self.set(name)).status.conditions if each.type == kind)
        return found.status, found.reason

    async def events(self) -> list[tuple[str, str]]:
        """Return reason and note of all events, in the order in which they were written."""
        found = (await self.client.list(EVENT.untyped(), NS)).items
        ordered = sorted(found, key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event.get("note", "")) for event in ordered]

    def pods(self, clique: str = "") -> list[JSONObject]:
        """Return the live pods of a clique, or all, by name."""
        return [
            pod
            for name, pod in sorted(self.log.living.items())
            if not clique or pod["metadata"]["labels"].get("grove.io/podclique") == clique
        ]

    def names(self, clique: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(clique)]

    def images(self, clique: str = "") -> list[str]:
        return sorted(pod["spec"]["containers"][0]["image"] for pod in self.pods(clique))

    def ready(self, clique: str = "") -> int:
        return sum(is_ready(pod) for pod in self.pods(clique))

    async def settle(self, seconds: float = 60.0) -> None:
        """Let time pass, more than pods need to start."""
        await asyncio.sleep(seconds)


def is_ready(pod: JSONObject) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


@asynccontextmanager
async def clique_world(
    nodes: Sequence[NodeShape] = (NodeShape(), NodeShape()), pace: Pace = STEADY, script: Script = WELL
) -> AsyncIterator[CliqueWorld]:
    cluster = await clone_cluster("c1", clock=running().clock.now, seed=1, groups=(GROUP, GANGS))
    member = Member(Profile("c1", nodes=tuple(nodes), pace=pace, script=script), cluster)
    client, log = InProcessClient(cluster, ROOT), PodLog()
    await client.create(NAMESPACE.untyped(), {"metadata": {"name": NS}})
    await member.start()
    cluster.store.on_commit(log.committed)
    world = CliqueWorld(member, client, log)
    world.collect_garbage()
    try:
        yield world
    finally:
        await end(*world.controllers)
        await world.leave_garbage()
        member.stop()


Story = Callable[[CliqueWorld], Awaitable[None]]


def told(story: Story, seed: int = 0, **options: Any) -> None:
    """Tell a story in virtual time; see that there is silence after it, and that no index ever had two live pods."""

    async def main() -> None:
        async with clique_world(**options) as world:
            await story(world)
            await world.settle()
            written = len(world.log.writes)
            await asyncio.sleep(900)
            assert world.log.writes[written:] == []
            assert world.log.doubled == []
            for task in world.controllers:
                assert not task.done() or task.cancelled()

    run(main(), seed)


def now() -> datetime:
    return running().clock.now()


def gpus(count: int, **labels: str) -> NodeShape:
    """Return a machine with devices."""
    return NodeShape(resources={"nvidia.com/gpu": str(count)}, labels=labels)
