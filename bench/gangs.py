"""What gangs of pods cost: one set of ten thousand until it serves, and a set of a thousand that is updated.

One simulated cluster with its nodes, scheduler and kubelets, its API server, and the controller of PodCliqueSets, all
in one process and on virtual time. CPU time is of the whole process. The longest step is that of any task on the event
loop, whoever's it is, in CPU time of its thread; the virtual loop collects garbage itself, at fixed steps, and that is
counted apart. Readiness and deletions are counted from what the cluster commits.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from bench import report
from bench.gang_counter import GangCounter
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.api.grove import GROUP, POD_CLIQUE_SET
from echelon.api.podgangs import GROUP as GANGS
from echelon.fleet.loop import run, running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.member.member import Member
from echelon.fleet.member.profile import NodeShape, Profile
from echelon.fleet.pod_cliques import MemberControllers
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT
from echelon.kube.client import MergePatch

PODS = 10_000
ROLLED = 1_000
STEP_LIMIT = 50.0  # milliseconds
READY_LIMIT = 900.0  # seconds
_NS, _NAME = "default", "bench"
_BEFORE, _AFTER = "serve:v1", "serve:v2"
_GPU = "nvidia.com/gpu"
_PODS_A_NODE = 10
_PATIENCE = 4 * 3600.0


@dataclass(frozen=True)
class Lap:
    """A figure: seconds of virtual time, microseconds of CPU a pod, the longest step, and what broke the floor."""

    title: str
    seconds: float
    limit: float  # of the seconds; 0 for none
    microseconds: float
    longest: float  # milliseconds
    whose: str  # the task that made it
    taken: int  # units that worked and were deleted
    below: int  # of those, against the floor, or beside another replica


@dataclass(frozen=True)
class Shape:
    """A set: replicas, each with two standalone cliques and two scaling groups of units of one leader and workers."""

    replicas: int
    front: int
    router: int
    prefill: int  # units
    decode: int
    workers: int  # of a unit

    @classmethod
    def of(cls, pods: int) -> "Shape":
        """Return a set of so many pods."""
        replicas = max(1, min(10, pods // 100))
        each = pods // replicas
        front = max(1, each // 40)
        unit = 20 if each >= 400 else 10 if each >= 100 else 5
        units, rest = divmod(each - 2 * front, unit)
        return cls(replicas, front, front + rest, units // 2, units - units // 2, unit - 1)

    @property
    def pods(self) -> int:
        """All of them."""
        return self.replicas * (self.front + self.router + (self.prefill + self.decode) * (self.workers + 1))

    def spec(self, image: str) -> JSONObject:
        """Return the set, which is updated by RollingRecreate."""
        cliques = [_clique("front", self.front, image), _clique("router", self.router, image)]
        groups = []
        for name, units in (("prefill", self.prefill), ("decode", self.decode)):
            if units:
                members = [f"{name}-lead", f"{name}-work"]
                cliques += [_clique(members[0], 1, image), _clique(members[1], self.workers, image)]
                least = max(1, units // 2)
                groups += [{"name": name, "cliqueNames": members, "replicas": units, "minAvailable": least}]
        return {
            "replicas": self.replicas,
            "updateStrategy": {"type": "RollingRecreate"},
            "template": {"cliques": cliques, **({"podCliqueScalingGroups": groups} if groups else {})},
        }


def measure(progress: Progress, pods: int = PODS) -> list[Lap]:
    """Take all figures."""
    rolled = max(10, min(ROLLED, pods // 10))
    run(_live(Shape.of(rolled), _Stopwatch(), progress))  # what is done once in a process is not counted
    return [*_measure(Shape.of(pods), progress), *_measure(Shape.of(rolled), progress, rolls=True)]


def table(laps: Sequence[Lap]) -> str:
    """Return the figures."""
    rows = [("one set in one cluster", "virtual time", "limit", "CPU a pod", "longest step", "limit", "units taken")]
    for one in laps:
        taken = f"{one.taken:,}, {one.below} wrongly" if one.taken else ""
        limit = f"{one.limit:,.0f} s" if one.limit else ""
        step, most = f"{one.longest:.1f} ms", f"{STEP_LIMIT:g} ms"
        rows.append((one.title, f"{one.seconds:,.0f} s", limit, f"{one.microseconds:,.0f} us", step, most, taken))
    whose = "\n".join(f"longest step of {one.title}: {one.whose}" for one in laps)
    return f"{report.aligned(rows)}\n\n{whose}"


def figures(laps: Sequence[Lap]) -> dict[str, float]:
    """Return the figures by name."""
    found = {}
    for one in laps:
        found[f"{one.title}: virtual seconds"] = one.seconds
        found[f"{one.title}: microseconds of CPU a pod"] = one.microseconds
        found[f"{one.title}: milliseconds of the longest step"] = one.longest
        if one.taken:
            found[f"{one.title}: units taken"] = one.taken
            found[f"{one.title}: units taken against the floor"] = one.below
    return found


class _Stopwatch(list[tuple[float, str]]):
    """A trace that keeps nothing but how long the longest step was, and whose."""

    def __init__(self) -> None:
        super().__init__()
        self._task, self._began, self._collected = "", 0.0, 0.0
        self.collecting = 0.0  # CPU seconds in which garbage was collected
        self.longest, self.whose = 0.0, ""

    def append(self, step: tuple[float, str]) -> None:
        """Hear that a step begins, and so that another one has ended."""
        now = time.thread_time()
        took = now - self._began - (self.collecting - self._collected)
        if self._task and took > self.longest:
            self.longest, self.whose = took, self._task
        self._task, self._began, self._collected = step[1], now, self.collecting

    def reset(self) -> None:
        """Begin anew, after the step that is under way."""
        self._task, self.longest, self.whose = "", 0.0, ""

    @contextmanager
    def beside_garbage(self) -> Iterator[None]:
        """Tell the time in which garbage is collected from that of steps."""
        began = 0.0

        def collects(phase: str, _: dict[str, int]) -> None:
            nonlocal began
            if phase == "start":
                began = time.thread_time()
            else:
                self.collecting += time.thread_time() - began

        gc.callbacks.append(collects)
        try:
            yield
        finally:
            gc.callbacks.remove(collects)


@dataclass
class _Living:
    """A cluster with a set on it."""

    client: InProcessClient
    shape: Shape
    counter: GangCounter
    watch: _Stopwatch
    progress: Progress
    _cpu: float = field(default=0.0)
    _moment: float = field(default=0.0)
    _taken: tuple[int, int] = field(default=(0, 0))

    async def create(self) -> Lap:
        """Make the set, and wait until all of its pods are ready."""
        self._begin(f"a set of {self.shape.pods:,} gang pods")
        body = {**POD_CLIQUE_SET.type_meta, "metadata": {"name": _NAME}, "spec": self.shape.spec(_BEFORE)}
        await self.client.create(POD_CLIQUE_SET.untyped(), body, _NS)
        await self._until(lambda: self.counter.ready)
        return self._lap(f"{self.shape.pods:,} gang pods, until all are ready", READY_LIMIT)

    async def roll(self) -> Lap:
        """Give all cliques another image, and wait until all pods run it and are ready."""
        await asyncio.sleep(60)
        self._begin(f"an update of {self.shape.pods:,} gang pods")
        body = {"spec": self.shape.spec(_AFTER)}
        await self.client.patch(POD_CLIQUE_SET.untyped(), _NAME, MergePatch(body), _NS)
        await self._until(lambda: self.counter.running(_AFTER))
        return self._lap(f"{self.shape.pods:,} gang pods, updated by RollingRecreate", 0.0)

    def _begin(self, title: str) -> None:
        self.progress.begin(title, self.shape.pods)
        self.watch.reset()
        self._taken = (self.counter.taken, self.counter.below + self.counter.beside)
        self._cpu, self._moment = time.process_time(), running().time()

    async def _until(self, done: Callable[[], int]) -> None:
        before = 0
        while (now := done()) < self.shape.pods:
            self.progress.step(now - before)
            before = now
            await asyncio.sleep(1)
            if running().time() - self._moment > _PATIENCE:
                raise RuntimeError(f"only {now} of {self.shape.pods} pods are ready after {_PATIENCE / 3600:g} hours")

    def _lap(self, title: str, limit: float) -> Lap:
        cpu, seconds = time.process_time() - self._cpu, running().time() - self._moment
        taken, wrong = self.counter.taken, self.counter.below + self.counter.beside
        return Lap(
            title,
            seconds,
            limit,
            cpu / self.shape.pods * 1e6,
            self.watch.longest * 1e3,
            self.watch.whose,
            taken - self._taken[0],
            wrong - self._taken[1],
        )


def _measure(shape: Shape, progress: Progress, *, rolls: bool = False) -> list[Lap]:
    watch = _Stopwatch()
    with watch.beside_garbage():
        return run(_live(shape, watch, progress, rolls=rolls), 1, trace=watch)


async def _live(shape: Shape, watch: _Stopwatch, progress: Progress, *, rolls: bool = False) -> list[Lap]:
    async with _cluster(shape, watch, progress) as living:
        laps = [await living.create()]
        return [*laps, await living.roll()] if rolls else laps


@asynccontextmanager
async def _cluster(shape: Shape, watch: _Stopwatch, progress: Progress) -> AsyncIterator[_Living]:
    """Have a cluster with a device for each pod and some to spare, in which the controller begins with a first set."""
    progress.begin("making nodes")
    cluster = await clone_cluster("bench", clock=running().clock.now, seed=1, groups=(GROUP, GANGS))
    node = NodeShape(cpu="16", memory="256Gi", resources={_GPU: str(_PODS_A_NODE + 2)})
    member = Member(Profile("bench", nodes=(node,) * -(-shape.pods // _PODS_A_NODE)), cluster)
    await member.start()
    counter = GangCounter()
    cluster.store.on_commit(counter.committed)
    garbage = asyncio.create_task(run_controllers(cluster), name="hub controllers")
    controllers = MemberControllers(running().clock)
    controllers.follow([member])
    await asyncio.sleep(1)
    try:
        yield _Living(InProcessClient(cluster, ROOT), shape, counter, watch, progress)
    finally:
        await controllers.stop()
        garbage.cancel()
        member.stop()


def _clique(name: str, replicas: int, image: str) -> JSONObject:
    resources = {"requests": {"cpu": "1"}, "limits": {_GPU: "1"}}
    pods = {"containers": [{"name": "main", "image": image, "resources": resources}]}
    least = max(1, replicas - replicas // 4)
    return {
        "name": name,
        "spec": {"roleName": name, "replicas": replicas, "minAvailable": least, "podSpec": pods},
    }
