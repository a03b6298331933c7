"""Lets accepted clusters in: a namespace for each, and rights in it for its agent, and nowhere else.

An agent runs where the hub's administrators have no say, so its credentials must be worth as little as possible to
whoever steals them: the works, the policies, the lease and the events of its own namespace, and the status of its own
cluster. It cannot read secrets, not even there, it cannot change what policies say, and it cannot change its cluster's
labels or taints, which decide what it is trusted with. When the acceptance is taken back, so are the rights; the
namespace and its works stay.

Where the hub has federated workloads there is a second namespace, as Karmada has it, for what they bring to the
cluster, and rights in it, which are even fewer. Its name is longer than that of the cluster, so a cluster with a long
name has none, and says so.

A cluster that is deleted leaves in an order of its own, for which it is given a finalizer. Its rights are not owned by
it: whoever deletes it together with what it owns would revoke them before they have served their purpose.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.karmada import WORK as EXECUTION_WORK
from echelon.api.karmada import Work
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE, Namespace
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING, ClusterRole
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.versions import newer
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.controllers.cluster.belongings import (
    ROLE_LABEL,
    DesiredObject,
    desired_for_workloads,
    desired_objects,
    fixed_roles,
)
from echelon.controllers.cluster.cluster_namespaces import (
    EXECUTION_READY,
    NAMESPACE_READY,
    is_barred,
    namespace_conditions,
    strange_namespaces,
)
from echelon.controllers.cluster.leaving import (
    CLUSTER_LABEL,
    NamespaceGuard,
    Remaining,
    add_finalizer,
    has_finalizer,
    is_leaving,
    plan_leaving,
)
from echelon.controllers.cluster.patches import patch_of
from echelon.controllers.cluster.refused_writes import RefusedWrites
from echelon.controllers.context import ControllerContext
from echelon.engine.conditions import condition_stamp, conditions_to_wire, find_condition, set_condition
from echelon.engine.plan import NOTHING, Action, Apply, Create, Delete, Patch, Plan, Write
from echelon.engine.workload.names import LONGEST_CLUSTER_NAME, cluster_of, execution_namespace
from echelon.kube.act import Written
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, MANIFEST_WORK)
OPTIONAL_KINDS: tuple[Kind[Any], ...] = (EXECUTION_WORK,)
NAME = "cluster-registration"
ACCEPTED = "HubAcceptedManagedCluster"
WORKERS = 8
# A server tells at least every minute how far a cache has come.
_UNCERTAIN = timedelta(seconds=60)

_MADE: tuple[Kind[Any], ...] = (SERVICE_ACCOUNT, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
# The bindings first: a role that nobody has is harmless.
_PERMISSIONS: tuple[Kind[Any], ...] = (CLUSTER_ROLE_BINDING, ROLE_BINDING, CLUSTER_ROLE)
# Of what we made, the fields that have to stay as we made them.
_OWNED_FIELDS = {
    CLUSTER_ROLE.resource: ("rules",),
    ROLE_BINDING.resource: ("role_ref", "subjects"),
    CLUSTER_ROLE_BINDING.resource: ("role_ref", "subjects"),
}


class RegistrationReconciler:
    """Plans the namespace and the rights of one cluster."""

    def __init__(
        self,
        clusters: Informer[ManagedCluster],
        works: Informer[ManifestWork],
        made: dict[str, Informer[Any]],
        roles: Informer[ClusterRole],
        workload_works: Informer[Work] | None,
        *,
        refused: RefusedWrites,
    ) -> None:
        """`roles`: those of all agents; `workload_works`: those of federated workloads, where the hub has them."""
        self._clusters = clusters
        self._works = works
        self._made = made
        self._roles = roles
        self._workload_works = workload_works
        self._refused = refused

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one cluster."""
        cluster = self._clusters.get(key)
        if cluster is None:
            return self._plan_without(key.name)
        if is_leaving(cluster):
            return plan_leaving(cluster, self._remaining(cluster), now)
        if cluster.spec.hub_accepts_client:
            strange = self._strange_namespaces(key.name)
            desired = [each for each in self._desired_objects(key.name) if not is_barred(each, strange, key.name)]
            missing = [each for each in desired if not self._is_as_desired(each)]
            # What is made without asking would outlive a cluster that has left meanwhile.
            first: list[Action] = [add_finalizer(cluster)] if missing or not has_finalizer(cluster) else []
            actions = [action for each in (*self._missing_roles(), *missing) for action in self._made_right(each)]
            revoked = self._deletions(key.name, _PERMISSIONS, keep=desired)
            wanted = (*revoked, *first, *actions)
            refused = self._refused.among(key, wanted)
            said = self._said(cluster, now, accepted=True, strange=strange, refused=refused)
            return Plan(wanted, said, status_waits=not refused)
        # Rights go whatever the status says: the agent may write that.
        deletions = self._deletions(key.name, _PERMISSIONS)
        if not deletions and find_condition(cluster.status.conditions, ACCEPTED) is None:
            return NOTHING  # nobody has decided yet
        refused = self._refused.among(key, deletions)
        return Plan(deletions, self._said(cluster, now, accepted=False, refused=refused), status_waits=not refused)

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
        found: list[Namespace] = []
        works: list[ManifestWork | Work] = []
        behind = False
        for where, informer in self._works_by_namespace(name).items():
            namespace = spaces.get(Key("", where))
            # A namespace that goes is asked for its works when it does; one that stays is not.
            behind = behind or newer(version, (spaces if namespace is None else informer).reached)
            works += informer.values(where)
            found += [namespace] if namespace is not None else []
        return Remaining(works, found, self._deletions(name, (*_PERMISSIONS, SERVICE_ACCOUNT)), behind)

    def _works_by_namespace(self, name: str) -> dict[str, Informer[Any]]:
        """Return where works of a cluster are, and who knows them."""
        found: dict[str, Informer[Any]] = {name: self._works}
        if self._has_workloads(name) and self._workload_works is not None:
            found[execution_namespace(name)] = self._workload_works
        return found

    def _has_workloads(self, name: str) -> bool:
        """Whether a cluster has a namespace for works of federated workloads."""
        return self._workload_works is not None and len(name) <= LONGEST_CLUSTER_NAME

    def _desired_objects(self, name: str) -> list[DesiredObject]:
        return [*desired_objects(name), *(desired_for_workloads(name) if self._has_workloads(name) else ())]

    def _missing_roles(self) -> list[DesiredObject]:
        """Return the roles of all agents that are not there. What they say there is for administrators to change."""
        return [each for each in fixed_roles() if self._roles.get(Key("", each.name)) is None]

    def _namespaces(self, name: str) -> dict[str, str]:
        """Return the namespaces of a cluster, by the conditions that tell of them."""
        found = {NAMESPACE_READY: name}
        return found | {EXECUTION_READY: execution_namespace(name)} if self._has_workloads(name) else found

    def _strange_namespaces(self, name: str) -> dict[str, str]:
        """Return the namespaces of a cluster in which its agent gets no rights, and why."""
        spaces = self._made[NAMESPACE.resource]
        return strange_namespaces(name, {each: spaces.get(Key("", each)) for each in self._namespaces(name).values()})

    def _said(
        self,
        cluster: ManagedCluster,
        now: datetime,
        *,
        accepted: bool,
        refused: str,
        strange: Mapping[str, str] | None = None,
    ) -> Patch | None:
        """Return what says whether the cluster was accepted, and what it has to do without.

        With a write `refused`, the words of the hub, it has not come to that: the status of the condition stays.
        """
        stamp, name = condition_stamp(cluster.metadata.generation, now), cluster.metadata.name
        decision, status = ("Accepted", "True") if accepted else ("Denied", "False")
        message = f"{decision} by hub cluster admin"
        said = [stamp.condition(ACCEPTED, status, f"HubClusterAdmin{decision}", message)]
        if refused:
            known = find_condition(cluster.status.conditions, ACCEPTED)
            reason = "RightsNotWritten" if accepted else "RightsNotRevoked"
            why = f"{message}, and the hub does not take what follows from it: {refused}"
            said = [stamp.condition(ACCEPTED, known.status if known is not None else "False", reason, why)]
        if strange is not None:
            said += namespace_conditions(stamp, cluster.status.conditions, self._namespaces(name).items(), strange)
        if self._workload_works is not None and not self._has_workloads(name):
            why = (
                f"Federated workloads cannot be sent to it: its name has {len(name)} characters, and at most "
                f"{LONGEST_CLUSTER_NAME} fit into the name of the namespace {execution_namespace('NAME')}"
            )
            said.append(stamp.condition(EXECUTION_READY, "False", "ClusterNameTooLong", why))
        return _said_patch(cluster, said)

    def _deletions(
        self, name: str, kinds: Sequence[Kind[Any]], keep: Sequence[DesiredObject] = ()
    ) -> tuple[Delete, ...]:
        """Return what takes away what a cluster has of some kinds, in their order."""
        found = sorted(
            (each for each in self._desired_objects(name) if each.kind in kinds and each not in keep),
            key=lambda each: kinds.index(each.kind),
        )
        return tuple(
            Delete(each.kind, each.name, each.namespace)
            for each in found
            if self._made[each.kind.resource].get(Key(each.namespace, each.name)) is not None
        )

    def _is_as_desired(self, desired: DesiredObject) -> bool:
        """Whether an object is as it should be."""
        live = self._made[desired.kind.resource].get(Key(desired.namespace, desired.name))
        if live is None:
            return False
        fields = _OWNED_FIELDS.get(desired.kind.resource)
        if fields is None:
            return True
        return not live.metadata.owner_references and not _different(live, desired, fields)

    def _made_right(self, desired: DesiredObject) -> Iterator[Write]:
        """Yield what makes an object as it should be; the role of a binding cannot be changed, so it is made anew."""
        live = self._made[desired.kind.resource].get(Key(desired.namespace, desired.name))
        if desired.kind is NAMESPACE:
            # One that is there already is somebody else's, whatever the cache knew: nothing is given there.
            yield Create(desired.kind, desired.body)
            return
        bound = (ROLE_BINDING.resource, CLUSTER_ROLE_BINDING.resource)
        if live is not None and desired.kind.resource in bound and _different(live, desired, ("role_ref",)):
            yield Delete(desired.kind, desired.name, desired.namespace, live.metadata.uid)
        yield Apply(desired.kind, desired.name, desired.body, desired.namespace)


