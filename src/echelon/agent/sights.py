"""Watches what was applied, so that an answer follows a change at once and nobody has to ask again and again.

An agent has no business with what it did not apply, so an object is watched by its name. Only where it applied many of
a kind in a namespace do they share one watch; never secrets, and never what has no namespace. There is a limit to
watches: a work of a thousand objects must not open a thousand streams. Where there would be too many, sharing begins
earlier. What is beyond the limit even so is not watched, and whoever wants to know asks.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.engine.work.cleaning import Place
from echelon.engine.work.reporting import Absent, Found
from echelon.kube.client import Client
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics

MANY = 10  # objects of a kind in a namespace that have a watch each; more of them share one


class Spot(NamedTuple):
    """An object that may exist."""

    kind: Kind[JSONObject]
    namespace: str
    name: str

    @property
    def place(self) -> Place:
        """Where it is, whatever the version through which one looks."""
        return self.kind.group, self.kind.plural, self.namespace, self.name


class _Scope(NamedTuple):
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


class Sights:
    """The watches of one agent. `changed` hears where something changed; open it with `async with`."""

    def __init__(
        self, member: Client, *, limit: int, random: Random, metrics: Metrics, changed: Callable[[Place], None]
    ) -> None:
        self._member = member
        self._limit = limit
        self._random = random
        self._metrics = metrics
        self._changed = changed
        self._watches: dict[_Scope, _Watch] = {}
        self._wanted: dict[str, tuple[Spot, ...]] = {}  # by work
        # What works want, by what could cover it: objects, and how many works want each.
        self._objects: dict[_Scope, dict[Spot, int]] = {}
        self._shared: set[_Scope] = set()

    def __len__(self) -> int:
        """Return how many watches there are."""
        return len(self._watches)

    def want(self, work: str, spots: Iterable[Spot]) -> None:
        """Watch these objects, for a work that has no others."""
        wanted, before = tuple(dict.fromkeys(spots)), self._wanted.pop(work, ())
        if wanted:
            self._wanted[work] = wanted
        if set(wanted) == set(before):
            return
        for spot in wanted:
            objects = self._objects.setdefault(_whole(spot), {})
            objects[spot] = objects.get(spot, 0) + 1
        for spot in before:
            self._drop(spot)
        self._arrange()

    def watched(self, spot: Spot) -> bool:
        """Whether changes of an object are heard of."""
        watch = self._watches.get(self._scope(spot))
        return watch is not None and watch.informer.synced

    def look(self, spot: Spot, known: JSONObject | None) -> Found | Absent | None:
        """Return an object as it is now; nothing if one has to ask. `known` is how it was last seen or written."""
        watch = self._watches.get(self._scope(spot))
        if watch is None or not watch.informer.synced:
            return None
        if known is not None:
            version = known["metadata"].get("resourceVersion", "")
            if not watch.informer.shows(Key(spot.namespace, spot.name), version):
                return Found(known)
        live = watch.informer.get(Key(spot.namespace, spot.name))
        return Absent() if live is None else Found(live)

    async def close(self) -> None:
        """End all watches."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, spot: Spot) -> None:
        whole = _whole(spot)
        objects = self._objects[whole]
        objects[spot] -= 1
        if not objects[spot]:
            del objects[spot]
        if not objects:
            del self._objects[whole]
            self._shared.discard(whole)  # not before: who shares once and no more would begin anew each time

    def _arrange(self) -> None:
        """Begin and end watches, so that they cover what is wanted as far as that is possible."""
        for whole, objects in self._objects.items():
            if len(objects) > MANY and _may_share(next(iter(objects))):
                self._shared.add(whole)
        covering = self._covering()
        while len(covering) > self._limit and (largest := self._largest()):
            self._shared.add(largest)
            covering = self._covering()
        for scope in [scope for scope in self._watches if scope not in covering]:
            self._watches.pop(scope).task.cancel()
        for scope, kind in covering.items():
            if scope not in self._watches and len(self._watches) < self._limit:
                self._watches[scope] = self._begin(scope, kind)

    def _covering(self) -> dict[_Scope, Kind[JSONObject]]:
        """Return the watches that would cover everything."""
        return {self._scope(spot): spot.kind for objects in self._objects.values() for spot in objects}

    def _largest(self) -> _Scope | None:
        """Return where sharing would save most watches, if it would save any."""
        saving = [
            (len(objects), whole)
            for whole, objects in self._objects.items()
            if len(objects) > 1 and whole not in self._shared and _may_share(next(iter(objects)))
        ]
        return max(saving)[1] if saving else None

    def _scope(self, spot: Spot) -> _Scope:
        whole = _whole(spot)
        return whole if whole in self._shared else whole._replace(name=spot.name)

    def _begin(self, scope: _Scope, kind: Kind[JSONObject]) -> _Watch:
        fields = f"metadata.name={scope.name}" if scope.name else ""
        informer = Informer(
            self._member, kind, scope.namespace, fields=fields, random=self._random, metrics=self._metrics
        )

        def changed(delta: Delta[JSONObject]) -> None:
            meta = delta.object["metadata"]
            self._changed((kind.group, kind.plural, meta.get("namespace", ""), meta["name"]))

        informer.on_change(changed)
        return _Watch(informer, asyncio.create_task(informer.run(), name=f"informer of {kind.plural}"))


def _whole(spot: Spot) -> _Scope:
    """Return what covers an object and all others of its kind beside it."""
    kind = spot.kind
    return _Scope(kind.group, kind.version, kind.plural, spot.namespace, "")


def _may_share(spot: Spot) -> bool:
    """Whether others' objects may be looked at for the sake of ours: secrets are nobody else's business."""
    return spot.kind.namespaced and (spot.kind.group, spot.kind.plural) != ("", "secrets")
