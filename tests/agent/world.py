"""A hub and a member cluster in virtual time, with an agent between them."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from echelon.agent.agent import FAMILIES, Agent
from echelon.agent.context import AgentContext, Family
from echelon.agent.settings import Settings, hub_hash
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK, AppliedManifestWork, ManifestCondition, ManifestWork
from echelon.api.work import GROUP as WORK_GROUP
from echelon.fleet.loop import run, running
from echelon.fleet.member.network import MemberClient, Network
from echelon.hub.access.impersonation import as_user
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import Client, MergePatch
from echelon.kube.errors import ApiError, NotFound
from echelon.kube.metrics import Metrics
from tests.controllers.strict import end

CLUSTER = "c1"
HUB = hub_hash("https://hub.example")
MANAGER = "somebody"


@dataclass
class Server:
    """A logical cluster, and everything that was committed to it."""

    cluster: LogicalCluster
    client: InProcessClient
    commits: list[str] = field(default_factory=list)

    async def create(self, body: JSONObject) -> JSONObject:
        kind, namespace = self._kind(body), body["metadata"].get("namespace", "")
        return await self.client.create(kind, body, namespace)

    async def get(self, kind: Kind[Any], name: str, namespace: str = "default") -> JSONObject:
        return await self.client.get(kind.untyped(), name, namespace if kind.namespaced else "")

    async def has(self, kind: Kind[Any], name: str, namespace: str = "default") -> bool:
        try:
            await self.get(kind, name, namespace)
        except NotFound:
            return False
        return True

    async def patch(
        self, kind: Kind[Any], name: str, body: JSONObject, namespace: str = "default", subresource: str = ""
    ) -> JSONObject:
        inside = namespace if kind.namespaced else ""
        return await self.client.patch(kind.untyped(), name, MergePatch(body), inside, subresource=subresource)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "default") -> None:
        await self.client.delete(kind, name, namespace if kind.namespaced else "")

    def _kind(self, body: JSONObject) -> Kind[Any]:
        group, _, version = body["apiVersion"].rpartition("/")
        resource = self.cluster.catalogue.of_kind(group, version, body["kind"])
        assert resource is not None
        return resource.kind.untyped()

    def writes_since(self, mark: int, *, besides: Sequence[str] = ("leases",)) -> list[str]:
        return [each for each in self.commits[mark:] if not each.split()[1].startswith(tuple(besides))]


class Way:
    """The agent's way to a server: what it asked for there, what it is refused, and whether it gets through."""

    def __init__(self, member: Server) -> None:
        self.reach = Network(member.cluster.store.wake_watches)
        self.requests: list[tuple[str, str, str]] = []  # verb, resource, and name or selector of fields
        self._refused: tuple[str, str, ApiError, float] | None = None
        self._inner = member.client
        self._through = MemberClient(member.client, self.reach, CLUSTER)

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        self._ask("get", kind.plural, name)
        return await self._through.get(kind, name, namespace)

    async def list(self, kind: Kind[Any], namespace: str = "", **query: Any) -> Any:
        self._ask("list", kind.plural, query.get("fields", ""))
        return await self._through.list(kind, namespace, **query)

    def watch(self, kind: Kind[Any], namespace: str = "", **query: Any) -> Any:
        self._ask("watch", kind.plural, query.get("fields", ""))
        return self._through.watch(kind, namespace, **query)

    async def create(self, kind: Kind[Any], body: JSONObject, namespace: str = "", **options: Any) -> Any:
        self._ask("create", kind.plural, body.get("metadata", {}).get("name", ""))
        return await self._through.create(kind, body, namespace, **options)

    async def patch(self, kind: Kind[Any], name: str, patch: Any, namespace: str = "", **options: Any) -> Any:
        self._ask("patch", kind.plural, name)
        return await self._through.patch(kind, name, patch, namespace, **options)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", **options: Any) -> None:
        self._ask("delete", kind.plural, name)
        await self._through.delete(kind, name, namespace, **options)

    async def document(self, path: str) -> JSONObject:
        self._ask("document", path, "")
        await self._through._travel()
        return await self._inner.document(path)

    def refuse(self, verb: str, what: str, error: ApiError, times: float = math.inf) -> None:
        """Refuse requests with a verb, or with any, for a resource or a name."""
        self._refused = verb, what, error, times

    def relent(self) -> None:
        """Refuse nothing more."""
        self._refused = None

    def _ask(self, verb: str, resource: str, name: str) -> None:
        self.requests.append((verb, resource, name))
        if self._refused is None or self._refused[0] not in ("", verb) or self._refused[1] not in ("", resource, name):
            return
        _, _, error, times = self._refused
        self._refused = (*self._refused[:3], times - 1) if times > 1 else None
        raise error


