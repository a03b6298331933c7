"""The state of one logical cluster: objects by key, revisions, and what happened lately.

A write becomes *latest* at once, so that the next writer builds on it without waiting, and *committed* when the log
has it. Reads, lists and watches see committed state only: nobody can observe a write that a crash would take back, and
no revision that somebody saw is ever given to another write. Everything runs on one event loop, without locks and
without reading a clock, so a simulation on virtual time is served by the same code as a server.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from operator import attrgetter
from sys import intern
from typing import Final, NamedTuple

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.storage.history import Change, Compacted, Entry, History, Key, Watch, WatchClosed
from echelon.hub.storage.log import ClusterLog, Log, Row
from echelon.hub.storage.sharing import with_shared_parts
from echelon.kube.client import EventType
from echelon.kube.errors import Unavailable

__all__ = [
    "MAX_OBJECT_BYTES",
    "Change",
    "Compacted",
    "Entry",
    "FutureRevision",
    "Key",
    "Listing",
    "ObjectTooLarge",
    "StaleWrite",
    "Store",
    "Watch",
    "WatchClosed",
]

# As much as etcd takes in one request.
MAX_OBJECT_BYTES: Final = 1_572_864

# Looking up a member of an enum takes longer than looking up the object that is written.
_ADDED, _MODIFIED, _DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED
_NO_LABELS: Mapping[str, str] = {}


class StaleWrite(Exception):
    """The key does not have the revision that the writer built on; 0 stands for "does not exist"."""

    def __init__(self, key: Key, expected: int, actual: int) -> None:
        super().__init__(f"{'/'.join(key)}: expected revision {expected}, found {actual}")
        self.key = key


class ObjectTooLarge(Exception):
    """The object has more bytes than one may have."""


class FutureRevision(Exception):
    """The revision has not been committed yet."""


class Listing(NamedTuple):
    """Entries sorted by namespace and name, all as of one revision."""

    entries: list[Entry]
    revision: int
    remaining: int  # how many follow after these


class _Table:
    """The entries of one resource. The order is kept from the first list on: replay and bulk creation don't pay."""

    __slots__ = ("_order", "entries")

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}
        self._order: list[Key] | None = None

    def set(self, entry: Entry) -> None:
        if self._order is not None and entry.key not in self.entries:
            insort(self._order, entry.key)
        self.entries[entry.key] = entry

    def remove(self, key: Key) -> None:
        if self.entries.pop(key, None) is not None and self._order is not None:
            del self._order[bisect_left(self._order, key)]

    def order(self) -> list[Key]:
        if self._order is None:
            self._order = sorted(self.entries)
        return self._order


class _Write(NamedTuple):
    change: Change
    future: asyncio.Future[Entry]


