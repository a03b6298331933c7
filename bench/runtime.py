"""What the runtime costs a controller: filling its cache, following changes, its queue, and virtual time.

CPU time of this process, so that others on the machine stay out of it. The server is a real hub in another process. The
limits are those that a controller of ten thousand clusters on half a core needs.
"""

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bench import report, virtual
from bench.client import connect
from bench.progress import Progress
from bench.servers import HubProcess
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.kube.config import load
from echelon.kube.http import HttpClient
from echelon.kube.informer import Informer
from echelon.kube.queue import WorkQueue

OBJECTS = 10_000
_IN_FLIGHT = 48
_KEYS = 100_000
_COLLECTION = "/apis/apps/v1/namespaces/default/deployments"


@dataclass(frozen=True)
class Measure:
    """A figure and its limit."""

    title: str
    value: float
    unit: str
    limit: float
    more_is_better: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is within its limit."""
        return self.value >= self.limit if self.more_is_better else self.value <= self.limit


async def measure(process: HubProcess, progress: Progress) -> list[Measure]:
    """Take all figures."""
    progress.begin("starting a hub")
    server = process.start()
    progress.begin(f"loading {OBJECTS:,} Deployments")
    async with connect(server) as loader:
        limit = asyncio.Semaphore(_IN_FLIGHT)

        async def create(number: int) -> None:
            async with limit:
                await loader.send("POST", _COLLECTION, _deployment(number))

        await create(0)
        before = await loader.send("GET", f"{_COLLECTION}?limit=1")
        await asyncio.gather(*(create(number) for number in range(1, OBJECTS)))
    version = before.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()
    async with HttpClient(load(process.kubeconfig)) as client:
        progress.begin("filling a cache")
        cpu, blocked = await _fill_cache(client)
        progress.begin("following changes")
        events = await _follow(client, version)
    progress.begin("draining a queue")
    drained = await _drain()
    return [
        Measure(f"list and cache {OBJECTS:,} objects of 1.6 KB", cpu, "s of CPU", 0.6),
        Measure("longest step of the event loop meanwhile", blocked * 1e3, "ms", 50.0),
        Measure("watch events, decoded", events, "/s of CPU", 30_000, more_is_better=True),
        Measure(f"{_KEYS:,} keys through the queue", drained, "s of CPU", 1.0),
    ]


def virtual_time(progress: Progress) -> Measure:
    """Tell how much faster than real time a fleet of a hundred clusters lives."""
    progress.begin("simulating 100 clusters")
    return Measure(
        "virtual time, 100 clusters",
        virtual.factor(),
        "times real time",
        1000.0,
        more_is_better=True,
    )


async def _fill_cache(client: HttpClient) -> tuple[float, float]:
    """Return the CPU time of a first synchronisation, and of the longest step that others had to wait for."""
    informer = Informer(client, DEPLOYMENT, random=Random(1))  # noqa: S311 - jitter
    steps = _Steps()
    gc.collect()
    gc.disable()  # as a controller's process does until its caches are full
    start = time.process_time()
    running = [asyncio.create_task(informer.run()), asyncio.create_task(steps.watch())]
    await informer.wait_synced()
    spent = time.process_time() - start
    gc.enable()
    gc.collect()
    gc.freeze()  # and once they are
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    if len(informer) != OBJECTS:
        raise RuntimeError(f"the cache has {len(informer)} of {OBJECTS} objects")
    return spent, steps.longest


class _Steps:
    """Measures how long the event loop is busy between two turns of a task that never waits."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            last = now


async def _follow(client: HttpClient, version: str) -> float:
    """Return how many events a second of CPU time decodes: the creations, read again from the history."""
    seen = 0
    start = time.process_time()
    async for _event in client.watch(DEPLOYMENT, "default", resource_version=version, bookmarks=False):
        seen += 1
        if seen == OBJECTS - 1:
            break
    return seen / (time.process_time() - start)


async def _drain() -> float:
    queue: WorkQueue[int] = WorkQueue(Random(1))  # noqa: S311 - jitter
    start = time.process_time()
    for key in range(_KEYS):
        queue.add(key)
    for _ in range(_KEYS):
        queue.done(await queue.get())
    return time.process_time() - start


def _deployment(number: int) -> JSONObject:
    labels = {"app": f"app-{number % 100}", "team": f"team-{number % 7}", "tier": "backend"}
    container = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2.3",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(3)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"bench-{number:05d}", "labels": labels},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": labels["app"]}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def table(measures: Sequence[Measure]) -> str:
    """Return the figures next to their limits."""
    rows = [("the runtime", "measured", "limit", "")]
    for one in measures:
        sign = "≥" if one.more_is_better else "≤"
        number = f"{one.value:,.2f}" if one.value < 100 else f"{one.value:,.0f}"
        rows.append((one.title, f"{number} {one.unit}", f"{sign} {one.limit:,g}", "met" if one.met else "missed"))
    return report.aligned(rows)
