"""Events are news: an hour after the last thing that happened to one, it goes.

In Kubernetes the store does this, with a lease of its own for each. What an event says about its own time is written
by whoever made it, so what counts is when this process has seen it last; a restart gives every event its hour again.
"""

import asyncio
from collections.abc import Callable, Iterable

from echelon.hub.cluster import LogicalCluster
from echelon.hub.storage.store import Key, StaleWrite
from echelon.hub.verbs.breaks import Breaks
from echelon.kube.errors import ApiError

EVENTS = "events"
_LOOKS = 60  # in the time that an event lives
_SHORTEST_PAUSE = 0.05


class Expiry:
    """Forgets the events of one cluster."""

    def __init__(self, cluster: LogicalCluster, seconds: float) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._seen: dict[Key, tuple[int, float]] = {}  # at which revision, and since when it has it

    async def look(self, now: float) -> None:
        """Take note of what is new, and let go what is old."""
        store, breaks, seen = self._cluster.store, Breaks(), self._seen
        self._seen = {}
        for entry in store.list(EVENTS).entries:
            await breaks.maybe()
            revision, since = seen.get(entry.key, (0, now))
            since = since if revision == entry.revision else now
            if now - since < self._seconds:
                self._seen[entry.key] = (entry.revision, since)
                continue
            try:
                await store.remove(entry.key, entry.object, expected=entry.revision)
            except (StaleWrite, ApiError):  # it is news again, or cannot be stored now: the next look tells
                self._seen[entry.key] = (entry.revision, since)


async def expire_events(clusters: Callable[[], Iterable[LogicalCluster]], seconds: float) -> None:
    """Look at the events of all clusters, again and again."""
    loop, expiries = asyncio.get_running_loop(), dict[str, Expiry]()
    while True:
        for cluster in list(clusters()):
            await expiries.setdefault(cluster.name, Expiry(cluster, seconds)).look(loop.time())
        await asyncio.sleep(max(seconds / _LOOKS, _SHORTEST_PAUSE))
