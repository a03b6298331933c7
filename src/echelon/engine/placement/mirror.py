"""Decisions in the form of SIG Multicluster, kept in step with the ones that they are copied from.

The same promise holds as for the originals: a cluster that was listed and still is to be is in at least one object
after every single write. Two things are different. An object is written whole, labels and clusters at once. And no
object may have more than a hundred clusters, not even for a moment; so where objects exchange clusters in a circle and
there is no room to list both, an object of its own carries the travellers until they have arrived.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from echelon.engine.placement.slices import LIMIT, Slice


@dataclass(frozen=True, slots=True)
class Copy:
    """An object of SIG Multicluster: its position among those of its placement, and its clusters by name."""

    name: str
    index: int
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteCopy:
    """Create an object, or make it what this one is."""

    copy: Copy


@dataclass(frozen=True, slots=True)
class DeleteCopy:
    """Delete an object in which nothing is left that is not listed elsewhere."""

    name: str


Write: TypeAlias = WriteCopy | DeleteCopy


def copies(slices: Iterable[Slice], limit: int = LIMIT) -> tuple[Copy, ...] | None:
    """What is to be published for some slices; nothing yet while an update of them needs more than the limit.

    A cluster on its way is in two slices. It counts in the group with the higher index, as consumers count it.
    """
    ordered = sorted(slices, key=lambda one: (one.group_index, _number(one.name), one.name))
    home = {cluster: one.name for one in ordered for cluster in one.clusters}
    found = tuple(
        Copy(one.name, index, tuple(sorted(cluster for cluster in set(one.clusters) if home[cluster] == one.name)))
        for index, one in enumerate(ordered)
    )
    return None if any(len(one.clusters) > limit for one in found) else found


def mirror(existing: Sequence[Copy], desired: Sequence[Copy], limit: int = LIMIT) -> tuple[Write, ...]:
    """The writes that turn the existing objects into the desired ones, in order."""
    here = _Objects(existing, {cluster for one in desired for cluster in one.clusters})
    pending = {one.name: one for one in desired if here.now.get(one.name) != one}
    writes: list[Write] = []
    while pending:
        ready = [one for one in pending.values() if not here.stranded(one)]
        if not ready:
            ready = [_relief(pending, here, limit)]
        for one in ready:
            # What was ready is so still, unless one that is written before it had the only other listing.
            if not here.stranded(one):
                here.put(one)
                writes.append(WriteCopy(one))
                if pending.get(one.name) == one:
                    del pending[one.name]
    kept = {one.name for one in desired}
    return (*writes, *(DeleteCopy(name) for name in here.now if name not in kept))


class _Objects:
    """The objects as they are after the writes so far, and how often each cluster is listed in them."""

    def __init__(self, existing: Iterable[Copy], wanted: set[str]) -> None:
        self.now: dict[str, Copy] = {}
        self._wanted = wanted
        self._listed: Counter[str] = Counter()
        for one in existing:
            self.put(one)

    def put(self, one: Copy) -> None:
        before = self.now.get(one.name)
        if before is not None:
            self._listed.subtract(set(before.clusters))
        self._listed.update(set(one.clusters))
        self.now[one.name] = one

    def leaving(self, one: Copy) -> set[str]:
        """The clusters that an object has, are still wanted, and will not be in it."""
        before = self.now.get(one.name)
        return self._wanted.intersection(before.clusters).difference(one.clusters) if before is not None else set()

    def stranded(self, one: Copy) -> set[str]:
        """The clusters that would be listed nowhere if an object were written like this."""
        return {cluster for cluster in self.leaving(one) if self._listed[cluster] == 1}


def _relief(pending: Mapping[str, Copy], here: _Objects, limit: int) -> Copy:
    """A write after which one more object can get its clusters, none being ready for that."""
    stranded = {name: here.stranded(one) for name, one in pending.items()}
    awaited = set().union(*stranded.values())
    for name, one in pending.items():
        both = {*one.clusters, *here.leaving(one)}
        gained = set(one.clusters).difference(here.now[name].clusters)
        if len(both) <= limit and gained & awaited:
            return Copy(name, here.now[name].index, tuple(sorted(both)))
    fewest = min(stranded, key=lambda name: (len(stranded[name]), name))
    names = (f"{fewest}-moving-{number}" for number in count(1))
    name = next(each for each in names if each not in here.now and each not in pending)
    index = 1 + max(one.index for one in (*here.now.values(), *pending.values()))
    return Copy(name, index, tuple(sorted(stranded[fewest])))


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
