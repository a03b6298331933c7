"""What happened in a logical cluster lately, and those who follow it.

A change is remembered once and shared by everybody who reads it. A hub with ten thousand agents has ten thousand
watches, nearly all of them idle and each on its own namespace, so an idle watch must cost nothing and a change must
wake nobody whom it does not concern: changes are also threaded by resource and by namespace, and a watch is a position
in one of those threads. What falls out of the window is gone for everybody; a watch that had not read it has to start
over from a list.
"""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, cast

import msgspec

from echelon.api.base import JSONObject
from echelon.kube.client import EventType

T = TypeVar("T")

# Lines are made once for all watches that are up to date; a watch that lags this far behind makes its own.
_LINES_KEPT = 256


class Key(NamedTuple):
    """Where an object is: `plural.group`, namespace (empty for cluster scope), name."""

    resource: str
    namespace: str
    name: str


class Compacted(Exception):
    """The revision is older than the history: list again."""

    def __init__(self, revision: int, compacted: int) -> None:
        super().__init__(f"revision {revision} has been compacted, the oldest one known is {compacted}")
        self.compacted = compacted


class WatchClosed(Exception):
    """The watch, or the whole logical cluster, was closed."""


class _Head(msgspec.Struct, gc=False):
    metadata: dict[str, Any]


_head = msgspec.json.Decoder(_Head)


class _Superseded(msgspec.Struct, frozen=True, gc=False):
    pass


_SUPERSEDED = _Superseded()


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """An object as it was at one revision. It holds one form of the object; the other is made on demand."""

    key: Key
    revision: int
    created: int  # the revision at which this key came into being
    labels: Mapping[str, str]
    encoded: bytes | None = None
    decoded: JSONObject | None = None
    admitted_by: object = None  # the resource, if the whole object is one that its admission would not change
    typed: msgspec.Struct | None = None  # for all who read the newest state as that type; see `read_as`
    length: int = 0  # bytes as JSON, of an object that is held decoded

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        raw = self.encoded
        if raw is None:
            raw = msgspec.json.encode(self.decoded)
            msgspec.structs.force_setattr(self, "encoded", raw)
        return raw

    @property
    def size(self) -> int:
        """How many bytes it has as JSON."""
        return len(self.encoded) if self.encoded is not None else self.length

    @property
    def object(self) -> JSONObject:
        """The object. Whoever wants to change it makes a copy: it may be the stored one."""
        if self.decoded is not None:
            return self.decoded
        assert self.encoded is not None  # noqa: S101 - an entry always has one form
        decoded: JSONObject = msgspec.json.decode(self.encoded)
        return decoded

    @property
    def metadata(self) -> JSONObject:
        """The metadata alone, without looking into the rest."""
        if self.decoded is not None:
            metadata: JSONObject = self.decoded["metadata"]
            return metadata
        return _head.decode(self.raw).metadata

    def read_as(self, kind: type[T]) -> T:
        """Return the object as a type, and the same one to all who ask, so that many caches take no more than one."""
        if self.decoded is None:
            return msgspec.json.decode(self.raw, type=kind)
        if self.typed.__class__ is kind:
            return cast("T", self.typed)
        made = msgspec.convert(self.decoded, kind)
        if self.typed is None and isinstance(made, msgspec.Struct):
            msgspec.structs.force_setattr(self, "typed", made)
        return made

    def supersede(self) -> None:
        """Note that there is a newer state: nobody keeps this one, so nothing is kept for those who still read it."""
        msgspec.structs.force_setattr(self, "typed", _SUPERSEDED)


