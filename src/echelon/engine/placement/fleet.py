"""The fleet as bitmaps: for every label, claim and taint the clusters that have it.

A fleet changes all the time, one cluster at a time, and there are many placements. So a change must cost what the one
cluster has, and a question (`which clusters have this label?`) a few machine words per thousand clusters. Clusters are
numbered densely for that; numbers are reused, but never while somebody still refers to a name by its number.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from pyroaring import BitMap

from echelon.api.base import IntOrString
from echelon.api.cluster import ManagedCluster, Taint
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.engine.placement.facts import Facts, Names, discard
from echelon.engine.placement.taint_times import with_times

RESOURCES = ("cpu", "memory")
STEP = 500  # clusters that are compared without a pause

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

    def update(
        self, source: ManagedCluster, seen: datetime | None = None, earlier: Sequence[Taint] = ()
    ) -> ClusterChange:
        """Take a cluster as it is now; say what is different.

        Taints without a time have one since they were seen: now, or when they were among `earlier` ones.
        """
        name = source.metadata.name
        before = self.find(name)
        if before is None:
            number = self.names.acquire(name)
            insort(self._ordered, name)
        else:
            number = before.id
        after = self._clusters[number] = _as_seen(number, source, before.taints if before else earlier, seen)
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

    def differences(self, names: Iterable[str], find: Callable[[str], ManagedCluster | None]) -> Iterator[str | None]:
        """Tell what is known of clusters and should not be, given those that there are; None where one may pause."""
        for number, name in enumerate(sorted({*names, *self._ordered})):
            yield from self._differences(name, find(name))
            if number % STEP == 0:
                yield None
        yield from self._surplus()

    def _differences(self, name: str, source: ManagedCluster | None) -> Iterator[str]:
        known = self.find(name)
        if known is None or source is None:
            if known is not None or source is not None:
                yield f"cluster {name} is {'missing' if known is None else 'gone, and still known'}"
            return
        number, at = known.id, bisect_left(self._ordered, name)
        if known != _as_seen(number, source, known.taints, None):  # only this knows when taints came
            yield f"cluster {name} is known in another state"
        right = (
            self.labels.has(number, known.labels)
            and self.claims.has(number, known.claims)
            and (number in self.live) != known.deleting
            and all(number in self.tainted.get(_kind(taint), ()) for taint in known.taints)
            and all(number in self.with_effect(taint.effect) for taint in known.taints)
            and self._ordered[at : at + 1] == [name]
        )
        if not right:
            yield f"cluster {name} is not found by what it has"

    def _surplus(self) -> Iterator[str]:
        """Tell whether anything is known of clusters that they do not have, if no cluster is different."""
        clusters = self._clusters.values()
        for part, known, due in (
            ("labels", len(self.labels), sum(len(each.labels) for each in clusters)),
            ("claims", len(self.claims), sum(len(each.claims) for each in clusters)),
            (
                "taints",
                sum(map(len, self.tainted.values())),
                sum(len(set(map(_kind, each.taints))) for each in clusters),
            ),
            (
                "effects",
                sum(map(len, self._effects.values())),
                sum(len({t.effect for t in e.taints}) for e in clusters),
            ),
            ("names", len(self._ordered), len(self._clusters)),
            ("live clusters", len(self.live), sum(not each.deleting for each in clusters)),
        ):
            if known != due:
                yield f"{known} {part} of clusters are known, and they have {due}"

    def _index(self, number: int, before: Cluster | None, after: Cluster | None) -> ClusterChange:
        labels = self.labels.replace(number, before.labels if before else {}, after.labels if after else {})
        claims = self.claims.replace(number, before.claims if before else {}, after.claims if after else {})
        old, new = before.taints if before else (), after.taints if after else ()
        if old != new:
            for taint in old:
                discard(self.tainted, _kind(taint), number)
                discard(self._effects, taint.effect, number)
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
            presence=was != now,
            any=changed,
        )


def _as_seen(number: int, source: ManagedCluster, earlier: Sequence[Taint], seen: datetime | None) -> Cluster:
    return Cluster(
        id=number,
        name=source.metadata.name,
        labels=source.metadata.labels,
        claims={claim.name: claim.value for claim in source.status.cluster_claims},
        taints=with_times(source.spec.taints, earlier, seen),
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
