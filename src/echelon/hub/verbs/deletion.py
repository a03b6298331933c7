"""Deletion: at once, or step by step while finalizers, dependents or a grace period hold the object back."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from echelon.api.base import JSONObject
from echelon.api.times import format_time
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds.builtin import strategy_of
from echelon.hub.schema import causes
from echelon.hub.storage.store import Entry
from echelon.hub.verbs import reading
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.breaks import Breaks
from echelon.hub.verbs.enforcing import enforce
from echelon.hub.verbs.writing import latest, on_newest, store_update
from echelon.kube import errors
from echelon.kube.client import DeleteOptions, Preconditions

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True)
class Deleted:
    """What a deletion left: the last state of the object, and whether it is still there."""

    object: JSONObject
    gone: bool


async def delete(cluster: LogicalCluster, target: Target, options: DeleteOptions, request: Request) -> Deleted:
    """Remove an object, or mark it and leave the rest to whoever holds a finalizer."""
    check_options(options)
    return await on_newest(target, request, lambda: _delete(cluster, target, options, request))


async def _delete(cluster: LogicalCluster, target: Target, options: DeleteOptions, request: Request) -> Deleted:
    strategy = strategy_of(target.resource)
    old = latest(cluster, target)
    before = target.resource.outgoing(old.object)
    _check_preconditions(target, old, before["metadata"]["uid"], options.preconditions)
    strategy.check_delete(before)
    await enforce(cluster, target, request, old=before)
    grace = strategy.grace_period(before, options.grace_period_seconds)
    if grace < 0:
        grace = 1
    marked = _marked(cluster, before, options.propagation, grace)
    strategy.prepare_delete(marked)
    gone = grace == 0 and strategy.may_go(marked)
    if request.dry_run or marked == before:
        return Deleted(marked, gone)
    entry = await _store(cluster, target, old, before if gone else marked, gone=gone)
    return Deleted(target.resource.outgoing(entry.object), gone)


def _check_preconditions(target: Target, old: Entry, uid: str, wanted: Preconditions) -> None:
    """Spare an object that is not the one that was meant. Deletions name the kind where other verbs name the plural."""
    kind = target.resource.kind
    revision = str(old.revision)
    why = ""
    if wanted.uid and wanted.uid != uid:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
    elif wanted.resource_version and wanted.resource_version != revision:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({revision}). The object might have been modified"
        )
    if why:
        raise errors.conflict(kind.kind, kind.group, target.name, why)


async def _store(cluster: LogicalCluster, target: Target, old: Entry, state: JSONObject, *, gone: bool) -> Entry:
    if gone:
        return await cluster.store.remove(old.key, target.resource.incoming(state), expected=old.revision)
    return await store_update(cluster, target, old, state)


def _marked(cluster: LogicalCluster, before: JSONObject, propagation: str, grace: int) -> JSONObject:
    """Return the object as one that is being deleted."""
    meta = dict(before["metadata"])
    finalizers = [name for name in meta.get("finalizers", ()) if name not in (ORPHAN, FOREGROUND) or not propagation]
    if propagation == "Orphan":
        finalizers.append(ORPHAN)
    elif propagation == "Foreground":
        finalizers.append(FOREGROUND)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers
    first = "deletionTimestamp" not in meta
    if first or grace < meta.get("deletionGracePeriodSeconds", 0):
        meta["deletionTimestamp"] = format_time(_end(cluster.clock(), grace))
        meta["deletionGracePeriodSeconds"] = grace
    if first and meta.get("generation"):
        meta["generation"] += 1
    return {**before, "metadata": meta}


def _end(now: datetime, grace: int) -> datetime:
    """Return when a grace period is over, or the last moment that can be written down."""
    try:
        return now + timedelta(seconds=grace)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


async def delete_collection(
    cluster: LogicalCluster, target: Target, query: reading.Query, options: DeleteOptions, request: Request
) -> list[JSONObject]:
    """Delete everything that a query selects; what vanishes meanwhile is fine."""
    found = await reading.list_(cluster, target.resource, query)
    deleted, breaks = [], Breaks()
    for entry in found.entries:
        await breaks.maybe()
        one = Target(target.resource, entry.key.namespace, entry.key.name)
        try:
            deleted.append((await delete(cluster, one, options, request)).object)
        except errors.NotFound:
            continue
    return deleted


def check_options(options: DeleteOptions) -> None:
    """Refuse delete options that mean nothing."""
    if options.propagation and options.propagation not in _POLICIES:
        cause = causes.not_supported("propagationPolicy", options.propagation, (*_POLICIES, "nil"))
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", [cause])
