"""How an answer looks: whole objects, tables or metadata only, as JSON or YAML; decided by the Accept header."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import yaml

from echelon.api.base import JSONObject
from echelon.hub.catalogue.resources import Resource
from echelon.hub.catalogue.table import partial
from echelon.hub.storage.store import Change, Entry
from echelon.hub.verbs.reading import ListResult
from echelon.hub.web.codec import encode
from echelon.kube.client import EventType
from echelon.kube.errors import NotAcceptable

JSON_TYPE = "application/json"
YAML_TYPE = "application/yaml"

_ITEMS_A_PART = 64
_BYTES_A_PART = 64 * 1024


@dataclass(frozen=True)
class Format:
    """What the client takes."""

    media_type: str = JSON_TYPE
    shape: str = ""  # empty for whole objects, "Table" or "PartialObjectMetadata"
    include: str = "Metadata"  # what a table row carries of its object


@lru_cache(maxsize=256)
def negotiate(accept: str, *, stream: bool = False) -> Format:
    """Choose the first format in an Accept header that can be served; a stream is always of JSON documents."""
    served = (JSON_TYPE,) if stream else (JSON_TYPE, YAML_TYPE)
    for item in accept.split(",") if accept else ("*/*",):
        media, *parameters = (part.strip() for part in item.split(";"))
        wanted = dict(part.partition("=")[::2] for part in parameters)
        shape = wanted.get("as", "")
        if media == "text/yaml":
            media = YAML_TYPE
        if media in ("*/*", "application/*"):
            media = JSON_TYPE
        if media not in served:
            continue
        if not shape:
            return Format(media)
        shape = shape.removesuffix("List")
        if shape in ("Table", "PartialObjectMetadata") and wanted.get("v") == "v1" and wanted.get("g") == "meta.k8s.io":
            return Format(media, shape)
    listed = ", ".join(f"{media};stream=watch" if stream else media for media in served)
    raise NotAcceptable(f"only the following media types are accepted: {listed}")


def encoded(document: object, form: Format) -> bytes:
    """Return a document as the client wants it."""
    if form.media_type == YAML_TYPE:
        text: str = yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
        return text.encode()
    return encode(document)


def one(resource: Resource, entry: Entry | None, obj: JSONObject | None, form: Format, now: datetime) -> bytes:
    """Render one object: from its entry if there is one, which may save the encoding."""
    if entry is not None and as_stored(resource, form):
        return entry.raw
    shown = resource.outgoing(entry.object) if entry is not None else obj or {}
    return encoded(_shaped(resource, shown, form, now), form)


def _shaped(resource: Resource, obj: JSONObject, form: Format, now: datetime) -> JSONObject:
    if form.shape == "Table":
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return resource.printer.table([obj], meta, now, include=form.include)
    return partial(obj) if form.shape else obj


class Rendered(NamedTuple):
    """An answer in parts, which are made as they are sent: a large list is never in memory as a whole."""

    length: int | None  # None: not known before it is made
    parts: Iterator[bytes]


def as_stored(resource: Resource, form: Format) -> bool:
    """Tell whether objects are shown in the form in which they are stored."""
    return not form.shape and form.media_type == JSON_TYPE and resource.from_storage is None


def many(resource: Resource, found: ListResult, form: Format, now: datetime) -> Rendered:
    """Render a list. Objects that are stored as they are shown are sent as they are stored."""
    if not as_stored(resource, form):
        return Rendered(None, _made_parts(resource, found, form, now))
    kind, items = resource.kind, [entry.raw for entry in found.entries]
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": _list_meta(found)}
    start, end = encode(head)[:-1] + b',"items":[', b"]}"
    length = len(start) + sum(map(len, items)) + max(len(items) - 1, 0) + len(end)
    return Rendered(length, _parts(start, items, end))


def _parts(start: bytes, items: Sequence[bytes], end: bytes) -> Iterator[bytes]:
    """Join items to parts that are worth sending; a large item is a part of its own, and not copied."""
    part, size = [start], len(start)
    for number, item in enumerate(items):
        if number:
            part.append(b",")
        part.append(item)
        size += len(item) + 1
        if size >= _BYTES_A_PART:
            if len(item) >= _BYTES_A_PART:
                yield b"".join(part[:-1])
                yield item
            else:
                yield b"".join(part)
            part, size = [], 0
    part.append(end)
    yield b"".join(part)


def _made_parts(resource: Resource, found: ListResult, form: Format, now: datetime) -> Iterator[bytes]:
    """Make a list in another form than the one in which objects are stored, some of its items at a time."""
    first = True
    for batch in in_batches(found.entries):
        made = _made_list(resource, batch, _list_meta(found), form, now)
        field = "rows" if form.shape == "Table" else "items"
        items = made.pop(field)
        yield _opening(made, field, form, empty=not items) if first else b""
        yield _made_items(items, form, first=first)
        first = False
    yield b"" if form.media_type == YAML_TYPE else b"]}"


def in_batches(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cut entries into pieces that take milliseconds to render; an empty list is one piece."""
    begin, size = 0, 0
    for number, entry in enumerate(entries):
        if number > begin and (number - begin >= _ITEMS_A_PART or size >= _BYTES_A_PART):
            yield entries[begin:number]
            begin, size = number, 0
        size += entry.size
    yield entries[begin:]


