"""Which clusters the people of a namespace have a say about, and which clusters may only be away for a moment.

Whoever may write decisions in a namespace could list any cluster. What counts is whether a cluster is in a set that an
administrator has bound to the namespace. Ten thousand clusters are asked about at each plan, so the answer for a
namespace is kept until a set, a binding or a label changes it.

A cluster that is tainted because nobody hears of it is deselected, and selected again when it is back. Between the end
of the taint and the new selection it must not lose anything either, so the end of a taint is remembered for a moment.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from pyroaring import BitMap

from echelon.api.cluster import (
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetSpec,
    Taint,
)
from echelon.api.keys import Key
from echelon.api.times import parse_time
from echelon.controllers.cluster.leaving import is_leaving
from echelon.engine.cluster_health import UNAVAILABLE, UNREACHABLE
from echelon.engine.placement.fleet import ClusterChange, FleetIndex
from echelon.engine.placement.sets import ClusterSets
from echelon.kube.cache import key_of
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta, Informer

BATCH = 250  # so many are compared before others have their turn on the event loop
RETURN = timedelta(seconds=30)  # in which a cluster that is back is selected again
_AWAY = (UNREACHABLE, UNAVAILABLE)


class BoundClusters:
    """The clusters of each namespace's bound sets, and since when clusters are away."""

    def __init__(
        self,
        clusters: Informer[ManagedCluster],
        sets: Informer[ManagedClusterSet],
        bindings: Informer[ManagedClusterSetBinding],
        clock: Clock,
        *,
        trusted: bool = False,
    ) -> None:
        """With `trusted`, nobody asks for sets."""
        self._clusters, self._set_cache, self._binding_cache = clusters, sets, bindings
        self._clock = clock
        self._trusted = trusted
        self._fleet = FleetIndex()
        self._sets = ClusterSets()
        self._specs: dict[str, ManagedClusterSetSpec] = {}  # of the sets, by name
        self._bindings: set[Key] = set()
        self._members: dict[str, frozenset[str]] = {}  # of the bound sets of a namespace; until something changes
        self._away: dict[str, datetime] = {}  # since when
        self._back: dict[str, datetime] = {}  # since when, until it is no longer news
        self._leaving: set[str] = set()  # those that are being deleted

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> list[str]:
        """Follow a cluster; return the namespaces to which it means something."""
        old, new = delta.old, delta.new
        moved = old is None or new is None or _selected_by(old) != _selected_by(new)
        return self._follow(delta.object.metadata.name, new, moved=moved)

    def set_changed(self, delta: Delta[ManagedClusterSet]) -> list[str]:
        """Follow a set; return the namespaces to which it means something."""
        old, new, name = delta.old, delta.new, delta.object.metadata.name
        if old is not None and new is not None and old.spec == new.spec:
            return []
        if new is None:
            self._sets.remove(name)
            self._specs.pop(name, None)
        else:
            self._sets.update(new)
            self._specs[name] = new.spec
        return self._stale(self._sets.namespaces(name))

    def binding_changed(self, delta: Delta[ManagedClusterSetBinding]) -> list[str]:
        """Follow a binding; return the namespaces to which it means something."""
        meta = delta.object.metadata
        if delta.new is None:
            self._sets.unbind(meta.namespace, meta.name)
            self._bindings.discard(key_of(delta.object))
        elif delta.old is None:
            self._sets.bind(delta.new)
            self._bindings.add(key_of(delta.new))
        else:
            return []
        return self._stale([meta.namespace])

    def unbound(self, namespace: str, listed: frozenset[str], having: frozenset[str]) -> frozenset[str]:
        """Return the clusters that the people of a namespace have no say about.

        `listed` are decided, `having` have something. One that does not exist any more can lose what it had.
        """
        if self._trusted:
            return frozenset()
        strange = (listed | having) - self._bound(namespace)
        if not strange:
            return strange
        if self._sets.eligibility(namespace, ()).malformed:  # nobody can tell whether they still belong to that set
            strange -= having
        return frozenset(each for each in strange if each in listed or self._exists(each))

    def leaving(self, clusters: frozenset[str]) -> frozenset[str]:
        """Return the clusters that are on their way out of the fleet, and get nothing new."""
        return clusters & self._leaving if self._leaving else frozenset()

    def spared(self, clusters: Iterable[str], grace: timedelta, now: datetime) -> Mapping[str, datetime]:
        """Return until when clusters keep what they have, because they may come back or are just back."""
        found = {}
        for name in clusters:
            if (since := self._away.get(name)) is not None:
                found[name] = since + grace
            elif (since := self._back.get(name)) is not None and now - since < RETURN:
                found[name] = since + RETURN
        return found

    def verify(self) -> Iterator[str | None]:
        """Compare with the caches; repair what is not the same, and yield what it was.

        Yields None when others may have their turn, so each cluster is looked at as it is at that moment.
        """
        there = (each.metadata.name for each in self._clusters.values())
        known = (each.name for each in list(self._fleet))
        for number, name in enumerate(dict.fromkeys((*there, *known, *self._leaving, *self._away)), start=1):
            if self._is_wrong(name):
                yield f"cluster {name} is not as its cache has it"
            if number % BATCH == 0:
                yield None
        specs = {each.metadata.name: each.spec for each in self._set_cache.values()}
        bindings = {key_of(each) for each in self._binding_cache.values()}
        if (specs, bindings) != (self._specs, self._bindings):
            self._rebuild_sets()
            yield "cluster sets and bindings are not as their caches have them"

    def _is_wrong(self, name: str) -> bool:
        """Whether a cluster is not as its cache has it; now it is."""
        cluster, known = self._clusters.get(Key("", name)), self._fleet.find(name)
        moved = not self._trusted and _selected_by(cluster) != _selected_by(known.source if known else None)
        flags = name in self._leaving, name in self._away
        if not moved and flags == (_is_leaving(cluster), bool(_absences(cluster))):
            return False
        self._follow(name, cluster, moved=moved)
        return True

    def _rebuild_sets(self) -> None:
        self._sets, self._specs, self._bindings = ClusterSets(), {}, set()
        for each in self._set_cache.values():
            self.set_changed(Delta(None, each))
        for binding in self._binding_cache.values():
            self.binding_changed(Delta(None, binding))
        self._members.clear()

    def _follow(self, name: str, cluster: ManagedCluster | None, *, moved: bool) -> list[str]:
        self._notice_absence(name, cluster)
        if _is_leaving(cluster):
            self._leaving.add(name)
        else:
            self._leaving.discard(name)
        if self._trusted or not moved:
            return []
        return self._moved(self._fleet.remove(name) if cluster is None else self._fleet.update(cluster))

    def _bound(self, namespace: str) -> frozenset[str]:
        known = self._members.get(namespace)
        if known is None:
            numbers = self._sets.eligibility(namespace, ()).clusters(self._fleet, BitMap())
            known = self._members[namespace] = frozenset(self._fleet.names.of(numbers))
        return known

    def _exists(self, name: str) -> bool:
        cluster = self._fleet.find(name)
        return cluster is not None and not cluster.deleting

    def _moved(self, change: ClusterChange) -> list[str]:
        """Forget the members of namespaces which a cluster joined or left."""
        concerned = {
            namespace
            for name in self._sets.names
            if (each := self._sets.get(name)) is not None and each.moved(change)
            for namespace in self._sets.namespaces(name)
        }
        return self._stale(sorted(concerned))

    def _stale(self, namespaces: list[str]) -> list[str]:
        for namespace in namespaces:
            self._members.pop(namespace, None)
        return namespaces

    def _notice_absence(self, name: str, cluster: ManagedCluster | None) -> None:
        now = self._clock.now()
        if taints := _absences(cluster):
            # A taint that nobody has stamped counts from when it was first seen.
            first = self._away.get(name) or now
            self._away[name] = min(_added(each.time_added) or first for each in taints)
        elif self._away.pop(name, None) is not None and cluster is not None:
            self._back.pop(name, None)  # they are in the order of their return
            self._back[name] = now
            while now - self._back[longest := next(iter(self._back))] >= RETURN:
                del self._back[longest]


def _selected_by(cluster: ManagedCluster | None) -> tuple[object, ...]:
    """Return all of a cluster that decides in which sets it is."""
    if cluster is None:
        return ()
    return cluster.metadata.labels, cluster.metadata.deletion_timestamp, cluster.metadata.uid


def _is_leaving(cluster: ManagedCluster | None) -> bool:
    return cluster is not None and is_leaving(cluster)


def _absences(cluster: ManagedCluster | None) -> list[Taint]:
    """Return the taints of a cluster that say that nobody hears of it."""
    return [each for each in cluster.spec.taints if each.key in _AWAY] if cluster is not None else []


def _added(text: str | None) -> datetime | None:
    found = parse_time(text)
    return found.astimezone(UTC) if found is not None else None
