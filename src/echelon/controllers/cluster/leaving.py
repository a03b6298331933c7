"""The way of a cluster out of the fleet.

What runs on a cluster can be removed by its agent only, and the agent needs its rights for that. So a deleted cluster
stays until its works are gone, those of federated workloads too; then go the namespaces that were made for it, and the
agent's rights are the last. If the agent is gone for good, a person has to say so: nobody else can tell that from an
outage.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from echelon.api.cluster import GROUP, ManagedCluster
from echelon.api.karmada import WORK, Work
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE, Namespace
from echelon.api.versions import newer
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.controllers.cluster.patches import condition_patch, patch_of
from echelon.engine.conditions import condition_stamp, find_condition
from echelon.engine.plan import NOTHING, Delete, Patch, Plan, Together, Write
from echelon.engine.workload.names import cluster_of
from echelon.kube.client import Client, DeleteOptions
from echelon.kube.errors import Conflict

T = TypeVar("T")

FINALIZER = f"{GROUP}/resource-cleanup"
CLUSTER_LABEL = f"{GROUP}/managedCluster"
DELETING = "Deleting"
_MOST_NAMES = 5
_SOON = timedelta(seconds=1)


@dataclass(frozen=True)
class Remaining:
    """What there still is of a cluster that leaves. `permissions` are in the order in which they are deleted.

    `caches_are_behind` what is known of the cluster: what is missing here may be there.
    """

    works: Sequence[ManifestWork | Work]
    namespaces: Sequence[Namespace]
    permissions: Sequence[Delete]
    caches_are_behind: bool


def is_leaving(cluster: ManagedCluster) -> bool:
    """Whether a cluster is on its way out: it gets no new works."""
    return bool(cluster.metadata.deletion_timestamp)


def has_finalizer(cluster: ManagedCluster) -> bool:
    """Whether a cluster would wait for its cleanup, if it were deleted now."""
    return FINALIZER in cluster.metadata.finalizers


def add_finalizer(cluster: ManagedCluster) -> Patch:
    """Return what makes a cluster wait for its cleanup. It fails if the cluster is not as it was seen."""
    return _finalizers_patch(cluster, list(dict.fromkeys([*cluster.metadata.finalizers, FINALIZER])))


def is_namespace_of(cluster: ManagedCluster, namespace: Namespace) -> bool:
    """Whether a namespace goes with a cluster: it has our label and was not there before."""
    ours = namespace.metadata.labels.get(CLUSTER_LABEL) == cluster.metadata.name
    return ours and (namespace.metadata.creation_timestamp or "") >= (cluster.metadata.creation_timestamp or "")


def plan_leaving(cluster: ManagedCluster, remaining: Remaining, now: datetime) -> Plan:
    """Plan the next step of a cluster on its way out."""
    if not has_finalizer(cluster):
        return NOTHING
    if remaining.works:
        deletes = [_deletion(each) for each in remaining.works if not each.metadata.deletion_timestamp]
        status = _deleting(cluster, _works_message(cluster, remaining.works), now)
        # The status first: if it is newer than the end of the last work, the cache of works has to catch up with it.
        writes: tuple[Write, ...] = (*([status] if status is not None else []), *deletes)
        return Plan((Together(writes),) if writes else ())
    if namespaces := [each for each in remaining.namespaces if is_namespace_of(cluster, each)]:
        metas = [each.metadata for each in namespaces if not each.metadata.deletion_timestamp]
        ends = tuple(Delete(NAMESPACE, meta.name, uid=meta.uid) for meta in metas)
        return Plan(ends, _deleting(cluster, " ".join(map(_namespace_message, namespaces)), now))
    if remaining.caches_are_behind:
        return Plan(look_again_after=_SOON)
    if remaining.permissions:
        return Plan(tuple(remaining.permissions))
    return Plan((_finalizers_patch(cluster, [each for each in cluster.metadata.finalizers if each != FINALIZER]),))


class NamespaceGuard:
    """A writer that deletes no namespace with works in it, whatever a cache knew.

    A work that was written a moment before its cluster was deleted may not be in the cache yet. Its agent would lose
    its rights with the namespace, and the work would wait for it for ever. So the server is asked; an answer that is
    older than what is known of the cluster (`version_of`) does not count. A namespace holds works of one kind.
    """

    def __init__(self, client: Client, version_of: Callable[[str], str]) -> None:
        self._client = client
        self._version_of = version_of
        self.create, self.patch = client.create, client.patch

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        """Ask for the end of an object. Raises `Conflict` for a namespace that has works."""
        if kind is NAMESPACE:
            executing = cluster_of(name)
            works: Kind[Any] = MANIFEST_WORK if executing is None else WORK
            page = await self._client.list(works, name, limit=1)
            if page.items or newer(self._version_of(executing or name), page.resource_version):
                raise Conflict(f"namespace {name} has works, or may have some")
        await self._client.delete(kind, name, namespace, options=options)


def _deletion(work: ManifestWork | Work) -> Delete:
    kind: Kind[Any] = WORK if isinstance(work, Work) else MANIFEST_WORK
    return Delete(kind, work.metadata.name, work.metadata.namespace, work.metadata.uid)


def _works_message(cluster: ManagedCluster, works: Sequence[ManifestWork | Work]) -> str:
    names = sorted(each.metadata.name for each in works)
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    count = "1 work" if len(names) == 1 else f"{len(names)} works"
    hint = f"if it is gone for good: echelon cluster detach {cluster.metadata.name} --force"
    return f"The agent has to remove {count} ({shown}) from the cluster; {hint}"


def _namespace_message(namespace: Namespace) -> str:
    why = [each.message for each in namespace.status.conditions if each.status == "True" and each.message]
    return " ".join([f"Namespace {namespace.metadata.name} is being removed.", *why])


def _finalizers_patch(cluster: ManagedCluster, finalizers: Sequence[str]) -> Patch:
    return patch_of(cluster, {"metadata": {"finalizers": list(finalizers) or None}})


def _deleting(cluster: ManagedCluster, message: str, now: datetime) -> Patch | None:
    """Return what says why a cluster is still there; nothing if that has been said."""
    generation = cluster.metadata.generation
    known = find_condition(cluster.status.conditions, DELETING)
    if known is not None and (known.message, known.observed_generation) == (message, generation):
        return None
    stamp = condition_stamp(generation, now)
    return condition_patch(cluster, stamp.condition(DELETING, "False", "ResourceRemaining", message))
