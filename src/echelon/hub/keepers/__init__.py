"""The keepers of a logical cluster: they finish what a write began.

Garbage collection, namespace termination, CRD clean-up and role aggregation are controllers in Kubernetes. Here they
share one task per cluster and one watch over everything. They are level-based: at start, and whenever they fell
behind, they look at the whole store; after that at what changes.
"""

import asyncio
import logging
from collections.abc import Iterable

from echelon.hub.cluster import LogicalCluster
from echelon.hub.keepers.crds import CRDKeeper
from echelon.hub.keepers.garbage import GarbageKeeper
from echelon.hub.keepers.namespaces import NamespaceKeeper
from echelon.hub.keepers.roles import RoleKeeper
from echelon.hub.storage.store import Change, Compacted, WatchClosed
from echelon.kube.client import EventType
from echelon.kube.errors import ApiError

_log = logging.getLogger(__name__)

# How long a keeper waits before it tries again what an error stopped.
_RETRY_SECONDS = 1.0


async def keep(cluster: LogicalCluster) -> None:
    """Tidy up behind the objects of a cluster until it is closed."""
    while True:
        keepers = (GarbageKeeper(cluster), NamespaceKeeper(cluster), CRDKeeper(cluster), RoleKeeper(cluster))
        watch = cluster.store.watch(None, since=cluster.store.revision)
        try:
            changes: Iterable[Change] = _present(cluster)
            while True:
                for keeper in keepers:
                    for change in changes:
                        keeper.follow(change)
                retry = [keeper for keeper in keepers if keeper.busy and not await _work(keeper)]
                if watch.behind:  # a cluster in which something always happens must not starve the others
                    await asyncio.sleep(0)
                changes = await watch.next(_RETRY_SECONDS if retry else None)
        except WatchClosed:
            return
        except Compacted:
            _log.info("cluster %s changed faster than its keepers could follow; looking at everything", cluster.name)
        finally:
            watch.close()


def _present(cluster: LogicalCluster) -> list[Change]:
    """Return the state of a cluster as if all of it had just been created."""
    store = cluster.store
    entries = [entry for resource in store.resources() for entry in store.list(resource).entries]
    entries.sort(key=lambda entry: entry.revision)
    return [Change(EventType.ADDED, entry.revision, entry) for entry in entries]


async def _work(keeper: GarbageKeeper | NamespaceKeeper | CRDKeeper | RoleKeeper) -> bool:
    """Let a keeper do what it has to do; tell whether it got through."""
    try:
        await keeper.work()
    except ApiError as error:
        _log.warning("%s will try again: %s", type(keeper).__name__, error)
        return False
    return True
