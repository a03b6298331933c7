"""The controllers of a logical cluster: they finish what a write began.

Garbage collection, namespace termination, CRD clean-up, role aggregation and the signing of certificates are
controllers in Kubernetes. Here they share one task per cluster and one watch over everything. They are level-based: at
start, and whenever they fell behind, they look at the whole store; after that at what changes, and again at what
failed. However much that is, others have their turn in between.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.certificates import CertificateController
from echelon.hub.controllers.crds import CRDController
from echelon.hub.controllers.garbage import GarbageCollector
from echelon.hub.controllers.namespaces import NamespaceController
from echelon.hub.controllers.roles import RoleAggregator
from echelon.hub.storage.store import Change, Compacted, WatchClosed
from echelon.hub.verbs.breaks import Breaks
from echelon.kube.client import EventType

FOLLOWED_AT_ONCE: Final = 500  # changes; more would take too long for one step of the event loop

_log = logging.getLogger(__name__)


async def run_controllers(cluster: LogicalCluster) -> None:
    """Tidy up behind the objects of a cluster until it is closed."""
    while True:
        controllers = (
            GarbageCollector(cluster),
            NamespaceController(cluster),
            CRDController(cluster),
            RoleAggregator(cluster),
            CertificateController(cluster),
        )
        watch = cluster.store.watch(None, since=cluster.store.revision)
        try:
            changes: Iterable[Change] = _present(cluster)
            while True:
                await _follow(changes, [controller.follow for controller in controllers])
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


async def _follow(changes: Iterable[Change], followers: Sequence[Callable[[Change], None]]) -> None:
    """Let controllers learn of changes, giving way to others after each so many."""
    left, breaks = iter(changes), Breaks()
    while part := list(islice(left, FOLLOWED_AT_ONCE)):
        for follow in followers:
            for change in part:
                follow(change)
                await breaks.maybe()  # metadata may be a megabyte
        if len(part) == FOLLOWED_AT_ONCE:
            await asyncio.sleep(0)


def _present(cluster: LogicalCluster) -> Iterator[Change]:
    """Return the state of a cluster as it is now, as if all of it had just been created."""
    store = cluster.store
    entries = [entry for resource in store.resources() for entry in store.list(resource).entries]
    entries.sort(key=attrgetter("revision"))
    return (Change(EventType.ADDED, entry.revision, entry) for entry in entries)