def _opening(head: JSONObject, field: str, form: Format, *, empty: bool) -> bytes:
    if form.media_type == YAML_TYPE:
        return encoded(head, form) + f"{field}:{' []' if empty else ''}\n".encode()
    return encode(head)[:-1] + f',"{field}":['.encode()


def _made_items(items: Sequence[JSONObject], form: Format, *, first: bool) -> bytes:
    if form.media_type == YAML_TYPE:
        return encoded(items, form) if items else b""
    return (b"" if first else b",") + encode(items)[1:-1]


def _list_meta(found: ListResult) -> JSONObject:
    meta: JSONObject = {"resourceVersion": str(found.revision)}
    if found.continue_:
        meta["continue"] = found.continue_
        if found.remaining is not None:
            meta["remainingItemCount"] = found.remaining
    return meta


def _made_list(
    resource: Resource, entries: Sequence[Entry], meta: JSONObject, form: Format, now: datetime
) -> JSONObject:
    kind, objects = resource.kind, [resource.outgoing(entry.object) for entry in entries]
    if form.shape == "Table":
        return resource.printer.table(objects, meta, now, include=form.include)
    if form.shape:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return {**head, "items": [partial(obj) for obj in objects]}
    return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta, "items": objects}


class WatchRenderer:
    """Turns changes into the lines of a watch response."""

    def __init__(self, resource: Resource, form: Format) -> None:
        self._resource = resource
        self._form = form
        self._headers = True

    def lines(self, changes: Sequence[Change], now: datetime) -> bytes:
        """Return a batch of changes."""
        if not self._form.shape and self._resource.from_storage is None:
            return b"".join([change.line for change in changes])
        return b"".join(self._line(change, now) for change in changes)

    def _line(self, change: Change, now: datetime) -> bytes:
        obj = self._resource.outgoing(change.entry.object)
        if self._form.shape == "Table":
            meta = {"resourceVersion": str(change.revision)}
            shown = self._resource.printer.table([obj], meta, now, include=self._form.include, headers=self._headers)
            self._headers = False
        else:
            shown = partial(obj) if self._form.shape else obj
        return encode({"type": change.type, "object": shown}) + b"\n"

    def bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        """Return a line that says how far the watch is; `initial` ends the initial events."""
        meta: JSONObject = {"resourceVersion": str(revision)}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind = self._resource.kind
        obj: JSONObject = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        if self._form.shape == "Table":
            obj = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "columnDefinitions": None,
                "rows": [],
            }
        elif self._form.shape:
            obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return encode({"type": EventType.BOOKMARK, "object": obj}) + b"\n"


def error_line(status: JSONObject) -> bytes:
    """Return the line that ends a watch with an error."""
    return encode({"type": "ERROR", "object": status}) + b"\n"


def objects_as_list(resource: Resource, objects: Iterable[JSONObject], revision: int) -> JSONObject:
    """Return objects as a list of their kind."""
    kind = resource.kind
    meta = {"resourceVersion": str(revision)}
    return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta, "items": list(objects)}
