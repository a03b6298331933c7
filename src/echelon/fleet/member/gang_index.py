"""What is known of gangs: which there are, and how many pods of each clique have a node, serve, or wait for a node.

Pods belong to the gang that their label names, whether it is there or not: a PodGang may come before its pods or after.
Init containers that wait for cliques are woken when the last pod that they wait for becomes ready, and not before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from echelon.fleet.member.decide.gang import Gang, Members, Together
from echelon.fleet.member.decide.pods import PodView
from echelon.hub.storage.store import Key

POD_GANGS = "podgangs.scheduler.grove.io"
_Clique = tuple[str, str, str]  # namespace, gang, clique


class Waiting(NamedTuple):
    """Why a gang has no place, and what it was about."""

    why: str
    wanted: Together


@dataclass
class GangIndex:
    """The gangs of one cluster."""

    gangs: dict[Key, Gang] = field(default_factory=dict)
    waiting: dict[Key, Waiting] = field(default_factory=dict)  # gangs that have no place yet
    _members: dict[Key, dict[str, Members]] = field(default_factory=dict)
    _waiters: dict[_Clique, dict[int, dict[Key, None]]] = field(default_factory=dict)
    _awaited: dict[Key, dict[_Clique, int]] = field(default_factory=dict)  # by pod

    def gang_of(self, pod: PodView) -> Key | None:
        """Return the gang that a pod is placed with; None if it stands alone."""
        if not pod.gang:
            return None
        key = Key(POD_GANGS, pod.namespace, pod.gang)
        return key if key in self.gangs else None

    def members(self, gang: Key) -> dict[str, Members]:
        """Return the pods of a gang by clique."""
        return self._members.get(gang, {})

    def ready(self, namespace: str, gang: str, clique: str) -> int:
        """Return how many pods of a clique serve."""
        found = self._members.get(Key(POD_GANGS, namespace, gang), {}).get(clique)
        return len(found.ready) if found else 0

    def set_gang(self, key: Key, gang: Gang | None) -> None:
        """Learn of a PodGang, or with None of its end."""
        if gang is None:
            self.gangs.pop(key, None)
            self.waiting.pop(key, None)
        else:
            self.gangs[key] = gang

    def follow(self, key: Key, old: PodView | None, new: PodView | None) -> Iterator[Key]:
        """Learn of a pod, and name its gang, and who may have waited for it."""
        before = _clique(old) if old is not None and old.serves else None
        if old is not None and old.gang and (new is None or _clique(new) != _clique(old)):
            self._forget(key, old)
            yield Key(POD_GANGS, old.namespace, old.gang)
        if new is not None and new.gang:
            gang = Key(POD_GANGS, new.namespace, new.gang)
            members = self._members.setdefault(gang, {}).setdefault(new.clique, Members())
            if members.note(key, new):
                yield gang
            if new.serves and before != _clique(new):
                yield from self._waiters.get(_clique(new), {}).get(len(members.ready), ())

    def wait(self, key: Key, pod: PodView, cliques: dict[str, int]) -> None:
        """Wake a pod when cliques of its gang get as many ready pods as it waits for."""
        wanted = {(pod.namespace, pod.gang, clique): number for clique, number in cliques.items()}
        if self._awaited.get(key) != wanted:
            self.stop_waiting(key)
            self._awaited[key] = wanted
            for clique, number in wanted.items():
                self._waiters.setdefault(clique, {}).setdefault(number, {})[key] = None

    def stop_waiting(self, key: Key) -> None:
        """Wake a pod no more."""
        for clique, number in self._awaited.pop(key, {}).items():
            numbers = self._waiters[clique]
            del numbers[number][key]
            if not numbers[number]:
                del numbers[number]
            if not numbers:
                del self._waiters[clique]

    def _forget(self, key: Key, old: PodView) -> None:
        gang = Key(POD_GANGS, old.namespace, old.gang)
        cliques = self._members.get(gang, {})
        if members := cliques.get(old.clique):
            members.forget(key)
            if members.empty:
                del cliques[old.clique]
        if not cliques:
            self._members.pop(gang, None)


def _clique(pod: PodView) -> _Clique:
    return pod.namespace, pod.gang, pod.clique
