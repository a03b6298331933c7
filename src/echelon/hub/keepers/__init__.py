"""The keepers of a logical cluster: they finish what a write began.

Garbage collection, namespace termination, CRD clean-up and role aggregation are controllers in Kubernetes. Here they
share one task per cluster and one watch over everything. They are level-based: at start, and whenever they fell
behind, they look at the whole store; after that at what changes, and again at what failed.
"""

import logging
from collections.abc import Iterable

from echelon.hub.cluster import LogicalCluster
from echelon.hub.keepers.crds import CRDKeeper
from echelon.hub.keepers.garbage import GarbageKeeper
from echelon.hub.keepers.namespaces import NamespaceKeeper
from echelon.hub.keepers.roles import RoleKeeper
from echelon.hub.storage.store import Change, Compacted, WatchClosed
from echelon.kube.client import EventType

_log = logging.getLogger(__name__)


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
                for keeper in keepers:
                    await keeper.work()
                delays = [delay for keeper in keepers if (delay := keeper.todo.delay) is not None]
                changes = await watch.next(min(delays, default=None))
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
