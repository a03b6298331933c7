"""Runs controllers by name against a hub, until they are told to stop.

What they need can be checked before anything starts: a controller whose kinds are not served waits for them, and a
person should not have to find out why. Kinds that a controller has among its `OPTIONAL_KINDS` may be missing; when one
comes, everything is built anew with it. Of several processes one works at a time, if a lease is asked for; everything
is built anew each time that the lease is won, so nothing that a former leader knew can be outdated.
"""

import asyncio
import gc
import importlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain
from random import Random
from types import ModuleType
from typing import Any

from prometheus_client import CollectorRegistry

from echelon.api.coordination import LEASE
from echelon.api.kinds import Kind
from echelon.api.multicluster import MULTICLUSTER_DECISION
from echelon.api.namespaces import NAMESPACE
from echelon.api.times import parse_time
from echelon.controllers.context import ControllerContext
from echelon.controllers.optional_kinds import NowServed, is_served, missing, watch_for
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.kube.client import Client
from echelon.kube.clock import Clock
from echelon.kube.controller import Controller
from echelon.kube.errors import AlreadyExists, ApiError
from echelon.kube.health import Check, check_caches
from echelon.kube.informer import Informer
from echelon.kube.leader import LeaderElection
from echelon.kube.metrics import Metrics

_log = logging.getLogger(__name__)


class UnknownController(ValueError):
    """A controller was named that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no controller {name!r}; there are {', '.join(_CONTROLLERS)}")
        self.name = name


class MissingKinds(Exception):
    """A hub does not serve kinds that controllers need.

    What is installed by the command that the message gives replaces nothing that is there: it names what is missing,
    and server-side apply ends with a conflict where a field is somebody else's.
    """

    def __init__(self, kinds: Sequence[Kind[Any]], controllers: Sequence[str]) -> None:
        missing = ", ".join(kind.resource for kind in kinds)
        how = " && ".join(f"{each} | kubectl apply --server-side -f -" for each in installing(kinds, controllers))
        super().__init__(f"the hub does not serve {missing}" + (f"; install them: {how}" if how else ""))
        self.kinds = tuple(kinds)


def installing(missing: Sequence[Kind[Any]], controllers: Sequence[str]) -> Iterator[str]:
    """Return what prints the missing definitions, and all that belongs to them where there are none at all."""
    ours = [kind for kind in missing if not kind.builtin and kind is not MULTICLUSTER_DECISION]
    needed = [kind for kind in custom_kinds_of(controllers) if kind is not MULTICLUSTER_DECISION]
    if ours and len(ours) < len(needed):
        yield f"echelon crds {' '.join(kind.resource for kind in ours)}"
    elif ours:
        names = [name for name in controllers if name != MULTICLUSTER]
        yield "echelon crds" if set(names) == set(NAMES) else f"echelon crds --controllers {','.join(names)}"
    if MULTICLUSTER_DECISION in missing:
        yield "echelon crds --multicluster"


@dataclass(frozen=True)
class _Known:
    """Where a controller is: imported when it is to run, because the half of a start is imports."""

    module: str
    function: str
    metrics: tuple[str, str] | None = None  # module and class of what it measures, made once for a process

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        kinds: tuple[Kind[Any], ...] = self._imported.KINDS
        return kinds

    @property
    def optional_kinds(self) -> tuple[Kind[Any], ...]:
        kinds: tuple[Kind[Any], ...] = getattr(self._imported, "OPTIONAL_KINDS", ())
        return kinds

    def measures(self, registry: CollectorRegistry) -> object | None:
        """Make what it measures."""
        if self.metrics is None:
            return None
        module, name = self.metrics
        made: object = getattr(importlib.import_module(f"echelon.controllers.{module}"), name)(registry)
        return made

    def build(self, context: ControllerContext, measures: object | None) -> Controller:
        controller: Callable[..., Controller] = getattr(self._imported, self.function)
        return controller(context, measures) if measures is not None else controller(context)

    @property
    def _imported(self) -> ModuleType:
        return importlib.import_module(f"echelon.controllers.{self.module}")


MULTICLUSTER = "multicluster"

_CONTROLLERS = {
    "placement": _Known("placement.sources", "placement_controller", ("placement.metrics", "PlacementMetrics")),
    "cluster-sets": _Known("cluster.sets", "cluster_sets_controller"),
    "cluster-health": _Known("cluster.health", "cluster_health_controller"),
    "cluster-registration": _Known("cluster.registration", "cluster_registration_controller"),
    "cluster-joining": _Known("cluster.joining", "cluster_joining_controller"),
    "work-sets": _Known("work_set.sources", "work_sets_controller"),
    "work-expiry": _Known("work_set.expiry", "work_expiry_controller"),
    MULTICLUSTER: _Known("placement.multicluster", "multicluster_controller"),
    "policies": _Known("policy.sources", "policies_controller"),
    "policy-sets": _Known("policy.policy_sets", "policy_sets_controller"),
    "workloads": _Known("workload.sources", "workloads_controller"),
    # After `workloads`, whose cache of bindings has indexes.
    "workload-propagation": _Known("workload.propagation", "workload_propagation_controller"),
    "pod-cliques": _Known("pod_clique.sources", "pod_cliques_controller", ("pod_clique.metrics", "PodCliqueMetrics")),
}
# Those of policies run where they are named: another controller of policies may be at work on the hub.
POLICY_NAMES = tuple(name for name in _CONTROLLERS if name in ("policies", "policy-sets"))
# Those of federated workloads, too: Karmada's own control plane may be at work on the hub. Who names the one that
# carries bindings out has the one that makes them, too.
WORKLOADS = "workloads"
WORKLOAD_NAMES = tuple(name for name in _CONTROLLERS if name in (WORKLOADS, "workload-propagation"))
# That of PodCliqueSets, too: it works on clusters that run pods, and Grove's own operator may be at work there.
POD_CLIQUES = "pod-cliques"
# Those that run unless others are named.
NAMES = tuple(name for name in _CONTROLLERS if name not in (MULTICLUSTER, *POLICY_NAMES, *WORKLOAD_NAMES, POD_CLIQUES))


LEASE_NAMESPACE = "echelon-system"
LEASE_NAME, POD_CLIQUES_LEASE_NAME = "echelon-controllers", "echelon-pod-cliques"
# Whose lease was renewed that lately may be at work; clocks of machines differ, but not by that.
_ALIVE = timedelta(minutes=10)


def _expanded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the controllers that are named; `workloads` is all of federated workloads."""
    return tuple(dict.fromkeys(each for name in names for each in (WORKLOAD_NAMES if name == WORKLOADS else (name,))))


