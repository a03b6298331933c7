"""Everything that the controller watches that makes bindings from templates and policies.

What becomes of a binding is somebody else's: the controller `workloads` sends it to clusters.
"""

from collections.abc import Iterable
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.propagation import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.sources import decisions_informer
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.workload import template_caches
from echelon.controllers.workload.claims import Claims
from echelon.controllers.workload.meant_clusters import MeantClusters
from echelon.controllers.workload.propagation_reconciler import Caches, Indexes, PropagationReconciler
from echelon.controllers.workload.template_caches import PROPAGATED_KINDS, TemplateCaches, binding_of
from echelon.controllers.workload.unrest import Unrest
from echelon.engine.workload.hub_runs import hub_runs
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta
from echelon.kube.queue import Debounce

NAME = "workload-propagation"
KINDS: tuple[Kind[Any], ...] = (
    PROPAGATION_POLICY,
    CLUSTER_PROPAGATION_POLICY,
    RESOURCE_BINDING,
    *PROPAGATED_KINDS,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    PLACEMENT,
    PLACEMENT_DECISION,
)
OPTIONAL_KINDS = template_caches.OPTIONAL_KINDS
WORKERS = 4
# A fleet changes cluster by cluster, and a division that followed each of them would move replicas more than once.
COLLECTING = Debounce(quiet=0.1, longest=1.0, after_write=1.0)
ROUTINE_SECONDS = 1800.0


def workload_propagation_controller(context: ControllerContext) -> Controller:
    """Return a controller that makes bindings."""
    caches = Caches(
        TemplateCaches.of(context, PROPAGATED_KINDS),
        context.informer(PROPAGATION_POLICY),
        context.informer(CLUSTER_PROPAGATION_POLICY),
        context.informer(RESOURCE_BINDING),
        context.informer(MANAGED_CLUSTER),
    )
    sets, set_bindings = context.informer(MANAGED_CLUSTER_SET), context.informer(MANAGED_CLUSTER_SET_BINDING)
    placements, decisions = context.informer(PLACEMENT), decisions_informer(context)
    trusted, clock = context.settings.trust_decisions, context.clock
    indexes = Indexes(
        Claims(caches.bindings),
        MeantClusters(caches.clusters),
        BoundClusters(caches.clusters, sets, set_bindings, clock, trusted=trusted),
        DecisionCache(placements, decisions, clock, trusted=trusted),
        Unrest(clock),
    )
    recorder = context.recorder(NAME)

    def answered(key: Key) -> None:
        controller.queue.add(key)

    reader = ConsistentReader(
        RESOURCE_BINDING,
        context.client,
        (placements, decisions, caches.bindings),
        clock=clock,
        random=context.random,
        on_answer=answered,
    )
    context.background.append(reader.run)
    reconciler = PropagationReconciler(caches, indexes, reader, context.settings, recorder)
    controller = context.controller(
        NAME,
        reconciler,
        recorder=recorder,
        workers=WORKERS,
        routine_seconds=ROUTINE_SECONDS,
        debounce=COLLECTING,
        on_plan=reconciler.planned,
        on_failed=reconciler.failed,
        verify=indexes.verify,
    )
    controller.follow(caches.clusters, reconciler.cluster_changed)
    controller.follow(sets, reconciler.set_changed)
    controller.follow(set_bindings, reconciler.set_binding_changed)
    controller.follow(placements, reconciler.placement_changed)
    controller.follow(decisions, reconciler.decision_changed)
    controller.follow(caches.policies, reconciler.policy_changed)
    controller.follow(caches.cluster_policies, reconciler.policy_changed)
    controller.follow(caches.bindings, reconciler.binding_changed)
    for informer in caches.templates.informers.values():
        controller.follow(informer, _template_changed)
    return controller


def _template_changed(delta: Delta[JSONObject]) -> Iterable[Key]:
    """Return the binding of a template that is another one, or is run by somebody else. Its status is that of clusters.

    It is collected like all that decides who is chosen, so that what one file changes is known when it is planned.
    """
    old, new = delta.old, delta.new
    return (binding_of(delta.object),) if old is None or new is None or _intent(old) != _intent(new) else ()


def _intent(template: JSONObject) -> tuple[object, ...]:
    meta = template["metadata"]
    kept = ("uid", "generation", "labels", "annotations", "deletionTimestamp", "ownerReferences")
    return (*(meta.get(name) for name in kept), hub_runs(template, propagated=True))
