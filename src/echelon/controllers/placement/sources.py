"""Everything that the placement controller watches, and what each change means to it."""

from echelon.api.cluster import (
    ADD_ON_PLACEMENT_SCORE,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, PlacementDecision
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.index import PlacementCaches, PlacementIndex, is_asked_for
from echelon.controllers.placement.metrics import MeasuringRecorder, PlacementMetrics
from echelon.controllers.placement.reconciler import PlacementReconciler
from echelon.controllers.placement.removals import RemovalBarrier
from echelon.controllers.placement.write_failures import DecisionFailures
from echelon.engine.placement.current import clusters_of, owners_of, slot_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Informer
from echelon.kube.queue import Debounce

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
COLLECTING = Debounce(quiet=0.1, longest=1.0, after_write=1.0)
# A plan that does not know our own last writes counts on groups that are no longer where they were. Most of it fails,
# and the rest may leave a gap in the indexes. So a stream that was lost gets the time to come back.
OWN_WRITES_SECONDS = 60.0


def placement_controller(
    context: ControllerContext, metrics: PlacementMetrics, *, workers: int = WORKERS
) -> Controller:
    """Return a placement controller."""
    caches = placement_caches(context)
    recorder = MeasuringRecorder(context.recorder("placement-controller"), metrics)
    removals = RemovalBarrier(PLACEMENT_DECISION, clusters_of, caches.sources)
    index = PlacementIndex(caches, context.clock)
    reconciler = PlacementReconciler(
        index, caches, metrics, recorder, removals=removals, failures=DecisionFailures(context.clock)
    )
    controller = context.controller(
        "placement",
        reconciler,
        recorder=recorder,
        workers=workers,
        guard_seconds=OWN_WRITES_SECONDS,
        debounce=COLLECTING,
        on_plan=reconciler.begin,
        on_written=reconciler.written,
        on_failed=reconciler.failed,
        verify=index.verify,
    )
    controller.watch(caches.placements, when=is_asked_for)
    controller.follow(caches.placements, index.placement_changed)
    controller.follow(caches.clusters, index.cluster_changed)
    controller.follow(caches.sets, index.set_changed)
    controller.follow(caches.bindings, index.binding_changed)
    controller.follow(caches.scores, index.score_changed)
    controller.follow(caches.decisions, index.decision_changed)
    caches.decisions.on_change(lambda delta: removals.gone(delta.object) if delta.new is None else None)
    return controller


def placement_caches(context: ControllerContext) -> PlacementCaches:
    """Return the caches of a placement controller."""
    return PlacementCaches(
        context.informer(MANAGED_CLUSTER),
        context.informer(MANAGED_CLUSTER_SET),
        context.informer(MANAGED_CLUSTER_SET_BINDING),
        context.informer(ADD_ON_PLACEMENT_SCORE),
        context.informer(PLACEMENT),
        decisions_informer(context),
    )


def decisions_informer(context: ControllerContext) -> Informer[PlacementDecision]:
    """Return the cache of decisions, by owner and by the placement that gives such names."""
    return context.informer(PLACEMENT_DECISION, indexers={"owner": owners_of, "slot": slot_of})