def _kinds_of(names: Iterable[str]) -> tuple[Kind[Any], ...]:
    """Return what controllers need; raise UnknownController if one does not exist."""
    needed: dict[str, Kind[Any]] = {}
    for name in _expanded(names):
        if name not in _CONTROLLERS:
            raise UnknownController(name)
        needed |= {kind.resource: kind for kind in _CONTROLLERS[name].kinds}
    return tuple(needed.values())


def custom_kinds_of(names: Iterable[str]) -> tuple[Kind[Any], ...]:
    """Return what controllers need and a hub serves only with a CRD; raise UnknownController if one does not exist."""
    return tuple(kind for kind in _kinds_of(names) if not kind.builtin)


@dataclass(frozen=True)
class Lease:
    """Where processes agree on who works: in one place for all, or there would be as many leaders as places."""

    namespace: str = LEASE_NAMESPACE
    name: str = LEASE_NAME
    seconds: float = 15.0  # after which another one takes over


def lease_name(names: Iterable[str]) -> str:
    """Return the name of the lease under which controllers work: that of PodCliqueSets alone has one of its own.

    It works on members, where an agent and controllers of other things may have theirs.
    """
    return POD_CLIQUES_LEASE_NAME if set(names) == {POD_CLIQUES} else LEASE_NAME


