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
class MirroredDecision:
    """An object of SIG Multicluster: its position among those of its placement, and its clusters by name."""

    name: str
    index: int
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteMirrored:
    """Create an object, or make it what this one is."""

    decision: MirroredDecision


@dataclass(frozen=True, slots=True)
class DeleteMirrored:
    """Delete an object in which nothing is left that is not listed elsewhere."""

    name: str


MirroredWrite: TypeAlias = WriteMirrored | DeleteMirrored


def mirrored_decisions(slices: Iterable[Slice], limit: int = LIMIT) -> tuple[MirroredDecision, ...] | None:
    """What is to be published for some slices; nothing yet while an update of them needs more than the limit.

    A cluster on its way is in two slices. It counts in the group with the higher index, as consumers count it.
    """
    ordered = sorted(slices, key=lambda one: (one.group_index, _number(one.name), one.name))
    home = {cluster: one.name for one in ordered for cluster in one.clusters}
    found = tuple(
        MirroredDecision(
            one.name, index, tuple(sorted(cluster for cluster in set(one.clusters) if home[cluster] == one.name))
        )
        for index, one in enumerate(ordered)
    )
    return None if any(len(one.clusters) > limit for one in found) else found


def mirror(
    existing: Sequence[MirroredDecision], desired: Sequence[MirroredDecision], limit: int = LIMIT
) -> tuple[MirroredWrite, ...]:
    """The writes that turn the existing objects into the desired ones, in order."""
    here = _Objects(existing, {cluster for one in desired for cluster in one.clusters})
    pending = {one.name: one for one in desired if here.now.get(one.name) != one}
    writes: list[MirroredWrite] = []
    while pending:
        ready = [one for one in pending.values() if not here.unlisted(one)]
        if not ready:
            ready = [_carrier(pending, here, limit)]
        for one in ready:
            # What was ready is so still, unless one that is written before it had the only other listing.
            if not here.unlisted(one):
                here.put(one)
                writes.append(WriteMirrored(one))
                if pending.get(one.name) == one:
                    del pending[one.name]
    kept = {one.name for one in desired}
    return (*writes, *(DeleteMirrored(name) for name in here.now if name not in kept))


class _Objects:
    """The objects as they are after the writes so far, and how often each cluster is listed in them."""

    def __init__(self, existing: Iterable[MirroredDecision], wanted: set[str]) -> None:
        self.now: dict[str, MirroredDecision] = {}
        self._wanted = wanted
        self._listed: Counter[str] = Counter()
        for one in existing:
            self.put(one)

    def put(self, one: MirroredDecision) -> None:
        before = self.now.get(one.name)
        if before is not None:
            self._listed.subtract(set(before.clusters))
        self._listed.update(set(one.clusters))
        self.now[one.name] = one

    def leaving(self, one: MirroredDecision) -> set[str]:
        """The clusters that an object has, are still wanted, and will not be in it."""
        before = self.now.get(one.name)
        return self._wanted.intersection(before.clusters).difference(one.clusters) if before is not None else set()

    def unlisted(self, one: MirroredDecision) -> set[str]:
        """The clusters that would be listed nowhere if an object were written like this."""
        return {cluster for cluster in self.leaving(one) if self._listed[cluster] == 1}


def _carrier(pending: Mapping[str, MirroredDecision], here: _Objects, limit: int) -> MirroredDecision:
    """A write after which one more object can get its clusters, none being ready for that."""
    unlisted = {name: here.unlisted(one) for name, one in pending.items()}
    awaited = set().union(*unlisted.values())
    for name, one in pending.items():
        both = {*one.clusters, *here.leaving(one)}
        gained = set(one.clusters).difference(here.now[name].clusters)
        if len(both) <= limit and gained & awaited:
            return MirroredDecision(name, here.now[name].index, tuple(sorted(both)))
    fewest = min(unlisted, key=lambda name: (len(unlisted[name]), name))
    names = (f"{fewest}-moving-{number}" for number in count(1))
    name = next(each for each in names if each not in here.now and each not in pending)
    index = 1 + max(one.index for one in (*here.now.values(), *pending.values()))
    return MirroredDecision(name, index, tuple(sorted(unlisted[fewest])))


def _number(name: str) -> int:
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
