"""Policy sets: tells of each whether its policies are complied with on the clusters that it is bound to.

What a set says follows from policies, bindings and decisions, and any of them may change many times a second while
policies are rolled out. So changes are collected, and a set is written once a second at most.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, Placement, PlacementDecision
from echelon.api.placement_rule import PLACEMENT_RULE, PlacementRule
from echelon.api.policy import GROUP, POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET, PlacementBinding, PolicySet
from echelon.controllers.context import ControllerContext
from echelon.controllers.placement.sources import decisions_informer
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.engine.plan import NOTHING, Patch, Plan
from echelon.engine.policy.bindings import RESTRICTED
from echelon.engine.policy.policy_set import MemberPolicy, SetBinding, policy_set_status, read_policy, status_body
from echelon.engine.policy.raw_policy import RAW_POLICY, RawPolicy
from echelon.engine.rollout.decisions import QUIET
from echelon.kube.cache import key_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer
from echelon.kube.queue import Debounce

KINDS: tuple[Kind[Any], ...] = (POLICY_SET, POLICY, PLACEMENT_BINDING, PLACEMENT, PLACEMENT_DECISION)
OPTIONAL_KINDS: tuple[Kind[Any], ...] = (PLACEMENT_RULE,)
COLLECTING = Debounce(quiet=0.1, longest=1.0, after_write=1.0)
ROUTINE_SECONDS = 1800.0


@dataclass(frozen=True)
class Caches:
    """What a policy set is about."""

    sets: Informer[PolicySet]
    policies: Informer[RawPolicy]
    bindings: Informer[PlacementBinding]
    placements: Informer[Placement]
    decisions: Informer[PlacementDecision]
    rules: Informer[PlacementRule] | None  # where the hub has them


class PolicySetReconciler:
    """Plans the status of policy sets, and knows which of them a change concerns."""

    def __init__(self, caches: Caches, decided: DecisionCache) -> None:
        self._caches = caches
        self._decided = decided
        self._read: dict[Key, tuple[str, MemberPolicy]] = {}  # policies, with the versions they are from

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one set."""
        found = self._caches.sets.get(key)
        if found is None or found.metadata.deletion_timestamp:
            return NOTHING
        bindings = [each for each in self._caches.bindings.values(key.namespace) if key.name in _sets_of(each)]
        members = {name: self._policy(Key(key.namespace, name)) for name in found.spec.policies}
        status = policy_set_status(
            found.spec,
            [self._bound(each, now) for each in bindings],
            {name: each for name, each in members.items() if each is not None},
        )
        again = QUIET if any(self._is_unsettled(each, now) for each in bindings) else None
        if status == found.status:
            return Plan(look_again_after=again)
        patch = Patch.of(POLICY_SET, found.metadata, status_body(status), "status")
        return Plan(status=patch, look_again_after=again)

    def set_changed(self, delta: Delta[PolicySet]) -> Iterable[Key]:
        """Return the set, also when only its status changed: it may have been somebody else who did that."""
        return [key_of(delta.object)]

    def policy_changed(self, delta: Delta[RawPolicy]) -> Iterable[Key]:
        """Follow a policy; return the sets that have it."""
        key = key_of(delta.object)
        if delta.new is None:
            self._read.pop(key, None)
        elif delta.new.status.status:  # here, where it is one policy at a time: a plan may need all policies of a set
            self._policy(key)
        if delta.initial:
            return ()
        return [key_of(each) for each in self._caches.sets.values(key.namespace) if key.name in each.spec.policies]

    def binding_changed(self, delta: Delta[PlacementBinding]) -> Iterable[Key]:
        """Return the sets that a binding names, or did."""
        states = [] if delta.initial else [each for each in (delta.old, delta.new) if each is not None]
        return dict.fromkeys(Key(each.metadata.namespace, name) for each in states for name in _sets_of(each))

    def placement_changed(self, delta: Delta[Placement]) -> Iterable[Key]:
        """Follow a placement; return the sets that are bound to it."""
        self._decided.placement_changed(delta)
        return () if delta.initial else self._bound_to(PLACEMENT, key_of(delta.object))

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; return the sets that are bound to its placement."""
        placements = self._decided.decision_changed(delta)
        return () if delta.initial else [key for each in placements for key in self._bound_to(PLACEMENT, each)]

    def rule_changed(self, delta: Delta[PlacementRule]) -> Iterable[Key]:
        """Return the sets that are bound to a placement rule."""
        return () if delta.initial else self._bound_to(PLACEMENT_RULE, key_of(delta.object))

    def _bound_to(self, kind: Kind[Any], key: Key) -> list[Key]:
        return [
            Key(key.namespace, name)
            for each in self._caches.bindings.values(key.namespace)
            if _refers_to(each, kind) and each.placement_ref.name == key.name
            for name in _sets_of(each)
        ]

    def _policy(self, key: Key) -> MemberPolicy | None:
        """Read a policy, if there is one; one with many clusters is read once for each state of it."""
        policy = self._caches.policies.get(key)
        if policy is None:
            return MemberPolicy() if key in self._caches.policies.unreadable else None
        version, known = policy.metadata.resource_version, self._read.get(key)
        if known is None or known[0] != version:
            known = self._read[key] = version, read_policy(policy)
        return known[1]

    def _bound(self, binding: PlacementBinding, now: datetime) -> SetBinding:
        name, key = binding.metadata.name, Key(binding.metadata.namespace, binding.placement_ref.name)
        restricted = binding.sub_filter == RESTRICTED
        if _refers_to(binding, PLACEMENT):
            view = self._decided.view(key, self._decided.known(key), now)
            if view is not None:
                return SetBinding(name, placement=key.name, clusters=view.groups.clusters, restricted=restricted)
        elif _refers_to(binding, PLACEMENT_RULE) and self._caches.rules is not None:
            rule = self._caches.rules.get(key)
            if rule is not None:
                clusters = frozenset(each.cluster_name for each in rule.status.decisions)
                return SetBinding(name, placement_rule=key.name, clusters=clusters, restricted=restricted)
        return SetBinding(name, restricted=restricted)

    def _is_unsettled(self, binding: PlacementBinding, now: datetime) -> bool:
        """Whether decisions of a placement changed a moment ago, so that they may not count yet."""
        if not _refers_to(binding, PLACEMENT):
            return False
        changed = self._decided.known(Key(binding.metadata.namespace, binding.placement_ref.name)).changed
        return changed is not None and timedelta() <= now - changed < QUIET


def _refers_to(binding: PlacementBinding, kind: Kind[Any]) -> bool:
    return (binding.placement_ref.api_group, binding.placement_ref.kind) == (kind.group, kind.kind)


def _sets_of(binding: PlacementBinding) -> Iterator[str]:
    """Return the names of the sets that a binding is about."""
    return (each.name for each in binding.subjects if (each.api_group, each.kind) == (GROUP, POLICY_SET.kind))


def _in_routine_only(_: Delta[PolicySet]) -> bool:
    """Leave changes to those who collect them."""
    return False


def policy_sets_controller(context: ControllerContext) -> Controller:
    """Return a controller of policy sets."""
    caches = Caches(
        context.informer(POLICY_SET),
        context.informer(RAW_POLICY),
        context.informer(PLACEMENT_BINDING),
        context.informer(PLACEMENT),
        decisions_informer(context),
        context.informer(PLACEMENT_RULE) if context.serves(PLACEMENT_RULE) else None,
    )
    trusted = context.settings.trust_decisions
    decided = DecisionCache(caches.placements, caches.decisions, context.clock, trusted=trusted)
    reconciler = PolicySetReconciler(caches, decided)
    controller = context.controller(
        "policy-sets", reconciler, routine_seconds=ROUTINE_SECONDS, debounce=COLLECTING, verify=decided.verify
    )
    controller.watch(caches.sets, when=_in_routine_only)
    controller.follow(caches.sets, reconciler.set_changed)
    controller.follow(caches.policies, reconciler.policy_changed)
    controller.follow(caches.bindings, reconciler.binding_changed)
    controller.follow(caches.placements, reconciler.placement_changed)
    controller.follow(caches.decisions, reconciler.decision_changed)
    if caches.rules is not None:
        controller.follow(caches.rules, reconciler.rule_changed)
    return controller
