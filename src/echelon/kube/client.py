"""The client protocol: the only way in which the rest of Echelon touches a Kubernetes API.

There are two implementations, over HTTP and in the process of the embedded hub, and one conformance suite for both.
Reading is typed: unknown fields are dropped. Therefore there is no `update`: an object that was read is never sent
back, and a write names the fields that it owns, so that what others put into the object survives.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from echelon.api.kinds import Kind
from echelon.kube.errors import Unreadable
from echelon.kube.misfits import Misfit

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Page(Generic[T]):
    """A list, or one page of it; `continue_` is empty on the last. One unreadable object does not hide the others."""

    readable: Sequence[T]
    resource_version: str
    continue_: str = ""
    remaining: int = 0
    unreadable: Sequence[Misfit] = ()

    @property
    def items(self) -> Sequence[T]:
        """All objects. Raises `Unreadable` if there is one that is not among them: it is not gone for that."""
        if self.unreadable:
            first, more = self.unreadable[0], len(self.unreadable) - 1
            others = f", and {more} more" if more else ""
            raise Unreadable(f"{first.where} cannot be read{others}: {first.why}")
        return self.readable


class EventType(StrEnum):
    """What a watch says of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Event(msgspec.Struct, Generic[T_co], frozen=True):
    """A step of a watch. A bookmark has no object; `synced` marks the one that ends the initial events.

    A change of an object that cannot be read has no object either, and tells which one it is.
    """

    type: EventType
    resource_version: str
    object: T_co | None = None
    synced: bool = False
    unreadable: Misfit | None = None


@dataclass(frozen=True)
class MergePatch:
    """RFC 7396: the fields to set, null to remove."""

    body: dict[str, Any]


@dataclass(frozen=True)
class JSONPatch:
    """RFC 6902: a list of operations, `test` among them."""

    operations: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class StrategicPatch:
    """Kubernetes' own merge for the kinds that it serves itself: lists merge by key."""

    body: dict[str, Any]


@dataclass(frozen=True)
class ApplyPatch:
    """Server-side apply: everything that this manager wants, and nothing else."""

    body: dict[str, Any]
    manager: str
    force: bool = False


Patch = MergePatch | JSONPatch | StrategicPatch | ApplyPatch


@dataclass(frozen=True)
class Preconditions:
    """What must still be true of the object when a write arrives; empty strings don't matter."""

    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True)
class WriteOptions:
    """How a write is done, whatever it writes."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""  # Ignore, Warn or Strict; empty leaves it to the server
    warn: Callable[[str], None] | None = None  # hears what the server warns of, with a write that it made


@dataclass(frozen=True)
class DeleteOptions:
    """How an object goes away."""

    preconditions: Preconditions = field(default_factory=Preconditions)
    propagation: str = ""  # Background, Foreground or Orphan; empty leaves it to the server
    grace_period_seconds: int | None = None
    dry_run: bool = False


class ReadOptions(TypedDict, total=False):
    """Which of the objects of a kind are meant, and as of when; what is not said does not matter."""

    labels: str
    fields: str
    resource_version: str


class ListOptions(ReadOptions, total=False):
    """How to list."""

    limit: int  # of one page
    continue_: str
    resource_version_match: str  # Exact or NotOlderThan


class WatchOptions(ReadOptions, total=False):
    """How to watch."""

    bookmarks: bool  # unless said otherwise they are wanted
    initial_events: bool  # what there is as events, and a bookmark after them, instead of a list before
    timeout_seconds: int


class Reader(Protocol):
    """Reads objects. Every method raises an `ApiError` of `echelon.kube.errors`."""

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        ...

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        ...

    def watch(self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]) -> AsyncIterator[Event[T]]:
        """Follow changes after a resource version, until the server or the caller ends it.

        Raises `Gone` when that version is too old.
        """
        ...


class Writer(Protocol):
    """Writes objects. Every method raises an `ApiError` of `echelon.kube.errors`."""

    async def create(
        self, kind: Kind[T], body: dict[str, Any], namespace: str = "", *, options: WriteOptions | None = None
    ) -> T:
        """Create an object; `body` is the wire form."""
        ...

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> T:
        """Change the fields that the patch names. A uid or resourceVersion in it is a precondition.

        A patch of `scale` is one of a Scale, and returns the object that was scaled.
        """
        ...

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        """Ask for the end of an object."""
        ...


class Client(Reader, Writer, Protocol):
    """Both at once, for those that need both."""


class Documents(Protocol):
    """Says what a server is and what it serves."""

    async def document(self, path: str) -> dict[str, Any]:
        """Return what the server answers at a path that is no object's: `/version`, `/apis/apps/v1`."""
        ...
