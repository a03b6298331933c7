"""A hub with works of federated workloads, and a member in which workloads come to life, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from echelon.agent.settings import Settings
from echelon.agent.workload.family import workload_controllers
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP as CLUSTER_GROUP
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.karmada import GROUP as WORKLOAD_GROUP
from echelon.api.karmada import WORK, Work
from echelon.api.kinds import Kind
from echelon.api.kruise import GROUP as KRUISE_GROUP
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE
from echelon.engine.align import MemberView, RollingStrategy, interpreter_of
from echelon.engine.align.reflection import read_snapshot
from echelon.engine.workload.names import BINDING_UID, FINALIZER, MANAGED, PUSH_ID, execution_namespace
from echelon.fleet.loop import run
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import Pace, Profile
from echelon.fleet.member.trouble import Script, Trouble
from echelon.hub.controllers import run_controllers
from echelon.kube.errors import NotFound
from tests.agent import world as works
from tests.agent.world import CLUSTER, Way, server

SPACE = execution_namespace(CLUSTER)
STEADY = Pace(start=2.0, spread=0.0, stop=0.5)
BINDING = "binding-1"
FAMILIES = (workload_controllers,)


def manifest(
    push: int | None = 1,
    image: str = "web:1",
    *,
    kind: str = "Deployment",
    api_version: str = "apps/v1",
    replicas: int = 3,
    unavailable: int = 1,
    surge: int = 1,
    partition: int = 0,
    paused: bool = False,
    binding: str = BINDING,
    **meta: Any,
) -> JSONObject:
    """Return what the hub sends for a push."""
    annotations = {BINDING_UID: binding, **meta.pop("annotations", {})}
    if push is not None:
        annotations[PUSH_ID] = str(push)
    labels = {MANAGED: "true", **meta.pop("labels", {})}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }
    obj: JSONObject = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default", "labels": labels, "annotations": annotations, **meta},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    if kind == "StatefulSet":
        obj["spec"]["serviceName"] = "web"
    interpreter = interpreter_of(obj)
    assert interpreter is not None
    return interpreter.revise_rolling_strategy(obj, RollingStrategy(paused, partition, unavailable, surge))


@dataclass
class World(works.World):
    """What a story is told with: `simulated` is who makes workloads live on the member."""

    simulated: Member | None = None
    snapshots: list[MemberView] = field(default_factory=list)  # all that were reported, in order

    async def send(self, body: JSONObject, name: str = "w", **spec: Any) -> None:
        """Write a work, as the hub does, and let the agent do its part."""
        await self.write(body, name, **spec)
        await self.settle(20)

    async def write(self, body: JSONObject, name: str = "w", **spec: Any) -> None:
        said: JSONObject = {"workload": {"manifests": [body]}, **spec}
        if await self.hub.has(WORK, name, SPACE):
            before = (await self.hub.get(WORK, name, SPACE))["spec"]
            await self.hub.patch(WORK, name, {"spec": {**dict.fromkeys(before), **said}}, SPACE)
            return
        metadata = {"name": name, "namespace": SPACE, "finalizers": [FINALIZER]}
        await self.hub.create({"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": said})

    async def told(self, name: str = "w") -> Work:
        return await self.hub.client.get(WORK, name, SPACE)

    async def applied(self, name: str = "w") -> Condition:
        return works.condition((await self.told(name)).status.conditions, "Applied")

    async def reflected(self, name: str = "w") -> JSONObject:
        found = (await self.told(name)).status.manifest_statuses
        return found[0].status or {}

    async def snapshot(self, name: str = "w") -> MemberView:
        found = read_snapshot(await self.reflected(name))
        assert found is not None
        return found

    async def live(self, kind: Kind[Any] = DEPLOYMENT, name: str = "web") -> JSONObject:
        return await self.member.get(kind, name)

    async def gone(self, kind: Kind[Any] = DEPLOYMENT, name: str = "web") -> bool:
        return not await self.member.has(kind, name)

    async def work_is_gone(self, name: str = "w") -> bool:
        return not await self.hub.has(WORK, name, SPACE)

    async def join(self) -> None:
        """Accept the cluster."""
        spec = {"hubAcceptsClient": True, "leaseDurationSeconds": 60}
        await self.hub.create({**MANAGED_CLUSTER.type_meta, "metadata": {"name": CLUSTER}, "spec": spec})

    def begin(self, settings: Settings | None = None, **clients: Any) -> asyncio.Task[None]:
        return self.start(settings, families=FAMILIES, **clients)


def push_of(live: JSONObject) -> int:
    return int(live["metadata"]["annotations"][PUSH_ID])


def image_of(live: JSONObject) -> str:
    return str(live["spec"]["template"]["spec"]["containers"][0]["image"])


@asynccontextmanager
async def world(pace: Pace = STEADY, *, joined: bool = True, troubles: Sequence[Trouble] = ()) -> AsyncIterator[World]:
    hub, member = await server((CLUSTER_GROUP, WORKLOAD_GROUP), 1), await server((KRUISE_GROUP,), 2)
    tidy = [asyncio.create_task(run_controllers(each.cluster)) for each in (hub, member)]
    profile = Profile("c", pace=pace, script=Script(tuple(troubles)))
    here = World(hub, member, Way(member), simulated=Member(profile, member.cluster))
    if joined:
        for name in (CLUSTER, SPACE):
            await hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": name}})
        await here.join()

    def note(change: Any) -> None:
        if change.entry.key.resource == "works.work.karmada.io":
            statuses = (change.entry.object.get("status") or {}).get("manifestStatuses") or ()
            found = [read_snapshot(each.get("status") or {}) for each in statuses]
            here.snapshots.extend(each for each in found if each is not None and each not in here.snapshots[-1:])

    hub.cluster.store.on_commit(note)
    assert here.simulated is not None
    await here.simulated.start()
    try:
        yield here
    finally:
        await here.stop()
        here.simulated.stop()
        for task in tidy:
            task.cancel()
        await asyncio.gather(*tidy, return_exceptions=True)


def told(
    story: Callable[[World], Awaitable[None]],
    *,
    started: bool = True,
    quiet: bool = True,
    pace: Pace = STEADY,
    seed: int = 0,
    besides: Sequence[str] = ("leases",),
    troubles: Sequence[Trouble] = (),
) -> None:
    """Run a story with an agent on a hub and a cluster of its own, and see that there is silence after it."""

    async def main() -> None:
        async with world(pace, troubles=troubles) as here:
            if started:
                here.begin()
                await here.settle(2)
            await story(here)
            await here.settle(30)
            marks = len(here.hub.commits), len(here.member.commits)
            await asyncio.sleep(900)
            if quiet:
                assert here.hub.writes_since(marks[0], besides=besides) == []
                assert here.member.writes_since(marks[1], besides=besides) == []
            for task in here.agents:
                assert not task.done()

    run(main(), seed)


__all__ = ["CLUSTER", "SPACE", "NotFound", "World", "image_of", "manifest", "push_of", "told"]
