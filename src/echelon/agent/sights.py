"""Watches what was applied, so that a report follows a change at once and nobody has to ask again and again.

There is one watch for a resource in a namespace, however many works have objects there, and one for each cluster-scoped
object. There is a limit to them: a work of a thousand kinds must not open a thousand streams. What is beyond the limit
is not watched, and whoever wants to know asks.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.work.cleaning import Place
from echelon.engine.work.reporting import Absent, Found
from echelon.kube.client import Client
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics


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
    name: str  # only of cluster-scoped objects


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
        self._wanted: dict[str, tuple[_Scope, ...]] = {}  # by work
        self._users: dict[_Scope, int] = {}

    def __len__(self) -> int:
        """Return how many watches there are."""
        return len(self._watches)

    def want(self, work: str, spots: Iterable[Spot]) -> None:
        """Watch these objects, for a work that has no others."""
        scopes = {_scope(spot): spot.kind for spot in spots}
        before = self._wanted.pop(work, ())
        if scopes:
            self._wanted[work] = tuple(scopes)
        for scope in scopes:
            self._users[scope] = self._users.get(scope, 0) + 1
        for scope in before:
            self._users[scope] -= 1
            if not self._users[scope]:
                del self._users[scope]
                if ended := self._watches.pop(scope, None):
                    ended.task.cancel()
        for scope, kind in scopes.items():
            if scope not in self._watches and len(self._watches) < self._limit:
                self._watches[scope] = self._begin(scope, kind)

    def watched(self, spot: Spot) -> bool:
        """Whether changes of an object are heard of."""
        return _scope(spot) in self._watches

    def look(self, spot: Spot, known: JSONObject | None) -> Found | Absent | None:
        """Return an object as it is now; nothing if one has to ask. `known` is how it was last seen or written."""
        watch = self._watches.get(_scope(spot))
        if watch is None or not watch.informer.synced:
            return None
        if known is not None:
            version = known["metadata"].get("resourceVersion", "")
            if not watch.informer.shows(spot.name, spot.namespace, version):
                return Found(known)
        live = watch.informer.get(spot.name, spot.namespace)
        return Absent() if live is None else Found(live)

    async def close(self) -> None:
        """End all watches."""
        tasks = [watch.task for watch in self._watches.values()]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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


def _scope(spot: Spot) -> _Scope:
    kind = spot.kind
    return _Scope(kind.group, kind.version, kind.plural, spot.namespace, "" if kind.namespaced else spot.name)
