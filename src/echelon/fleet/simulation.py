"""Runs a world by a seed: real hub, real controllers, virtual time, and everything that can go wrong going wrong.

First there is chaos: requests fail, streams stall, replicas lag, processes die anywhere and come back. Whatever
happens, what must never be the case is checked at every committed change of every cluster. Then it is quiet, and the
world must reach its goal and come to rest: a controller that still writes has not understood that it is done.

A failure that cannot be repeated is not worth much, so everything is drawn from the seed, and a failed run says with
which command it is run again.
"""

import asyncio
import hashlib
import os
import shlex
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.fleet.loop import PROCESS, Deadlock, Livelock, Unnoticed, VirtualLoop, run, running
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.hub.storage.store import Change, Key
from echelon.kube.client import EventType
from echelon.kube.faults import Crash, Faults, FaultyClient, Process

_LAST_COMMITS = 12
SEED_VARIABLE = "ECHELON_SEED"


class SimulationFailed(Exception):
    """A seed under which the world broke a rule, or did not come to rest."""

    def __init__(self, seed: int, text: str) -> None:
        super().__init__(seed, text)
        self.seed = seed
        self.text = text

    def __str__(self) -> str:
        return self.text


class Committed(msgspec.Struct, frozen=True):
    """A change that a cluster has committed."""

    cluster: str
    type: EventType
    key: Key
    revision: int
    object: JSONObject  # the last state, if it is a deletion
    previous: JSONObject | None

    def __str__(self) -> str:
        where = "/".join(filter(None, (self.cluster, *self.key)))
        return f"{self.type} {where} at {self.revision}"


@dataclass(frozen=True)
class Invariant:
    """Something that must be true at every moment; `check` says what is wrong, or nothing."""

    name: str
    check: Callable[["World", Committed], str | None]


@dataclass(frozen=True)
class Component:
    """A process that can be killed at any step and started again, with no memory of its life before.

    `start` gets a client of each of the clusters, in that order, and runs until cancelled.
    """

    name: str
    start: Callable[..., Coroutine[Any, Any, None]]
    clusters: tuple[str, ...] = ("",)


def is_lease(commit: Committed) -> bool:
    """Tell heartbeats from work: a lease is renewed for ever."""
    return commit.key.resource == "leases.coordination.k8s.io"


@dataclass(frozen=True)
class Scenario:
    """A world, what must never happen in it, and where it must end. Times are in virtual seconds."""

    name: str
    build: Callable[["World"], Awaitable[None]]
    goal: Callable[["World"], str | None]  # what is still missing, or nothing
    invariants: tuple[Invariant, ...] = ()
    chaos_seconds: float = 300.0
    settle_seconds: float = 1800.0  # after the chaos, within which the last write must have been made
    silence_seconds: float = 600.0
    heartbeat: Callable[[Committed], bool] = is_lease
    kill_seconds: tuple[float, float] | None = (20.0, 200.0)  # between kills of one component; None for none
    pause_seconds: tuple[float, float] = (0.0, 0.0)  # instead of a kill, sometimes: everything stands still so long
    restart_seconds: tuple[float, float] = (0.0, 30.0)
    replay: str = ""  # the command that runs it again, with {seed}; without one the present test is named


@dataclass(frozen=True)
class LifeOutcome:
    """What a run was like. Two runs of one seed have equal outcomes."""

    digest: str  # of everything that was committed, when, and after how many steps
    seconds: float
    commits: int
    steps: int
    injected: dict[str, int]


