"""Cluster sets and their bindings: says which sets are empty, and which bindings lead nowhere.

Two sets exist on every hub, `default` and `global`. They are made if they are missing, and what they select is set
right if somebody changed it, unless the set says that this is not wanted. An accepted cluster that is in no set joins
`default`, so that whoever binds it gets every cluster that nobody has put elsewhere.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import (
    GROUP,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    SET_LABEL,
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
)
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import Condition, LabelSelector
from echelon.controllers.cluster.patches import patch_of
from echelon.controllers.context import ControllerContext
from echelon.engine.conditions import condition_stamp, conditions_to_wire, set_condition
from echelon.engine.placement.fleet import FleetIndex
from echelon.engine.placement.sets import ClusterSets
from echelon.engine.plan import NOTHING, Action, Create, Patch, Plan, Together
from echelon.kube.cache import key_of
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING)
AUTOUPDATE_ANNOTATION = f"{GROUP}/autoupdate"
DEFAULT = "default"
EMPTY, BOUND = "ClusterSetEmpty", "Bound"

_GIVEN = {
    DEFAULT: ManagedClusterSelector(),
    "global": ManagedClusterSelector(selector_type="LabelSelector", label_selector=LabelSelector()),
}
# What must be written over any other selector in order to get these.
_GIVEN_WIRE: dict[str, JSONObject] = {
    DEFAULT: {"selectorType": "ExclusiveClusterSetLabel", "labelSelector": None},
    "global": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": None, "matchExpressions": None}},
}


class ClusterSetReconciler:
    """Plans sets, whose keys have no namespace, and bindings, whose keys have one."""

    def __init__(
        self,
        clusters: Informer[ManagedCluster],
        sets: Informer[ManagedClusterSet],
        bindings: Informer[ManagedClusterSetBinding],
    ) -> None:
        self._clusters = clusters
        self._sets = sets
        self._bindings = bindings
        self._fleet = FleetIndex()
        self._known = ClusterSets()

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one set or binding."""
        return self._plan_binding(key, now) if key.namespace else self._plan_set(key, now)

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> list[Key]:
        """Follow a cluster; return the sets that it joined or left."""
        new = delta.new
        change = self._fleet.update(new) if new else self._fleet.remove(delta.object.metadata.name)
        names = (found.metadata.name for found in self._sets.values())
        known = ((name, self._known.get(name)) for name in names)
        concerned = [Key("", name) for name, found in known if found is not None and found.moved(change)]
        return [*concerned, Key("", DEFAULT)] if new and _joins_default(new) else concerned

    def set_changed(self, delta: Delta[ManagedClusterSet]) -> list[Key]:
        """Follow a set; return the bindings that lead to it if it came or went."""
        name = delta.object.metadata.name
        if delta.new is None:
            self._known.remove(name)
        else:
            self._known.update(delta.new)
        if delta.old is not None and delta.new is not None:
            return []
        return [key_of(binding) for binding in self._bindings.values() if binding.spec.cluster_set == name]

    def verify(self) -> Iterator[str | None]:
        """Tell what is known otherwise than from the caches, and make it again then; None where one may pause."""
        wrong = False
        names = [cluster.metadata.name for cluster in self._clusters.values()]
        clusters = self._fleet.differences(names, lambda name: self._clusters.get(Key("", name)))
        for difference in chain(self._known.differences(self._sets.values(), ()), clusters):
            wrong = wrong or difference is not None
            yield difference
        if wrong:
            self._fleet, self._known = FleetIndex(), ClusterSets()
            for cluster in self._clusters.values():
                self._fleet.update(cluster)
            for found in self._sets.values():
                self._known.update(found)

    def _plan_set(self, key: Key, now: datetime) -> Plan:
        found = self._sets.get(key)
        if found is None:
            return Plan((_new_set(key.name),)) if key.name in _GIVEN else NOTHING
        if found.metadata.deletion_timestamp:
            return NOTHING
        actions: tuple[Action, ...] = ()
        if _is_astray(found):
            actions = (patch_of(found, {"spec": {"clusterSelector": _GIVEN_WIRE[key.name]}}),)
        if key.name == DEFAULT and (joining := self._joining()):
            actions += (Together(joining),)
        said = self._emptiness(found, now)
        conditions = set_condition(found.status.conditions, said) if said else found.status.conditions
        if conditions == found.status.conditions:
            return Plan(actions)
        return Plan(actions, patch_of(found, {"status": {"conditions": conditions_to_wire(conditions)}}, "status"))

    def _joining(self) -> tuple[Patch, ...]:
        """Return the writes that let accepted clusters without a set join the default one."""
        fleet = self._fleet
        without = fleet.live - fleet.labels.having(SET_LABEL) | fleet.live & fleet.labels.equal(SET_LABEL, "")
        joined: JSONObject = {"metadata": {"labels": {SET_LABEL: DEFAULT}}}
        found = (cluster.source for cluster in map(fleet.get, without) if cluster is not None)
        return tuple(patch_of(cluster, joined) for cluster in found if _joins_default(cluster))

    def _emptiness(self, found: ManagedClusterSet, now: datetime) -> Condition | None:
        """Say whether a set has members; of one that nobody understands nothing can be said."""
        known = self._known.get(found.metadata.name)
        if known is None:
            return None
        count = len(known.members(self._fleet))
        stamp = condition_stamp(found.metadata.generation, now)
        if not count:
            return stamp.condition(EMPTY, "True", "NoClusterMatched", "No ManagedCluster selected")
        return stamp.condition(EMPTY, "False", "ClustersSelected", f"{count} ManagedClusters selected")

    def _plan_binding(self, key: Key, now: datetime) -> Plan:
        binding = self._bindings.get(key)
        if binding is None or binding.metadata.deletion_timestamp:
            return NOTHING
        name = Key("", binding.spec.cluster_set)
        meta, exists = binding.metadata, self._sets.get(name) is not None or name in self._sets.unreadable
        reason = "ClusterSetBound" if exists else "ClusterSetNotFound"
        said = condition_stamp(meta.generation, now).condition(BOUND, exists, reason)
        conditions = set_condition(binding.status.conditions, said)
        if conditions == binding.status.conditions:
            return NOTHING
        body = {"status": {"conditions": conditions_to_wire(conditions)}}
        return Plan(status=Patch.of(MANAGED_CLUSTER_SET_BINDING, meta, body, "status"))


