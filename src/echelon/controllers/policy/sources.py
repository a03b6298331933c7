"""Everything that the controller of policies watches, and what each change means to it.

Agents report one by one, and a plan looks at the whole policy. So reports are collected for a moment: three hundred of
them lead to a few plans.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
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
from echelon.api.placement_rule import PLACEMENT_RULE, PlacementRule
from echelon.api.policy import POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET, PlacementBinding, PolicySet
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.sources import decisions_informer
from echelon.controllers.policy.hub_definition import HubDefinition
from echelon.controllers.policy.observation import Caches, PolicyObserver
from echelon.controllers.policy.replica_index import ReplicaIndex, policy_of
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.rollout.reconciler import STATUS_SECONDS, Indexes, RolloutReconciler, is_asked_for
from echelon.controllers.rollout.revisions import objects_of, revisions_informer
from echelon.controllers.rollout.write_failures import WriteFailures
from echelon.engine.policy.names import ROOT_LABEL, root_of
from echelon.engine.policy.plan import plan, plan_gone
from echelon.engine.policy.raw_policy import RAW_POLICY, RawPolicy
from echelon.engine.policy.view import PolicyView
from echelon.kube.cache import key_of
from echelon.kube.controller import ROUTINE, Controller
from echelon.kube.informer import Delta
from echelon.kube.misfits import Misfit
from echelon.kube.queue import Debounce

KINDS: tuple[Kind[Any], ...] = (
    POLICY,
    PLACEMENT_BINDING,
    POLICY_SET,
    PLACEMENT,
    PLACEMENT_DECISION,
    CONTROLLER_REVISION,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    CUSTOM_RESOURCE_DEFINITION,
)
OPTIONAL_KINDS: tuple[Kind[Any], ...] = (PLACEMENT_RULE,)

WORKERS = 8
COLLECT_SECONDS = 0.1
ROUTINE_SECONDS = 1800.0


def policies_controller(context: ControllerContext) -> Controller:
    """Return a controller of policies."""
    caches = _caches(context)
    cluster_sets, set_bindings = context.informer(MANAGED_CLUSTER_SET), context.informer(MANAGED_CLUSTER_SET_BINDING)
    trusted = context.settings.trust_decisions
    decisions = DecisionCache(caches.placements, caches.decisions, context.clock, trusted=trusted)
    bound = BoundClusters(caches.clusters, cluster_sets, set_bindings, context.clock, trusted=trusted)
    reader = ConsistentReader(
        POLICY,
        context.client,
        (caches.policies, caches.placements, caches.decisions, caches.revisions, *caches.selecting),
        clock=context.clock,
        random=context.random,
        on_answer=lambda key: controller.queue.add(key),  # noqa: PLW0108 - made below
        beside=[each.kind for each in caches.selecting],
    )
    context.background.append(reader.run)
    failures = WriteFailures(context.clock, POLICY, POLICY)
    indexes = Indexes(ReplicaIndex(caches.policies), decisions, bound)
    definition = HubDefinition(context)
    observer = PolicyObserver(caches, indexes, failures, reader, definition=definition, settings=context.settings)
    reconciler = RolloutReconciler[RawPolicy, RawPolicy, PolicyView](
        POLICY,
        POLICY,
        objects=caches.policies,
        indexes=indexes,
        observer=observer,
        planner=plan,
        failures=failures,
        reader=reader,
        users_of=partial(_users_of, caches),
        clock=context.clock,
        plan_gone=lambda key: plan_gone(observer.left_behind(key)),
    )
    controller = context.controller(
        "policies",
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
    _follow_policies(controller, reconciler, caches)
    controller.follow(caches.decisions, reconciler.decision_changed)
    controller.follow(caches.placements, reconciler.placement_changed)
    controller.watch(caches.revisions, keys=_policies_of)
    _follow_bindings(controller, reconciler, caches)
    controller.follow(caches.clusters, partial(_cluster_changed, bound, caches))
    controller.follow(cluster_sets, lambda delta: _policies_in(caches, bound.set_changed(delta), delta))
    controller.follow(set_bindings, lambda delta: _policies_in(caches, bound.binding_changed(delta), delta))
    controller.follow(definition.informer, partial(_definition_changed, definition, caches))
    return controller


def _caches(context: ControllerContext) -> Caches:
    return Caches(
        context.informer(RAW_POLICY),
        context.informer(PLACEMENT_BINDING),
        context.informer(POLICY_SET),
        context.informer(PLACEMENT),
        decisions_informer(context),
        context.informer(MANAGED_CLUSTER),
        revisions_informer(context),
        context.informer(PLACEMENT_RULE) if context.serves(PLACEMENT_RULE) else None,
    )


def _follow_policies(
    controller: Controller, reconciler: RolloutReconciler[RawPolicy, RawPolicy, PolicyView], caches: Caches
) -> None:
    def changed(delta: Delta[RawPolicy]) -> Iterable[Key]:
        concerned = [*reconciler.content_changed(delta)]
        if policy_of(delta.object) is not None:
            return concerned
        reconciler.object_changed(delta)
        # A leader that was replaced without knowing it may have had the last word, and it knew less. Our own words may
        # come back before the server has confirmed them; then there is one look too many, and it finds nothing to do.
        if delta.old is not None and delta.new is not None and not reconciler.wrote(delta.new):
            controller.queue.add(key_of(delta.new), ROUTINE, after=STATUS_SECONDS)
        return concerned

    def unreadable(misfit: Misfit) -> None:
        if (found := root_of(misfit.metadata.name)) is not None and ROOT_LABEL in misfit.metadata.labels:
            controller.queue.add(found, after=COLLECT_SECONDS)

    controller.follow(caches.policies, changed)
    controller.watch(caches.policies, when=lambda delta: policy_of(delta.object) is None and is_asked_for(delta))
    caches.policies.on_unreadable(unreadable)


def _follow_bindings(
    controller: Controller, reconciler: RolloutReconciler[RawPolicy, RawPolicy, PolicyView], caches: Caches
) -> None:
    """Have policies looked at when somebody says that other clusters are meant."""

    def binding_changed(delta: Delta[PlacementBinding]) -> Iterable[Key]:
        if delta.initial:
            return ()
        states = [each for each in (delta.old, delta.new) if each is not None]
        users = dict.fromkeys(user for each in states for user in _bound_by(caches, each))
        reconciler.outdate(users)
        return users

    def in_namespace(delta: Delta[PolicySet] | Delta[PlacementRule]) -> Iterable[Key]:
        if delta.initial:
            return ()
        users = [*map(key_of, _roots(caches, delta.object.metadata.namespace))]
        reconciler.outdate(users)
        return users

    controller.follow(caches.bindings, binding_changed)
    controller.follow(caches.sets, in_namespace)
    if caches.rules is not None:
        controller.follow(caches.rules, in_namespace)


def _roots(caches: Caches, namespace: str = "") -> list[RawPolicy]:
    """Return the policies of a namespace that are no replicas."""
    return [each for each in caches.policies.values(namespace) if policy_of(each) is None]


def _bound_by(caches: Caches, binding: PlacementBinding) -> list[Key]:
    """Return the policies that a binding is about."""
    namespace, names = binding.metadata.namespace, dict[str, None]()
    for subject in binding.subjects:
        if subject.kind == "Policy":
            names[subject.name] = None
        elif (found := caches.sets.get(Key(namespace, subject.name))) is not None:
            names.update(dict.fromkeys(found.spec.policies))
    return [Key(namespace, name) for name in names if caches.policies.get(Key(namespace, name)) is not None]


def _users_of(caches: Caches, placement: Key) -> list[Key]:
    """Return the policies that are bound to a placement."""
    bindings = (
        each
        for each in caches.bindings.values(placement.namespace)
        if (each.placement_ref.kind, each.placement_ref.name) == (PLACEMENT.kind, placement.name)
    )
    return list(dict.fromkeys(user for each in bindings for user in _bound_by(caches, each)))


def _cluster_changed(bound: BoundClusters, caches: Caches, delta: Delta[ManagedCluster]) -> Iterable[Key]:
    """Follow a cluster; return the policies to which that means something."""
    concerned = _policies_in(caches, bound.cluster_changed(delta), delta)
    comes_or_goes = delta.old is None or delta.new is None or delta.new.metadata.deletion_timestamp
    if comes_or_goes and not delta.initial:  # now it can lose what was held, or a policy is out of place
        for each in caches.policies.values(delta.object.metadata.name):
            concerned.append(policy_of(each) or key_of(each))
    return concerned


def _policies_in(caches: Caches, namespaces: Iterable[str], delta: Delta[Any]) -> list[Key]:
    """Return the policies of namespaces to which a change means something."""
    if delta.initial:  # then the policies themselves are new, too
        return []
    return [key_of(each) for namespace in namespaces for each in _roots(caches, namespace)]


def _definition_changed(definition: HubDefinition, caches: Caches, delta: Delta[JSONObject]) -> Iterable[Key]:
    """Have everything looked at when the hub keeps other fields than before."""
    if delta.initial or not definition.changed(delta):
        return ()
    return [key_of(each) for each in _roots(caches)]


def _policies_of(revision: ControllerRevision) -> list[Key]:
    return objects_of(revision, POLICY)
