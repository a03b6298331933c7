"""Lets accepted clusters in: a namespace for each, and rights in it for its agent, and nowhere else.

An agent runs where the hub's administrators have no say, so its credentials must be worth as little as possible to
whoever steals them: the works, the policies, the lease and the events of its own namespace, and the status of its own
cluster. It cannot read secrets, not even there, it cannot change what policies say, and it cannot change its cluster's
labels or taints, which decide what it is trusted with. When the acceptance is taken back, so are the rights; the
namespace and its works stay.

A cluster that is deleted leaves in an order of its own, for which it is given a finalizer. Its rights are not owned by
it: whoever deletes it together with what it owns would revoke them before they have served their purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, ManagedCluster
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import GROUP as POLICY
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.api.rbac import GROUP as RBAC
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.versions import newer
from echelon.api.work import GROUP as WORK
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.controllers.cluster.leaving import (
    CLUSTER_LABEL,
    NamespaceGuard,
    Remaining,
    add_finalizer,
    has_finalizer,
    is_leaving,
    plan_leaving,
)
from echelon.controllers.cluster.patches import condition_patch
from echelon.controllers.context import ControllerContext
from echelon.engine.cluster_health import LEASE_NAME
from echelon.engine.conditions import condition_stamp, find_condition
from echelon.engine.plan import NOTHING, Action, Apply, Delete, Patch, Plan
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, MANIFEST_WORK)
NAME = "cluster-registration"
ACCEPTED = "HubAcceptedManagedCluster"
ACCOUNT = "echelon-agent"
WORKERS = 8
# A server tells at least every minute how far a cache has come.
_UNCERTAIN = timedelta(seconds=60)

_MADE: tuple[Kind[Any], ...] = (NAMESPACE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
# The bindings first: a role that nobody has is harmless.
_PERMISSIONS: tuple[Kind[Any], ...] = (CLUSTER_ROLE_BINDING, ROLE_BINDING, CLUSTER_ROLE, ROLE)
# Of what we made, the fields that have to stay as we made them.
_OWNED_FIELDS = {
    ROLE.resource: "rules",
    CLUSTER_ROLE.resource: "rules",
    ROLE_BINDING.resource: "subjects",
    CLUSTER_ROLE_BINDING.resource: "subjects",
}


def agent_group(cluster: str) -> str:
    """Return the group that agents of a cluster are in."""
    return f"system:open-cluster-management:{cluster}"


@dataclass(frozen=True)
class _DesiredObject:
    kind: Kind[Any]
    name: str
    namespace: str
    body: JSONObject


class RegistrationReconciler:
    """Plans the namespace and the rights of one cluster."""

    def __init__(
        self, clusters: Informer[ManagedCluster], works: Informer[ManifestWork], made: dict[str, Informer[Any]]
    ) -> None:
        self._clusters = clusters
        self._works = works
        self._made = made

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one cluster."""
        cluster = self._clusters.get(key)
        if cluster is None:
            return self._plan_without(key.name)
        if is_leaving(cluster):
            return plan_leaving(cluster, self._remaining(cluster), now)
        if cluster.spec.hub_accepts_client:
            missing = [each for each in _desired_objects(key.name) if not self._is_as_desired(each)]
            # What is made without asking would outlive a cluster that has left meanwhile.
            first: list[Action] = [add_finalizer(cluster)] if missing or not has_finalizer(cluster) else []
            actions = (Apply(each.kind, each.name, each.body, each.namespace) for each in missing)
            return Plan((*first, *actions), _accepted(cluster, now, accepted=True), status_waits=True)
        if find_condition(cluster.status.conditions, ACCEPTED) is None:
            return NOTHING  # nobody has decided yet
        deletions = self._deletions(key.name, _PERMISSIONS)
        return Plan(deletions, _accepted(cluster, now, accepted=False), status_waits=True)

    def is_leaving(self, name: str) -> bool:
        """Whether a cluster is on its way out."""
        cluster = self._clusters.get(Key("", name))
        return cluster is not None and is_leaving(cluster)

    def _plan_without(self, name: str) -> Plan:
        """Plan the end of rights whose cluster is gone: somebody took its finalizer away.

        Rights are made after their cluster. If they are newer than all that is known of clusters, it may yet come.
        """
        known = self._clusters.reached
        found = self._deletions(name, _PERMISSIONS)
        old = tuple(each for each in found if not newer(self._version(each), known))
        return Plan(old, look_again_after=None if len(old) == len(found) else _UNCERTAIN)

    def _version(self, delete: Delete) -> str:
        live = self._made[delete.kind.resource].get(Key(delete.namespace, delete.name))
        return str(live.metadata.resource_version) if live is not None else ""

    def version_of(self, name: str) -> str:
        """Return the newest version of a cluster that is known."""
        cluster = self._clusters.get(Key("", name))
        return cluster.metadata.resource_version if cluster is not None else ""

    def _remaining(self, cluster: ManagedCluster) -> Remaining:
        name, version = cluster.metadata.name, cluster.metadata.resource_version
        spaces = self._made[NAMESPACE.resource]
        namespace = spaces.get(Key("", name))
        # A namespace that goes is asked for its works when it does; one that stays is not.
        behind = newer(version, (spaces if namespace is None else self._works).reached)
        permissions = self._deletions(name, (*_PERMISSIONS, SERVICE_ACCOUNT))
        return Remaining(self._works.values(name), namespace, permissions, behind)

    def _deletions(self, name: str, kinds: Sequence[Kind[Any]]) -> tuple[Delete, ...]:
        """Return what takes away what a cluster has of some kinds, in their order."""
        found = sorted(
            (each for each in _desired_objects(name) if each.kind in kinds), key=lambda each: kinds.index(each.kind)
        )
        return tuple(
            Delete(each.kind, each.name, each.namespace)
            for each in found
            if self._made[each.kind.resource].get(Key(each.namespace, each.name)) is not None
        )

    def _is_as_desired(self, desired: _DesiredObject) -> bool:
        """Whether an object is as it should be."""
        live = self._made[desired.kind.resource].get(Key(desired.namespace, desired.name))
        if live is None:
            return False
        field = _OWNED_FIELDS.get(desired.kind.resource)
        if field is None:
            return True
        ours = msgspec.convert(desired.body, desired.kind.type)
        return not live.metadata.owner_references and bool(getattr(live, field) == getattr(ours, field))