class Change(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One committed write. The entry of a deletion is the last state, under the revision of the deletion."""

    type: EventType
    revision: int
    entry: Entry
    previous: Entry | None = None
    cached: bytes | None = None

    @property
    def line(self) -> bytes:
        """The change as a line of a watch response."""
        line = self.cached
        if line is None:
            line = b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.entry.raw)
            msgspec.structs.force_setattr(self, "cached", line)
        return line


class _Thread:
    """The changes that one kind of watch is about, and the watches that wait for the next."""

    __slots__ = ("changes", "dropped", "name", "waiting", "watches")

    def __init__(self, name: tuple[str, str]) -> None:
        self.name = name
        self.changes: list[Change] = []
        self.dropped = 0  # how many have fallen out of the window: positions count from the very first change
        self.watches = 0
        # A dict and not a set: watches wake in the order in which they came, so that a simulation can be replayed.
        self.waiting: dict[asyncio.Future[bool], None] = {}

    def after(self, revision: int) -> int:
        """Return the position of the first change after a revision."""
        return self.dropped + bisect_right(self.changes, revision, key=_revision_of)

    def append(self, change: Change) -> None:
        self.changes.append(change)
        if self.waiting:
            self.wake()

    def wake(self) -> None:
        for future in self.waiting:
            _resolve(future, woken=True)
        self.waiting.clear()

    def drop(self, count: int) -> None:
        del self.changes[:count]
        self.dropped += count


class History:
    """The window of recent changes, in order of revision."""

    def __init__(self, compacted: int) -> None:
        self.compacted = compacted  # every change after this revision is here
        self.revision = compacted  # every change up to this revision is, or was, here
        self.size = 0  # bytes of the encoded entries
        self.closed = False
        self._all = _Thread(("", ""))
        self._threads: dict[tuple[str, str], _Thread] = {}

    def __len__(self) -> int:
        return len(self._all.changes)

    def append(self, change: Change) -> None:
        """Remember a change and wake those who wait for it."""
        changes = self._all.changes
        self.revision = change.revision
        self.size += _size(change)
        if change.previous is not None:
            change.previous.supersede()
        self._all.append(change)
        resource, namespace, _ = change.entry.key
        (self._threads.get((resource, "")) or self._start((resource, ""))).append(change)
        if namespace:
            (self._threads.get((resource, namespace)) or self._start((resource, namespace))).append(change)
        if len(changes) > _LINES_KEPT and changes[-_LINES_KEPT].cached is not None:
            msgspec.structs.force_setattr(changes[-_LINES_KEPT], "cached", None)

    def after(self, revision: int, resource: str, namespace: str | None) -> Iterable[Change]:
        """Return the changes of a resource after a revision, oldest first."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        thread = self._threads.get((resource, namespace or ""))
        return thread.changes[thread.after(revision) - thread.dropped :] if thread else ()

    def forget(self, revision: int) -> list[Change]:
        """Drop the changes up to a revision and return them."""
        gone = self._all.changes[: self._all.after(revision) - self._all.dropped]
        self.compacted = max(self.compacted, min(revision, self.revision))
        self._all.drop(len(gone))
        for name, count in Counter(name for change in gone for name in _threads_of(change)).items():
            thread = self._threads[name]
            thread.drop(count)
            self._discard(thread)
        self.size -= sum(_size(change) for change in gone)
        return gone

    def overflow(self, count: int, size: int) -> int:
        """Return the revision to forget so that at most so many changes and bytes are left."""
        changes = self._all.changes
        number = max(0, len(changes) - count)
        excess = self.size - size - sum(_size(change) for change in changes[:number])
        while excess > 0 and number < len(changes):
            excess -= _size(changes[number])
            number += 1
        return changes[number - 1].revision if number else self.compacted

    def watch(self, resource: str | None, namespace: str | None, since: int) -> "Watch":
        """Follow the changes after a revision."""
        if since < self.compacted:
            raise Compacted(since, self.compacted)
        if resource is None and namespace:
            raise ValueError("a watch of one namespace needs a resource")
        name = (resource or "", namespace or "")
        thread = self._all if resource is None else self._threads.get(name) or self._start(name)
        thread.watches += 1
        return Watch(self, thread, since)

    def release(self, thread: _Thread) -> None:
        """Note that a watch has ended."""
        thread.watches -= 1
        self._discard(thread)

    def interrupt(self) -> None:
        """Make every watch that waits return with nothing, as if its time were over."""
        for thread in (self._all, *self._threads.values()):
            for future in tuple(thread.waiting):
                _resolve(future)

    def close(self) -> None:
        """End all watches."""
        self.closed = True
        for thread in (self._all, *self._threads.values()):
            thread.wake()

    def _start(self, name: tuple[str, str]) -> _Thread:
        thread = self._threads[name] = _Thread(name)
        return thread

    def _discard(self, thread: _Thread) -> None:
        # A client may watch names that never exist; nothing of that may stay behind.
        if not thread.changes and not thread.watches:
            self._threads.pop(thread.name, None)


class Watch:
    """A position in the history. Iterate it for batches of changes, or call `next` to be back in time for a bookmark.

    `revision` says how far it is: every change up to it that the watch is about has been returned.
    """

    __slots__ = ("_closed", "_history", "_position", "_thread", "_waits", "revision")

    def __init__(self, history: History, thread: _Thread, since: int) -> None:
        self._history = history
        self._thread = thread
        self._position = thread.after(since)
        self._closed = False
        self._waits: asyncio.Future[bool] | None = None
        self.revision = since

    async def next(self, timeout: float | None = None) -> list[Change]:  # noqa: ASYNC109 - an answer, not an error
        """Return the changes that are there, or wait for some; nothing when none came in time."""
        ready = self._take()
        if ready:
            return ready
        if timeout is not None and timeout <= 0:
            await asyncio.sleep(0)  # whoever asks again and again must not keep everybody else from running
            return self._take()
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        woken = True
        while woken and not ready:
            self._waits = loop.create_future()
            timer = None if deadline is None else loop.call_at(deadline, _resolve, self._waits)
            self._thread.waiting[self._waits] = None
            try:
                woken = await self._waits
            finally:
                self._thread.waiting.pop(self._waits, None)
                if timer is not None:
                    timer.cancel()
            ready = self._take()
        return ready

    def close(self) -> None:
        """End the watch; whoever waits for its next change gets `WatchClosed`."""
        if not self._closed:
            self._closed = True
            self._history.release(self._thread)
            if self._waits is not None:
                _resolve(self._waits)

    def _take(self) -> list[Change]:
        if self._closed or self._history.closed:
            raise WatchClosed("the watch was closed")
        thread = self._thread
        start = self._position - thread.dropped
        if start < 0:
            raise Compacted(self.revision, self._history.compacted)
        ready = thread.changes[start:]
        self._position += len(ready)
        if ready and ready[0].revision <= self.revision:
            # Only a watch that was started at a revision to come meets changes that are too old for it.
            ready = ready[bisect_right(ready, self.revision, key=_revision_of) :]
        self.revision = max(self.revision, self._history.revision)
        return ready

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Change]:
        try:
            while not (ready := await self.next()):
                pass
        except WatchClosed:
            raise StopAsyncIteration from None
        return ready

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _revision_of(change: Change) -> int:
    return change.revision


def _size(change: Change) -> int:
    # An object that is held decoded has no size that could be known without encoding it.
    entry = change.entry
    return len(entry.encoded) if entry.encoded is not None and entry.decoded is None else 0


def _threads_of(change: Change) -> tuple[tuple[str, str], ...]:
    key = change.entry.key
    whole = (key.resource, "")
    return (whole, (key.resource, key.namespace)) if key.namespace else (whole,)


def _resolve(future: asyncio.Future[bool], *, woken: bool = False) -> None:
    if not future.done():
        future.set_result(woken)
