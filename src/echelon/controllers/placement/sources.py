"""Everything that the placement controller watches, and what each change means to it."""

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, PlacementDecision
from echelon.controllers.ground import Ground
from echelon.controllers.placement.index import PlacementCaches, PlacementIndex, is_asked_for
from echelon.controllers.placement.metrics import MeasuringRecorder, PlacementMetrics
from echelon.controllers.placement.reconciler import PlacementReconciler
from echelon.controllers.placement.removals import RemovalBarrier
from echelon.engine.placement.current import clusters_of, owners_of, slot_of
from echelon.engine.plan import Plan
from echelon.kube.controller import Controller
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
    caches = placement_caches(ground)
    recorder = MeasuringRecorder(ground.recorder("placement-controller"), metrics)
    removals = RemovalBarrier(PLACEMENT_DECISION, clusters_of, caches.sources)
    index = PlacementIndex(caches, ground.clock)
    reconciler = PlacementReconciler(index, caches, metrics, recorder, removals)
    router = _EventRouter(reconciler)
    controller = ground.controller(
        "placement",
        reconciler,
        recorder=recorder,
        workers=workers,
        guard_seconds=OWN_WRITES_SECONDS,
        on_plan=router.begin,
        on_written=removals.wrote,
    )
    controller.watch(caches.placements, when=is_asked_for)
    caches.decisions.on_change(lambda delta: removals.gone(delta.object) if delta.new is None else None)
    router.follow(controller, caches, index)
    return controller


def placement_caches(ground: Ground) -> PlacementCaches:
    """Return the caches of a placement controller."""
    return PlacementCaches(
        ground.informer(MANAGED_CLUSTER),
        ground.informer(MANAGED_CLUSTER_SET),
        ground.informer(MANAGED_CLUSTER_SET_BINDING),
        ground.informer(ADD_ON_PLACEMENT_SCORE),
        ground.informer(PLACEMENT),
        decisions_informer(ground),
    )


def decisions_informer(ground: Ground) -> Informer[PlacementDecision]:
    """Return the cache of decisions, by owner and by the placement that gives such names."""
    return ground.informer(PLACEMENT_DECISION, indexers={"owner": owners_of, "slot": slot_of})


class _EventRouter:
    """Takes changes to the index, and the placements that they concern to the queue when the changes have ended."""

    _controller: Controller

    def __init__(self, reconciler: PlacementReconciler) -> None:
        self._reconciler = reconciler
        self._wrote: dict[Key, float] = {}  # when writing the decisions of a placement began
        self._collecting: dict[Key, tuple[float, float]] = {}  # since when, and until when

    def begin(self, key: Key, plan: Plan) -> None:
        """Hear that a plan begins to be carried out."""
        self._reconciler.begin(key, plan)
        if plan.actions:
            self._wrote[key] = asyncio.get_running_loop().time()

    def follow(self, controller: Controller, caches: PlacementCaches, index: PlacementIndex) -> None:
        """Watch all that matters."""
        self._controller = controller
        self._watch(caches.clusters, index.cluster_changed)
        self._watch(caches.sets, index.set_changed)
        self._watch(caches.bindings, index.binding_changed)
        self._watch(caches.scores, index.score_changed)
        self._watch(caches.placements, index.placement_changed)
        self._watch(caches.decisions, index.decision_changed)

    def _watch(self, informer: Informer[T], handler: Callable[[Delta[T]], Iterable[Key]]) -> None:
        informer.on_change(lambda delta: self._enqueue(handler(delta)))
        # The controller gets its keys from here, and still has to wait until everything is known.
        self._controller.watch(informer, keys=_none)

    def _enqueue(self, keys: Iterable[Key]) -> None:
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
