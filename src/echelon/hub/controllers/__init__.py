"""The controllers of a logical cluster: they finish what a write began.

Garbage collection, namespace termination, CRD clean-up and role aggregation are controllers in Kubernetes. Here they
share one task per cluster and one watch over everything. They are level-based: at start, and whenever they fell
behind, they look at the whole store; after that at what changes, and again at what failed.
"""

import logging
from collections.abc import Iterable

from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.crds import CRDController
from echelon.hub.controllers.garbage import GarbageCollector
from echelon.hub.controllers.namespaces import NamespaceController
from echelon.hub.controllers.roles import RoleAggregator
from echelon.hub.storage.store import Change, Compacted, WatchClosed
from echelon.hub.verbs.breaks import Breaks
from echelon.kube.client import EventType

_log = logging.getLogger(__name__)


async def run_controllers(cluster: LogicalCluster) -> None:
    """Tidy up behind the objects of a cluster until it is closed."""
    while True:
        controllers = (
            GarbageCollector(cluster),
            NamespaceController(cluster),
            CRDController(cluster),
            RoleAggregator(cluster),
        )
        watch = cluster.store.watch(None, since=cluster.store.revision)
        try:
            changes: Iterable[Change] = _present(cluster)
            while True:
                breaks = Breaks()
                for change in changes:
                    for controller in controllers:
                        controller.follow(change)
                    await breaks.maybe()
                for controller in controllers:
                    await controller.work()
                delays = [delay for controller in controllers if (delay := controller.todo.delay) is not None]
                changes = await watch.next(min(delays, default=None))
        except WatchClosed:
            return
        except Compacted:
            _log.info(
                "cluster %s changed faster than its controllers could follow; looking at everything", cluster.name
            )
        finally:
            watch.close()


def _present(cluster: LogicalCluster) -> list[Change]:
    """Return the state of a cluster as if all of it had just been created."""
    store = cluster.store
    entries = [entry for resource in store.resources() for entry in store.list(resource).entries]
    entries.sort(key=lambda entry: entry.revision)
    return [Change(EventType.ADDED, entry.revision, entry) for entry in entries]