def cluster_sets_controller(context: ControllerContext) -> Controller:
    """Return a controller of sets and bindings."""
    clusters, sets = context.informer(MANAGED_CLUSTER), context.informer(MANAGED_CLUSTER_SET)
    bindings = context.informer(MANAGED_CLUSTER_SET_BINDING)
    reconciler = ClusterSetReconciler(clusters, sets, bindings)
    controller = context.controller("cluster-sets", reconciler, verify=reconciler.verify)
    controller.watch(sets)
    controller.watch(bindings)
    controller.follow(sets, reconciler.set_changed)
    controller.follow(clusters, reconciler.cluster_changed)
    for name in _GIVEN:
        controller.queue.add(Key("", name))
    return controller


def _is_astray(found: ManagedClusterSet) -> bool:
    """Whether a set that every hub has selects something else than it should."""
    wanted = _GIVEN.get(found.metadata.name)
    if wanted is None or found.metadata.annotations.get(AUTOUPDATE_ANNOTATION) == "false":
        return False
    has = found.spec.cluster_selector
    return has.selector_type != wanted.selector_type or has.label_selector != wanted.label_selector


def _joins_default(cluster: ManagedCluster) -> bool:
    """Whether a cluster was let in and is in no set."""
    meta = cluster.metadata
    return cluster.spec.hub_accepts_client and not meta.deletion_timestamp and not meta.labels.get(SET_LABEL)


def _new_set(name: str) -> Create:
    selector = {"selectorType": _GIVEN[name].selector_type}
    body: JSONObject = {
        **MANAGED_CLUSTER_SET.type_meta,
        "metadata": {"name": name},
        "spec": {"clusterSelector": selector | ({"labelSelector": {}} if _GIVEN[name].label_selector else {})},
    }
    return Create(MANAGED_CLUSTER_SET, body)