@dataclass
class World:
    """What a scenario builds in: clusters, components and load, all on one loop."""

    loop: VirtualLoop
    scenario: Scenario
    faults: Faults
    seed: int
    clusters: dict[str, LogicalCluster] = field(default_factory=dict)
    commits: int = 0
    memory: dict[str, Any] = field(default_factory=dict)  # what invariants remember between changes
    _processes: dict[str, Process] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _worked: float = 0.0  # when the last change was made that is no heartbeat
    _last: deque[tuple[float, Committed]] = field(default_factory=lambda: deque(maxlen=_LAST_COMMITS))
    _digest: Any = field(default_factory=hashlib.sha256)
    _calm: bool = False
    _broken: asyncio.Event = field(default_factory=asyncio.Event)
    _reason: str = ""

    @property
    def random(self) -> Random:
        """Chance, for loads and controllers."""
        return self.loop.random

    async def add_cluster(self, name: str = "", cluster: LogicalCluster | None = None) -> LogicalCluster:
        """Start a cluster with its controllers: a new one, or one that is finished already.

        What it is born with is not reported to invariants.
        """
        if cluster is None:
            cluster = memory_cluster(name, clock=self.loop.clock.now, seed=self.loop.random.getrandbits(64))
            await bootstrap(cluster)
        cluster.store.on_commit(lambda change: self._committed(name, change))
        self.clusters[name] = cluster
        self.spawn(run_controllers(cluster), f"controllers of {name or 'the hub'}")
        return cluster

    def client(self, cluster: str = "") -> InProcessClient:
        """Return a client that never fails: for users, loads and checks."""
        return InProcessClient(self.clusters[cluster], ROOT)

    def objects(self, resource: str, cluster: str = "", namespace: str = "") -> list[JSONObject]:
        """Return the objects of a resource (`plural.group`) as they are now, in order of their names."""
        return [entry.object for entry in self.clusters[cluster].store.list(resource, namespace or None).entries]

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run something beside the components, a load for example. If it fails, the run fails."""
        self._tasks.append(asyncio.create_task(self._watched(work, name), name=name))

    def start(self, component: Component) -> None:
        """Start a component, and start it again whenever it dies."""
        process = self._processes[component.name] = Process(calm=self._calm)
        self.spawn(self._keep_alive(component, process), f"supervisor of {component.name}")
        if self.scenario.kill_seconds is not None:
            self.spawn(
                self._inject_failures(component, process, *self.scenario.kill_seconds), f"killer of {component.name}"
            )

    def fail(self, reason: str) -> None:
        """End the run as failed; the first reason counts."""
        if not self._broken.is_set():
            self._reason = f"at {self.loop.time():.3f} s: {reason}"
            self._broken.set()

    def injected(self) -> dict[str, int]:
        """Return how often each fault occurred so far."""
        total: Counter[str] = Counter()
        for process in self._processes.values():
            total += process.injected
        return dict(sorted(total.items()))

    async def _watched(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of the run
            self.fail(f"{name} failed: {error!r}")

    async def _keep_alive(self, component: Component, process: Process) -> None:
        while True:
            clients = [
                FaultyClient(self.client(cluster), self.faults, self.loop.random, process)
                for cluster in component.clusters
            ]
            living = asyncio.create_task(_as_process(component, clients), name=component.name)
            dying = asyncio.create_task(process.died.wait(), name=f"end of {component.name}")
            try:
                await asyncio.wait([living, dying], return_when=asyncio.FIRST_COMPLETED)
            finally:
                living.cancel()
                dying.cancel()
                await asyncio.wait([living, dying])
            error = None if living.cancelled() else living.exception()
            if not process.dead:
                if error is not None:
                    raise RuntimeError(f"{component.name} ended with {error!r}") from error
                return
            if error is not None and not _is_crash(error):
                raise RuntimeError(f"{component.name} failed while it was dying: {error!r}") from error
            if not self._calm:
                await asyncio.sleep(self.random.uniform(*self.scenario.restart_seconds))
            process.restart()

    async def _inject_failures(self, component: Component, process: Process, least: float, most: float) -> None:
        while not self._calm:
            await asyncio.sleep(self.random.uniform(least, most))
            if self._calm or process.dead:
                continue
            if self.scenario.pause_seconds[1] > 0 and self.random.random() < 0.5:
                process.injected["pause"] += 1
                self.loop.pause(component.name, self.random.uniform(*self.scenario.pause_seconds))
            else:
                process.injected["kill"] += 1
                process.die()

    def _committed(self, cluster: str, change: Change) -> None:
        entry, before = change.entry, change.previous
        commit = Committed(
            cluster, change.type, entry.key, change.revision, entry.object, before.object if before else None
        )
        self.commits += 1
        now = self.loop.time()
        self._digest.update(f"{now} {self.loop.steps} {commit}\n".encode())
        if not self.scenario.heartbeat(commit):
            self._worked = now
            self._last.append((now, commit))
        for invariant in self.scenario.invariants:
            try:
                wrong = invariant.check(self, commit)
            except Exception as error:  # noqa: BLE001 - it must not look like a failure of the writer
                wrong = f"cannot be checked: {error!r}"
            if wrong:
                self.fail(f"{invariant.name}: {wrong}\n  with {commit}")

    async def _live(self) -> None:
        """Go through chaos to rest."""
        scenario = self.scenario
        await scenario.build(self)
        await asyncio.sleep(scenario.chaos_seconds)
        self._calm = True
        for process in self._processes.values():
            process.calm = True
        quiet = self.loop.time()
        self._worked = max(self._worked, quiet)
        while self.loop.time() - self._worked < scenario.silence_seconds or scenario.goal(self):
            if self._worked - quiet > scenario.settle_seconds:
                self.fail(f"nobody should write {scenario.settle_seconds} s after the last fault, and somebody does")
            elif self.loop.time() - quiet > scenario.settle_seconds + scenario.silence_seconds:
                self.fail(f"the goal is not reached: {scenario.goal(self)}")
            await asyncio.sleep(min(5.0, scenario.silence_seconds))

    async def run(self) -> LifeOutcome:
        """Run the scenario to its end."""
        living = asyncio.create_task(self._live(), name="scenario")
        broken = asyncio.create_task(self._broken.wait(), name="verdict")
        await asyncio.wait([living, broken], return_when=asyncio.FIRST_COMPLETED)
        if not self._broken.is_set():
            living.result()
        for task in (living, broken, *self._tasks):
            task.cancel()
        await asyncio.wait([living, broken, *self._tasks])
        if self._broken.is_set():
            raise SimulationFailed(self.seed, self.story(self._reason))
        return LifeOutcome(self._digest.hexdigest(), self.loop.time(), self.commits, self.loop.steps, self.injected())

    def story(self, reason: str) -> str:
        """Tell what happened, and how to see it again."""
        last = "".join(f"\n  {when:.3f} s: {commit}" for when, commit in self._last)
        return (
            f"scenario {self.scenario.name!r}, seed {self.seed}, {reason}\n"
            f"last changes:{last or ' none'}\n"
            f"faults: {self.faults}\ninjected: {self.injected()}\n"
            f"run it again: {replay_command(self.scenario, self.seed)}"
        )


def simulate(scenario: Scenario, seed: int, faults: Faults | None = None) -> LifeOutcome:
    """Run a scenario by a seed. Without faults given, the seed draws a mixture. Raises `SimulationFailed`."""
    chosen = faults or Faults.swarm(Random(f"faults of {seed}"))  # noqa: S311 - repeatable on purpose
    worlds: list[World] = []

    async def main() -> LifeOutcome:
        worlds.append(World(running(), scenario, chosen, seed))
        return await worlds[0].run()

    try:
        return run(main(), seed)
    except (Deadlock, Livelock, Unnoticed) as error:
        raise SimulationFailed(seed, worlds[0].story(f"{type(error).__name__}: {error}")) from error


def replay_command(scenario: Scenario, seed: int) -> str:
    """Return the command that runs a scenario again by a seed."""
    if scenario.replay:
        return scenario.replay.format(seed=seed)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    return f"{SEED_VARIABLE}={seed} python -m pytest {shlex.quote(test) if test else scenario.name}"


def seeds(count: int, first: int = 0) -> Sequence[int]:
    """Return the seeds to run: the one that the environment asks for, else so many."""
    wanted = os.environ.get(SEED_VARIABLE)
    return [int(wanted)] if wanted else range(first, first + count)


async def _as_process(component: Component, clients: Sequence[FaultyClient]) -> None:
    PROCESS.set(component.name)
    await component.start(*clients)


def _is_crash(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_crash(inner) for inner in error.exceptions)
    return isinstance(error, Crash | asyncio.CancelledError)
