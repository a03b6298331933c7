"""A small cluster with a controller in it, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from echelon.api.core import CONFIG_MAP, SECRET, ConfigMap, Secret
from echelon.api.keys import Key
from echelon.engine.plan import NOTHING, Emit, Plan
from echelon.fleet.loop import run, running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import Event, MergePatch
from echelon.kube.controller import Controller
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics

A = Key("default", "a")


@dataclass
class Scripted:
    """A reconciler that answers by script: the last answer is repeated."""

    answers: list[Plan | Exception] = field(default_factory=lambda: [NOTHING])
    asked: list[tuple[float, Key]] = field(default_factory=list)

    def plan(self, key: Key, now: datetime) -> Plan:
        loop = running()
        assert now == loop.clock.now()
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append((loop.time(), key))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def keys(self) -> list[Key]:
        return [key for _, key in self.asked]


class Deciding:
    """A reconciler that is a function."""

    def __init__(self, plan: Callable[[Key], Plan]) -> None:
        self._plan = plan

    def plan(self, key: Key, now: datetime) -> Plan:  # noqa: ARG002 - the protocol's
        return self._plan(key)


class Silent:
    """A recorder for plans without events."""

    async def emit(self, event: Emit) -> None:
        raise AssertionError(event)


class Delayed(InProcessClient):
    """A client whose watches are late."""

    delay = 0.0

    async def watch(self, *args: Any, **options: Any) -> AsyncIterator[Event[Any]]:
        async for event in super().watch(*args, **options):
            await asyncio.sleep(self.delay)
            yield event


def seeded() -> Random:
    return Random(1)  # noqa: S311 - repeatable on purpose


def body(name: str, kind: str = "ConfigMap", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data}


@dataclass
class World:
    """A cluster with two informers, and whatever else runs in it until the story ends."""

    client: Delayed
    maps: Informer[ConfigMap]
    secrets: Informer[Secret]
    metrics: Metrics
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def controller(self, reconciler: Any, **options: Any) -> Controller:
        clock = running().clock
        options = {"recorder": Silent(), "random": seeded(), "metrics": self.metrics, **options}
        return Controller("test", reconciler, self.client, clock, **options)

    def start(self, controller: Controller) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(controller.run()))
        return self.tasks[-1]

    async def change(self, name: str, **data: str) -> None:
        await self.client.patch(CONFIG_MAP, name, MergePatch({"data": data}), "default")

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, {"controller": "test", **labels}) or 0.0


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    cluster = memory_cluster(seed=1)
    await bootstrap(cluster)
    client = Delayed(cluster, ROOT)
    maps = Informer(client, CONFIG_MAP, "default", random=seeded())
    secrets = Informer(client, SECRET, "default", random=seeded())
    here = World(client, maps, secrets, Metrics())
    here.tasks += [asyncio.create_task(maps.run()), asyncio.create_task(secrets.run())]
    try:
        yield here
    finally:
        for task in here.tasks:
            task.cancel()
        await asyncio.gather(*here.tasks, return_exceptions=True)


def told(story: Callable[[World], Awaitable[None]], seed: int = 0) -> None:
    async def main() -> None:
        async with world() as here:
            await story(here)

    run(main(), seed)
