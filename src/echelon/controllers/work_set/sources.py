"""Everything that the controller of work sets watches, and what each change means to it.

Agents report one by one, and a plan looks at the whole set. So reports are collected for a moment: three hundred of
them lead to a few plans.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from echelon.api.apps import CONTROLLER_REVISION
from echelon.api.cluster import (
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
)
from echelon.api.daemonsets import ControllerRevision
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.sources import decisions_informer
from echelon.controllers.work_set.asking import Asking
from echelon.controllers.work_set.bound_clusters import BoundClusters
from echelon.controllers.work_set.decided import Decided
from echelon.controllers.work_set.reconciler import (
    STATUS_SECONDS,
    Caches,
    Knowledge,
    WorkSetReconciler,
    intent_of,
    owner_of,
)
from echelon.controllers.work_set.write_failures import WriteFailures
from echelon.engine.work_set.names import SET_LABEL, set_of
from echelon.engine.work_set.view import WorkSet
from echelon.kube.cache import key_of
from echelon.kube.controller import ROUTINE, Controller
from echelon.kube.informer import Delta
from echelon.kube.misfits import Misfit

KINDS: tuple[Kind[Any], ...] = (
    MANIFEST_WORK_REPLICA_SET,
    MANIFEST_WORK,
    PLACEMENT,
    PLACEMENT_DECISION,
    CONTROLLER_REVISION,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
# The set, with its template as the user wrote it.
WORK_SET: Kind[WorkSet] = replace(MANIFEST_WORK_REPLICA_SET, type=WorkSet)  # type: ignore[arg-type,assignment]

WORKERS = 8
COLLECT_SECONDS = 0.1
ROUTINE_SECONDS = 1800.0


def work_sets_controller(context: ControllerContext) -> Controller:
    """Return a controller of work sets."""
    caches = Caches(
        context.informer(WORK_SET),
        context.informer(PLACEMENT),
        decisions_informer(context),
        context.informer(MANIFEST_WORK),
        context.informer(CONTROLLER_REVISION, indexers={"set": _set_labels}),
    )
    failures = WriteFailures(context.clock)
    trust = context.settings.trust_decisions
    asking = Asking(context.client, context.random, lambda key: controller.queue.add(key))  # noqa: PLW0108 - made below
    decided = Decided(caches.placements, caches.decisions, context.clock.now, trust=trust)
    knowledge = Knowledge(decided, BoundClusters(context.clock, trust=trust), asking)
    reconciler = WorkSetReconciler(caches, failures, knowledge, context.settings)
    context.background.append(asking.run)
    controller = Controller(
        "work-sets",
        reconciler,
        context.client,
        context.clock,
        recorder=context.recorder("work-sets"),
        random=context.random,
        workers=WORKERS,
        metrics=context.metrics,
        routine_seconds=ROUTINE_SECONDS,
        on_written=reconciler.written,
        on_failed=failures.failed,
        intent=reconciler.intent,
    )
    _follow(controller, reconciler, caches)
    _follow_clusters(context, controller, knowledge.bound, caches)
    return controller


def _follow(controller: Controller, reconciler: WorkSetReconciler, caches: Caches) -> None:
    def collect(keys: Iterable[Key], *, initial: bool) -> None:
        for key in keys:
            controller.queue.add(key, ROUTINE if initial else 0, after=COLLECT_SECONDS)

    def work_changed(delta: Delta[ManifestWork]) -> None:
        collect(reconciler.work_changed(delta), initial=delta.initial)

    def decision_changed(delta: Delta[PlacementDecision]) -> None:
        collect(reconciler.decision_changed(delta), initial=delta.initial)

    def placement_changed(delta: Delta[Placement]) -> None:
        collect(reconciler.placement_changed(delta), initial=delta.initial)

    def set_changed(delta: Delta[WorkSet]) -> None:
        # A leader that was replaced without knowing it may have had the last word, and it knew less. Our own words may
        # come back before the server has confirmed them; then there is one look too many, and it finds nothing to do.
        if delta.old is not None and delta.new is not None and not reconciler.wrote(delta.new):
            controller.queue.add(key_of(delta.new), ROUTINE, after=STATUS_SECONDS)

    def work_unreadable(misfit: Misfit) -> None:
        if (found := set_of(misfit.metadata.labels.get(SET_LABEL, ""))) is not None:
            collect([Key(*found)], initial=False)

    caches.works.on_unreadable(work_unreadable)
    # These keep the views and are the first to hear; the controller only has to know of the caches.
    caches.works.on_change(work_changed)
    caches.decisions.on_change(decision_changed)
    caches.placements.on_change(placement_changed)
    controller.watch(caches.works, keys=_none)
    controller.watch(caches.decisions, keys=_none)
    controller.watch(caches.placements, keys=_none)
    caches.sets.on_change(set_changed)
    controller.watch(caches.sets, when=_is_asked_for)
    controller.watch(caches.revisions, keys=_sets_of)


def _follow_clusters(context: ControllerContext, controller: Controller, bound: BoundClusters, caches: Caches) -> None:
    """Follow what says which clusters a namespace has a say about."""

    def concern(namespaces: Iterable[str], *, initial: bool) -> None:
        if not initial:  # then the sets themselves are new, too
            for namespace in namespaces:
                for each in caches.sets.values(namespace):
                    controller.queue.add(key_of(each), after=COLLECT_SECONDS)

    def cluster_changed(delta: Delta[ManagedCluster]) -> None:
        concern(bound.cluster_changed(delta), initial=delta.initial)
        if delta.new is None or delta.new.metadata.deletion_timestamp:  # now it can lose what was held
            for work in caches.works.values(delta.object.metadata.name):
                if (owner := owner_of(work)) is not None:
                    controller.queue.add(owner, after=COLLECT_SECONDS)

    def set_changed(delta: Delta[ManagedClusterSet]) -> None:
        concern(bound.set_changed(delta), initial=delta.initial)

    def binding_changed(delta: Delta[ManagedClusterSetBinding]) -> None:
        concern(bound.binding_changed(delta), initial=delta.initial)

    clusters, sets = context.informer(MANAGED_CLUSTER), context.informer(MANAGED_CLUSTER_SET)
    bindings = context.informer(MANAGED_CLUSTER_SET_BINDING)
    clusters.on_change(cluster_changed)
    sets.on_change(set_changed)
    bindings.on_change(binding_changed)
    controller.watch(clusters, keys=_none)
    controller.watch(sets, keys=_none)
    controller.watch(bindings, keys=_none)


def _is_asked_for(delta: Delta[WorkSet]) -> bool:
    """Whether somebody wants something else. What the status says about it is our own word."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return intent_of(old) != intent_of(new)


def _set_labels(revision: ControllerRevision) -> Iterator[str]:
    if label := revision.metadata.labels.get(SET_LABEL):
        yield label


def _sets_of(revision: ControllerRevision) -> list[Key]:
    found = set_of(revision.metadata.labels.get(SET_LABEL, ""))
    return [Key(*found)] if found is not None else []


def _none(_: object) -> Iterable[Key]:
    return ()
