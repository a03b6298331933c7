"""Lists and watches one kind of object into a cache, and tells handlers what changed, for as long as it runs.

Servers close streams, refuse them, forget versions and fall silent without a word; none of that may flood them with
requests, block the event loop, or leave an object in the cache that is gone. After every end of a stream, clean or
not, there is a pause that grows; a stream that the server should have ended by itself and did not is given up; a
version that the server forgot leads to a new list, and what that list no longer has is reported as deleted.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from echelon.api import labels as selectors
from echelon.api.kinds import Kind
from echelon.kube.cache import Cache, Indexer, Key, identity_of, newer
from echelon.kube.client import Event, EventType, Reader
from echelon.kube.errors import ApiError, Gone, ServerTimeout
from echelon.kube.metrics import Metrics

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FIRST_PAUSE_SECONDS = 0.8
LAST_PAUSE_SECONDS = 30.0
# A stream that lived this long proves that the server is well: the next pause is a short one again.
HEALTHY_SECONDS = 10.0
STREAM_SECONDS = (300, 600)
# How much longer than it was asked to a stream may live; then the connection is dead and nobody told us.
GRACE_SECONDS = 30.0
PAGE_SECONDS = 60.0
PAGE_SIZE = 500
# A server that is behind the cache is not believed so many times in a row; then it was restored from a backup.
OLDER_LISTS_REFUSED = 5
# Objects to take in before others get their turn on the event loop.
_BATCH = 250

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delta(Generic[T_co]):
    """A change: `old` is None for a new object, `new` for one that is gone. `initial`: it was there when we came."""

    old: T_co | None
    new: T_co | None
    initial: bool = False

    @property
    def object(self) -> T_co:
        """The object, in the newest state that is known."""
        obj = self.old if self.new is None else self.new
        if obj is None:
            raise ValueError("a change of nothing")
        return obj


Handler = Callable[[Delta[T]], None]


class OlderList(Exception):
    """A server answered with a state that is older than what the cache has."""


class Informer(Generic[T]):
    """A cache of the objects of a kind, of all namespaces or one, through selectors if they are given."""

    def __init__(
        self,
        reader: Reader,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        indexers: Mapping[str, Indexer[T]] | None = None,
        random: Random,
        metrics: Metrics | None = None,
        on_synced: Callable[[], None] | None = None,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self._reader = reader
        self._labels, self._fields = labels, fields
        self._selector = selectors.parse(labels) if labels else None
        self._cache: Cache[T] = Cache(indexers)
        self._random = random
        self._metrics = metrics or Metrics()
        self._objects = self._metrics.informer_objects.labels(kind.resource)
        self._on_synced = on_synced
        self._handlers: tuple[Handler[T], ...] = ()
        self._synced = asyncio.Event()
        self._reached = ""  # the newest resource version that the server has shown us
        self._resume = ""  # where the next stream begins; empty: list first
        self._page_size = PAGE_SIZE
        self._refused = 0

    @property
    def synced(self) -> bool:
        """Whether the cache has had everything once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when the cache has everything that the first list had."""
        await self._synced.wait()

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return an object, if there is one."""
        return self._cache.get(Key(name, namespace))

    def values(self, namespace: str = "") -> list[T]:
        """Return the objects of a namespace, or all."""
        return self._cache.values(namespace)

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """Return the objects for which an indexer said this value."""
        return self._cache.by_index(index, value)

    def __len__(self) -> int:
        return len(self._cache)

    def on_change(self, handler: Handler[T]) -> Callable[[], None]:
        """Tell a handler about everything that is here, and about every change from now on. Return how to stop that."""
        self._handlers = (*self._handlers, handler)
        for obj in self._cache.values():
            self._call(handler, Delta(None, obj, initial=True))

        def stop() -> None:
            self._handlers = tuple(other for other in self._handlers if other is not handler)

        return stop

    def seen(self, name: str, namespace: str = "") -> str:
        """Return the newest resource version that the cache has of an object, also of one that is gone."""
        return self._cache.seen(Key(name, namespace))

    def shows(self, name: str, namespace: str, resource_version: str) -> bool:
        """Whether the cache has an object as it was at a version, or knows what became of it later."""
        known = self._cache.seen(Key(name, namespace))
        return not newer(resource_version, known) or not newer(resource_version, self._reached)

    def selects(self, kind: Kind[Any], name: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether an object that was just written is one that this cache will show."""
        if (kind.group, kind.plural) != (self.kind.group, self.kind.plural) or self.namespace not in ("", namespace):
            return False
        if self._cache.get(Key(name, namespace)) is not None:
            return True
        return not self._fields and (self._selector is None or self._selector.matches(labels))

    async def run(self) -> None:
        """Keep the cache equal to the server until cancelled."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        while True:
            began, least = loop.time(), 0.0
            try:
                if not self._resume:
                    await self._list()
                    began = loop.time()
                await self._follow()
                why = "closed"
            except Exception as error:  # noqa: BLE001 - whatever a server does, the next try may go well
                why, least = self._failed(error)
                if not self._resume:
                    began = loop.time() if why != "Expired" else began
            if loop.time() - began >= HEALTHY_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._metrics.informer_ends.labels(self.kind.resource, why).inc()
            await asyncio.sleep(max(pause * self._random.uniform(0.5, 1.5), least))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)
