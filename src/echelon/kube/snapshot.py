"""Objects in memory that are read like those of a server: a copy of what somebody saw, and changes laid over a reader.

Whoever asks what would be the case, if something were different, must ask the same functions that ask a server. So both
are readers. A snapshot also knows what whoever took it was not allowed to see, and refuses it in the same way.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import msgspec

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.labels import parse, parse_fields
from echelon.kube.cache import identity_of
from echelon.kube.client import Event, ListOptions, Page, Reader, WatchOptions
from echelon.kube.errors import Forbidden, MethodNotAllowed, NotFound
from echelon.kube.misfits import Misfit, misfit

T = TypeVar("T")

Objects = Mapping[str, Mapping[Key, JSONObject]]  # by resource, by name


class Snapshot:
    """A reader of objects that were seen at one moment."""

    def __init__(
        self, objects: Iterable[tuple[Kind[Any], JSONObject]], unseen: Mapping[str, str] | None = None
    ) -> None:
        """`unseen` are resources that could not be read, and why."""
        found: dict[str, dict[Key, JSONObject]] = {}
        for kind, document in objects:
            found.setdefault(kind.resource, {})[identity_of(document).key] = document
        self._objects: Objects = {resource: dict(sorted(each.items())) for resource, each in found.items()}
        self._unseen = unseen or {}

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        self._refuse(kind)
        document = self._objects.get(kind.resource, {}).get(Key(namespace, name))
        if document is None:
            raise NotFound(f'{kind.resource} "{name}" not found')
        return msgspec.convert(document, kind.type)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        self._refuse(kind)
        return _page(kind, self._objects.get(kind.resource, {}).values(), selection(namespace, options))

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Refuse: nothing changes here."""
        del kind, namespace, options
        raise MethodNotAllowed("a copy of what was seen does not change")

    def _refuse(self, kind: Kind[Any]) -> None:
        if kind.resource in self._unseen:
            raise Forbidden(self._unseen[kind.resource])


class Overlay:
    """A reader that sees some objects otherwise than the one behind it does: changed, new or gone."""

    def __init__(self, behind: Reader, changed: Mapping[str, Mapping[Key, JSONObject | None]]) -> None:
        """`changed` has, by resource, objects as they are to be seen; None for those that are gone."""
        self._behind = behind
        self._changed = changed

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        changed = self._changed.get(kind.resource, {})
        if (key := Key(namespace, name)) not in changed:
            return await self._behind.get(kind, name, namespace)
        document = changed[key]
        if document is None:
            raise NotFound(f'{kind.resource} "{name}" not found')
        return msgspec.convert(document, kind.type)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        page = await self._behind.list(kind, namespace, **options)
        changed = self._changed.get(kind.resource)
        if not changed:
            return page
        wanted = selection(namespace, options)
        added = _page(kind, (each for each in changed.values() if each is not None), wanted)
        kept = [each for each in page.readable if identity_of(each).key not in changed]
        misfits = [each for each in page.unreadable if Key(each.metadata.namespace, each.metadata.name) not in changed]
        readable = sorted((*kept, *added.readable), key=lambda each: identity_of(each).key)
        return Page(readable, page.resource_version, unreadable=(*misfits, *added.unreadable))

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Refuse: what is laid over a reader does not change."""
        del kind, namespace, options
        raise MethodNotAllowed("what would be cannot be watched")


def selection(namespace: str, options: ListOptions) -> Callable[[JSONObject], bool]:
    """Return what tells whether a list has an object in it."""
    labels = parse(options["labels"]) if options.get("labels") else None
    fields = parse_fields(options["fields"]) if options.get("fields") else None

    def matches(document: JSONObject) -> bool:
        meta = document["metadata"]
        if namespace and meta.get("namespace", "") != namespace:
            return False
        if labels is not None and not labels.matches(meta.get("labels") or {}):
            return False
        return fields is None or fields.matches(lambda path: _field(document, path))

    return matches


def _page(kind: Kind[T], documents: Iterable[JSONObject], wanted: Callable[[JSONObject], bool]) -> Page[T]:
    readable: list[T] = []
    unreadable: list[Misfit] = []
    for document in documents:
        if not wanted(document):
            continue
        try:
            readable.append(msgspec.convert(document, kind.type))
        except msgspec.ValidationError as error:
            unreadable.append(misfit(kind, document, error))
    found: Sequence[T] = readable
    return Page(found, "", unreadable=unreadable)


def _field(document: JSONObject, path: str) -> str:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
