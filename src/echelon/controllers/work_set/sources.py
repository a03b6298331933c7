"""Everything that the controller of work sets watches, and what each change means to it.

Agents report one by one, and a plan looks at the whole set. So reports are collected for a moment: three hundred of
them lead to a few plans.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from echelon.api.cluster import (
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    ManagedCluster,
)
from echelon.api.controller_revisions import CONTROLLER_REVISION, ControllerRevision
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.sources import decisions_informer
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.rollout.reconciler import STATUS_SECONDS, Indexes, RolloutReconciler, is_asked_for
from echelon.controllers.rollout.revisions import objects_of, revisions_informer
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.controllers.work_set.observation import Caches, WorkSetObserver
from echelon.controllers.work_set.work_index import WorkIndex, owner_of
from echelon.engine.work_set.names import SET_LABEL, set_of
from echelon.engine.work_set.plan import plan
from echelon.engine.work_set.view import WorkSet, WorkSetView
from echelon.kube.cache import key_of
from echelon.kube.controller import ROUTINE, Controller
from echelon.kube.informer import Delta
from echelon.kube.misfits import Misfit
from echelon.kube.queue import Debounce

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
        revisions_informer(context),
    )
    clusters, cluster_sets = context.informer(MANAGED_CLUSTER), context.informer(MANAGED_CLUSTER_SET)
    bindings = context.informer(MANAGED_CLUSTER_SET_BINDING)
    trusted = context.settings.trust_decisions
    decisions = DecisionCache(caches.placements, caches.decisions, context.clock, trusted=trusted)
    bound = BoundClusters(clusters, cluster_sets, bindings, context.clock, trusted=trusted)
    reader = ConsistentReader(
        MANIFEST_WORK_REPLICA_SET,
        context.client,
        (caches.sets, caches.placements, caches.decisions, caches.works, caches.revisions),
        clock=context.clock,
        random=context.random,
        on_answer=lambda key: controller.queue.add(key),  # noqa: PLW0108 - made below
    )
    context.background.append(reader.run)
    failures = WriteFailures(context.clock, MANIFEST_WORK_REPLICA_SET, MANIFEST_WORK)
    indexes = Indexes(WorkIndex(caches.works), decisions, bound)
    reconciler = RolloutReconciler[WorkSet, ManifestWork, WorkSetView](
        MANIFEST_WORK_REPLICA_SET,
        MANIFEST_WORK,
        objects=caches.sets,
        indexes=indexes,
        observer=WorkSetObserver(caches, indexes, failures, reader, context.settings),
        planner=plan,
        failures=failures,
        reader=reader,
        users_of=partial(_users_of, caches),
        clock=context.clock,
    )
    controller = context.controller(
        "work-sets",
        reconciler,
        workers=WORKERS,
        routine_seconds=ROUTINE_SECONDS,
        debounce=Debounce(COLLECT_SECONDS, COLLECT_SECONDS),
        on_plan=reconciler.planned,
        on_written=reconciler.written,
        on_failed=reconciler.failed,
        basis=reconciler.basis,
        verify=reconciler.verify,
    )
    _follow_sets(controller, reconciler, caches)
    controller.follow(caches.works, reconciler.content_changed)
    controller.follow(caches.decisions, reconciler.decision_changed)
    controller.follow(caches.placements, reconciler.placement_changed)
    controller.watch(caches.revisions, keys=_sets_of)
    controller.follow(clusters, partial(_cluster_changed, bound, caches))
    controller.follow(cluster_sets, lambda delta: _sets_in(caches, bound.set_changed(delta), delta))
    controller.follow(bindings, lambda delta: _sets_in(caches, bound.binding_changed(delta), delta))
    return controller


def _follow_sets(
    controller: Controller, reconciler: RolloutReconciler[WorkSet, ManifestWork, WorkSetView], caches: Caches
) -> None:
    def set_changed(delta: Delta[WorkSet]) -> Iterable[Key]:
        reconciler.object_changed(delta)
        # A leader that was replaced without knowing it may have had the last word, and it knew less. Our own words may
        # come back before the server has confirmed them; then there is one look too many, and it finds nothing to do.
        if delta.old is not None and delta.new is not None and not reconciler.wrote(delta.new):
            controller.queue.add(key_of(delta.new), ROUTINE, after=STATUS_SECONDS)
        return ()

    def work_unreadable(misfit: Misfit) -> None:
        if (found := set_of(misfit.metadata.labels.get(SET_LABEL, ""))) is not None:
            controller.queue.add(Key(*found), after=COLLECT_SECONDS)

    controller.follow(caches.sets, set_changed)
    controller.watch(caches.sets, when=is_asked_for)
    caches.works.on_unreadable(work_unreadable)


def _cluster_changed(bound: BoundClusters, caches: Caches, delta: Delta[ManagedCluster]) -> Iterable[Key]:
    """Follow a cluster; return the sets to which that means something."""
    concerned = _sets_in(caches, bound.cluster_changed(delta), delta)
    if delta.new is None or delta.new.metadata.deletion_timestamp:  # now it can lose what was held
        works = caches.works.values(delta.object.metadata.name)
        concerned += [owner for work in works if (owner := owner_of(work)) is not None]
    return concerned


def _sets_in(caches: Caches, namespaces: Iterable[str], delta: Delta[Any]) -> list[Key]:
    """Return the sets of namespaces to which a change means something."""
    if delta.initial:  # then the sets themselves are new, too
        return []
    return [key_of(each) for namespace in namespaces for each in caches.sets.values(namespace)]


def _users_of(caches: Caches, placement: Key) -> list[Key]:
    """Return the sets that refer to a placement."""
    return [
        key_of(each)
        for each in caches.sets.values(placement.namespace)
        if any(ref.name == placement.name for ref in each.spec.placement_refs)
    ]


def _sets_of(revision: ControllerRevision) -> list[Key]:
    return objects_of(revision, MANIFEST_WORK_REPLICA_SET)
