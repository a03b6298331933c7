"""The way of a cluster out of the fleet.

What runs on a cluster can be removed by its agent only, and the agent needs its rights for that. So a deleted cluster
stays until its works are gone; then goes the namespace that was made for it, and the agent's rights are the last. If
the agent is gone for good, a person has to say so: nobody else can tell that from an outage.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from echelon.api.cluster import GROUP, MANAGED_CLUSTER, ManagedCluster
from echelon.api.core import NAMESPACE, Namespace
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.api.work import MANIFEST_WORK, ManifestWork
from echelon.engine.conditions import conditions_to_wire, find_condition, set_condition
from echelon.engine.plan import NOTHING, Delete, Patch, Plan, Together
from echelon.kube.cache import newer
from echelon.kube.client import Client, DeleteOptions
from echelon.kube.errors import Conflict

T = TypeVar("T")

FINALIZER = f"{GROUP}/resource-cleanup"
CLUSTER_LABEL = f"{GROUP}/managedCluster"
DELETING = "Deleting"
_NAMED = 5
_SOON = timedelta(seconds=1)


@dataclass(frozen=True)
class Left:
    """What there still is of a cluster that leaves. `rights` are in the order in which they go.

    `uncertain`: what is missing here may be there, because caches are behind what is known of the cluster.
    """

    works: Sequence[ManifestWork]
    namespace: Namespace | None
    rights: Sequence[Delete]
    uncertain: bool


def is_leaving(cluster: ManagedCluster) -> bool:
    """Whether a cluster is on its way out: it gets no new works."""
    return bool(cluster.metadata.deletion_timestamp)


def stays(cluster: ManagedCluster) -> bool:
    """Whether a cluster would wait for its end, if it were deleted now."""
    return FINALIZER in cluster.metadata.finalizers


def hold(cluster: ManagedCluster) -> Patch:
    """Return what makes a cluster wait for its end. It fails if the cluster is not as it was seen."""
    return _with_finalizers(cluster, list(dict.fromkeys([*cluster.metadata.finalizers, FINALIZER])))


def is_made_for(cluster: ManagedCluster, namespace: Namespace) -> bool:
    """Whether a namespace goes with a cluster: it has our label and was not there before."""
    ours = namespace.metadata.labels.get(CLUSTER_LABEL) == cluster.metadata.name
    return ours and (namespace.metadata.creation_timestamp or "") >= (cluster.metadata.creation_timestamp or "")


def leave(cluster: ManagedCluster, left: Left, now: datetime) -> Plan:
    """Plan the next step of a cluster on its way out."""
    if not stays(cluster):
        return NOTHING
    if left.works:
        going = [each.metadata for each in left.works if not each.metadata.deletion_timestamp]
        deletes = tuple(Delete(MANIFEST_WORK, each.name, each.namespace, each.uid) for each in going)
        return Plan((Together(deletes),) if deletes else (), _said(cluster, _waits_for(cluster, left.works), now))
    if left.namespace is not None and is_made_for(cluster, left.namespace):
        meta = left.namespace.metadata
        ends = () if meta.deletion_timestamp else (Delete(NAMESPACE, meta.name, uid=meta.uid),)
        return Plan(ends, _said(cluster, _ends(left.namespace), now))
    if left.uncertain:
        return Plan(look_again_after=_SOON)
    if left.rights:
        return Plan(tuple(left.rights))
    return Plan((_with_finalizers(cluster, [each for each in cluster.metadata.finalizers if each != FINALIZER]),))


class LastLook:
    """A writer that deletes no namespace with works in it, whatever a cache knew.

    A work that was written a moment before its cluster was deleted may not be in the cache yet. Its agent would lose
    its rights with the namespace, and the work would wait for it for ever. So the server is asked; an answer that is
    older than what is known of the cluster (`version_of`) does not count.
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
            page = await self._client.list(MANIFEST_WORK, name, limit=1)
            if page.items or newer(self._version_of(name), page.resource_version):
                raise Conflict(f"namespace {name} has works, or may have some")
        await self._client.delete(kind, name, namespace, options=options)


def _waits_for(cluster: ManagedCluster, works: Sequence[ManifestWork]) -> str:
    names = sorted(each.metadata.name for each in works)
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    count = "1 work" if len(names) == 1 else f"{len(names)} works"
    hint = f"if it is gone for good: echelon cluster detach {cluster.metadata.name} --force"
    return f"The agent has to remove {count} ({shown}) from the cluster; {hint}"


def _ends(namespace: Namespace) -> str:
    why = [each.message for each in namespace.status.conditions if each.status == "True" and each.message]
    return " ".join([f"Namespace {namespace.metadata.name} is being removed.", *why])


def _with_finalizers(cluster: ManagedCluster, finalizers: Sequence[str]) -> Patch:
    meta = cluster.metadata
    body = {"metadata": {"finalizers": list(finalizers) or None}}
    return Patch(MANAGED_CLUSTER, meta.name, body, uid=meta.uid, resource_version=meta.resource_version)


def _said(cluster: ManagedCluster, message: str, now: datetime) -> Patch | None:
    """Return what says why a cluster is still there; nothing if that has been said."""
    meta = cluster.metadata
    known = find_condition(cluster.status.conditions, DELETING)
    if known is not None and (known.message, known.observed_generation) == (message, meta.generation):
        return None
    said = Condition(
        type=DELETING,
        status="False",
        observed_generation=meta.generation,
        last_transition_time=format_time(now),
        reason="ResourceRemaining",
        message=message,
    )
    body = {"status": {"conditions": conditions_to_wire(set_condition(cluster.status.conditions, said))}}
    return Patch(
        MANAGED_CLUSTER,
        meta.name,
        body,
        uid=meta.uid,
        resource_version=meta.resource_version,
        subresource="status",
    )
