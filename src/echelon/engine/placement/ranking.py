"""The best N of many clusters, kept while single clusters change.

Sorting a large fleet for every change of one cluster would make the change cost what the fleet costs. So besides the
best N some runners-up are kept: as long as there are any, a cluster that falls out has its successor at hand.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Mapping

from echelon.engine.placement.facts import Names

_RUNNERS_UP = 256

_Rank = tuple[int, str, int]  # lower is better: the total negated, then the name


class Ranking:
    """The clusters with the highest totals, of equals those with the first names."""

    def __init__(self, names: Names, limit: int) -> None:
        self._names = names
        self._limit = limit
        self._best: list[_Rank] = []
        self._ranks: dict[int, _Rank] = {}
        self._all = True  # nobody else is in the contest

    def fill(self, totals: Mapping[int, int]) -> None:
        """Start again with these clusters."""
        self._best = first(self._names, totals, self._limit + _RUNNERS_UP)
        self._ranks = {rank[2]: rank for rank in self._best}
        self._all = len(self._best) == len(totals)

    def put(self, number: int, total: int | None) -> None:
        """Let one cluster have another total, or none if it is out."""
        before = self._ranks.pop(number, None)
        if before is not None:
            del self._best[bisect_left(self._best, before)]
        if total is None:
            return
        rank = (-total, self._names[number], number)
        # Behind the last one that is known there may be better ones that are not.
        if not self._all and (not self._best or rank > self._best[-1]):
            return
        insort(self._best, rank)
        self._ranks[number] = rank
        if len(self._best) > self._limit + 2 * _RUNNERS_UP:
            del self._ranks[self._best.pop()[2]]
            self._all = False

    @property
    def exhausted(self) -> bool:
        """Whether too few are known to tell the best, so that it must be filled again."""
        return not self._all and len(self._best) < self._limit

    def best(self) -> tuple[int, ...]:
        """Return the best, in order."""
        return tuple(rank[2] for rank in self._best[: self._limit])


def first(names: Names, totals: Mapping[int, int], count: int) -> list[_Rank]:
    """Return so many clusters with the highest totals, in order."""
    classes: dict[int, list[int]] = {}
    for number, total in totals.items():
        classes.setdefault(total, []).append(number)
    found: list[_Rank] = []
    for total in sorted(classes, reverse=True):
        room = count - len(found)
        if room <= 0:
            break
        ranks = [(-total, names[number], number) for number in classes[total]]
        found += sorted(ranks) if len(ranks) <= room * 4 else heapq.nsmallest(room, ranks)
    return found[:count]
