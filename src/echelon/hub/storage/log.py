"""The durable log: one SQLite database for all logical clusters of a process.

Durability is what a write waits for, so the price of one commit is shared by everything that arrives while the commit
before it runs. One thread owns the connection while writes flow. It holds the interpreter lock as rarely as it can,
because each time it has to take the lock back from a busy event loop costs it milliseconds: rows go in by statements of
many rows, and completions reach the loop once a batch, in order.

A commit that fails takes everything with it that was on its way, in all clusters: later writes were built on the state
that the failed ones had promised. Nothing is half written, and the next write starts from what is in the log.
"""

import asyncio
import json
import logging
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from echelon.hub.storage.database import (
    LogDamaged,
    LogInUse,
    checksum_of,
    damage,
    explain,
    open_database,
    transaction,
)
from echelon.kube.errors import Unavailable

_logger = logging.getLogger(__name__)

_BATCH = 256
_GARBAGE_BATCH = 512
# A disk that was full, or gone, a moment ago may be so again; and one that was not may be by now.
_TRUSTED_SECONDS = 5.0

# A row's position is its cluster's number and its revision in one integer, so that the table is its own index and
# appending is the cheapest thing that SQLite does. Room for 8 million clusters with 10^12 writes each.
_REVISION_BITS = 40

_INSERT = {
    size: "INSERT INTO log VALUES " + ",".join(["(?,?,?,?,?)"] * size)  # noqa: S608 - made of constants
    for size in (1 << power for power in range(_BATCH.bit_length()))
}


class Row(NamedTuple):
    """One write. A deletion has `created` 0, and its value is the last state."""

    revision: int
    key: str
    created: int
    value: bytes


# Told, in order, which writes were committed, or that all of these were not and why.
Settle = Callable[[Sequence[Any], Unavailable | None], None]


class ClusterLog:
    """The part of the log that belongs to one logical cluster."""

    __slots__ = ("_base", "_id", "_log", "cluster", "compacted", "settle")

    def __init__(self, log: "Log", number: int, cluster: str, compacted: int, settle: Settle) -> None:
        self._log = log
        self._id = number
        self._base = number << _REVISION_BITS
        self.cluster = cluster
        self.compacted = compacted
        self.settle = settle

    def replay(self) -> list[Row]:
        """Return all that is in the log, oldest first."""
        query = (
            "SELECT position, key, created, value, checksum FROM log WHERE position BETWEEN ? AND ? ORDER BY position"
        )
        last, rows = self._base + (1 << _REVISION_BITS) - 1, []
        for position, key, created, value, checksum in self._log.query(query, (self._base, last)):
            if not isinstance(value, bytes) or checksum_of(position, key, created, value) != checksum:
                raise self.damaged(f"revision {position - self._base} ({key}) is not what was written")
            rows.append(Row(position - self._base, key, created, value))
        return rows

    def append(self, row: Row, token: object) -> None:
        """Hand a write to the log; `settle` gets the token back."""
        self._log.submit(_Write(self, (self._base + row.revision, row.key, row.created, row.value), token))

    def forget(self, compacted: int, revisions: Iterable[int]) -> None:
        """Remember up to where history is gone, and remove rows that nobody needs from now on, in the given order."""
        self._log.discard(self._id, compacted, [self._base + revision for revision in revisions])

    def damaged(self, why: str) -> LogDamaged:
        """Make the error for a row that makes no sense."""
        return self._log.damaged(f'cluster "{self.cluster}": {why}')


class _Write(NamedTuple):
    ledger: ClusterLog
    row: tuple[int, str, int, bytes]
    token: object


