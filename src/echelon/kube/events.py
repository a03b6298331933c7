"""Tells people what happened, as Kubernetes events, without drowning them or the server.

The same thing said again within a while is one event with a count. An object about which there is much to say gets a
burst of events and then a trickle; what is not written is still counted, and shows with the next write. Nothing here
may fail for the one who reports: an event is not worth a rollout.

What is written is logged, too, once: a line for each decision that people are told of.

What is important (warnings, and the ends of rollouts and surges) is always written once: whatever else was said about
the object, and again if the server was in trouble. It may have to wait for that: no more than a few go out each second.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar

from echelon.api.base import JSONObject
from echelon.api.events import EVENT
from echelon.api.times import format_micro_time
from echelon.engine.plan import Emit, Reference
from echelon.kube.client import MergePatch, Writer
from echelon.kube.clock import Clock
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, TooManyRequests
from echelon.kube.metrics import Metrics

V = TypeVar("V")

SERIES_SECONDS = 360.0
BURST = 25.0
REFILL_SECONDS = 300.0
WRITE_SECONDS = 5.0
REMEMBERED = 4096
IMPORTANT_BURST = 100.0
IMPORTANT_SECONDS = 0.2  # for one more of them
LEAST_SECONDS = 0.01  # a wait that is shorter may come to no end, for clocks are not that exact
RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0)
_NOTE_BYTES = 1024
_WORD_LENGTH = 128
_NAME_LENGTH = 253 - 17  # a dot and sixteen digits follow
_CHANCE_BITS = 22  # in these digits, besides the milliseconds since 1970

_log = logging.getLogger(__name__)

_Object: TypeAlias = tuple[str, str, str, str]
_Said: TypeAlias = tuple[_Object, str, str, str, str, _Object | None]


@dataclass
class _Series:
    """One thing that was said, and how often."""

    last: float
    name: str = ""  # of the event; empty until it was written
    chosen: str = ""  # the name under which it is written, so that an attempt whose answer was lost makes no second one
    count: int = 1
    writing: bool = False


@dataclass
class _Bucket:
    """How many events may be written at once."""

    at: float
    most: float = BURST
    refill: float = REFILL_SECONDS
    spent: float = 0.0

    def take(self, now: float) -> bool:
        if self.debt(now) > 0:
            return False
        self.spent += 1
        return True

    def debt(self, now: float) -> float:
        """Return in how many seconds there is one more."""
        self.spent = max(0.0, self.spent - (now - self.at) / self.refill)
        self.at = now
        return max(0.0, self.spent + 1 - self.most) * self.refill


@dataclass
class _Recent(Generic[V]):
    """A memory that forgets what was not used for longest."""

    entries: OrderedDict[Any, V] = field(default_factory=OrderedDict)

    def get(self, key: Any) -> V | None:
        found = self.entries.get(key)
        if found is not None:
            self.entries.move_to_end(key)
        return found

    def put(self, key: Any, value: V) -> V:
        self.entries[key] = value
        self.entries.move_to_end(key)
        if len(self.entries) > REMEMBERED:
            self.entries.popitem(last=False)
        return value


class EventRecorder:
    """Writes events in the name of one controller."""

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        reporting_controller: str,
        reporting_instance: str,
        *,
        random: Random,
        metrics: Metrics | None = None,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._who = {
            "reportingController": reporting_controller,
            "reportingInstance": reporting_instance[:_WORD_LENGTH],
        }
        self._random = random
        self._outcomes = (metrics or Metrics()).events
        self._series: _Recent[_Series] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()
        self._important = _Bucket(0.0, IMPORTANT_BURST, IMPORTANT_SECONDS)

    async def emit(self, event: Emit) -> None:
        """Write an event, or count it with those before it. Never raises."""
        now = asyncio.get_running_loop().time()
        said = _said(event)
        series = self._series.get(said)
        if series is not None and now - series.last <= SERIES_SECONDS:
            series.count += 1
            series.last = now
        else:
            series = self._series.put(said, _Series(now))
        about = said[0]
        bucket = self._buckets.get(about) or self._buckets.put(about, _Bucket(now))
        must = event.important and not series.name
        # While one writes, the others only count; the next occurrence writes the sum.
        if series.writing or not (must or bucket.take(now)):
            self._outcomes.labels("counted").inc()
            return
        series.writing = True
        try:
            await (self._write_surely(event, series) if must else self._try(event, series))
            self._outcomes.labels("written").inc()
        except Exception as error:  # noqa: BLE001 - see above
            self._outcomes.labels("failed").inc()
            _log.warning("an event about %s was not written: %r: %s", event.regarding.name, error, event.note)
        finally:
            series.writing = False

    async def _write_surely(self, event: Emit, series: _Series) -> None:
        """Write an event as soon as there is room for it, and again while that may help."""
        loop = asyncio.get_running_loop()
        while not self._important.take(loop.time()):  # noqa: ASYNC110 - others may be faster
            await asyncio.sleep(max(self._important.debt(loop.time()), LEAST_SECONDS))
        for pause in RETRY_SECONDS:
            try:
                await self._try(event, series)
            except Exception as error:
                if not _may_pass(error):
                    raise
                asked = error.retry_after if isinstance(error, ApiError) else 0
                await asyncio.sleep(max(pause, min(asked, RETRY_SECONDS[-1])))
            else:
                return
        await self._try(event, series)

    async def _try(self, event: Emit, series: _Series) -> None:
        async with asyncio.timeout(WRITE_SECONDS):
            await self._write(event, series)

    async def _write(self, event: Emit, series: _Series) -> None:
        namespace = event.regarding.namespace or "default"
        now = format_micro_time(self._clock.now())
        if series.name:
            change = {"series": {"count": series.count, "lastObservedTime": now}}
            try:
                await self._writer.patch(EVENT, series.name, MergePatch(change), namespace)
            except NotFound:  # servers forget events after a while
                series.name, series.chosen, series.count = "", "", 1
            else:
                return
        series.chosen = series.chosen or f"{_event_name(event.regarding.name)}.{self._moment():016x}"
        try:
            await self._writer.create(EVENT, self._body(event, series, now), namespace)
        except AlreadyExists:
            _log.debug("the event %s was written by an attempt before", series.chosen)
        series.name = series.chosen
        about = event.regarding
        place = f"{about.namespace}/{about.name}" if about.namespace else about.name
        _log.info("%s %s: %s: %s", about.kind.kind, place, event.reason, event.note, extra={"reason": event.reason})

    def _moment(self) -> int:
        """Return a number that grows with time: kubectl shows events of this kind in the order of their names."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        return milliseconds << _CHANCE_BITS | self._random.getrandbits(_CHANCE_BITS)

    def _body(self, event: Emit, series: _Series, now: str) -> JSONObject:
        regarding = event.regarding
        body: JSONObject = {
            **EVENT.type_meta,
            "metadata": {"name": series.chosen, "namespace": regarding.namespace or "default"},
            "eventTime": now,
            **self._who,
            "action": event.action[:_WORD_LENGTH],
            "reason": event.reason[:_WORD_LENGTH],
            "regarding": _reference(regarding),
            "note": _note(event.note),
            "type": event.type,
        }
        if event.related is not None:
            body["related"] = _reference(event.related)
        if series.count > 1:  # those before it could not be written
            body["series"] = {"count": series.count, "lastObservedTime": now}
        return body


