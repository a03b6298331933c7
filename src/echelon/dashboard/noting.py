"""Notes what somebody reads, so that a change tells whose reading is no longer true."""

from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar, Unpack

from echelon.api.kinds import Kind
from echelon.dashboard.caches import is_equality, labels_of
from echelon.kube.cache import identity_of
from echelon.kube.client import Event, ListOptions, Page, Reader, WatchOptions
from echelon.kube.informer import Delta

T = TypeVar("T")
Note: TypeAlias = tuple[str, ...]


class NotingReader:
    """A reader that remembers what was asked, be it answered or refused.

    `noted` hears of it before the answer: what changes while somebody still reads was perhaps read before.
    """

    def __init__(self, reader: Reader, noted: Callable[[Note], None]) -> None:
        self._reader = reader
        self._noted = noted
        self.notes: set[Note] = set()

    def _note(self, *note: str) -> None:
        self.notes.add(note)
        self._noted(note)

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        self._note(kind.resource, "object", namespace, name)
        return await self._reader.get(kind, name, namespace)

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        labels, fields = options.get("labels", ""), options.get("fields", "")
        if labels and is_equality(labels):
            self._note(kind.resource, "label", labels)
        elif fields.startswith("metadata.name="):
            self._note(kind.resource, "name", fields.removeprefix("metadata.name="))
        else:
            self._note(kind.resource, "namespace", namespace)
        return await self._reader.list(kind, namespace, **options)

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Follow changes, as the reader behind this one does."""
        return self._reader.watch(kind, namespace, **options)


class Readings:
    """Whose reading depends on what."""

    def __init__(self) -> None:
        self._by_note: dict[Note, set[Hashable]] = {}
        self._notes: dict[Hashable, set[Note]] = {}

    def put(self, reading: Hashable, notes: Iterable[Note]) -> None:
        """Remember what somebody has read, instead of what they read before."""
        self.drop(reading)
        self._notes[reading] = set(notes)
        for note in self._notes[reading]:
            self._by_note.setdefault(note, set()).add(reading)

    def add(self, reading: Hashable, note: Note) -> None:
        """Remember also that somebody has read this."""
        self._notes.setdefault(reading, set()).add(note)
        self._by_note.setdefault(note, set()).add(reading)

    def drop(self, reading: Hashable) -> None:
        """Forget what somebody has read."""
        for note in self._notes.pop(reading, ()):
            held = self._by_note[note]
            held.discard(reading)
            if not held:
                del self._by_note[note]

    def concerned(self, kind: Kind[Any], delta: Delta[Any]) -> Iterator[Hashable]:
        """Return whose reading a change concerns, some perhaps more than once."""
        for note in _notes_of(kind, delta):
            yield from self._by_note.get(note, ())


def _notes_of(kind: Kind[Any], delta: Delta[Any]) -> Iterator[Note]:
    resource, (namespace, name) = kind.resource, identity_of(delta.object).key
    yield resource, "object", namespace, name
    yield resource, "name", name
    yield resource, "namespace", namespace
    if namespace:
        yield resource, "namespace", ""
    labels = {item for each in (delta.old, delta.new) if each is not None for item in labels_of(each).items()}
    for key, value in labels:
        yield resource, "label", f"{key}={value}"
