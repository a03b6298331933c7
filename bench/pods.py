"""What many pods cost in one simulated cluster: ten thousand on a thousand nodes, alone, in gangs of ten, in one gang.

CPU time of this process for each pod, from its creation until it is ready; the longest step of the event loop that the
cluster took for itself; and how much virtual time passed. Ten times the pods must cost each of them the same.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import report
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.podgangs import GROUP, POD_GANG
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.decide.pods import CLIQUE_LABEL, GANG_LABEL
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import NodeShape, Profile
from echelon.kube.client import Client

PODS = 10_000
STEP_LIMIT = 50.0  # milliseconds
_PODS_A_NODE = 10
_NS = "default"
_STRIDE = 20  # pods that are created between two turns of others
_MEMBER = "controllers of bench"


@dataclass(frozen=True)
class Crowd:
    """A figure: microseconds of CPU a pod, milliseconds of the longest step, seconds until all were ready."""

    title: str
    microseconds: float
    longest: float
    seconds: float


def measure(progress: Progress, pods: int = PODS) -> list[Crowd]:
    """Take all figures."""
    progress.begin(f"placing {pods:,} pods in one cluster")
    few = max(10, pods // 10)
    _measure("", few, 0)  # what is done once in a process is not counted
    return [
        _measure(f"{few:,} pods alone", few, 0),
        _measure(f"{pods:,} pods alone", pods, 0),
        _measure(f"{pods:,} pods in gangs of ten", pods, 10),
        _measure(f"{pods:,} pods in one gang", pods, pods),
    ]


def table(figures: Sequence[Crowd]) -> str:
    """Return the figures."""
    rows = [("one cluster", "CPU a pod", "longest step", "limit", "virtual time")]
    rows += [
        (one.title, f"{one.microseconds:.0f} us", f"{one.longest:.1f} ms", f"{STEP_LIMIT:g} ms", f"{one.seconds:.0f} s")
        for one in figures
    ]
    ratio = figures[1].microseconds / figures[0].microseconds
    return f"{report.aligned(rows)}\n\nten times the pods: {ratio:.2f} times the CPU a pod"


class _Stopwatch(list[tuple[float, str]]):
    """A trace that keeps nothing but how long the longest step of a task was."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self._task = task
        self._running = ("", 0.0)
        self.longest = 0.0

    def append(self, step: tuple[float, str]) -> None:
        """Hear that a step begins, and so that another one has ended."""
        now = time.thread_time()
        name, began = self._running
        if name == self._task:
            self.longest = max(self.longest, now - began)
        self._running = (step[1], now)


def _measure(title: str, pods: int, gang: int) -> Crowd:
    watch = _Stopwatch(_MEMBER)
    cpu, seconds = run(_live(pods, gang), 1, trace=watch)
    return Crowd(title, cpu / pods * 1e6, watch.longest * 1e3, seconds)


async def _live(pods: int, gang: int) -> tuple[float, float]:
    cluster = await clone_cluster("bench", clock=running().clock.now, seed=1, groups=(GROUP,))
    nodes = (NodeShape(cpu=str(_PODS_A_NODE), memory="64Gi"),) * -(-pods // _PODS_A_NODE)
    member = Member(Profile("bench", nodes=nodes), cluster)
    await member.start()
    await asyncio.sleep(1)
    began, moment = time.process_time(), running().time()
    await _create(member.client(), pods, gang)
    while (left := pods - _ready(member)) > 0:
        await asyncio.sleep(1)
        if running().time() - moment > 3600:
            raise RuntimeError(f"{left} of {pods} pods are not ready after an hour")
    spent = time.process_time() - began, running().time() - moment
    member.stop()
    return spent


def _ready(member: Member) -> int:
    index = member.context.index
    return sum(pod.ready for key in index.all_pods() if (pod := index.pod(key)) is not None)


async def _create(client: Client, count: int, gang: int) -> None:
    gangs = count // gang if gang else 0
    for number in range(gangs):
        group = {"name": f"g{number}-a", "podReferences": [], "minReplicas": gang}
        body = {"metadata": {"name": f"g{number}"}, "spec": {"podgroups": [group]}}
        await client.create(POD_GANG.untyped(), {"apiVersion": POD_GANG.api_version, "kind": "PodGang", **body}, _NS)
    for number in range(count):
        name = f"g{number // gang}" if gangs else ""
        await client.create(POD.untyped(), _pod(f"p{number}", name), _NS)
        if number % _STRIDE == 0:
            await asyncio.sleep(0)


def _pod(name: str, gang: str) -> JSONObject:
    labels = {GANG_LABEL: gang, CLIQUE_LABEL: f"{gang}-a"} if gang else {}
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
