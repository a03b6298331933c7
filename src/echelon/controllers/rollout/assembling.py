"""Puts the controller of a kind of rollout together: what all kinds look at, what is derived from it, who follows what.

A kind adds its own caches, how to observe one of its objects, and which of them a change concerns.

Agents report one by one, and a plan looks at a whole rollout. So reports are collected for a moment: three hundred of
them lead to a few plans.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING, ManagedCluster
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.sources import decisions_informer
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.rollout.metrics import RolloutMetrics, RolloutStatus, Source
from echelon.controllers.rollout.reconciler import (
    STATUS_SECONDS,
    HasMetadata,
    HoldingIndex,
    Indexes,
    Observer,
    Planner,
    RolloutReconciler,
    plan_nothing,
)
from echelon.controllers.rollout.revisions import objects_of, revisions_informer
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.engine.plan import Plan
from echelon.kube.cache import key_of
from echelon.kube.controller import ROUTINE, Controller
from echelon.kube.freshness import Followed
from echelon.kube.informer import Delta, Informer
from echelon.kube.queue import Debounce

KINDS: tuple[Kind[Any], ...] = (
    PLACEMENT,
    PLACEMENT_DECISION,
    CONTROLLER_REVISION,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
WORKERS = 8
COLLECT_SECONDS = 0.1
ROUTINE_SECONDS = 1800.0

T = TypeVar("T", bound=HasMetadata)  # what is rolled out
C = TypeVar("C", bound=HasMetadata)  # what clusters get of it
V = TypeVar("V")
I = TypeVar("I", bound=HoldingIndex[Any])  # noqa: E741 - for an index


class RolloutParts(Generic[T, I]):
    """What the controller of a kind of rollout is made of."""

    def __init__(
        self,
        context: ControllerContext,
        kind: Kind[Any],
        content: Kind[Any],
        *,
        objects: Informer[T],
        index: I,
        caches: Sequence[Followed],
        beside: Sequence[Kind[Any]] = (),
        cluster_of: Callable[[str], str] = str,
    ) -> None:
        """`caches` are the kind's own, `beside` those kinds among them that say which clusters are meant.

        `cluster_of` returns the cluster whose content a namespace holds.
        """
        self._context = context
        self._kind = kind
        self._content = content
        self._objects = objects
        self.placements = context.informer(PLACEMENT)
        self.decisions = decisions_informer(context)
        self.revisions = revisions_informer(context)
        self.clusters = context.informer(MANAGED_CLUSTER)
        self._cluster_sets = context.informer(MANAGED_CLUSTER_SET)
        self._set_bindings = context.informer(MANAGED_CLUSTER_SET_BINDING)
        trusted = context.settings.trust_decisions
        decided = DecisionCache(self.placements, self.decisions, context.clock, trusted=trusted)
        bound = BoundClusters(self.clusters, self._cluster_sets, self._set_bindings, context.clock, trusted=trusted)
        self.indexes = Indexes(index, decided, bound)
        self.failures = WriteFailures(context.clock, kind, content, cluster_of)
        self.reader = ConsistentReader(
            kind,
            context.client,
            (self.placements, self.decisions, self.revisions, *caches),
            clock=context.clock,
            random=context.random,
            on_answer=self._answered,
            beside=beside,
        )
        context.background.append(self.reader.run)
        self._controllers: list[Controller] = []

    def _answered(self, key: Key) -> None:
        for controller in self._controllers:
            controller.queue.add(key)

    def reconciler(
        self,
        observer: Observer[T, V],
        planner: Planner[V],
        users_of: Callable[[Key], Iterable[Key]],
        plan_gone: Callable[[Key], Plan] = plan_nothing,
        knowing: Sequence[Kind[Any]] = (),
    ) -> RolloutReconciler[T, Any, V]:
        """Return what plans objects of the kind; `knowing` are kinds that it writes beside, for its own memory."""
        return RolloutReconciler[T, Any, V](
            self._kind,
            self._content,
            objects=self._objects,
            indexes=self.indexes,
            observer=observer,
            planner=planner,
            failures=self.failures,
            reader=self.reader,
            users_of=users_of,
            clock=self._context.clock,
            plan_gone=plan_gone,
            knowing=knowing,
        )

    def controller(
        self,
        name: str,
        reconciler: RolloutReconciler[T, Any, V],
        *,
        objects_in: Callable[[str], Iterable[T]],
        holding: Callable[[str], Iterable[Key]],
        status: Callable[[T], RolloutStatus],
    ) -> Controller:
        """Return a controller that follows what all kinds follow.

        `objects_in` returns the objects of a namespace or all of them, `holding` those of which a cluster holds
        something, `status` what an object says of its rollout.
        """
        bound = self.indexes.bound
        controller = self._context.controller(
            name,
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
        self._controllers.append(controller)
        self._measure(controller, lambda: map(status, objects_in("")), status)

        def within(namespaces: Iterable[str], delta: Delta[Any]) -> list[Key]:
            if delta.initial:  # then the objects themselves are new, too
                return []
            return [key_of(each) for namespace in namespaces for each in objects_in(namespace)]

        def cluster_changed(delta: Delta[ManagedCluster]) -> Iterable[Key]:
            concerned = within(bound.cluster_changed(delta), delta)
            comes_or_goes = delta.old is None or delta.new is None or delta.new.metadata.deletion_timestamp
            if comes_or_goes and not delta.initial:  # now it can lose what was held
                concerned += holding(delta.object.metadata.name)
            return concerned

        controller.follow(self.decisions, reconciler.decision_changed)
        controller.follow(self.placements, reconciler.placement_changed)
        controller.watch(self.revisions, keys=lambda revision: objects_of(revision, self._kind))
        controller.follow(self.clusters, cluster_changed)
        controller.follow(self._cluster_sets, lambda delta: within(bound.set_changed(delta), delta))
        controller.follow(self._set_bindings, lambda delta: within(bound.binding_changed(delta), delta))
        return controller

    def _measure(self, controller: Controller, shown: Source, status: Callable[[T], RolloutStatus]) -> None:
        metrics, kind = RolloutMetrics.of(self._context.metrics), self._kind.kind

        def changed(delta: Delta[T]) -> Iterable[Key]:
            if delta.old is not None and delta.new is not None:
                metrics.changed(kind, status(delta.old), status(delta.new))
            return ()

        controller.follow(self._objects, changed)
        self._context.background.append(metrics.showing(kind, shown, self._context.clock))


def look_again(controller: Controller, reconciler: RolloutReconciler[T, Any, Any], delta: Delta[T]) -> None:
    """Have an object looked at once more that somebody else has written.

    A leader that was replaced without knowing it may have had the last word, and it knew less. Our own words may come
    back before the server has confirmed them; then there is one look too many, and it finds nothing to do.
    """
    if delta.old is not None and delta.new is not None and not reconciler.wrote(delta.new):
        controller.queue.add(key_of(delta.new), ROUTINE, after=STATUS_SECONDS)
