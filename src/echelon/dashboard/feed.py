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
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.dashboard.caches import Caches
from echelon.dashboard.noting import NotingReader, Readings
from echelon.dashboard.rows import rollout_row
from echelon.dashboard.tables import EVENTS, TABLES, Table
from echelon.engine.pod_clique.names import PART_OF
from echelon.kube.cache import key_of
from echelon.kube.client import Client
from echelon.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from echelon.kube.informer import Delta
from echelon.rollouts.kinds import ROLLOUT_KINDS, RolloutKind, readable
from echelon.rollouts.refusals import Refused

SHORTEST_SECONDS = 0.8  # between two messages
_FIRST_SECONDS = 0.1  # the same, while not everything has been read once
_SHARE = 2  # how often the time that drawing took passes between two drawings
_LONGEST_SECONDS = 10.0  # between two messages, however long drawing takes
_CLOCK_SECONDS = (
    5.0  # after which rollouts that are under way are drawn anew, for soaks and deadlines pass by themselves
)
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
        self._now = now
        self.reader = Caches(client, self._changed, random=random, only={POD.untyped(): PART_OF})
        self._tables = {(each.kind, each.labels): each for each in TABLES}
        self._kinds = {(each.kind.untyped(), each.labels): each for each in ROLLOUT_KINDS}
        self._documents: dict[tuple[str, Key], tuple[RolloutKind, JSONObject]] = {}
        self._readings = Readings()
        self._rows: dict[str, dict[str, JSON]] = {name: {} for name in (*(each.name for each in TABLES), ROLLOUTS)}
        self._stale: dict[str, dict[str, Any]] = {each.name: {} for each in TABLES}
        self._stale_rollouts: set[Any] = set()
        self._under_way: set[Any] = set()
        self._unseen: dict[str, str] = {}
        self._told: tuple[bool, dict[str, str]] = (False, {})  # the last two that pages have heard of
        self._namespaces: tuple[str, ...] = ()
        self._ask = True  # whether there may be more to watch
        self._wake = asyncio.Event()
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
        sent, pause, checked = -SHORTEST_SECONDS, SHORTEST_SECONDS, loop.time()
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
                by_clock = not self._wake.is_set()
                self._wake.clear()
                began = time.thread_time()  # what waits for the hub costs nobody anything
                self._send(self._tables_changed())
                self._send(await self._rollouts_changed(by_clock=by_clock))
                sent = loop.time()
                # Whoever comes first sees what there is as it is read.
                least = SHORTEST_SECONDS if self.ready else _FIRST_SECONDS
                pause = max(least, min(_SHARE * (time.thread_time() - began), _LONGEST_SECONDS))
                if sent - checked > _CHECK_SECONDS:
                    checked = sent
                    await self.reader.check()
                    self._ask = True
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            await self.reader.close()

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
        self.ready = not failed
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
        if (entry := self._kinds.get((kind, labels))) is not None:
            name = kind.resource, key_of(delta.object)
            self._stale_rollouts.add(name)
            if delta.new is None:
                self._documents.pop(name, None)
            else:
                self._documents[name] = entry, delta.new
        self._stale_rollouts.update(self._readings.concerned(kind, delta))

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

    async def _rollouts_changed(self, *, by_clock: bool) -> JSONObject:
        """Draw those rollouts anew that something around them has changed for, or time. Return the other ones."""
        body: JSONObject = {}
        names = self._stale_rollouts | (self._under_way if by_clock else set())
        self._stale_rollouts = set()
        self._put(body, ROLLOUTS, {_id(name): await self._draw(name) for name in names})
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

    async def _draw(self, name: tuple[str, Key]) -> JSON:
        """Return a rollout as it is now; None if it is gone."""
        self._under_way.discard(name)
        if name not in self._documents:
            self._readings.drop(name)
            return None
        entry, document = self._documents[name]
        reader = NotingReader(self.reader)
        meta, now = document["metadata"], self._now()
        try:
            with readable(entry.kind, document):
                found = await entry.read(reader, document, now)
            picture = found.picture(now)
        except (Refused, ApiError) as error:
            row: JSONObject = _unread(entry, meta, error.message)
            self._under_way.add(name)
        else:
            row = rollout_row(picture, meta.get("creationTimestamp") or "")
            if not picture.over:
                self._under_way.add(name)
        finally:
            self._readings.put(name, reader.notes)
        await asyncio.sleep(0)  # whoever else waits gets a turn between two rollouts
        return row

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


def _id(name: tuple[str, Key]) -> str:
    return f"{name[0]}/{name[1]}"


def _unread(entry: RolloutKind, meta: JSONObject, why: str) -> JSONObject:
    return {
        "kind": entry.kind.singular,
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "state": "cannot be read",
        "over": True,
        "message": why,
        "note": "",
        "counts": {},
        "total": 0,
        "noun": "clusters",
        "number": 0,
        "revision": "",
        "budget": "",
        "made": meta.get("creationTimestamp") or "",
        "groups": [],
    }
