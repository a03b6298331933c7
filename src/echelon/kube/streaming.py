"""The watch protocol: one JSON document a line, for as long as the connection lasts.

A line can be larger than any object that Kubernetes stores (1.5 MB), lines and network chunks do not coincide, and an
error can arrive in the middle of a stream that began with 200. The caller must be able to tell the ends apart: a
stream that ended as agreed, one that broke, and one that the server refuses to continue.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from functools import cache
from typing import Any, Generic, TypeVar, cast

import aiohttp
import msgspec

from echelon.api.kinds import Kind
from echelon.kube import errors
from echelon.kube.client import Event, EventType
from echelon.kube.misfits import misfit
from echelon.kube.nesting import NestedTooDeep, shortened

T = TypeVar("T")

LONGEST_LINE = 8 * 1024 * 1024
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

# What is decoded before other tasks get a turn: a few milliseconds of work.
_CHUNK = 256 * 1024
# How servers begin the line of a change. Any other order of fields is read as well, in two passes.
_BEGINNINGS = tuple(f'{{"type":"{kind}"'.encode() for kind in ("ADDED", "MODIFIED", "DELETED"))
_CHANGES = {kind.value: kind for kind in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED)}


class _Line(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Change(msgspec.Struct, Generic[T], gc=False):
    """A line whose object is one of its kind, read in one pass."""

    type: str
    object: T


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Partial(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_partial = msgspec.json.Decoder(_Partial).decode


@cache
def decoder(type_: Hashable) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type; making one costs more than using it."""
    return msgspec.json.Decoder(cast("Any", type_))


class LineSplitter:
    """Puts lines together again from the pieces in which they arrive."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that a chunk completes."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._size += len(first)
        if self._size > self._longest:
            raise errors.Unreadable(f"a watch event is longer than {self._longest} bytes")
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts, self._size = [others[-1]], len(others[-1])
        return [line for line in lines if line]

    def rest(self) -> bytes:
        """Return what came after the last line break."""
        return b"".join(self._parts)


class EventDecoder:
    """Makes events of a kind from lines."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind
        self._decode = decoder(cast("Hashable", kind.type)).decode
        self._decode_change = decoder(cast("Hashable", _Change[kind.type])).decode  # type: ignore[name-defined]

    def __call__(self, line: bytes) -> Event[Any]:
        """Return the event; raise the error that the line stands for."""
        try:
            return self._event(line)
        except RecursionError:
            short, word = shortened(line)
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from None
        try:
            return self._event(short, word)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> errors.Unreadable:
        return errors.Unreadable(f"{self._kind.resource}: a watch event cannot be read: {error}")

    def _event(self, line: bytes, cut: bytes | None = None) -> Event[Any]:
        if cut is None and line.startswith(_BEGINNINGS) and (event := self._at_once(line)) is not None:
            return event
        step = _decode_line(line)
        change = _CHANGES.get(step.type)
        if change is not None:
            return self._change(change, step.object, cut)
        if step.type == EventType.BOOKMARK:
            meta = _decode_partial(step.object).metadata
            synced = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
            return Event(EventType.BOOKMARK, meta.resource_version, synced=synced)
        if step.type == "ERROR":
            raise errors.from_status(msgspec.json.decode(step.object, type=dict[str, Any]))
        raise errors.Unreadable(f"{self._kind.resource}: a watch event has an unknown type")

    def _at_once(self, line: bytes) -> Event[Any] | None:
        """Return the event of a line that is as it usually is."""
        try:
            whole = self._decode_change(line)
        except msgspec.ValidationError:
            return None
        change, version = _CHANGES.get(whole.type), _version(whole.object)
        return Event(change, version, whole.object) if change is not None and version else None

    def _change(self, change: EventType, piece: msgspec.Raw, cut: bytes | None = None) -> Event[Any]:
        try:
            if cut is not None and cut in bytes(piece):
                raise NestedTooDeep
            obj = self._decode(piece)
        except (msgspec.ValidationError, NestedTooDeep) as error:
            found = misfit(self._kind, piece, error)
            return Event(change, found.metadata.resource_version, unreadable=found)
        return Event(change, _version(obj) or _decode_partial(piece).metadata.resource_version, obj)


async def follow(
    connect: Callable[[], Awaitable[aiohttp.ClientResponse]], kind: Kind[T], *, bookmarks: bool = True
) -> AsyncGenerator[Event[T], None]:
    """Yield the events of a stream. Without `bookmarks`, only the one that ends the initial events is of interest."""
    response = await connect()
    splitter, decode = LineSplitter(), EventDecoder(kind)
    try:
        while chunk := await _read(response, kind):
            for line in splitter.feed(chunk):
                event = decode(line)
                if bookmarks or event.synced or event.type is not EventType.BOOKMARK:
                    yield event
            await asyncio.sleep(0)  # more may be there already, and then reading would not let others run
        if splitter.rest():
            raise errors.Unavailable(f"{kind.resource}: the watch ended in the middle of an event")
    finally:
        response.close()


async def _read(response: aiohttp.ClientResponse, kind: Kind[Any]) -> bytes:
    """Return what has arrived; empty at a clean end."""
    try:
        return await response.content.read(_CHUNK)
    except (aiohttp.ClientError, OSError, RuntimeError) as error:  # the last when the client was closed meanwhile
        raise errors.Unavailable(f"{kind.resource}: the watch broke: {type(error).__name__}") from error


def _version(obj: Any) -> str:
    """Return the resource version of an object whose type has one; empty if it does not keep it."""
    if isinstance(obj, dict):
        return str(obj.get("metadata", {}).get("resourceVersion", ""))
    return str(getattr(getattr(obj, "metadata", None), "resource_version", ""))
