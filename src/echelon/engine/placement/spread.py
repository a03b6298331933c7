"""Spread: choosing clusters one after the other, so that they lie far apart.

Constraints are a hierarchy: the places of the second lie within those of the first, so two zones of one name in two
regions are two places, and are compared only with their neighbours. A place counts if any cluster of it could be
chosen, even when all of them have been.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from echelon.api.scheduling import SpreadConstraint
from echelon.engine.placement.fleet import Cluster

Place = tuple[str | None, ...]

_MOST = 63  # each constraint has six bits of the score, the first constraint the highest


@dataclass(frozen=True)
class Spread:
    """The clusters in the order in which they were chosen, their spread scores, and who could not be chosen at all."""

    chosen: tuple[int, ...]
    scores: Mapping[int, int]
    barred: Mapping[int, str]


@dataclass
class _Tally:
    """How many clusters have been chosen in every place, and which places lie within which."""

    counts: dict[Place, int] = field(default_factory=dict)
    within: dict[Place, list[Place]] = field(default_factory=dict)

    def know(self, place: Place) -> None:
        for parent, child in pairwise(place[:depth] for depth in range(len(place) + 1)):
            if child not in self.counts:
                self.counts[child] = 0
                self.within.setdefault(parent, []).append(child)

    def choose(self, place: Place) -> None:
        for depth in range(1, len(place) + 1):
            self.counts[place[:depth]] += 1

    def neighbours(self, place: Place) -> list[int]:
        return [self.counts[each] for each in self.within[place[:-1]]]


def spread(
    constraints: Sequence[SpreadConstraint],
    candidates: Mapping[int, Cluster],
    totals: Mapping[int, int],
    *,
    limit: int,
    weight: int,
) -> Spread:
    """Choose at most `limit` clusters by their totals and by `weight` times how well they spread."""
    barred: dict[int, str] = {}
    waiting: dict[Place, list[tuple[int, str, int]]] = {}
    tally = _Tally()
    for number, cluster in candidates.items():
        place = _place(constraints, cluster)
        missing = [
            constraint.topology_key
            for constraint, value in zip(constraints, place, strict=True)
            if value is None and constraint.when_unsatisfiable == "DoNotSchedule"
        ]
        if missing:
            barred[number] = missing[0]
            continue
        waiting.setdefault(place, []).append((-totals[number], cluster.name, number))
        tally.know(place)
    for queue in waiting.values():
        queue.sort(reverse=True)  # the best one is taken from the end
    chosen: dict[int, int] = {}
    while len(chosen) < limit:
        scores = _normalised({place: _score(tally, place) for place in waiting if _fits(constraints, tally, place)})
        if not scores:
            break
        place = _best(scores, waiting, weight)
        chosen[waiting[place].pop()[2]] = scores[place]
        tally.choose(place)
        if not waiting[place]:
            del waiting[place]
    return Spread(tuple(chosen), chosen, barred)


def _best(scores: Mapping[Place, int], waiting: Mapping[Place, list[tuple[int, str, int]]], weight: int) -> Place:
    """Return the place whose first cluster has the highest sum; of equals, the one with the first name."""
    return min(scores, key=lambda each: (waiting[each][-1][0] - weight * scores[each], waiting[each][-1][1]))


def hard(constraints: Sequence[SpreadConstraint]) -> bool:
    """Tell whether spreading can leave a cluster out although there is room for it."""
    return any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in constraints)


def _place(constraints: Sequence[SpreadConstraint], cluster: Cluster) -> Place:
    return tuple(
        (cluster.claims if constraint.topology_key_type == "Claim" else cluster.labels).get(constraint.topology_key)
        for constraint in constraints
    )


def _fits(constraints: Sequence[SpreadConstraint], tally: _Tally, place: Place) -> bool:
    for depth, constraint in enumerate(constraints, 1):
        if constraint.when_unsatisfiable == "DoNotSchedule":
            here = place[:depth]
            if tally.counts[here] + 1 - min(tally.neighbours(here)) > constraint.max_skew:
                return False
    return True


def _score(tally: _Tally, place: Place) -> int:
    score = 0
    for depth in range(1, len(place) + 1):
        counts = tally.neighbours(place[:depth])
        least, most = min(counts), max(counts)
        part = 0 if least == most else _MOST * (most - tally.counts[place[:depth]]) // (most - least)
        score = (score << 6) + part
    return score


def _normalised(scores: Mapping[Place, int]) -> dict[Place, int]:
    if not scores:
        return {}
    least, most = min(scores.values()), max(scores.values())
    if least == most:
        return dict.fromkeys(scores, 0)
    return {place: 200 * (score - least) // (most - least) - 100 for place, score in scores.items()}