class Controllers:
    """Controllers of one process; `run` them once, or under a lease again and again."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        names: Iterable[str] = NAMES,
        *,
        random: Random,
        metrics: Metrics,
        instance: str,
        settings: ControllerSettings = DEFAULTS,
    ) -> None:
        self._names = _expanded(names)
        self._kinds = _kinds_of(self._names)
        optional = (kind for name in self._names for kind in _CONTROLLERS[name].optional_kinds)
        self._optional = tuple(dict.fromkeys(optional))
        self._client = client
        self._clock = clock
        self._random = random
        self._metrics = metrics
        self._measures = {name: _CONTROLLERS[name].measures(metrics.registry) for name in self._names}
        self._instance = instance
        self._settings = settings
        self._working: list[Controller] = []
        self._informers: list[Informer[Any]] = []  # while there is work
        self._election: LeaderElection | None = None

    @property
    def idle(self) -> bool:
        """Whether they work and have nothing to do at the moment."""
        return bool(self._working) and all(controller.queue.idle for controller in self._working)

    def readiness(self) -> Iterator[Check]:
        """Tell whether this process leads or stands by, and if it leads, whether its caches are full."""
        if self._election is not None:
            yield self._election.check()
        if self._election is None or self._election.leading:
            yield check_caches(self._informers) if self._informers else Check("caches", "not begun yet")

    async def check(self) -> None:
        """Raise `MissingKinds` unless the hub serves everything that is needed, `ApiError` if it does not tell."""
        served = {kind.resource: await is_served(self._client, kind) for kind in (*self._kinds, *self._optional)}
        if absent := [kind for kind in self._kinds if not served[kind.resource]]:
            raise MissingKinds(absent, self._names)

    async def run(self, lease: Lease | None = None, *, ready: Callable[[], None] | None = None) -> None:
        """Work until cancelled; with a lease, whenever it is held. `ready` is called when all caches are full."""
        if lease is None:
            await self._work(ready)
            return
        if lease.namespace == LEASE_NAMESPACE:  # any other one was named by a person, and may be mistyped
            await self._make_namespace()
        self._election = LeaderElection(
            self._client,
            self._clock,
            lease.name,
            lease.namespace,
            self._instance,
            random=self._random,
            lease_seconds=lease.seconds,
            renew_seconds=lease.seconds * 2 / 3,
            retry_seconds=lease.seconds * 2 / 15,
        )
        election = self._election
        self._metrics.show_leader(lease.name, lambda: election.leading)
        await election.run(lambda: self._work(ready))

    async def rivals(self, lease: Lease | None) -> list[str]:
        """Return who leads elsewhere, as far as that can be seen: under a lease of that name in another namespace.

        Without a lease of one's own, that is anybody who has one. Whoever runs the controller of PodCliqueSets beside
        others may meet one that runs it alone.
        """
        name = lease.name if lease is not None else lease_name(self._names)
        own = (lease.namespace, lease.name) if lease is not None else None
        listed = [name, *([POD_CLIQUES_LEASE_NAME] if POD_CLIQUES in self._names and name == LEASE_NAME else [])]
        found = [(await self._client.list(LEASE, fields=f"metadata.name={each}")).items for each in listed]
        recent = self._clock.now() - _ALIVE
        return [
            f"{each.spec.holder_identity} (lease {each.metadata.namespace}/{each.metadata.name})"
            for each in chain.from_iterable(found)
            if (each.metadata.namespace, each.metadata.name) != own
            and each.spec.holder_identity
            and (renewed := parse_time(each.spec.renew_time)) is not None
            and renewed > recent
        ]

    async def _make_namespace(self) -> None:
        """Have a place for the lease. Whether there is one, and why not, is what the election finds out."""
        body = {**NAMESPACE.type_meta, "metadata": {"name": LEASE_NAMESPACE}}
        try:
            await self._client.create(NAMESPACE.untyped(), body)
        except AlreadyExists:
            return
        except ApiError as error:
            _log.info("the namespace %s was not made: %s", LEASE_NAMESPACE, error)

    async def _work(self, ready: Callable[[], None] | None) -> None:
        while True:
            absent = await missing(self._client, self._optional, self._random)
            try:
                await self._work_without(absent, ready)
                return
            except* NowServed as served:
                _log.info("beginning anew: %s", served.exceptions[0])

    async def _work_without(self, absent: Sequence[Kind[Any]], ready: Callable[[], None] | None) -> None:
        """Work until cancelled, or until one of the kinds that the hub does not serve is there."""
        context = ControllerContext(
            self._client,
            self._clock,
            self._random,
            self._metrics,
            self._instance,
            self._settings,
            absent=frozenset(absent),
        )
        if absent:
            context.background.append(partial(watch_for, self._client, absent))
        # In the order of the table, whoever named them: caches are shared, and have the indexes of who asks first.
        known = [(name, known) for name, known in _CONTROLLERS.items() if name in self._names]
        controllers = [each.build(context, self._measures[name]) for name, each in known]
        self._working, self._informers = controllers, context.informers
        try:
            await self._run_all(context, ready)
        finally:
            self._informers = []

    async def _run_all(self, context: ControllerContext, ready: Callable[[], None] | None) -> None:
        async with asyncio.TaskGroup() as group:
            for recorder in context.recorders:
                group.create_task(recorder.run(), name="events")
            for task in context.background:
                group.create_task(_run(task), name="beside the controllers")
            for informer in context.informers:
                group.create_task(informer.run(), name=f"informer of {informer.kind.plural}")
            for controller in self._working:
                group.create_task(controller.run(), name=f"controller {controller.name}")
            for informer in context.informers:
                await informer.wait_synced()
            _log.info("%s: all caches are full", ", ".join(self._names))
            if ready is not None:
                ready()


async def _run(task: Callable[[], Awaitable[None]]) -> None:
    await task()


def freeze() -> None:
    """Keep the garbage collector from walking through full caches again and again."""
    gc.collect()
    gc.freeze()
