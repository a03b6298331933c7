"""Lists and watches one kind of object into a cache, and tells handlers what changed, for as long as it runs.

Servers close streams, refuse them, forget versions and fall silent without a word; none of that may flood them with
requests, block the event loop, or leave an object in the cache that is gone. After every end of a stream, clean or
not, there is a pause that grows; a stream that the server should have ended by itself and did not is given up; a
version that the server forgot leads to a new list, and what that list no longer has is reported as deleted.

An object that does not fit its type is not gone. Its last readable state stays in the cache, everybody can see that it
is `unreadable`, and it is reported once for each thing that is wrong with it.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from echelon.api import labels as selectors
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.versions import newer
from echelon.kube.cache import Cache, Identity, Indexer, identity_of, uid_of
from echelon.kube.client import Event, EventType, Page, Reader
from echelon.kube.errors import ApiError, Gone, ServerTimeout
from echelon.kube.metrics import Metrics
from echelon.kube.misfits import Misfit

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
DEAF_SECONDS = 90.0  # a server has something to say every minute, if only a bookmark
PAGE_SIZE = 500
# A server that is behind the cache is not believed so many times in a row; then it was restored from a backup.
OLDER_LISTS_REFUSED = 5
# Objects to take in before others get their turn on the event loop.
_BATCH = 250

_log = logging.getLogger(__name__)


class Delta(msgspec.Struct, Generic[T_co], frozen=True):
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
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self._reader = reader
        self._labels, self._fields = labels, fields
        self._selector = selectors.parse(labels) if labels else None
        self._cache: Cache[T] = Cache(indexers)
        self._random = random
        self._metrics = metrics or Metrics()
        self._handlers: tuple[Handler[T], ...] = ()
        self._misfit_handlers: tuple[Callable[[Misfit], None], ...] = ()
        self._synced = asyncio.Event()
        self._reached = ""  # the newest resource version that the server has shown us
        self._complete = ""  # the version of the last list: what it did not have was not there
        self._told = ""  # the failure that was logged last, while it goes on
        self._resume = ""  # where the next stream begins; empty: list first
        self._page_size = PAGE_SIZE
        self._refused = 0
        self._heard = -math.inf  # when the server said anything, on the loop's clock
        self.listening_since = -math.inf  # since when it has done so without a long break
        self.went_back = 0  # how often a state was believed that is older than one that was seen before

    @property
    def reached(self) -> str:
        """The resource version up to which everything that happened is known; it falls when `went_back` rises."""
        return self._reached

    @property
    def deaf(self) -> bool:
        """Whether so long nothing was heard that silence says nothing about the objects."""
        return asyncio.get_running_loop().time() - self._heard > DEAF_SECONDS

    @property
    def synced(self) -> bool:
        """Whether the cache has had everything once."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Return when the cache has everything that the first list had."""
        await self._synced.wait()

    def get(self, key: Key) -> T | None:
        """Return an object, if there is one."""
        return self._cache.get(key)

    def values(self, namespace: str = "") -> list[T]:
        """Return the objects of a namespace, or all."""
        return self._cache.values(namespace)

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """Return the objects for which an indexer said this value."""
        return self._cache.by_index(index, value)

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def unreadable(self) -> Mapping[Key, Misfit]:
        """The objects that are on the server and whose newest state cannot be read.

        Whoever does something because an object is missing asks here first. Of one that could be read before, the cache
        has that state.
        """
        return self._cache.misfits

    def on_change(self, handler: Handler[T]) -> Callable[[], None]:
        """Tell a handler about everything that is here, and about every change from now on. Return how to stop that."""
        self._handlers = (*self._handlers, handler)
        for obj in self._cache.values():
            self._call(handler, Delta(None, obj, initial=True))

        def stop() -> None:
            self._handlers = tuple(other for other in self._handlers if other is not handler)

        return stop

    def on_unreadable(self, handler: Callable[[Misfit], None]) -> None:
        """Tell a handler of each object that does not fit its type, once for each thing that is wrong with it.

        It hears of the object again when that is over, be it readable or gone; then it is not among the `unreadable`.
        """
        self._misfit_handlers = (*self._misfit_handlers, handler)

    def seen(self, key: Key) -> str:
        """Return the newest resource version that the cache has of an object, also of one that is gone."""
        return self._cache.seen(key)

    def shows(self, key: Key, resource_version: str) -> bool:
        """Whether the cache has an object as it was at a version, or knows what became of it later."""
        return not newer(resource_version, self.seen(key)) or not newer(resource_version, self._reached)

    def selects(self, kind: Kind[Any], key: Key, labels: Mapping[str, str]) -> bool:
        """Whether an object that was just written is one that this cache will show."""
        if (kind.group, kind.plural) != (self.kind.group, self.kind.plural) or self.namespace not in (
            "",
            key.namespace,
        ):
            return False
        if self._cache.get(key) is not None:
            return True
        return not self._fields and (self._selector is None or self._selector.matches(labels))

    async def run(self) -> None:
        """Keep the cache equal to the server until cancelled."""
        with self._metrics.showing(self):
            await self._run()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        while True:
            streaming, least = math.inf, 0.0
            try:
                if not self._resume:
                    await self._list()
                streaming = loop.time()
                await self._follow()
                why = "closed"
            except Exception as error:  # noqa: BLE001 - whatever a server does, the next try may go well
                why, least = self._failed(error)
            if loop.time() - streaming >= HEALTHY_SECONDS:
                pause, self._told = FIRST_PAUSE_SECONDS, ""
            self._metrics.informer_ends.labels(self.kind.resource, why).inc()
            await asyncio.sleep(max(pause * self._random.uniform(0.5, 1.5), least))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    def _failed(self, error: Exception) -> tuple[str, float]:
        """Learn from a failure: what to call it, and how long the server wants to be left alone."""
        if isinstance(error, Gone | ServerTimeout):
            # Too old, or, after the server lost its newest state, from a future that will not come.
            self._resume = ""
        extra = {"kind": self.kind.resource, "namespace": self.namespace}
        if isinstance(error, ApiError):
            # A server that is away is away for every try; who wants to see them all asks for more.
            level = logging.INFO if isinstance(error, Gone) else logging.WARNING
            level, self._told = logging.DEBUG if str(error) == self._told else level, str(error)
            _log.log(level, "the informer of %s begins again: %s", self.kind.resource, error, extra=extra)
            return error.status_reason, float(error.retry_after)
        if isinstance(error, TimeoutError | OSError | OlderList):
            _log.warning("the informer of %s begins again: %r", self.kind.resource, error, extra=extra)
        else:
            _log.exception("the informer of %s begins again", self.kind.resource, extra=extra)
        return type(error).__name__, 0.0

    async def _list(self) -> None:
        """Make the cache equal to a list, a page at a time."""
        listed: set[Key] = set()
        async with aclosing(self._pages()) as pages:
            async for page in pages:
                if not listed:
                    self._refuse_older(page.resource_version)
                for misfit in page.unreadable:
                    listed.add(self._listed(misfit))
                for number, obj in enumerate(page.readable, start=1):
                    listed.add(self._listed(obj))
                    if number % _BATCH == 0:
                        await asyncio.sleep(0)
                self._hear()
        for number, key in enumerate([key for key in self._cache.keys() if key not in listed], start=1):  # noqa: SIM118 - a cache is no mapping
            self._remove(key, page.resource_version)
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        self._page_size, self._refused = PAGE_SIZE, 0
        self._complete = self._resume = self._reached = page.resource_version
        self._metrics.informer_lists.labels(self.kind.resource).inc()
        self._synced.set()

    async def _pages(self) -> AsyncGenerator[Page[T], None]:
        """List page by page. The next one is on its way while the caller takes in the one before."""
        page = await self._page("")
        while page.continue_:
            following = asyncio.create_task(self._page(page.continue_))
            try:
                yield page
                page = await following
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
        yield page

    async def _page(self, token: str) -> Page[T]:
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                return await self._reader.list(
                    self.kind,
                    self.namespace,
                    labels=self._labels,
                    fields=self._fields,
                    limit=self._page_size,
                    continue_=token,
                )
        except Gone:
            # The server forgets faster than we turn the pages: ask for all at once.
            self._page_size = 0 if token else PAGE_SIZE
            raise

    def _refuse_older(self, version: str) -> None:
        """Keep the cache from going back in time because one replica of a server lags."""
        if not (self._reached.isdigit() and newer(self._reached, version)):
            return
        if self._refused < OLDER_LISTS_REFUSED:
            self._refused += 1
            raise OlderList(f"the list is of version {version}, the cache of {self._reached}")
        _log.warning("%s went back from version %s to %s", self.kind.resource, self._reached, version)
        self._metrics.informer_backs.labels(self.kind.resource).inc()
        self._cache.forget_deleted()  # their versions are of a past that never was
        # At once, for handlers hear of what is missing before the list is complete.
        self.went_back += 1
        self._reached = version

    async def _follow(self) -> None:
        """Take in what a stream brings until it ends."""
        seconds = self._random.randint(*STREAM_SECONDS)
        stream = self._reader.watch(
            self.kind,
            self.namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=self._resume,
            bookmarks=True,
            timeout_seconds=seconds,
        )
        number = 0
        async with asyncio.timeout(seconds + GRACE_SECONDS), _closing(stream):
            async for event in stream:
                self._take(event)
                number += 1
                if number % _BATCH == 0:
                    await asyncio.sleep(0)

    def _hear(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._heard > DEAF_SECONDS:
            self.listening_since = now
        self._heard = now

    def _take(self, event: Event[T]) -> None:
        self._hear()
        version = event.resource_version
        found = event.unreadable if event.object is None else event.object
        if found is not None:
            identity = identity_of(found)
            key, _, own = identity
            known = self._cache.seen(key)
            if event.type is EventType.DELETED:
                # A deletion that was delayed or repeated is not one of the object that has the name by now. One from
                # before the list leaves no trace: later events that are from before the list, too, would pass for news.
                if (known == own or newer(own, known)) if known else newer(own, self._complete):
                    self._remove(key, own)
            elif newer(own, known) and newer(own, self._complete):
                # A repeated event of what is not known is one of what was gone before the list.
                self._put(found, identity)
        if version and (not self._reached or newer(version, self._reached)):
            self._resume = self._reached = version

    def _listed(self, obj: T | Misfit) -> Key:
        """Take in an object of a list, which is right also where it is older than what we have."""
        identity = identity_of(obj)
        key, _, version = identity
        if self._cache.seen(key) != version or (self._cache.get(key) is None and key not in self._cache.misfits):
            self._put(obj, identity)
        return key

    def _put(self, obj: T | Misfit, identity: Identity) -> None:
        key, uid, version = identity
        if isinstance(obj, Misfit):
            self._mark(key, obj)
            return
        old = self._cache.get(key)
        if old is not None and uid_of(old) != uid:
            self._remove(key, version)
            old = None
        misfit = self._cache.misfits.get(key)
        self._cache.put(key, obj)
        self._tell(Delta(old, obj, initial=not self.synced))
        self._report(misfit)

    def _mark(self, key: Key, misfit: Misfit) -> None:
        """Note that an object cannot be read. What the cache has of it stays, unless it was another object."""
        meta, before, old = misfit.metadata, self._cache.misfits.get(key), self._cache.get(key)
        replaced = old is not None and uid_of(old) != meta.uid
        if replaced:
            self._cache.remove(key, meta.resource_version)
        self._cache.mark(key, misfit)
        if replaced:
            self._tell(Delta(old, None))
        if before is not None and (before.metadata.uid, before.why) == (meta.uid, misfit.why):
            return
        extra = {"kind": self.kind.resource, "key": str(key)}
        kept = "is not known" if self._cache.get(key) is None else "stays as it was last known"
        _log.warning("%s cannot be read and %s: %s", misfit.where, kept, misfit.why, extra=extra)
        self._report(misfit)

    def _report(self, misfit: Misfit | None) -> None:
        if misfit is not None:
            for handler in self._misfit_handlers:
                handler(misfit)

    def _remove(self, key: Key, version: str) -> None:
        misfit = self._cache.misfits.get(key)
        old = self._cache.remove(key, version)
        if old is not None:
            self._tell(Delta(old, None))
        self._report(misfit)

    def _tell(self, delta: Delta[T]) -> None:
        for handler in self._handlers:
            self._call(handler, delta)

    def _call(self, handler: Handler[T], delta: Delta[T]) -> None:
        try:
            handler(delta)
        except Exception:  # noqa: BLE001 - one handler's mistake is not the others'
            self._metrics.handler_errors.labels(self.kind.resource).inc()
            key = str(identity_of(delta.object).key)
            extra = {"kind": self.kind.resource, "key": key}
            _log.exception("a handler failed on a change of %s %s", self.kind.resource, key, extra=extra)


@asynccontextmanager
async def _closing(stream: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Give a stream back as soon as nobody reads it, if it is one that holds something."""
    try:
        yield
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
