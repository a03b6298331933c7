"""Which clusters the people of a namespace have a say about, and which clusters may only be away for a moment.

Whoever may write decisions in a namespace could list any cluster. What counts is whether a cluster is in a set that an
administrator has bound to the namespace. Ten thousand clusters are asked about at each plan, so the answer for a
namespace is kept until a set, a binding or a label changes it.

A cluster that is tainted because nobody hears of it is deselected, and selected again when it is back. Between the end
of the taint and the new selection it must not lose anything either, so the end of a taint is remembered for a moment.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pyroaring import BitMap

from echelon.api.cluster import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.times import parse_time
from echelon.controllers.cluster.leaving import is_leaving
from echelon.engine.cluster_health import UNAVAILABLE, UNREACHABLE
from echelon.engine.placement.fleet import ClusterChange, FleetIndex
from echelon.engine.placement.sets import ClusterSets
from echelon.kube.clock import Clock
from echelon.kube.informer import Delta

RETURN = timedelta(seconds=30)  # in which a cluster that is back is selected again
_AWAY = (UNREACHABLE, UNAVAILABLE)


class BoundClusters:
    """The clusters of each namespace's bound sets, and since when clusters are away."""

    def __init__(self, clock: Clock, *, trust: bool = False) -> None:
        """With `trust`, nobody asks for sets."""
        self._clock = clock
        self._trust = trust
        self._fleet = FleetIndex()
        self._sets = ClusterSets()
        self._members: dict[str, frozenset[str]] = {}  # of the bound sets of a namespace; until something changes
        self._away: dict[str, datetime] = {}  # since when
        self._back: dict[str, datetime] = {}  # since when, until it is no longer news
        self._leaving: set[str] = set()  # those that are being deleted

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> list[str]:
        """Follow a cluster; return the namespaces to which it means something."""
        self._notice_absence(delta)
        old, new = delta.old, delta.new
        if new is not None and is_leaving(new):
            self._leaving.add(new.metadata.name)
        else:
            self._leaving.discard(delta.object.metadata.name)
        if self._trust or (old is not None and new is not None and _place(old) == _place(new)):
            return []
        name = delta.object.metadata.name
        return self._moved(self._fleet.remove(name) if new is None else self._fleet.update(new))

    def set_changed(self, delta: Delta[ManagedClusterSet]) -> list[str]:
        """Follow a set; return the namespaces to which it means something."""
        old, new, name = delta.old, delta.new, delta.object.metadata.name
        if old is not None and new is not None and old.spec == new.spec:
            return []
        if new is None:
            self._sets.remove(name)
        else:
            self._sets.update(new)
        return self._stale(self._sets.namespaces(name))

    def binding_changed(self, delta: Delta[ManagedClusterSetBinding]) -> list[str]:
        """Follow a binding; return the namespaces to which it means something."""
        meta = delta.object.metadata
        if delta.new is None:
            self._sets.unbind(meta.namespace, meta.name)
        elif delta.old is None:
            self._sets.bind(delta.new)
        else:
            return []
        return self._stale([meta.namespace])

    def outside(self, namespace: str, listed: frozenset[str], having: frozenset[str]) -> frozenset[str]:
        """Return the clusters that the people of a namespace have no say about.

        `listed` are decided, `having` have something. One that does not exist any more can lose what it had.
        """
        if self._trust:
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

    def spared(self, clusters: Iterable[str], grace: timedelta) -> Mapping[str, datetime]:
        """Return until when clusters keep what they have, because they may come back or are just back."""
        now = self._clock.now()
        self._back = {name: since for name, since in self._back.items() if now - since < RETURN}
        found = {}
        for name in clusters:
            if name in self._away:
                found[name] = self._away[name] + grace
            elif name in self._back:
                found[name] = self._back[name] + RETURN
        return found

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

    def _notice_absence(self, delta: Delta[ManagedCluster]) -> None:
        name, new = delta.object.metadata.name, delta.new
        taints = [each for each in new.spec.taints if each.key in _AWAY] if new is not None else []
        if taints:
            # A taint that nobody has stamped counts from when it was first seen.
            first = self._away.get(name) or self._clock.now()
            self._away[name] = min(_added(each.time_added) or first for each in taints)
        elif self._away.pop(name, None) is not None and new is not None:
            self._back[name] = self._clock.now()


def _place(cluster: ManagedCluster) -> tuple[object, ...]:
    return cluster.metadata.labels, cluster.metadata.deletion_timestamp, cluster.metadata.uid


def _added(text: str | None) -> datetime | None:
    found = parse_time(text)
    return found.astimezone(UTC) if found is not None else None
