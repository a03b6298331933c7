"""What an informer knows: objects by name, indexes over them, and the last trace of those that are gone.

A cache is asked far more often than it changes, by reconcilers that want the objects of one namespace or one owner out
of a hundred thousand. So everything that can be asked for is kept ready and changed object by object. Deleted objects
leave their resource version behind for a while: a late event of them must not bring them back to life, and whoever
deleted them must be able to learn that the cache knows. An object that cannot be read keeps its last readable state,
if it had one, and a note that this is not the newest.
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from echelon.api.keys import Key
from echelon.kube.misfits import Misfit

T = TypeVar("T")

Indexer = Callable[[T], Iterable[Hashable]]

_log = logging.getLogger(__name__)

_TRACES_KEPT = 4096


class Identity(NamedTuple):
    """Which object this is, and in which state."""

    key: Key
    uid: str
    resource_version: str


def identity_of(obj: Any) -> Identity:
    """Return which object this is, be it typed or a plain document."""
    if isinstance(obj, dict):
        metadata = obj["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        return Identity(key, metadata.get("uid", ""), metadata.get("resourceVersion", ""))
    metadata = obj.metadata
    return Identity(Key(metadata.namespace, metadata.name), metadata.uid, metadata.resource_version)


def version_of(obj: Any) -> str:
    """Return in which state an object is."""
    version: str = (
        obj["metadata"].get("resourceVersion", "") if isinstance(obj, dict) else obj.metadata.resource_version
    )
    return version


def uid_of(obj: Any) -> str:
    """Return which of the objects that had its name this is."""
    uid: str = obj["metadata"].get("uid", "") if isinstance(obj, dict) else obj.metadata.uid
    return uid


def key_of(obj: Any) -> Key:
    """Return where an object is."""
    return identity_of(obj).key


class Cache(Generic[T]):
    """Objects of one kind. Only its informer changes it."""

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._objects: dict[str, dict[str, T]] = {}  # by namespace, then by name
        self._count = 0
        self._indexers = dict(indexers or {})
        self._indexes: dict[str, dict[Hashable, dict[Key, T]]] = {name: {} for name in self._indexers}
        self._traces: dict[Key, str] = {}  # resource versions of deleted objects, the oldest first
        self.misfits: dict[Key, Misfit] = {}  # objects whose newest state cannot be read

    def __len__(self) -> int:
        return self._count

    def get(self, key: Key) -> T | None:
        """Return an object, if there is one."""
        objects = self._objects.get(key.namespace)
        return objects.get(key.name) if objects is not None else None

    def values(self, namespace: str = "") -> list[T]:
        """Return the objects of a namespace, or all."""
        if namespace:
            return list(self._objects.get(namespace, {}).values())
        return [obj for objects in self._objects.values() for obj in objects.values()]

    def keys(self) -> Iterator[Key]:
        """Return where the objects are, also those that could never be read."""
        yield from (Key(namespace, name) for namespace, objects in self._objects.items() for name in objects)
        yield from (key for key in self.misfits if self.get(key) is None)

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """Return the objects for which an indexer said this value."""
        return list(self._indexes[index].get(value, {}).values())

    def seen(self, key: Key) -> str:
        """Return the newest resource version that is known of an object, gone or not; empty if there is none."""
        if self.misfits and (misfit := self.misfits.get(key)) is not None:
            return misfit.metadata.resource_version
        obj = self.get(key)
        return self._traces.get(key, "") if obj is None else version_of(obj)

    def mark(self, key: Key, misfit: Misfit) -> None:
        """Note that the newest state of an object cannot be read."""
        self.misfits[key] = misfit
        self._traces.pop(key, None)

    def put(self, key: Key, obj: T) -> None:
        """Take an object in."""
        self.misfits.pop(key, None)
        objects = self._objects.setdefault(key.namespace, {})
        before = objects.get(key.name)
        objects[key.name] = obj
        if before is None:
            self._count += 1
            self._traces.pop(key, None)
        if self._indexers:
            self._index(key, before, obj)

    def remove(self, key: Key, resource_version: str) -> T | None:
        """Let an object go, and remember at which version it went. Return it, if it was there."""
        self.misfits.pop(key, None)
        self._traces.pop(key, None)
        self._traces[key] = resource_version
        if len(self._traces) > _TRACES_KEPT:
            del self._traces[next(iter(self._traces))]
        objects = self._objects.get(key.namespace, {})
        before = objects.pop(key.name, None)
        if before is not None:
            self._count -= 1
            self._index(key, before, None)
            if not objects:
                del self._objects[key.namespace]
        return before

    def forget_deleted(self) -> None:
        """Let go of the resource versions of all objects that are gone."""
        self._traces.clear()

    def _index(self, key: Key, before: T | None, after: T | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            old = _values_of(name, indexer, key, before)
            new = _values_of(name, indexer, key, after)
            for value in old:
                if value not in new:
                    held = index[value]
                    del held[key]
                    if not held:
                        del index[value]
            if after is not None:
                for value in new:
                    index.setdefault(value, {})[key] = after


def _values_of(name: str, indexer: Indexer[T], key: Key, obj: T | None) -> list[Hashable]:
    """Ask an indexer. One that fails on an object leaves it out of its index, and nothing else suffers."""
    if obj is None:
        return []
    try:
        return list(dict.fromkeys(indexer(obj)))
    except Exception:  # noqa: BLE001 - it is somebody else's function
        _log.exception("the indexer %s failed on %s", name, key, extra={"index": name, "key": str(key)})
        return []
