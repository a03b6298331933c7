"""How far caches have come: whether what they show is as new as something else that is known.

Caches follow a server with a delay, each with its own. An object that is newer than a cache was written by somebody
who may have known more than that cache does, and what seems to be missing may only not have come yet. Everything here
is a question to caches; nothing reads a clock, and nothing waits.
"""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from echelon.api.keys import Key
from echelon.api.versions import newer
from echelon.kube.cache import identity_of, version_of
from echelon.kube.informer import Informer

T = TypeVar("T")


class Followed(Protocol):
    """A cache, as far as it is asked how far it has come."""

    @property
    def reached(self) -> str:
        """The resource version up to which everything that happened is known."""
        ...

    @property
    def went_back(self) -> int:
        """How often it believed a state that is older than one that it had."""
        ...


class Freshness:
    """Whether caches know at least what the writer of an object knew.

    Whoever writes has seen a state that is older than the write. So caches that have come to the version of an object
    know enough. What this process wrote itself, knowing enough, it wrote with these caches: they know enough as long as
    none of them has gone back since, as they do when a server is restored from a backup.
    """

    def __init__(self, informers: Sequence[Followed]) -> None:
        self._informers = tuple(informers)
        self._own: dict[str, int] = {}  # the era in which this process decided on its last write of an object, by uid

    @property
    def era(self) -> int:
        """Changes whenever a cache has gone back; what was known in one era may be unknown in the next."""
        return sum(each.went_back for each in self._informers)

    def wrote(self, uid: str, era: int) -> None:
        """Note that this process wrote an object, and in which era it decided to."""
        self._own[uid] = era

    def forget(self, uid: str) -> None:
        """Let go of an object that is gone, or was written without knowing enough."""
        self._own.pop(uid, None)

    def is_behind(self, version: str, uid: str = "") -> bool:
        """Whether the caches may know less than the writer of this version of an object.

        Versions that are no numbers tell nothing about the order of things, and nobody could ever catch up with them.
        """
        if not version.isdigit() or (self._own and self._own.get(uid) == self.era):
            return False
        return any(newer(version, each.reached) for each in self._informers)


class OwnWrites(Generic[T]):
    """Objects of a cache as this process wrote them, until the cache shows that or what became of them later."""

    def __init__(self, informer: Informer[T]) -> None:
        self._informer = informer
        self._own: dict[Key, T] = {}
        self._eras: dict[Key, int] = {}  # how often the cache had gone back then

    def wrote(self, obj: T) -> None:
        """Take an object in as the server returned it."""
        key = identity_of(obj).key
        self._own[key] = obj
        self._eras[key] = self._informer.went_back

    def knows(self, obj: T) -> bool:
        """Whether this is no news for whoever made our last write: the state that it led to, or one before that."""
        key, uid, version = identity_of(obj)
        own = self._own.get(key)
        if own is None or self._eras[key] != self._informer.went_back:
            return False  # what was written may be undone
        _, own_uid, own_version = identity_of(own)
        return uid == own_uid and not newer(version, own_version)

    def get(self, key: Key) -> T | None:
        """Return an object in the newest state that is known, if there is one."""
        own = self._own.get(key)
        if own is not None and not self._informer.shows(key, version_of(own)):
            return own
        # Also if it is gone: the answer to our last write of it may have come after the news of its end.
        self.forget(key)
        return self._informer.get(key)

    def forget(self, key: Key) -> None:
        """Let go of an object."""
        self._own.pop(key, None)
        self._eras.pop(key, None)


def shows(informer: Informer[Any], key: Key, *, version: str | None, uid: str = "") -> bool:
    """Whether a cache shows a write: that version of an object or a later one, or for None the end of what had a uid.

    A deletion that finalizers hold up counts as shown when the object is ending.
    """
    if version is not None:
        return informer.shows(key, version)
    obj = informer.get(key)
    return obj is None or key in informer.unreadable or uid not in ("", identity_of(obj).uid) or is_ending(obj)


def is_ending(obj: Any) -> bool:
    """Whether the deletion of an object has been asked for."""
    if isinstance(obj, dict):
        return bool(obj["metadata"].get("deletionTimestamp"))
    return bool(obj.metadata.deletion_timestamp)