class Log:
    """An open database. Opening it reads nothing but its names; each ledger replays its own part."""

    def __init__(self, path: Path, *, full_sync: bool = False) -> None:
        self._path = path
        self._db = open_database(path, full_sync=full_sync)
        self._ledgers: dict[str, ClusterLog] = {}
        self._database = threading.Lock()  # held while a transaction runs
        self._changed = threading.Condition()  # guards what follows
        self._queue: deque[_Write] = deque()
        self._marks: dict[int, int] = {}  # compaction marks that are not in the database yet
        self._garbage: deque[int] = deque()  # positions of rows that nobody needs
        self._garbage_waits = False  # after a failure, until a commit shows that the database works again
        self._failed: list[_Write] = []  # the loop has to hear of this before anything else is written
        self._trouble = ""  # why the last transaction failed
        self._worked = -math.inf  # when one was last stored
        self._trying: asyncio.Future[None] | None = None
        self._closing = False
        self._waking: asyncio.AbstractEventLoop | None = None  # who is going to wake the writer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def clusters(self) -> list[str]:
        """Return the names of the logical clusters in the log."""
        return [name for (name,) in self.query("SELECT name FROM cluster ORDER BY id")]

    def ledger(self, cluster: str, settle: Settle) -> ClusterLog:
        """Open the part of one logical cluster, which comes into being if it is new."""
        if cluster in self._ledgers:
            raise LogInUse(f'{self._path}: the logical cluster "{cluster}" is already open')
        self.query("INSERT INTO cluster (name, compacted) VALUES (?, 0) ON CONFLICT DO NOTHING", (cluster,))
        ((number, compacted),) = self.query("SELECT id, compacted FROM cluster WHERE name = ?", (cluster,))
        ledger = self._ledgers[cluster] = ClusterLog(self, number, cluster, compacted, settle)
        return ledger

    def size(self) -> int:
        """Return the bytes of the database on the disk, with what is written ahead of it."""
        files = [self._path, self._path.with_name(f"{self._path.name}-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    async def problem(self) -> str:
        """Tell what keeps writes from being stored. It is tried, unless one has been stored a moment ago."""
        if self._thread is not None and not self._thread.is_alive() and not self._closing:
            return "the thread that writes has ended"
        if self._trouble or time.monotonic() - self._worked > _TRUSTED_SECONDS:
            if self._trying is None or self._trying.done():
                self._trying = asyncio.ensure_future(asyncio.to_thread(self._try))
            await asyncio.shield(self._trying)  # one for all who ask: a disk may take its time, and threads are few
        return self._trouble

    def _try(self) -> None:
        try:
            with self._database, transaction(self._db):
                self._db.execute("UPDATE cluster SET compacted = compacted")
        except sqlite3.Error as error:
            self._trouble = str(error)
        else:
            self._trouble, self._worked = "", time.monotonic()

    async def close(self) -> None:
        """Write what is on its way and close the database."""
        with self._changed:
            self._closing = True
            if self._queue or self._thread is not None:
                self._wake()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._db.close()

    def query(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Run one statement between two batches."""
        try:
            with self._database:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise explain(self._path, error) from error

    def submit(self, item: _Write) -> None:
        """Queue an item for the writer thread."""
        with self._changed:
            if self._closing:
                raise Unavailable("the store is closed")
            self._loop = asyncio.get_running_loop()
            self._queue.append(item)
            if self._waking is not self._loop:
                # Not at once: what else arrives in this turn of the loop shares the commit, and the lock.
                self._waking = self._loop
                self._loop.call_soon(self._wake_up)

    def discard(self, cluster: int, compacted: int, positions: Iterable[int]) -> None:
        """Queue rows for removal, some after each batch."""
        with self._changed:
            self._marks[cluster] = max(compacted, self._marks.get(cluster, 0))
            self._garbage.extend(positions)
            self._wake()

    def damaged(self, why: str) -> LogDamaged:
        """Make the error for contents that make no sense."""
        return LogDamaged(damage(self._path, why))

    def _wake_up(self) -> None:
        with self._changed:
            self._waking = None
            self._wake()

    def _wake(self) -> None:
        self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hub-log", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._work_waits():
                    if self._closing and not self._failed:
                        return
                    self._changed.wait()
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
            if batch and not self._commit(batch):
                continue
            self._collect()

    def _work_waits(self) -> bool:
        garbage = not self._garbage_waits and (self._marks or self._garbage)
        return not self._failed and bool(self._queue or garbage)

    def _commit(self, batch: list[_Write]) -> bool:
        """Write a batch and tell the loop how that went."""
        try:
            with self._database, transaction(self._db):
                _insert(self._db, [(*item.row, checksum_of(*item.row)) for item in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is, writers must hear of it and the thread must live
            _logger.error("cannot write to %s: %s", self._path, error)
            self._trouble = str(error) or type(error).__name__
            with self._changed:
                self._failed = batch
            if not self._post(self._take_back, str(error)):
                with self._changed:
                    self._failed = []
                    self._queue.clear()
            return False
        self._garbage_waits = False
        self._trouble, self._worked = "", time.monotonic()
        self._post(_settle, batch, None)
        return True

    def _collect(self) -> None:
        """Remove some rows that are not needed any more."""
        with self._changed:
            if self._garbage_waits or not (self._marks or self._garbage):
                return
            marks = self._marks.copy()
            rows = list(islice(self._garbage, _GARBAGE_BATCH))
        try:
            with self._database, transaction(self._db):
                # The marks go with the first rows: what is missing must be known to be missing.
                for cluster, compacted in marks.items():
                    self._db.execute(
                        "UPDATE cluster SET compacted = max(compacted, ?) WHERE id = ?", (compacted, cluster)
                    )
                unneeded = json.dumps(rows)
                self._db.execute("DELETE FROM log WHERE position IN (SELECT value FROM json_each(?))", (unneeded,))
        except sqlite3.Error as error:
            _logger.warning("cannot compact %s, will try again: %s", self._path, error)
            self._garbage_waits = True
            return
        with self._changed:
            for _ in rows:
                self._garbage.popleft()
            self._marks = {key: mark for key, mark in self._marks.items() if marks.get(key) != mark}

    def _take_back(self, why: str) -> None:
        """Fail everything that is on its way; runs in the loop, the only place where writes come from."""
        with self._changed:
            lost = [*self._failed, *self._queue]
            self._queue.clear()
            self._failed = []
            self._changed.notify()
        _settle(lost, why)

    def _post(self, callback: Callable[..., None], *values: object) -> bool:
        assert self._loop is not None  # noqa: S101 - nothing to write came without a loop
        try:
            self._loop.call_soon_threadsafe(callback, *values)
        except RuntimeError:  # the loop is closed: nobody is left who could be told
            return False
        return True


def _settle(batch: list[_Write], why: str | None) -> None:
    """Tell those who wait for a batch; clusters don't see each other, so each gets its share at once."""
    error = Unavailable(f"the write could not be stored: {why}") if why is not None else None
    shares: dict[ClusterLog, list[object]] = {}
    for item in batch:
        shares.setdefault(item.ledger, []).append(item.token)
    for ledger, tokens in shares.items():
        ledger.settle(tokens, error)


def _insert(db: sqlite3.Connection, rows: list[tuple[int, str, int, bytes, int]]) -> None:
    start = 0
    while start < len(rows):
        size = 1 << ((len(rows) - start).bit_length() - 1)  # few distinct statements, so all stay prepared
        db.execute(_INSERT[size], [value for row in rows[start : start + size] for value in row])
        start += size