def _different(live: Any, desired: DesiredObject, fields: Sequence[str]) -> bool:
    ours = msgspec.convert(desired.body, desired.kind.type)
    return any(getattr(live, field) != getattr(ours, field) for field in fields)


def cluster_registration_controller(context: ControllerContext) -> Controller:
    """Return a controller that lets clusters in."""
    clusters, works = context.informer(MANAGED_CLUSTER), context.informer(MANIFEST_WORK)
    made: dict[str, Informer[Any]] = {kind.resource: context.informer(kind, labels=CLUSTER_LABEL) for kind in _MADE}
    made[NAMESPACE.resource] = context.informer(NAMESPACE)  # also those that are not labelled: they are in the way
    roles = context.informer(CLUSTER_ROLE, labels=ROLE_LABEL)
    workload_works = context.informer(EXECUTION_WORK) if context.serves(EXECUTION_WORK) else None
    refused = RefusedWrites()
    reconciler = RegistrationReconciler(clusters, works, made, roles, workload_works, refused=refused)
    writer = NamespaceGuard(context.client, reconciler.version_of)

    def written(key: Key, made: Written) -> None:
        if refused.written(key, made):
            controller.queue.add(key)

    controller = context.controller(
        NAME, reconciler, client=writer, workers=WORKERS, on_written=written, on_failed=refused.failed
    )

    def cluster_changed(delta: Delta[ManagedCluster]) -> tuple[Key, ...]:
        if delta.new is None:
            refused.forget(Key("", delta.object.metadata.name))
        return ()

    controller.follow(clusters, cluster_changed)
    controller.watch(clusters, when=_is_relevant)
    controller.watch(
        works,
        keys=lambda work: (Key("", work.metadata.namespace),),
        when=lambda delta: reconciler.is_leaving(delta.object.metadata.namespace),
    )
    if workload_works is not None:
        controller.watch(
            workload_works,
            keys=lambda work: (Key("", cluster_of(work.metadata.namespace) or ""),),
            when=lambda delta: reconciler.is_leaving(cluster_of(delta.object.metadata.namespace) or ""),
        )
    for informer in made.values():
        controller.watch(informer, keys=_clusters_of)
    controller.watch(
        roles,
        keys=lambda _: [Key("", each.metadata.name) for each in clusters.values()],
        when=lambda delta: delta.new is None,
    )
    return controller


def _clusters_of(obj: Any) -> Iterator[Key]:
    """Yield the clusters to which an object means something: by its label, and a namespace also by its name."""
    meta = obj.metadata
    names = [meta.labels.get(CLUSTER_LABEL)]
    if isinstance(obj, Namespace):
        names += [meta.name, cluster_of(meta.name)]
    yield from (Key("", name) for name in dict.fromkeys(names) if name)


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


def _said_patch(cluster: ManagedCluster, said: Sequence[Condition]) -> Patch | None:
    """Return what sets conditions; nothing if all of that has been said."""
    conditions = cluster.status.conditions
    for condition in said:
        known = find_condition(conditions, condition.type)
        if known is None or (known.status, known.reason, known.observed_generation) != (
            condition.status,
            condition.reason,
            condition.observed_generation,
        ):
            conditions = set_condition(conditions, condition)
    if conditions is cluster.status.conditions:
        return None
    return patch_of(cluster, {"status": {"conditions": conditions_to_wire(conditions)}}, "status")