@dataclass
class World:
    """What a story is told with."""

    hub: Server
    member: Server
    way: Way
    settings: Settings = field(default_factory=Settings)
    agents: list[asyncio.Task[None]] = field(default_factory=list)
    running: list[Agent] = field(default_factory=list)

    def start(
        self,
        settings: Settings | None = None,
        *,
        hash_: str = HUB,
        agent_id: str = "",
        member: Client | None = None,
        hub: Client | None = None,
        families: Sequence[Callable[[AgentContext], Family]] = FAMILIES,
    ) -> asyncio.Task[None]:
        cluster = self.member.cluster

        async def act_as(name: str) -> Client:
            return InProcessClient(cluster, as_user(name))

        agent = Agent(
            hub or self.hub.client,
            member or self.way,
            CLUSTER,
            server=self.way,
            clock=running().clock,
            random=Random(running().random.getrandbits(64)),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            hub_hash=hash_,
            agent_id=agent_id,
            settings=replace(settings or self.settings, strict=True),
            act_as=act_as,
            families=families,
        )
        self.running.append(agent)
        self.agents.append(asyncio.create_task(agent.run()))
        return self.agents[-1]

    async def stop(self) -> None:
        agents, self.agents = self.agents, []
        await end(*agents)

    async def settle(self, seconds: float = 8.0) -> None:
        """Let time pass: far more than an agent needs, less than any of its routines."""
        await asyncio.sleep(seconds)

    async def work(self, *manifests: Any, name: str = "w", labels: JSONObject | None = None, **spec: Any) -> None:
        """Create a work, or give it another spec, and let the agent do its part."""
        body: JSONObject = {"workload": {"manifests": list(manifests)}, **spec}
        if await self.hub.has(MANIFEST_WORK, name, CLUSTER):
            before = (await self.hub.get(MANIFEST_WORK, name, CLUSTER))["spec"]
            body = {**dict.fromkeys(before), **body}
            await self.hub.patch(MANIFEST_WORK, name, {"spec": body}, CLUSTER)
        else:
            metadata = {"name": name, "namespace": CLUSTER, "labels": labels or {}}
            await self.hub.create(
                {"apiVersion": f"{WORK_GROUP}/v1", "kind": "ManifestWork", "metadata": metadata, "spec": body}
            )
        await self.settle()

    async def seen(self, name: str = "w") -> ManifestWork:
        return await self.hub.client.get(MANIFEST_WORK, name, CLUSTER)

    async def record(self, name: str = "w", hash_: str = HUB) -> AppliedManifestWork:
        return await self.member.client.get(APPLIED_MANIFEST_WORK, f"{hash_}-{name}")

    async def condition(self, type_: str, name: str = "w") -> Condition:
        return condition((await self.seen(name)).status.conditions, type_)

    async def status(self, type_: str, name: str = "w") -> str:
        return (await self.condition(type_, name)).status

    async def manifests(self, name: str = "w") -> list[ManifestCondition]:
        return (await self.seen(name)).status.resource_status.manifests

    async def each(self, type_: str, name: str = "w") -> list[str]:
        """Return the status of a condition of every manifest, in the spec's order."""
        return [condition(each.conditions, type_).status for each in await self.manifests(name)]

    async def values(self, name: str = "w", ordinal: int = 0) -> dict[str, Any]:
        found = (await self.manifests(name))[ordinal].status_feedback.values
        plain = [(each.name, msgspec.to_builtins(each.field_value)) for each in found]
        return {key: next(value for field, value in said.items() if field != "type") for key, said in plain}

    async def resources(self, name: str = "w") -> list[str]:
        return [f"{each.resource} {each.name}" for each in (await self.record(name)).status.applied_resources]

    async def owners(self, name: str) -> list[str]:
        """Return the names of the records that a config map belongs to."""
        live = await self.member.get(CONFIG_MAP, name)
        return [each["name"] for each in live["metadata"].get("ownerReferences", [])]

    async def records(self) -> list[str]:
        return sorted(each.metadata.name for each in (await self.member.client.list(APPLIED_MANIFEST_WORK)).items)

    async def touch(self, name: str = "w") -> None:
        """Ask for another attempt."""
        note = running().clock.now().isoformat()
        await self.hub.patch(
            MANIFEST_WORK, name, {"metadata": {"annotations": {"echelon.dev/retried-at": note}}}, CLUSTER
        )
        await self.settle()


