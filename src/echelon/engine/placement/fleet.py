"""The fleet as bitmaps: for every label, claim and taint the clusters that have it.

A fleet changes all the time, one cluster at a time, and there are many placements. So a change must cost what the one
cluster has, and a question (`which clusters have this label?`) a few machine words per thousand clusters. Clusters are
numbered densely for that; numbers are reused, but never while somebody still refers to a name by its number.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from pyroaring import BitMap

from echelon.api.base import IntOrString
from echelon.api.cluster import ManagedCluster, Taint
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.engine.placement.taint_times import with_times

RESOURCES = ("cpu", "memory")

TaintKind = tuple[str, str, str]  # key, value, effect


class Cluster(msgspec.Struct, frozen=True):
    """A cluster as placements see it."""

    id: int
    name: str
    labels: dict[str, str]
    claims: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: dict[str, float]  # only resources whose capacity is known too
    deleting: bool
    source: ManagedCluster


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """What is different about one cluster."""

    before: Cluster | None
    after: Cluster | None
    labels: frozenset[str] = frozenset()  # keys that came, went or have another value
    claims: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    taints: bool = False  # those that keep placements away
    preferences: bool = False  # PreferNoSelect taints
    conditions: bool = False
    presence: bool = False  # came, went, or began to be deleted
    any: bool = False  # any of these, or anything else that an expression could see

    @property
    def id(self) -> int:
        """Number of the cluster."""
        return next(each for each in (self.after, self.before) if each is not None).id

    @property
    def sides(self) -> tuple[Cluster, ...]:
        """The cluster before and after, as far as it existed and was not being deleted."""
        return tuple(each for each in (self.before, self.after) if each is not None and not each.deleting)


class Names:
    """Numbers for names, as small as possible; one stays taken until everybody who acquired it has released it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def acquire(self, name: str) -> int:
        """Return the number of a name, and hold it."""
        number = self._ids.get(name)
        if number is None:
            if self._free:
                number = heapq.heappop(self._free)
                self._names[number] = name
            else:
                number = len(self._names)
                self._names.append(name)
                self._uses.append(0)
            self._ids[name] = number
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Let go of a number that was acquired."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._ids[self._names[number]]
            self._names[number] = ""
            heapq.heappush(self._free, number)

    def find(self, name: str) -> int | None:
        """Return the number of a name that somebody holds."""
        return self._ids.get(name)

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    def of(self, numbers: Iterable[int]) -> list[str]:
        """Return the names of several numbers."""
        names = self._names
        return [names[number] for number in numbers]


class Facts:
    """For every key, and for every key and value, the clusters that have it. Answers are not to be modified."""

    def __init__(self) -> None:
        self._having: dict[str, BitMap] = {}
        self._equal: dict[tuple[str, str], BitMap] = {}

    def having(self, key: str) -> BitMap:
        """Return the clusters that have a key, whatever its value."""
        return self._having.get(key) or BitMap()

    def equal(self, key: str, value: str) -> BitMap:
        """Return the clusters that have this value."""
        return self._equal.get((key, value)) or BitMap()

    def replace(self, number: int, before: dict[str, str], after: dict[str, str]) -> frozenset[str]:
        """Let one cluster have other facts; return the keys that changed."""
        if before == after:
            return frozenset()
        gone, come = before.items() - after.items(), after.items() - before.items()
        for fact in gone:
            _discard(self._equal, fact, number)
            if fact[0] not in after:
                _discard(self._having, fact[0], number)
        for fact in come:
            self._equal.setdefault(fact, BitMap()).add(number)
            self._having.setdefault(fact[0], BitMap()).add(number)
        return frozenset(key for key, _ in (*gone, *come))


