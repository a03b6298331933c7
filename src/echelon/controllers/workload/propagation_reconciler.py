"""The reconciler of bindings that are made from policies: which clusters a template's policy means at the moment.

A key is that of a binding, which is named after its template.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from echelon.api.cluster import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.karmada import ResourceBinding
from echelon.api.keys import Key
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.propagation import ClusterPropagationPolicy, PropagationPolicy
from echelon.controllers.queued_recorder import QueuedRecorder
from echelon.controllers.rollout.bound_clusters import BoundClusters
from echelon.controllers.rollout.consistent_reader import ConsistentReader
from echelon.controllers.rollout.decision_cache import DecisionCache
from echelon.controllers.rollout.reconciler import intent_of
from echelon.controllers.settings import ControllerSettings
from echelon.controllers.workload.claims import Claims
from echelon.controllers.workload.meant_clusters import MeantClusters, looks
from echelon.controllers.workload.template_caches import TemplateCaches, binding_of
from echelon.controllers.workload.unrest import Unrest
from echelon.engine.conditions import find_condition
from echelon.engine.plan import NOTHING, Emit, Plan, Reference
from echelon.engine.rollout.decisions import believed_after, may_be_torn, read_request
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.affinity import can_have_works
from echelon.engine.workload.choosing import UNSETTLED, Chosen, Standing, choose, follow
from echelon.engine.workload.policy_fields import mistakes, placement_of, tolerations_of
from echelon.engine.workload.propagating import IGNORED, SCHEDULED, plan, useless
from echelon.engine.workload.propagation_view import PropagationView, holder_of, is_made_here
from echelon.engine.workload.selecting import Policy, claimant_of, claiming, selects_kind
from echelon.kube.act import Failed
from echelon.kube.cache import key_of
from echelon.kube.errors import AlreadyExists, Conflict
from echelon.kube.informer import Delta, Informer


@dataclass(frozen=True)
class Caches:
    """What the binding of a template depends on."""

    templates: TemplateCaches
    policies: Informer[PropagationPolicy]
    cluster_policies: Informer[ClusterPropagationPolicy]
    bindings: Informer[ResourceBinding]
    clusters: Informer[ManagedCluster]


@dataclass(frozen=True)
class Indexes:
    """What is derived from caches, change by change."""

    claims: Claims
    meant: MeantClusters
    bound: BoundClusters
    decided: DecisionCache
    unrest: Unrest

    def verify(self) -> Iterator[str | None]:
        """Compare all of it with the caches; repair what is not the same, and yield what it was, or None to rest."""
        yield from self.claims.verify()
        yield from self.meant.verify()
        yield from self.bound.verify()
        yield from self.decided.verify()


class PropagationReconciler:
    """Plans the bindings of templates, and knows which of them a change concerns."""

    def __init__(
        self,
        caches: Caches,
        indexes: Indexes,
        reader: ConsistentReader,
        settings: ControllerSettings,
        recorder: QueuedRecorder,
    ) -> None:
        self._caches = caches
        self._indexes = indexes
        self._reader = reader
        self._settings = settings
        self._recorder = recorder
        self._foreign: dict[Key, object] = {}  # bindings of somebody else, with what was told of them

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan the binding of one template."""
        view = self._observe(key, now)
        return plan(view, now) if view is not None else NOTHING

    def planned(self, key: Key, made: Plan) -> None:
        """Do what follows from a plan that is carried out and is no write."""
        if made.read is not None:
            self._reader.request(key, made.read)
        found = self._find(key)
        if found is not None and found.policy is not None and found.binding is not None and not _is_ours(found):
            self._foreign[key] = _versions(found.policy, found.binding)
        else:
            self._foreign.pop(key, None)

    def failed(self, key: Key, failed: Failed) -> bool:
        """Tell people of a write that the server refused: no binding says it, for it is the binding that is missing."""
        found = self._caches.templates.find(key)
        if found is not None and not isinstance(failed.error, Conflict | AlreadyExists):
            kind, template = found
            meta = part(template, "metadata")
            regarding = Reference(kind, text(meta, "name"), key.namespace, text(meta, "uid"))
            note = f"its binding {key.name} was not written: {failed.error}"
            self._recorder.put(Emit(regarding, "BindingNotWritten", "Propagate", note, "Warning"))
        return False

    def binding_changed(self, delta: Delta[ResourceBinding]) -> Iterable[Key]:
        """Follow a binding; return it if something changed that is decided here."""
        self._indexes.claims.binding_changed(delta)
        key = key_of(delta.object)
        if delta.new is None:
            self._reader.forget(key)
            self._foreign.pop(key, None)
        return (key,) if _is_asked_for(delta) else ()

    def policy_changed(self, delta: Delta[Any]) -> Iterable[Key]:
        """Return the templates that a policy means, or meant, and those that it has."""
        states: list[Policy] = [each for each in (delta.old, delta.new) if each is not None]
        claimant = claimant_of(states[0])
        if delta.new is None:
            self._indexes.meant.forget(claimant)
        elif delta.old is None or delta.old.metadata.generation != delta.new.metadata.generation:
            for event in useless(delta.new):
                self._recorder.put(event)
        if delta.initial:  # then the templates themselves are new, too
            return ()
        selected = [
            key
            for (version, kind), informer in self._caches.templates.informers.items()
            if any(selects_kind(each.spec.resource_selectors, version, kind) for each in states)
            for key in map(binding_of, informer.values(claimant[0]))
        ]
        return dict.fromkeys((*self._indexes.claims.of(claimant), *selected))

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> Iterable[Key]:
        """Follow a cluster; return the bindings to which it means something."""
        claims = self._indexes.claims
        if delta.old is None or delta.new is None or looks(delta.old) != looks(delta.new):
            self._indexes.unrest.follow(delta)
        namespaces = self._indexes.bound.cluster_changed(delta)
        claimants = self._indexes.meant.cluster_changed(delta)
        if delta.initial:
            return ()
        concerned = [key for each in claimants for key in claims.of(each)]
        if _weighs(delta.old) != _weighs(delta.new):
            concerned += claims.placed()
        return dict.fromkeys((*concerned, *claims.within(namespaces)))

    def set_changed(self, delta: Delta[ManagedClusterSet]) -> Iterable[Key]:
        """Follow a cluster set; return the bindings of the namespaces that may use it."""
        self._indexes.unrest.follow(delta)
        namespaces = self._indexes.bound.set_changed(delta)
        return () if delta.initial else self._indexes.claims.within(namespaces)

    def set_binding_changed(self, delta: Delta[ManagedClusterSetBinding]) -> Iterable[Key]:
        """Follow the binding of a cluster set; return the bindings of its namespace."""
        self._indexes.unrest.follow(delta)
        namespaces = self._indexes.bound.binding_changed(delta)
        return () if delta.initial else self._indexes.claims.within(namespaces)

    def placement_changed(self, delta: Delta[Placement]) -> Iterable[Key]:
        """Follow a placement; return the bindings that follow it."""
        if delta.old is None or delta.new is None or delta.old.metadata.generation != delta.new.metadata.generation:
            self._indexes.unrest.follow(delta)
        self._indexes.decided.placement_changed(delta)
        return () if delta.initial else self._placed_by((key_of(delta.object),))

    def decision_changed(self, delta: Delta[PlacementDecision]) -> Iterable[Key]:
        """Follow a decision; return the bindings that follow its placement."""
        placements = self._indexes.decided.decision_changed(delta)
        return () if delta.initial else self._placed_by(placements)

    def _placed_by(self, placements: Iterable[Key]) -> list[Key]:
        keys = [key for each in placements for key in self._indexes.claims.placed_by(each)]
        for key in keys:
            self._reader.changed(key)  # another answer may help
        return keys

    def _find(self, key: Key) -> PropagationView | None:
        """Return a template with its binding and the policy that claims it."""
        found = self._caches.templates.find(key)
        if found is None or key in self._caches.bindings.unreadable:
            return None
        kind, template = found
        binding = self._caches.bindings.get(key)
        policies: list[Policy] = [*self._caches.policies.values(key.namespace), *self._caches.cluster_policies.values()]
        return PropagationView(kind, template, binding, claiming(template, policies, holder_of(binding)))

    def _observe(self, key: Key, now: datetime) -> PropagationView | None:
        """Return all that is known of a template."""
        found = self._find(key)
        if found is None or found.policy is None:
            return found
        if found.binding is not None and not _is_ours(found):
            return replace(found, told=self._foreign.get(key) == _versions(found.policy, found.binding))
        if mistakes(found.policy):  # the plan tells
            return found
        having = frozenset(each.name for each in found.binding.spec.clusters) if found.binding else frozenset[str]()
        if placement_of(found.policy):
            return replace(found, chosen=self._followed(key, found.policy, having, now, asks=found.binding is not None))
        return replace(found, chosen=self._chosen(key, found.policy, having, now))

    def _chosen(self, key: Key, policy: Policy, having: frozenset[str], now: datetime) -> Chosen:
        """Return the clusters that a policy's own affinity means."""
        meant = self._indexes.meant.of(policy)
        listed = frozenset(each.metadata.name for each in meant)
        standing = self._standing(key.namespace if policy.metadata.namespace else "", listed, having, now)
        affinity = policy.spec.placement.cluster_affinity
        named = affinity.cluster_names if affinity is not None else []
        missing = [name for name in named if self._caches.clusters.get(Key("", name)) is None]
        return choose(meant, tolerations_of(policy), standing, now, named=frozenset(named), missing=missing)

    def _followed(self, key: Key, policy: Policy, having: frozenset[str], now: datetime, *, asks: bool) -> Chosen:
        """Return the clusters that a placement has decided on; with `asks` the server may be asked about them."""
        name = placement_of(policy)
        decided = self._indexes.decided
        known = decided.known(Key(key.namespace, name))
        view = decided.view(Key(key.namespace, name), known, now)
        if view is None:
            return Chosen(doubt="PlacementMissing", why=f"there is no placement {name} in the namespace")
        if view.error:
            return Chosen(doubt="DecisionsUnreadable", why=f"decisions of placement {name}: {view.error}")
        torn = may_be_torn(known, self._reader.answer(key), now)
        if torn or not view.settled:
            error = self._reader.error(key)
            why = f"decisions of placement {name} are not settled" + (f": {error}" if error else "")
            read = read_request({name: known}, [name], stale=False) if torn and view.settled and asks else None
            doubt = "DecisionsUnknown" if error else UNSETTLED
            return Chosen(doubt=doubt, why=why, again=believed_after(known, now), read=read)
        listed = view.groups.clusters
        found = ((each, self._caches.clusters.get(Key("", each))) for each in listed | having)
        there = {each: cluster for each, cluster in found if cluster is not None}
        standing = self._standing(key.namespace, listed, having, now)
        chosen = follow(listed, there, standing, now)
        return replace(chosen, none_meant=view.selects_none, restless=self._indexes.unrest.left(now))

    def _standing(self, namespace: str, listed: frozenset[str], having: frozenset[str], now: datetime) -> Standing:
        """Return what is known of clusters; a namespace is empty where no set has to be bound to it."""
        bound = self._indexes.bound
        strange = bound.unbound(namespace, listed, having) if namespace else frozenset[str]()
        return Standing(having, strange, bound.spared(having, self._settings.removal_grace, now))


def _is_ours(found: PropagationView) -> bool:
    return found.binding is not None and is_made_here(found.binding)


def _versions(policy: Policy, binding: ResourceBinding) -> object:
    return policy.metadata.uid, policy.metadata.generation, binding.metadata.uid


def _weighs(cluster: ManagedCluster | None) -> tuple[object, ...] | None:
    """Return what counts of a cluster that a placement has decided on: whether works go there, and its weight."""
    if cluster is None or not can_have_works(cluster):
        return None
    return cluster.metadata.labels, cluster.status.cluster_claims


def _is_asked_for(delta: Delta[ResourceBinding]) -> bool:
    """Whether something else is wanted of a binding, or somebody else wrote what we say of it."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    said = [[find_condition(each.status.conditions, kind) for kind in (SCHEDULED, IGNORED)] for each in (old, new)]
    return intent_of(old.metadata) != intent_of(new.metadata) or said[0] != said[1]
