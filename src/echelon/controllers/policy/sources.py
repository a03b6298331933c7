"""Everything that the controller of policies watches besides what all rollouts watch, and what it means to it."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT
from echelon.api.placement_rule import PLACEMENT_RULE, PlacementRule
from echelon.api.policy import POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET, PlacementBinding, PolicySet
from echelon.controllers.context import ControllerContext
from echelon.controllers.policy.hub_definition import HubDefinition
from echelon.controllers.policy.observation import Caches, PolicyObserver
from echelon.controllers.policy.replica_index import ReplicaIndex, policy_of
from echelon.controllers.rollout import assembling
from echelon.controllers.rollout.assembling import COLLECT_SECONDS, RolloutParts, look_again
from echelon.controllers.rollout.metrics import RolloutStatus
from echelon.controllers.rollout.reconciler import RolloutReconciler, is_asked_for
from echelon.engine.policy.names import ROOT_LABEL, root_of
from echelon.engine.policy.plan import plan, plan_gone
from echelon.engine.policy.raw_policy import RAW_POLICY, RawPolicy
from echelon.engine.policy.view import PolicyView
from echelon.kube.cache import key_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta
from echelon.kube.misfits import Misfit

KINDS: tuple[Kind[Any], ...] = (
    POLICY,
    PLACEMENT_BINDING,
    POLICY_SET,
    *assembling.KINDS,
    CUSTOM_RESOURCE_DEFINITION,
)
OPTIONAL_KINDS: tuple[Kind[Any], ...] = (PLACEMENT_RULE,)


def policies_controller(context: ControllerContext) -> Controller:
    """Return a controller of policies."""
    policies = context.informer(RAW_POLICY)
    bindings, sets = context.informer(PLACEMENT_BINDING), context.informer(POLICY_SET)
    rules = context.informer(PLACEMENT_RULE) if context.serves(PLACEMENT_RULE) else None
    selecting = (bindings, sets) if rules is None else (bindings, sets, rules)
    parts = RolloutParts(
        context,
        POLICY,
        POLICY,
        objects=policies,
        index=ReplicaIndex(policies),
        caches=(policies, *selecting),
        beside=[each.kind for each in selecting],
    )
    caches = Caches(policies, bindings, sets, parts.placements, parts.decisions, parts.clusters, parts.revisions, rules)
    definition = HubDefinition(context)
    observer = PolicyObserver(
        caches, parts.indexes, parts.failures, parts.reader, definition=definition, settings=context.settings
    )
    reconciler = parts.reconciler(
        observer, plan, partial(_users_of, caches), lambda key: plan_gone(observer.left_behind(key))
    )

    def holding(cluster: str) -> Iterable[Key]:
        """Return the policies of which a cluster has replicas, and those that are out of place there."""
        return [policy_of(each) or key_of(each) for each in policies.values(cluster)]

    controller = parts.controller(
        "policies", reconciler, objects_in=partial(_roots, caches), holding=holding, status=_status
    )
    _follow_policies(controller, reconciler, caches)
    _follow_bindings(controller, reconciler, caches)
    controller.follow(definition.informer, partial(_definition_changed, definition, caches))
    return controller


def _follow_policies(
    controller: Controller, reconciler: RolloutReconciler[RawPolicy, RawPolicy, PolicyView], caches: Caches
) -> None:
    def changed(delta: Delta[RawPolicy]) -> Iterable[Key]:
        concerned = [*reconciler.content_changed(delta)]
        if policy_of(delta.object) is not None:
            return concerned
        reconciler.object_changed(delta)
        look_again(controller, reconciler, delta)
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


def _definition_changed(definition: HubDefinition, caches: Caches, delta: Delta[JSONObject]) -> Iterable[Key]:
    """Have everything looked at when the hub keeps other fields than before."""
    if delta.initial or not definition.changed(delta):
        return ()
    return [key_of(each) for each in _roots(caches)]


def _status(found: RawPolicy) -> RolloutStatus:
    return RolloutStatus(found.metadata, found.status.conditions, found.status.rollout)
