"""Everything that the placement controller watches, and what each change means to it."""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
)
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.controllers.ground import Ground
from echelon.controllers.placement.metrics import MeasuringRecorder, PlacementMetrics
from echelon.controllers.placement.reconciler import PlacementReconciler
from echelon.controllers.placement.removals import RemovalBarrier
from echelon.engine.placement.current import PLACEMENT_LABEL, clusters_of, owners_of, slot_of
from echelon.engine.plan import Plan
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.controller import ROUTINE, Controller
from echelon.kube.informer import Delta, Informer

T = TypeVar("T")

KINDS = (
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    ADD_ON_PLACEMENT_SCORE,
    PLACEMENT,
    PLACEMENT_DECISION,
)
# Placements are planned one at a time anyway; this many may wait for the server to write their decisions.
WORKERS = 16
# Changes seldom come alone: a fleet that is relabelled changes cluster by cluster, and rewriting the same decisions
# for each of them would cost everybody who reads them. So a placement waits until nothing concerned it for a moment,
# but not for long; and one that was written waits longer. Our own writes, when they come back, are changes, too.
QUIET_SECONDS = 0.1
COLLECT_SECONDS = 1.0
# A plan that does not know our own last writes counts on groups that are no longer where they were. Most of it fails,
# and the rest may leave a gap in the indexes. So a stream that was lost gets the time to come back.
OWN_WRITES_SECONDS = 60.0


def placement_controller(ground: Ground, metrics: PlacementMetrics, *, workers: int = WORKERS) -> Controller:
    """Return a placement controller."""
    placements = ground.informer(PLACEMENT)
    decisions = decisions_informer(ground)
    recorder = MeasuringRecorder(ground.recorder("placement-controller"), metrics)
    sources = [ground.informer(kind) for kind in KINDS if kind is not PLACEMENT_DECISION]
    removals = RemovalBarrier(PLACEMENT_DECISION, clusters_of, sources)
    reconciler = PlacementReconciler(placements, decisions, metrics, recorder, removals)
    feed = _Feed(reconciler, ground.clock)
    controller = ground.controller(
        "placement",
        reconciler,
        recorder=recorder,
        workers=workers,
        guard_seconds=OWN_WRITES_SECONDS,
        on_plan=feed.begin,
        on_written=removals.wrote,
    )
    placements.on_change(reconciler.placement_changed)
    decisions.on_change(reconciler.decision_changed)
    feed.follow(ground, controller)
    return controller


def decisions_informer(ground: Ground) -> Informer[PlacementDecision]:
    """Return the cache of decisions, by owner and by the placement that gives such names."""
    return ground.informer(PLACEMENT_DECISION, indexers={"owner": owners_of, "slot": slot_of})


def _placements_of(decision: PlacementDecision) -> Iterator[Key]:
    """Walk the placements that care about a decision: its owner, and whoever its label or its name suggests."""
    meta = decision.metadata
    names = [owner.name for owner in meta.owner_references if owner.kind == PLACEMENT.kind]
    names += [meta.labels.get(PLACEMENT_LABEL, ""), *(name for _, name in slot_of(decision))]
    return (Key(meta.namespace, name) for name in dict.fromkeys(names) if name)


class _Feed:
    """Takes changes to the engine, and the placements that they concern to the queue."""

    _controller: Controller

    def __init__(self, reconciler: PlacementReconciler, clock: Clock) -> None:
        self._clock = clock
        self._reconciler = reconciler
        self._scheduler = reconciler.scheduler
        self._wrote: dict[Key, float] = {}  # when writing the decisions of a placement began
        self._collecting: dict[Key, tuple[float, float]] = {}  # since when, and until when

    def begin(self, key: Key, plan: Plan) -> None:
        """Hear that a plan begins to be carried out."""
        self._reconciler.begin(key, plan)
        if plan.actions:
            self._wrote[key] = asyncio.get_running_loop().time()

    def follow(self, ground: Ground, controller: Controller) -> None:
        """Watch all that matters."""
        self._controller = controller
        self._watch(ground, PLACEMENT, self._placement)
        self._watch(ground, PLACEMENT_DECISION, self._decision)
        self._watch(ground, MANAGED_CLUSTER, self._cluster)
        self._watch(ground, MANAGED_CLUSTER_SET, self._cluster_set)
        self._watch(ground, MANAGED_CLUSTER_SET_BINDING, self._binding)
        self._watch(ground, ADD_ON_PLACEMENT_SCORE, self._score)

    def _watch(self, ground: Ground, kind: Kind[T], handler: Callable[[Delta[T]], None]) -> None:
        informer = ground.informer(kind)
        informer.on_change(handler)
        # The controller gets its keys from here, and still has to wait until everything is known.
        self._controller.watch(informer, keys=_none)

    def _placement(self, delta: Delta[Placement]) -> None:
        old, new, key = delta.old, delta.new, key_of(delta.object)
        if new is None:
            self._wrote.pop(key, None)
        if old is None or new is None or old.spec != new.spec or old.metadata.annotations != new.metadata.annotations:
            self._controller.queue.add(key, ROUTINE if delta.initial else 0)
        else:
            self._add([key])

    def _decision(self, delta: Delta[PlacementDecision]) -> None:
        if delta.initial:  # its placement is new to us, too
            return
        self._add(key for obj in (delta.old, delta.new) if obj is not None for key in _placements_of(obj))

    def _cluster(self, delta: Delta[ManagedCluster]) -> None:
        new, scheduler = delta.new, self._scheduler
        gone = delta.object.metadata.name
        self._concern(scheduler.cluster(new, self._clock.now()) if new else scheduler.cluster_gone(gone))

    def _cluster_set(self, delta: Delta[ManagedClusterSet]) -> None:
        new, scheduler = delta.new, self._scheduler
        if new is None:
            self._concern(scheduler.cluster_set_gone(delta.object.metadata.name))
        elif delta.old is None or delta.old.spec != new.spec:
            self._concern(scheduler.cluster_set(new))

    def _binding(self, delta: Delta[ManagedClusterSetBinding]) -> None:
        meta, scheduler = delta.object.metadata, self._scheduler
        gone = delta.new is None
        self._concern(scheduler.binding_gone(meta.namespace, meta.name) if gone else scheduler.binding(delta.object))

    def _score(self, delta: Delta[AddOnPlacementScore]) -> None:
        meta, scheduler = delta.object.metadata, self._scheduler
        gone = delta.new is None
        self._concern(scheduler.score_gone(meta.namespace, meta.name) if gone else scheduler.score(delta.object))

    def _concern(self, placements: Iterable[Key]) -> None:
        self._add(sorted(placements))

    def _add(self, keys: Iterable[Key]) -> None:
        """Have placements planned when the changes that concern them have come to an end, or go on for too long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for key in dict.fromkeys(keys):
            collected = self._collecting.get(key)
            since = now if collected is None else collected[0]
            due = min(now + QUIET_SECONDS, since + COLLECT_SECONDS)
            due = max(due, self._wrote.get(key, -math.inf) + COLLECT_SECONDS)
            self._collecting[key] = (since, due)
            if collected is None:
                loop.call_at(due, self._collected, key)

    def _collected(self, key: Key) -> None:
        """Plan a placement, unless more has come since this was arranged."""
        loop = asyncio.get_running_loop()
        _, due = self._collecting[key]
        if loop.time() < due:
            loop.call_at(due, self._collected, key)
            return
        del self._collecting[key]
        self._controller.queue.add(key)


def _none(_: object) -> Iterable[Key]:
    return ()
