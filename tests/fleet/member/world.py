"""One simulated member in virtual time, and what stories about it need."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import KRUISE, clone_cluster
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import NodeShape, Pace, Profile
from echelon.fleet.member.trouble import Script, Trouble
from echelon.hub.controllers import run_controllers
from echelon.hub.storage.store import Change
from echelon.kube.client import MergePatch

NS = "default"
STEADY = Pace(start=2.0, spread=0.0, stop=0.5)


def workload(kind: Kind[Any], image: str = "web:1", replicas: int | None = 3, **spec: Any) -> JSONObject:
    """Return a workload called `web`."""
    container = {"name": "web", "image": image, "resources": {"requests": {"cpu": spec.pop("cpu", "100m")}}}
    pod_spec = {"containers": [container], **spec.pop("pod", {})}
    body: JSONObject = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec}, **spec},
    }
    if kind.kind != "Job":
        body["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return body


class World:
    """A member that lives, and everything that was committed in it."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.store = member.cluster.store
        self.client = member.client()
        self.commits: list[Change] = []
        self.store.on_commit(self.commits.append)

    async def create(self, kind: Kind[Any], *args: Any, **spec: Any) -> None:
        await self.client.create(kind.untyped(), workload(kind, *args, **spec), NS)

    async def respec(self, kind: Kind[Any], **spec: Any) -> None:
        await self.client.patch(kind.untyped(), "web", MergePatch({"spec": spec}), NS)

    async def image(self, kind: Kind[Any], image: str) -> None:
        container = {"name": "web", "image": image, "resources": {"requests": {"cpu": "100m"}}}
        await self.respec(kind, template={"spec": {"containers": [container]}})

    async def get(self, kind: Kind[Any]) -> JSONObject:
        found: JSONObject = await self.client.get(kind.untyped(), "web", NS)
        return found

    async def status(self, kind: Kind[Any]) -> JSONObject:
        found: JSONObject = (await self.get(kind)).get("status") or {}
        return found

    async def condition(self, name: str) -> tuple[str, str]:
        conditions = (await self.status(DEPLOYMENT)).get("conditions") or ()
        found = next(each for each in conditions if each["type"] == name)
        return found["status"], found["reason"]

    def objects(self, resource: str) -> list[JSONObject]:
        return [entry.object for entry in self.store.list(resource).entries]

    def pods(self, image: str = "") -> list[JSONObject]:
        found = [pod for pod in self.objects("pods") if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in found if not image or pod["spec"]["containers"][0]["image"] == image]

    def images(self) -> list[str]:
        return sorted(pod["spec"]["containers"][0]["image"] for pod in self.pods() if is_ready(pod))


def is_ready(pod: JSONObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def waiting_reason(pod: JSONObject) -> str:
    state = pod["status"]["containerStatuses"][0]["state"]
    return str((state.get("waiting") or {}).get("reason", ""))


class Confusion(logging.Handler):
    """Notes when a member did not understand something."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.noted: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.noted.append(self.format(record))


def told(
    story: Callable[[World], Awaitable[None]],
    *troubles: Trouble,
    seed: int = 1,
    nodes: tuple[NodeShape, ...] = (NodeShape(),),
    version: str = "v1.36.1",
    pace: Pace = STEADY,
    confusing: bool = False,
    groups: Sequence[str] = (KRUISE,),
) -> World:
    """Tell a story about a member, in virtual time; there is nothing in it that confuses, unless it says so."""

    async def main() -> World:
        cluster = await clone_cluster("c", clock=running().clock.now, seed=seed, groups=groups)
        member = Member(
            Profile("c", nodes=nodes, pace=pace, seed=seed, script=Script(troubles), version=version), cluster
        )
        await member.start()
        keeping = asyncio.create_task(run_controllers(cluster))
        world = World(member)
        try:
            await story(world)
        finally:
            member.stop()
            keeping.cancel()
        return world

    confusion, log = Confusion(), logging.getLogger("echelon.fleet.member")
    log.addHandler(confusion)
    try:
        world = run(main(), seed)
    finally:
        log.removeHandler(confusion)
    assert bool(confusion.noted) == confusing, confusion.noted
    return world