class _Committed:
    """What a write without a log returns: there is nothing to wait for, and maybe no event loop."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def __await__(self) -> Generator[None, None, Entry]:
        return self._entry
        yield  # makes this a generator, as the language wants it


HISTORY = 10_000  # changes that can be watched and listed again


class Store:
    """One logical cluster. Without a log it lives in memory only and commits at once.

    `keep_objects` says in which form objects are held: decoded, or as bytes. `history` and `history_bytes` limit how
    many changes can be watched and listed again; up to a quarter more may be there at times.
    """

    def __init__(
        self,
        log: Log | None,
        cluster: str,
        *,
        keep_objects: bool = False,
        history: int = HISTORY,
        history_bytes: int = 64 << 20,
    ) -> None:
        self._keep_objects = keep_objects
        self._limits = (history, history_bytes)
        self._bounds = (history * 5 // 4, history_bytes * 5 // 4)  # so that compaction is rare and worth its while
        self._tables: dict[str, _Table] = {}
        self._latest: dict[Key, Change] = {}  # last write on its way, for each key that has one
        self._observers: list[Callable[[Change], None]] = []
        self._ledger: ClusterLog | None = log.ledger(cluster, self._settle) if log is not None else None
        self._history = History(self._ledger.compacted if self._ledger else 0)
        if self._ledger is not None:
            self._replay(self._ledger)
        self._assigned = self.revision

    @property
    def revision(self) -> int:
        """The last committed revision."""
        return self._history.revision

    @property
    def compacted(self) -> int:
        """The oldest revision at which the store can be listed, and after which it can be watched."""
        return self._history.compacted

    def get(self, key: Key) -> Entry | None:
        """Return the committed entry of a key."""
        table = self._tables.get(key.resource)
        return table.entries.get(key) if table is not None else None

    def latest(self, key: Key) -> Entry | None:
        """Return what the next write of a key builds on; it may not be committed yet, so it must not be shown."""
        if self._latest and (change := self._latest.get(key)) is not None:
            return None if change.type is _DELETED else change.entry
        return self.get(key)

    def put(
        self,
        key: Key,
        obj: JSONObject,
        *,
        expected: int | None = None,
        admitted_by: object = None,
        like: Entry | None = None,
    ) -> Awaitable[Entry]:
        """Write an object and stamp its resource version. It is latest at once; await the result for committed.

        The object must not be modified afterwards. A new one may be made of parts of another, which it is `like`: they
        are held once already, and nobody has to look whether they are. Raises `StaleWrite`, at once, when the key does
        not have the expected revision.
        """
        before = self._check(key, expected)
        if before is None:
            key = Key(_once(key.resource), _once(key.namespace), key.name)
            return self._write(_ADDED, key, obj, None, admitted_by, like=like)
        return self._write(_MODIFIED, before.key, obj, before, admitted_by)

    def remove(self, key: Key, final: JSONObject, *, expected: int | None = None) -> Awaitable[Entry]:
        """Delete an object; `final` is the state that watches will show of it."""
        before = self._check(key, expected)
        if before is None:
            raise StaleWrite(key, expected or 0, 0)
        return self._write(_DELETED, before.key, final, before)

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        at: int | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 0,
    ) -> Listing:
        """Return entries in order: those behind `after`, at most `limit`, as they were at the revision `at`."""
        revision = self.revision if at is None else at
        if revision > self.revision:
            raise FutureRevision(f"revision {revision} is not there yet, the last one is {self.revision}")
        table = self._tables.get(resource) or _Table()
        undone: dict[Key, Entry | None] = {}
        if revision < self.revision:
            for change in self._history.after(revision, resource, namespace):
                undone.setdefault(change.entry.key, change.previous)
        keys = _cut(table.order(), resource, namespace, after)
        if undone:
            then = [key for key in keys if key not in undone]
            then += _cut(sorted(key for key, entry in undone.items() if entry is not None), resource, namespace, after)
            keys = sorted(then)
        page = keys[:limit] if limit else keys
        now = table.entries
        entries = [undone.get(key) or now[key] for key in page] if undone else [now[key] for key in page]
        return Listing(entries, revision, len(keys) - len(page))

    def count(self, resource: str) -> int:
        """Return how many objects of a resource there are."""
        table = self._tables.get(resource)
        return len(table.entries) if table is not None else 0

    def resources(self) -> Sequence[str]:
        """Return the resources that have objects."""
        return [name for name, table in self._tables.items() if table.entries]

    def watch(self, resource: str | None, namespace: str | None = None, *, since: int) -> Watch:
        """Follow a resource, or everything, after a revision."""
        return self._history.watch(resource, namespace, since)

    def on_commit(self, observer: Callable[[Change], None]) -> None:
        """Call somebody at each committed change, in order, before anybody else hears of it. It must not write."""
        self._observers.append(observer)

    def compact(self, revision: int | None = None) -> None:
        """Forget the history up to a revision, or all of it."""
        gone = self._history.forget(self.revision if revision is None else revision)
        if self._ledger is not None and gone:
            self._ledger.forget(self.compacted, _superseded(gone))

    def wake_watches(self) -> None:
        """Make every watch that waits return with nothing, for whoever has to look around between two changes."""
        self._history.interrupt()

    def close(self) -> None:
        """End all watches and refuse writes from now on."""
        self._history.close()

    def _check(self, key: Key, expected: int | None) -> Entry | None:
        if self._history.closed:
            raise Unavailable("the store is closed")
        before = self.latest(key)
        actual = before.revision if before is not None else 0
        if expected is not None and expected != actual:
            raise StaleWrite(key, expected, actual)
        return before

    def _write(
        self,
        kind: EventType,
        key: Key,
        obj: JSONObject,
        before: Entry | None,
        admitted_by: object = None,
        *,
        like: Entry | None = None,
    ) -> Awaitable[Entry]:
        revision = self._assigned + 1
        # Only what changes is copied: the rest of the object may be shared with the version before it.
        metadata = {**obj["metadata"], "resourceVersion": str(revision)}
        stamped = {**obj, "metadata": metadata}
        created = before.created if before is not None else revision
        # A copy that is held decoded and written nowhere has the size of what it is like: CRDs take long to encode.
        copied = like is not None and self._keep_objects and self._ledger is None
        encoded = b"" if copied else msgspec.json.encode(stamped)
        length = like.size if like is not None and copied else len(encoded)
        if length > MAX_OBJECT_BYTES and kind is not _DELETED:
            raise ObjectTooLarge(f"{'/'.join(key)} has {length} bytes")
        if self._keep_objects:
            known = before.decoded if before is not None else like.object if like is not None else None
            stamped = with_shared_parts(stamped, known)
            labels = stamped["metadata"].get("labels") or _NO_LABELS
            entry = Entry(key, revision, created, labels, None, stamped, admitted_by, length=length)
        else:
            entry = Entry(key, revision, created, _shared(metadata.get("labels")), encoded, None, admitted_by)
        change = Change(kind, revision, entry, before)
        if self._ledger is None:
            self._assigned = revision
            self._commit(change)
            return _Committed(entry)
        future: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        row = Row(revision, "/".join(key), 0 if kind is _DELETED else created, encoded)
        self._ledger.append(row, _Write(change, future))
        self._assigned = revision
        self._latest[key] = change
        return future

    def _settle(self, writes: Sequence[_Write], error: Unavailable | None) -> None:
        """Hear from the log that writes are committed, or that everything on its way is lost."""
        if error is not None:
            self._latest.clear()
            for write in writes:
                if not write.future.done():
                    write.future.set_exception(Unavailable(error.message))
            return
        for change, future in writes:
            if self._latest.get(change.entry.key) is change:
                del self._latest[change.entry.key]
            try:
                self._commit(change)
            except Exception as failure:  # noqa: BLE001 - an observer's mistake must not cost others their answer
                context = {"message": "an observer of the store failed", "exception": failure}
                future.get_loop().call_exception_handler(context)
            if not future.done():  # whoever asked may have gone away; the write stays
                future.set_result(change.entry)

    def _commit(self, change: Change) -> None:
        self._apply(change)
        self._history.append(change)
        if len(self._history) > self._bounds[0] or self._history.size > self._bounds[1]:
            self.compact(self._history.overflow(*self._limits))
        for observer in self._observers:
            observer(change)

    def _apply(self, change: Change) -> None:
        key = change.entry.key
        table = self._tables.get(key.resource)
        if table is None:
            table = self._tables[key.resource] = _Table()
        if change.type is _DELETED:
            table.remove(key)
        else:
            table.set(change.entry)

    def _replay(self, ledger: ClusterLog) -> None:
        rows = ledger.replay()
        first = bisect_right(rows, ledger.compacted, key=attrgetter("revision"))
        old = [self._read_and_apply(ledger, row) for row in rows[:first]]
        # A compaction was interrupted. It is finished before this start adds to it: a row that says that an object is
        # gone may not go before the rows of that object.
        if garbage := _superseded(old):
            ledger.forget(ledger.compacted, garbage)
        for row in rows[first:]:
            self._commit(self._read(ledger, row))

    def _read_and_apply(self, ledger: ClusterLog, row: Row) -> Change:
        change = self._read(ledger, row)
        self._apply(change)
        return change

    def _read(self, ledger: ClusterLog, row: Row) -> Change:
        try:
            resource, namespace, name = row.key.split("/", 2)
            labels = _head.decode(row.value).metadata.labels
            decoded = with_shared_parts(msgspec.json.decode(row.value), None) if self._keep_objects else None
        except (ValueError, msgspec.MsgspecError) as error:
            raise ledger.damaged(f"revision {row.revision} is unreadable: {error}") from error
        before = self.get(Key(resource, namespace, name))
        key = before.key if before is not None else Key(_once(resource), _once(namespace), name)
        kind = _DELETED if not row.created else _MODIFIED if before else _ADDED
        created = row.created or (before.created if before is not None else row.revision)
        encoded = None if self._keep_objects else row.value
        entry = Entry(key, row.revision, created, _shared(labels), encoded, decoded, length=len(row.value))
        return Change(kind, row.revision, entry, before)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    """The part of an object that replay has to look into."""

    metadata: _Metadata


_head = msgspec.json.Decoder(_Head)


def _shared(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    """Copy labels; a fleet has few distinct ones, so their strings are kept once."""
    return {_once(name): _once(value) for name, value in labels.items()} if labels else _NO_LABELS


def _once(text: str) -> str:
    return intern(str(text))  # an enum's member is a string as well, and not one that can be interned


def _cut(keys: Sequence[Key], resource: str, namespace: str | None, after: tuple[str, str] | None) -> Sequence[Key]:
    """Return the part of sorted keys that is in a namespace and behind a key."""
    start, end = 0, len(keys)
    if namespace:
        start = bisect_left(keys, Key(resource, namespace, ""))
        end = bisect_left(keys, Key(resource, namespace + "\0", ""))
    if after is not None:
        start = max(start, bisect_right(keys, Key(resource, *after)))
    return keys[start:end] if start < end else []


def _superseded(changes: Sequence[Change]) -> list[int]:
    """Return the revisions that nobody can ask for once these changes are history.

    Deletions come last: a crash in the middle must not leave an object without the row that says that it is gone.
    """
    found = [change.previous.revision for change in changes if change.previous is not None]
    return found + [change.revision for change in changes if change.type is _DELETED]
