"""Everything that one person may see, kept as rows, and sent as it changes to every page that the person has open.

Rows are made from caches when something behind them has changed. Changes are collected for a moment, written once,
and that text goes to all pages; a page that does not keep up gets everything anew.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.core import POD
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.dashboard.caches import Caches
from echelon.dashboard.drawings import Drawings
from echelon.dashboard.tables import EVENTS, TABLES, Table
from echelon.engine.pod_clique.names import PART_OF
from echelon.kube.cache import key_of
from echelon.kube.client import Client
from echelon.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from echelon.kube.informer import Delta
from echelon.rollouts.kinds import ROLLOUT_KINDS

SHORTEST_SECONDS = 0.5  # between two messages; as long as drawing takes, if that is longer
_FIRST_SECONDS = 0.1  # the same, while not everything has been read once
_DRAWING_SECONDS = 0.2  # for rollouts that nobody has opened, before those that somebody has have their turn again
_LONGEST_SECONDS = 10.0  # between two messages, however long drawing takes
_CLOCK_SECONDS = 5.0  # after which rollouts that are under way are drawn anew
_CHECK_SECONDS = 30.0
_AGAIN_SECONDS = 2.0  # before a hub that was away is asked again
_WAITING = 4  # messages that a page may be behind
_MOST_NAMESPACES = 200
_MOST_EVENTS = 300
ROLLOUTS = "rollouts"

_log = logging.getLogger(__name__)


class Feed:
    """What one person sees. `run` it for as long as somebody looks."""

    def __init__(self, client: Client, *, random: Random, now: Callable[[], datetime] = lambda: datetime.now(UTC)):
        self._client = client
        self._wake = asyncio.Event()
        self.reader = Caches(client, self._changed, self._listed, random=random, only={POD.untyped(): PART_OF})
        self.drawings = Drawings(self.reader, self._wake.set, now)
        self._tables = {(each.kind, each.labels): each for each in TABLES}
        self._rows: dict[str, dict[str, JSON]] = {name: {} for name in (*(each.name for each in TABLES), ROLLOUTS)}
        self._stale: dict[str, dict[str, Any]] = {each.name: {} for each in TABLES}
        self._unseen: dict[str, str] = {}
        self._told: tuple[bool, dict[str, str]] = (False, {})  # the last two that pages have heard of
        self._namespaces: tuple[str, ...] = ()
        self._ask = True  # whether there may be more to watch
        self._asked = False  # whether everything was asked for once
        self._pages: set[asyncio.Queue[bytes]] = set()
        self._snapshot: tuple[int, bytes] = (-1, b"")
        self.version = 0
        self.ready = False
        self.written = 0  # bytes that were made, for measurements: those that were sent are as many for each page

    def see(self, namespaces: Iterable[str]) -> None:
        """Look also in some namespaces, where the person may not look in all."""
        known = dict.fromkeys((*self._namespaces, *filter(None, namespaces)))
        if len(known) > len(self._namespaces):
            self._namespaces = tuple(known)[:_MOST_NAMESPACES]
            self._ask = True
            self._wake.set()

    @property
    def watched(self) -> bool:
        """Whether a page is open."""
        return bool(self._pages)

    @asynccontextmanager
    async def page(self) -> AsyncIterator[asyncio.Queue[bytes]]:
        """Give a page everything, and then what changes."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        queue.put_nowait(self.snapshot())
        self._pages.add(queue)
        try:
            yield queue
        finally:
            self._pages.discard(queue)

    def end(self) -> None:
        """Tell all pages that nothing comes any more."""
        for queue in self._pages:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(b"")

    async def run(self) -> None:
        """Follow the hub until cancelled. Raises `Unauthorized` when it no longer knows the person."""
        loop = asyncio.get_running_loop()
        sent, pause, checked, clocked = -SHORTEST_SECONDS, SHORTEST_SECONDS, loop.time(), loop.time()
        following: asyncio.Task[None] | None = None
        try:
            while True:
                if following is not None and following.done():
                    following = following.result()
                if self._ask and following is None:
                    self._ask = False
                    following = asyncio.create_task(self._follow(), name="opening watches")
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLOCK_SECONDS):
                        await self._wake.wait()
                await asyncio.sleep(sent + pause - loop.time())
                self._wake.clear()
                if loop.time() - clocked >= _CLOCK_SECONDS:
                    clocked = loop.time()
                    self.drawings.clock()
                began = time.thread_time()  # what waits for the hub costs nobody anything
                await self._show()
                sent = loop.time()
                # Whoever comes first sees what there is as it is read.
                least = SHORTEST_SECONDS if self.ready else _FIRST_SECONDS
                pause = max(least, min(time.thread_time() - began, _LONGEST_SECONDS))
                if sent - checked > _CHECK_SECONDS:
                    checked = sent
                    await self.reader.check()
                    self._ask = True
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await self.reader.close()

    async def _show(self) -> None:
        """Tell pages what has changed. Clusters and what rollouts say of themselves come before any drawing."""
        body = self._tables_changed()
        self._put(body, ROLLOUTS, self.drawings.glances())
        self._send(body)
        if not self._asked:  # reading the clusters of rollouts would keep the rest waiting
            return
        body = {}
        self._put(body, ROLLOUTS, await self.drawings.redraw(_DRAWING_SECONDS))
        self._send(body)
        if self.drawings.stale:
            self._wake.set()

    def snapshot(self) -> bytes:
        """Return everything, as a message."""
        if self._snapshot[0] != self.version:
            body: JSONObject = {name: {"set": rows, "gone": []} for name, rows in self._rows.items()}
            self._snapshot = self.version, self._message({**body, "full": True, "unseen": self._unseen})
        return self._snapshot[1]

    def row(self, table: str, key: str) -> JSON:
        """Return a row, if there is one."""
        return self._rows[table].get(key)

    def keys(self, table: str) -> list[str]:
        """Return which rows a table has."""
        return list(self._rows[table])

    async def _follow(self) -> None:
        """Watch whatever the person may see."""
        namespaces = await self._all_namespaces()
        failed: list[Kind[Any]] = []

        async def one(kind: Kind[Any], labels: str) -> None:
            try:
                refusal = await self.reader.follow(kind, namespaces, labels)
            except Unauthorized:
                raise
            except ApiError as error:
                refusal = error
            self._unseen.pop(kind.resource, None)
            if refusal is not None:
                self._unseen[kind.resource] = refusal.message
            if refusal is not None and not isinstance(refusal, Forbidden | NotFound):
                failed.append(kind)  # the hub is away, which is no reason to show nothing
            self._wake.set()

        wanted = [(each.kind, each.labels) for each in TABLES]
        wanted += [(each.kind.untyped(), each.labels) for each in ROLLOUT_KINDS]
        await asyncio.gather(*(one(kind, labels) for kind, labels in wanted))
        self.ready, self._asked = not failed, True
        self._wake.set()
        if failed:
            self._ask = True
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _all_namespaces(self) -> tuple[str, ...]:
        try:
            found = (await self._client.list(NAMESPACE.untyped(), limit=_MOST_NAMESPACES)).readable
        except Unauthorized:
            raise
        except ApiError:
            return self._namespaces
        names = (each["metadata"]["name"] for each in found)
        return tuple(dict.fromkeys((*self._namespaces, *names)))[:_MOST_NAMESPACES]

    def _changed(self, kind: Kind[Any], labels: str, delta: Delta[Any]) -> None:
        self._wake.set()
        if (table := self._tables.get((kind, labels))) is not None:
            self._stale[table.name][str(key_of(delta.object))] = delta.new
        self.drawings.changed(kind, labels, delta)

    def _listed(self) -> None:
        self.drawings.opened()
        self._wake.set()

    def _tables_changed(self) -> JSONObject:
        """Make rows of tables anew where their objects have changed. Return those that are other ones now."""
        body: JSONObject = {}
        for table in TABLES:
            stale, self._stale[table.name] = self._stale[table.name], {}
            made = {key: _made(table, obj) if obj is not None else None for key, obj in stale.items()}
            self._put(body, table.name, made)
        self._forget_old_events(body)
        if (self.ready, self._unseen) != self._told:
            self._told = self.ready, dict(self._unseen)
            body["unseen"] = self._told[1]
        return body

    def _put(self, body: JSONObject, name: str, made: dict[str, JSON]) -> None:
        rows = self._rows[name]
        changed = {key: row for key, row in made.items() if row is not None and rows.get(key) != row}
        gone = [key for key, row in made.items() if row is None and key in rows]
        rows.update(changed)
        for key in gone:
            del rows[key]
        if changed or gone:
            body[name] = {"set": changed, "gone": gone}

    def _forget_old_events(self, body: JSONObject) -> None:
        rows: dict[str, Any] = self._rows[EVENTS]
        if (surplus := len(rows) - _MOST_EVENTS) > 0:
            told = body.setdefault(EVENTS, {"set": {}, "gone": []})
            for key in sorted(rows, key=lambda each: str(rows[each]["at"]))[:surplus]:
                del rows[key]
                if told["set"].pop(key, None) is None:
                    told["gone"].append(key)

    def _send(self, body: JSONObject) -> None:
        if not body:
            return
        self.version += 1
        message = self._message(body)
        for queue in self._pages:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(self.snapshot())
            else:
                queue.put_nowait(message)

    def _message(self, body: JSONObject) -> bytes:
        text = msgspec.json.encode({"v": self.version, "ready": self.ready, **body})
        self.written += len(text)
        return b"data: " + text + b"\n\n"


def _made(table: Table, obj: Any) -> JSON:
    try:
        return table.row(obj)
    except Exception:  # noqa: BLE001 - it is somebody else's object, and the others are to be shown
        _log.exception("a row of %s cannot be made of %s", table.name, key_of(obj))
        return None