def cluster_registration_controller(context: ControllerContext) -> Controller:
    """Return a controller that lets clusters in."""
    clusters, works = context.informer(MANAGED_CLUSTER), context.informer(MANIFEST_WORK)
    made: dict[str, Informer[Any]] = {kind.resource: context.informer(kind, labels=CLUSTER_LABEL) for kind in _MADE}
    reconciler = RegistrationReconciler(clusters, works, made)
    writer = NamespaceGuard(context.client, reconciler.version_of)
    controller = context.controller(NAME, reconciler, client=writer, workers=WORKERS)
    controller.watch(clusters, when=_is_relevant)
    controller.watch(
        works,
        keys=lambda work: (Key("", work.metadata.namespace),),
        when=lambda delta: reconciler.is_leaving(delta.object.metadata.namespace),
    )
    for informer in made.values():
        controller.watch(informer, keys=lambda obj: (Key("", obj.metadata.labels.get(CLUSTER_LABEL, "")),))
    return controller


def _is_relevant(delta: Delta[ManagedCluster]) -> bool:
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    # A generation covers more than the acceptance, and what was said has to be said of the present one: kubectl wait
    # does not believe a condition that is about an older spec.
    if (old.metadata.deletion_timestamp, old.metadata.finalizers) != (
        new.metadata.deletion_timestamp,
        new.metadata.finalizers,
    ):
        return True
    return old.metadata.generation != new.metadata.generation or old.status.conditions != new.status.conditions


def _desired_objects(name: str) -> list[_DesiredObject]:
    """Return everything that an accepted cluster has, in the order in which it is made."""
    everywhere, inside = f"open-cluster-management:managedcluster:{name}", f"open-cluster-management:{name}:agent"
    return [
        _object(name, NAMESPACE, name, "", {}),
        _object(name, SERVICE_ACCOUNT, ACCOUNT, name, {}),
        _object(name, ROLE, inside, name, {"rules": _rules_inside()}),
        _object(name, ROLE_BINDING, inside, name, _grant("Role", inside, name)),
        _object(name, CLUSTER_ROLE, everywhere, "", {"rules": _rules_everywhere(name)}),
        _object(name, CLUSTER_ROLE_BINDING, everywhere, "", _grant("ClusterRole", everywhere, name)),
    ]


def _object(cluster: str, kind: Kind[Any], name: str, namespace: str, content: JSONObject) -> _DesiredObject:
    metadata: JSONObject = {"name": name, "labels": {CLUSTER_LABEL: cluster}}
    if namespace:
        metadata["namespace"] = namespace
    return _DesiredObject(kind, name, namespace, {**kind.type_meta, "metadata": metadata, **content})


def _rules_inside() -> list[JSONObject]:
    return [
        _rule(WORK, ["manifestworks"], ["get", "list", "watch", "update", "patch"]),
        _rule(WORK, ["manifestworks/status"], ["get", "update", "patch"]),
        _rule(POLICY, ["policies"], ["get", "list", "watch"]),
        _rule(POLICY, ["policies/status"], ["patch"]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update", "patch"], LEASE_NAME),
        _rule("", ["events"], ["create", "get", "update", "patch"]),
        _rule("events.k8s.io", ["events"], ["create", "get", "update", "patch"]),
    ]


def _rules_everywhere(cluster: str) -> list[JSONObject]:
    return [
        _rule(GROUP, ["managedclusters"], ["get", "list", "watch"], cluster),
        _rule(GROUP, ["managedclusters/status"], ["get", "update", "patch"], cluster),
    ]


def _rule(group: str, resources: list[str], verbs: list[str], name: str = "") -> JSONObject:
    rule: JSONObject = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**rule, "resourceNames": [name]} if name else rule


def _grant(kind: str, role: str, cluster: str) -> JSONObject:
    return {
        "subjects": [
            {"kind": "Group", "apiGroup": RBAC, "name": agent_group(cluster)},
            {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": cluster},
        ],
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
    }


def _accepted(cluster: ManagedCluster, now: datetime, *, accepted: bool) -> Patch | None:
    """Return what says whether the cluster was accepted; nothing if that has been said."""
    generation = cluster.metadata.generation
    decision, status = ("Accepted", "True") if accepted else ("Denied", "False")
    known = find_condition(cluster.status.conditions, ACCEPTED)
    if known is not None and (known.status, known.observed_generation) == (status, generation):
        return None
    said = f"{decision} by hub cluster admin"
    stamp = condition_stamp(generation, now)
    return condition_patch(cluster, stamp.condition(ACCEPTED, status, f"HubClusterAdmin{decision}", said))
