"""Spread by its definition: every place is scored anew before each choice. Far too slow, and easy to believe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from echelon.api.scheduling import SpreadConstraint
from echelon.engine.placement.fleet import Cluster
from echelon.engine.placement.spread import Spread

Place = tuple[str | None, ...]

_MOST = 63


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
        queue.sort(reverse=True)
    chosen: dict[int, int] = {}
    while len(chosen) < limit:
        scores = _normalised({place: _score(tally, place) for place in waiting if _fits(constraints, tally, place)})
        if not scores:
            break
        place = min(scores, key=lambda each: (waiting[each][-1][0] - weight * scores[each], waiting[each][-1][1]))
        chosen[waiting[place].pop()[2]] = scores[place]
        tally.choose(place)
        if not waiting[place]:
            del waiting[place]
    return Spread(tuple(chosen), chosen, barred)


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