def condition(conditions: Sequence[Condition], type_: str) -> Condition:
    return next(each for each in conditions if each.type == type_)


def config_map(name: str, namespace: str = "default", **data: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"a": "b"},
    }


def deployment(name: str = "web", image: str = "web:1", **spec: Any) -> JSONObject:
    pods = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": pods, **spec},
    }


def target(resource: str, name: str, group: str = "", namespace: str = "default") -> JSONObject:
    return {"group": group, "resource": resource, "name": name, "namespace": namespace}


async def serve(where: Server, groups: Sequence[str]) -> None:
    for definition in registry.crds():
        if definition["spec"]["group"] in groups:
            await where.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)


async def server(groups: Sequence[str], seed: int) -> Server:
    cluster = memory_cluster(clock=running().clock.now, seed=seed)
    await bootstrap(cluster)
    made = Server(cluster, InProcessClient(cluster, ROOT, field_manager=MANAGER))
    await serve(made, groups)
    cluster.store.on_commit(lambda change: made.commits.append(f"{change.type} {_named(change)}"))
    return made


def _named(change: Any) -> str:
    return f"{change.entry.key.resource} {change.entry.key.name}"


@asynccontextmanager
async def world(*, accepted: bool = True) -> AsyncIterator[World]:
    hub, member = await server((CLUSTER_GROUP, WORK_GROUP), 1), await server((), 2)
    tidy = [asyncio.create_task(run_controllers(each.cluster)) for each in (hub, member)]
    here = World(hub, member, Way(member))
    if accepted:
        labels = {f"{CLUSTER_GROUP}/managedCluster": CLUSTER}
        await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": CLUSTER, "labels": labels}})
        await hub.create(
            {
                "apiVersion": MANAGED_CLUSTER.api_version,
                "kind": MANAGED_CLUSTER.kind,
                "metadata": {"name": CLUSTER},
                "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60},
            }
        )
    try:
        yield here
    finally:
        await here.stop()
        for task in tidy:
            task.cancel()
        await asyncio.gather(*tidy, return_exceptions=True)


def told(
    story: Callable[[World], Awaitable[None]],
    *,
    started: bool = True,
    settings: Settings | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> None:
    """Run a story with an agent on a hub and a cluster of its own, and see that there is silence after it."""

    async def main() -> None:
        async with world() as here:
            here.settings = settings or Settings()
            if started:
                here.start()
                await here.settle(2)
            await story(here)
            await here.settle()
            marks = len(here.hub.commits), len(here.member.commits)
            await asyncio.sleep(900)
            if quiet:
                assert here.hub.writes_since(marks[0]) == []
                assert here.member.writes_since(marks[1]) == []
            for task in here.agents:
                assert not task.done()

    run(main(), seed)


__all__ = ["CLUSTER", "CONFIG_MAP", "HUB", "World", "condition", "config_map", "deployment", "target", "told", "world"]
