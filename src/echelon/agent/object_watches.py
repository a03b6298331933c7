"""Watches what was applied, so that an answer follows a change at once and nobody has to ask again and again.

An agent has no business with what it did not apply, so an object is watched by its name. Only where it applied many of
a kind in a namespace do they share one watch; never secrets, and never what has no namespace. There is a limit to
watches: a work of a thousand objects must not open a thousand streams. Where there would be too many, sharing begins
earlier. What is beyond the limit even so is not watched, and whoever wants to know asks.

A policy may be about all objects of a kind, or about those of one name in many namespaces. Then that is what is
watched, because somebody said so.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.engine.work.removal import ResourceKey
from echelon.engine.work.reporting import Absent, Present
from echelon.kube.client import Client
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics

SHARED_ABOVE = 10  # so many objects of a kind in a namespace have a watch each; more of them share one


class ObjectRef(NamedTuple):
    """An object that may exist, under the version of its kind through which it is read.

    Without a name it stands for all objects of its namespace, and without a namespace, where its kind has them, for
    those of all.
    """

    kind: Kind[JSONObject]
    namespace: str
    name: str

    @property
    def key(self) -> ResourceKey:
        """Where it is, whatever the version through which one looks."""
        return self.kind.group, self.kind.plural, self.namespace, self.name


class _WatchScope(NamedTuple):
    """What one watch covers."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str  # empty if it is shared


@dataclass
class _Watch:
    informer: Informer[JSONObject]
    task: asyncio.Task[None]


class ObjectWatches:
    """The watches of one agent, for whatever owners it applied objects for."""

    def __init__(
        self,
        member: Client,
        *,
        limit: int,
        random: Random,
        metrics: Metrics,
        make_informer: Callable[..., Informer[Any]] = Informer,
    ) -> None:
        self._member = member
        self._make_informer = make_informer
        self._limit = limit
        self._random = random
        self._metrics = metrics
        self._handlers: list[Callable[[ResourceKey], None]] = []
        self._watches: dict[_WatchScope, _Watch] = {}
        self._wanted: dict[Hashable, tuple[ObjectRef, ...]] = {}  # by owner
        # What is wanted, by what could cover it: objects, and how many owners want each.
        self._objects: dict[_WatchScope, dict[ObjectRef, int]] = {}
        self._shared: set[_WatchScope] = set()

    def __len__(self) -> int:
        """Return how many watches there are."""
        return len(self._watches)

    def on_change(self, handler: Callable[[ResourceKey], None]) -> None:
        """Let a handler hear where something changed."""
        self._handlers.append(handler)

    def watch(self, owner: Hashable, refs: Iterable[ObjectRef]) -> None:
        """Watch these objects, for an owner that has no others."""
        wanted, before = tuple(dict.fromkeys(refs)), self._wanted.pop(owner, ())
        if wanted:
            self._wanted[owner] = wanted
        if set(wanted) == set(before):
            return
        for ref in wanted:
            objects = self._objects.setdefault(_shared_scope(ref), {})
            objects[ref] = objects.get(ref, 0) + 1
        for ref in before:
            self._release(ref)
        self._start_and_stop()

    def is_watched(self, ref: ObjectRef) -> bool:
        """Whether changes of an object are heard of."""
        return self._informer(ref) is not None

    def cached(
        self, ref: ObjectRef, known: JSONObject | None = None, *, within: ObjectRef | None = None
    ) -> Present | Absent | None:
        """Return an object as it is now; nothing if one has to ask. `known` is how it was last seen or written.

        `within` is what is watched, if that is more than the object.
        """
        informer, key = self._informer(within or ref), Key(ref.namespace, ref.name)
        if informer is None:
            return None
        if known is not None and not informer.shows(key, known["metadata"].get("resourceVersion", "")):
            return Present(known)
        live = informer.get(key)
        return Absent() if live is None else Present(live)

    def listed(self, ref: ObjectRef, namespace: str = "") -> list[JSONObject] | None:
        """Return the objects that a watch of many shows, of one namespace if that is said; nothing if one has to ask.

        What is asked for one by one is not all that there is.
        """
        informer = self._informer(ref) if not ref.name else None
        return None if informer is None else informer.values(namespace)

    async def close(self) -> None:
        """End all watches."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _release(self, ref: ObjectRef) -> None:
        shared = _shared_scope(ref)
        objects = self._objects[shared]
        objects[ref] -= 1
        if not objects[ref]:
            del objects[ref]
        if not objects:
            del self._objects[shared]
            self._shared.discard(shared)  # not before: who shares once and no more would begin anew each time
        elif not ref.name and not _may_share(ref):
            self._shared.discard(shared)  # who needed all of them is gone, and nobody else may look at all of them

    def _start_and_stop(self) -> None:
        """Start and stop watches, so that they cover what is wanted as far as that is possible."""
        for shared, objects in self._objects.items():
            many = len(objects) > SHARED_ABOVE and _may_share(next(iter(objects)))
            if many or any(not ref.name for ref in objects):
                self._shared.add(shared)
        needed = self._needed()
        while len(needed) > self._limit and (best := self._best_to_share()):
            self._shared.add(best)
            needed = self._needed()
        for scope in [scope for scope in self._watches if scope not in needed]:
            self._watches.pop(scope).task.cancel()
        for scope, kind in needed.items():
            if scope not in self._watches and len(self._watches) < self._limit:
                self._watches[scope] = self._start(scope, kind)

    def _needed(self) -> dict[_WatchScope, Kind[JSONObject]]:
        """Return the scopes of the watches that would cover everything."""
        return {self._scope(ref): ref.kind for objects in self._objects.values() for ref in objects}

    def _best_to_share(self) -> _WatchScope | None:
        """Return where sharing would save most watches, if it would save any."""
        candidates = [
            (len(objects), shared)
            for shared, objects in self._objects.items()
            if len(objects) > 1 and shared not in self._shared and _may_share(next(iter(objects)))
        ]
        return max(candidates)[1] if candidates else None

    def _informer(self, ref: ObjectRef) -> Informer[JSONObject] | None:
        """Return who knows of an object; nobody if it is not watched, or not everything has come yet."""
        watch = self._watches.get(self._scope(ref))
        return watch.informer if watch is not None and watch.informer.synced else None

    def _scope(self, ref: ObjectRef) -> _WatchScope:
        shared = _shared_scope(ref)
        return shared if shared in self._shared else shared._replace(name=ref.name)

    def _start(self, scope: _WatchScope, kind: Kind[JSONObject]) -> _Watch:
        fields = f"metadata.name={scope.name}" if scope.name else ""
        informer: Informer[JSONObject] = self._make_informer(
            self._member, kind, scope.namespace, fields=fields, random=self._random, metrics=self._metrics
        )

        def changed(delta: Delta[JSONObject]) -> None:
            meta = delta.object["metadata"]
            key = (kind.group, kind.plural, meta.get("namespace", ""), meta["name"])
            for handler in self._handlers:
                handler(key)

        informer.on_change(changed)
        return _Watch(informer, asyncio.create_task(informer.run(), name=f"informer of {kind.plural}"))


def _shared_scope(ref: ObjectRef) -> _WatchScope:
    """Return what covers an object and all others of its kind beside it."""
    kind = ref.kind
    return _WatchScope(kind.group, kind.version, kind.plural, ref.namespace, "")


def _may_share(ref: ObjectRef) -> bool:
    """Whether others' objects may be looked at for the sake of ours: secrets are nobody else's business."""
    return ref.namespace != "" and (ref.kind.group, ref.kind.plural) != ("", "secrets")
