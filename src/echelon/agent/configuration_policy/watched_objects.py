"""What the policies of a cluster look at, and what of it is watched.

A policy says nowhere which objects it is about: that follows from what its evaluation asks for. What is asked for in a
few namespaces is watched there. What is asked for in many is watched in all, because one stream that says too much is
cheaper than fifty.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from echelon.agent.object_watches import ObjectRef, ObjectWatches
from echelon.agent.watch_users import WatchUsers
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.engine.configuration_policy.requests import Get, List, ListNamespaces, Request
from echelon.engine.work.removal import ResourceKey

MANY_NAMESPACES = 5

ALL_NAMESPACES = ObjectRef(NAMESPACE.untyped(), "", "")


@dataclass
class Looks:
    """What one evaluation asked for."""

    objects: dict[tuple[Kind[Any], str], set[str]] = field(default_factory=dict)  # namespaces, by kind and name
    namespaces: bool = False

    def note(self, request: Request) -> None:
        """Take in what is asked for."""
        if isinstance(request, ListNamespaces):
            self.namespaces = True
        elif isinstance(request, Get | List):
            name = request.name if isinstance(request, Get) else ""
            self.objects.setdefault((request.kind, name), set()).add(request.namespace)

    def refs(self, *, objects: bool) -> Iterator[ObjectRef]:
        """Return what has to be watched so that nothing of it changes unnoticed; of objects only if they count."""
        if self.namespaces:
            yield ALL_NAMESPACES
        for (kind, name), namespaces in self.objects.items() if objects else ():
            wide = len(namespaces) > MANY_NAMESPACES
            for namespace in ("",) if wide else sorted(namespaces):
                yield ObjectRef(kind, namespace, name)


class WatchedObjects:
    """The watches of all policies of a cluster, and who is interested in what."""

    def __init__(self, watches: ObjectWatches) -> None:
        self._watches = watches
        self._users = WatchUsers(watches, CONFIGURATION_POLICY.kind)

    def watch(self, policy: str, refs: Iterable[ObjectRef]) -> bool:
        """Watch this for a policy, and nothing else; return whether it was about all of that before."""
        before = self._users.watch(policy, refs)
        return set(self._users.refs(policy)) <= set(before)

    def is_complete(self, policy: str) -> bool:
        """Whether every change of what a policy looks at is heard of."""
        return all(self._watches.is_watched(each) for each in self._users.refs(policy))

    def interested(self, key: ResourceKey) -> set[str]:
        """Return the policies that look at an object."""
        group, plural, namespace, name = key
        places = {(namespace, name), ("", name), (namespace, ""), ("", "")}
        return {user for place in places for user in self._users.of((group, plural, *place))}

    def get(self, request: Get) -> Any:
        """Return what is known of an object, as `ObjectWatches.cached` does."""
        ref = ObjectRef(request.kind, request.namespace, request.name)
        within = (ref, ObjectRef(request.kind, "", request.name), ObjectRef(request.kind, request.namespace, ""))
        return next(filter(None, (self._watches.cached(ref, within=each) for each in within)), None)

    def list(self, request: List) -> Any:
        """Return what is known of a kind, as `ObjectWatches.listed` does."""
        narrow = self._watches.listed(ObjectRef(request.kind, request.namespace, ""))
        if narrow is not None:
            return narrow
        return self._watches.listed(ObjectRef(request.kind, "", ""), request.namespace)