class FleetIndex:
    """All clusters, indexed by what placements ask for."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = names or Names()
        self.labels = Facts()
        self.claims = Facts()
        self.live = BitMap()  # not being deleted
        self.tainted: dict[TaintKind, BitMap] = {}
        self.revision = 0
        self._effects: dict[str, BitMap] = {}
        self._clusters: dict[int, Cluster] = {}
        self._ordered: list[str] = []

    def __len__(self) -> int:
        return len(self._clusters)

    def __iter__(self) -> Iterator[Cluster]:
        """Walk all clusters by name."""
        for name in self._ordered:
            number = self.names.find(name)
            if number is not None:
                yield self._clusters[number]

    def get(self, number: int) -> Cluster | None:
        """Return the cluster that has this number."""
        return self._clusters.get(number)

    def find(self, name: str) -> Cluster | None:
        """Return the cluster of this name."""
        number = self.names.find(name)
        return None if number is None else self._clusters.get(number)

    def with_effect(self, effect: str) -> BitMap:
        """Return the clusters that have a taint of this effect; not to be modified."""
        return self._effects.get(effect) or BitMap()

    def update(self, source: ManagedCluster, seen: datetime | None = None) -> ClusterChange:
        """Take a cluster as it is now; say what is different. Taints without a time have one since they were seen."""
        name = source.metadata.name
        before = self.find(name)
        if before is None:
            number = self.names.acquire(name)
            insort(self._ordered, name)
        else:
            number = before.id
        after = self._clusters[number] = _as_seen(number, source, before, seen)
        return self._index(number, before, after)

    def remove(self, name: str) -> ClusterChange:
        """Forget a cluster. One that is not known changes nothing."""
        before = self.find(name)
        if before is None:
            return ClusterChange(None, None)
        del self._clusters[before.id]
        del self._ordered[bisect_left(self._ordered, name)]
        change = self._index(before.id, before, None)
        self.names.release(before.id)
        return change

    def in_order(self, numbers: BitMap) -> Iterator[str]:
        """Walk the names of some clusters in their order, without sorting where walking the fleet is cheaper."""
        if len(numbers) * 16 < len(self._ordered):
            yield from sorted(self.names.of(numbers))
            return
        for cluster in self:
            if cluster.id in numbers:
                yield cluster.name

    def _index(self, number: int, before: Cluster | None, after: Cluster | None) -> ClusterChange:
        labels = self.labels.replace(number, before.labels if before else {}, after.labels if after else {})
        claims = self.claims.replace(number, before.claims if before else {}, after.claims if after else {})
        old, new = before.taints if before else (), after.taints if after else ()
        if old != new:
            for taint in old:
                _discard(self.tainted, _kind(taint), number)
                _discard(self._effects, taint.effect, number)
            for taint in new:
                self.tainted.setdefault(_kind(taint), BitMap()).add(number)
                self._effects.setdefault(taint.effect, BitMap()).add(number)
        was, now = before is not None and not before.deleting, after is not None and not after.deleting
        if was != now:
            (self.live.add if now else self.live.discard)(number)
        changed = before is None or after is None or _differs(before.source, after.source)
        self.revision += 1
        return ClusterChange(
            before,
            after,
            labels=labels,
            claims=claims,
            resources=_changed_resources(before, after),
            taints=_only(old, preferred=False) != _only(new, preferred=False),
            preferences=_only(old, preferred=True) != _only(new, preferred=True),
            conditions=(before.source.status.conditions if before else [])
            != (after.source.status.conditions if after else []),
            presence=was != now,
            any=changed,
        )


def _as_seen(number: int, source: ManagedCluster, before: Cluster | None, seen: datetime | None) -> Cluster:
    return Cluster(
        id=number,
        name=source.metadata.name,
        labels=source.metadata.labels,
        claims={claim.name: claim.value for claim in source.status.cluster_claims},
        taints=with_times(source.spec.taints, before.taints if before else (), seen),
        allocatable=_known(source.status.allocatable, source.status.capacity),
        deleting=bool(source.metadata.deletion_timestamp),
        source=source,
    )


def _known(allocatable: dict[str, IntOrString], capacity: dict[str, IntOrString]) -> dict[str, float]:
    found = {}
    for resource in RESOURCES:
        if resource in allocatable and resource in capacity:
            try:
                parse_quantity(capacity[resource])
                found[resource] = parse_quantity(allocatable[resource]).approximate()
            except QuantityError:
                continue  # no API server stores such a thing; a cluster without it is what others know
    return found


def _differs(before: ManagedCluster, after: ManagedCluster) -> bool:
    """Tell whether anything is different but bookkeeping of the API server."""
    old, new = before.metadata, after.metadata
    return (
        before.spec != after.spec
        or before.status != after.status
        or old.labels != new.labels
        or old.annotations != new.annotations
        or old.deletion_timestamp != new.deletion_timestamp
        or old.finalizers != new.finalizers
        or old.uid != new.uid
    )


def _changed_resources(before: Cluster | None, after: Cluster | None) -> frozenset[str]:
    old, new = before.allocatable if before else {}, after.allocatable if after else {}
    return frozenset(key for key, _ in old.items() ^ new.items()) if old != new else frozenset()


def _only(taints: tuple[Taint, ...], *, preferred: bool) -> list[Taint]:
    return [taint for taint in taints if (taint.effect == "PreferNoSelect") == preferred]


def _kind(taint: Taint) -> TaintKind:
    return taint.key, taint.value, taint.effect


def _discard(index: dict[Any, BitMap], key: object, number: int) -> None:
    numbers = index.get(key)
    if numbers is not None:
        numbers.discard(number)
        if not numbers:
            del index[key]