def _may_pass(error: Exception) -> bool:
    """Whether the same write may go well a little later."""
    if not isinstance(error, ApiError):
        return isinstance(error, TimeoutError | OSError)
    return error.status_code >= 500 or isinstance(error, TooManyRequests | Conflict)


def _said(event: Emit) -> _Said:
    related = None if event.related is None else _object(event.related)
    return (_object(event.regarding), event.reason, event.action, event.type, event.note, related)


def _object(reference: Reference) -> _Object:
    return (reference.kind.resource, reference.namespace, reference.name, reference.uid)


def _reference(reference: Reference) -> JSONObject:
    wire = {**reference.kind.type_meta, "name": reference.name, "namespace": reference.namespace, "uid": reference.uid}
    return {key: value for key, value in wire.items() if value}


def _event_name(name: str) -> str:
    """Return the part of an event's name that tells what it is about; some kinds have names that events may not."""
    cleaned = re.sub(r"[^a-z0-9.-]", "-", name.lower())[:_NAME_LENGTH]
    parts = (part.strip("-") for part in cleaned.split("."))
    return ".".join(part for part in parts if part) or "event"


def _note(text: str) -> str:
    """Cut a note to what servers accept, which is counted in bytes."""
    encoded = text.encode()
    if len(encoded) <= _NOTE_BYTES:
        return text
    return encoded[: _NOTE_BYTES - 3].decode(errors="ignore") + "..."
