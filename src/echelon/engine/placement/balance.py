"""How many placements hold each cluster, maintained as decisions change.

Balance asks this for every placement that is scheduled, and it must not read all decisions of the hub to answer.
Decisions come as the set of clusters that a placement is meant to have: what a rolling update shows for a moment is not
counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from pyroaring import BitMap

from echelon.api.keys import Key
from echelon.engine.placement.facts import Names

_REMEMBERED = 1024  # changes that followers can catch up with


class DecisionCounter:
    """For each placement the clusters that it has, and for each count the clusters that so many placements have."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._own: dict[Key, BitMap] = {}
        self._at: dict[int, BitMap] = {}
        self._counted = BitMap()
        self._highest = 0
        self._changes: list[BitMap] = []
        self._forgotten = 0

    def own(self, placement: Key) -> BitMap:
        """Return the clusters that a placement has; not to be modified."""
        return self._own.get(placement) or BitMap()

    def replace(self, placement: Key, clusters: Iterable[str]) -> BitMap:
        """Let a placement have exactly these clusters; return those that came or went."""
        wanted = BitMap([self._number(name) for name in clusters])
        had = self.own(placement)
        come, gone = wanted - had, had - wanted
        if come or gone:
            self._change(placement, come, gone)
        return come | gone

    def forget(self, placement: Key) -> None:
        """Drop a placement with all its decisions."""
        self.replace(placement, ())

    def levels(self) -> Iterable[tuple[int, BitMap]]:
        """Walk the counts that occur, each with the clusters that so many placements have."""
        return self._at.items()

    def highest(self, besides: Key) -> int:
        """Return the largest count over all clusters, not counting one placement."""
        if not self._highest:
            return 0
        # The placement holds a cluster at most once, so it can lower the maximum by one at most.
        return self._highest - int(self._at[self._highest].issubset(self.own(besides)))

    def differences(self, placement: Key, clusters: Iterable[str]) -> Iterator[str]:
        """Tell which clusters are counted otherwise than for a placement that has these."""
        due, known = frozenset(clusters), frozenset(self._names.of(self.own(placement)))
        if known != due:
            yield f"placement {placement} has {sorted(due - known)} that are not counted, and not {sorted(known - due)}"

    def miscounted(self, numbers: BitMap) -> Iterator[str]:
        """Tell which of some clusters are at another level than as many placements as have them."""
        counts = Counter(number for own in self._own.values() for number in own & numbers)
        for level, clusters in self._at.items():
            for number in clusters & numbers:
                if counts.pop(number, 0) != level:
                    yield f"cluster {self._names[number]} is counted {level} times wrongly"
        yield from (
            f"cluster {self._names[number]} is had {count} times, and not counted" for number, count in counts.items()
        )

    def placements(self) -> list[Key]:
        """Return whose clusters are counted."""
        return list(self._own)

    @property
    def position(self) -> int:
        """Where followers stand that have seen everything."""
        return self._forgotten + len(self._changes)

    def changed_since(self, position: int) -> BitMap | None:
        """Return the clusters whose counts changed since then; nothing if that is not known any more."""
        if position < self._forgotten:
            return None
        return BitMap.union(BitMap(), *self._changes[position - self._forgotten :])

    def _number(self, cluster: str) -> int:
        number = self._names.find(cluster)
        if number is None or number not in self._counted:
            number = self._names.acquire(cluster)
            self._counted.add(number)
        return number

    def _change(self, placement: Key, come: BitMap, gone: BitMap) -> None:
        own = (self.own(placement) | come) - gone
        if own:
            self._own[placement] = own
        else:
            self._own.pop(placement, None)
        self._shift(come, 1)
        self._shift(gone, -1)
        while self._highest and self._highest not in self._at:
            self._highest -= 1
        self._record(come | gone)

    def _shift(self, clusters: BitMap, by: int) -> None:
        """Move clusters from the level of each to the next one."""
        left = clusters.copy()
        for level in sorted(self._at, reverse=by > 0):
            moving = self._at[level] & left
            if moving:
                self._put(level, self._at[level] - moving)
                self._put(level + by, self._at.get(level + by, BitMap()) | moving)
                left -= moving
        if by > 0 and left:
            self._put(1, self._at.get(1, BitMap()) | left)

    def _put(self, level: int, clusters: BitMap) -> None:
        if level == 0:
            self._counted -= clusters
            for number in clusters:
                self._names.release(number)
        elif clusters:
            self._at[level] = clusters
            self._highest = max(self._highest, level)
        else:
            self._at.pop(level, None)

    def _record(self, changed: BitMap) -> None:
        self._changes.append(changed)
        if len(self._changes) > 2 * _REMEMBERED:
            del self._changes[:_REMEMBERED]
            self._forgotten += _REMEMBERED
