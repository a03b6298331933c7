"""Spread: choosing clusters one after the other, so that they lie far apart.

Constraints are a hierarchy: the places of the second lie within those of the first, so two zones of one name in two
regions are two places, and are compared only with their neighbours. A place counts if any cluster of it could be
chosen, even when all of them have been.

Each choice changes how all the others look, and a fleet has thousands of clusters in hundreds of places; so what a
choice does not change must not be looked at again. Neighbours of which equally many were chosen score alike, and what
a place has inside changes only when one of its clusters is chosen. Therefore neighbours are kept by their count, with
what each has to offer ordered once, and a choice costs what differs on the way down to the cluster. Who cannot win,
because another one of the same place spreads better and is better, is not offered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from echelon.api.scheduling import SpreadConstraint
from echelon.engine.placement.fleet import Cluster

Values = tuple[str | None, ...]  # of the topology keys, the first constraint's first
Offer = tuple[int, str, int]  # a cluster: its total, negative, its name, its number. The smallest is the best

_BITS = 6  # each constraint has so many of the score, the first constraint the highest
_MOST = (1 << _BITS) - 1


@dataclass(frozen=True)
class Spread:
    """The clusters in the order in which they were chosen, their spread scores, and who could not be chosen at all."""

    chosen: tuple[int, ...]
    scores: Mapping[int, int]
    barred: Mapping[int, str]


@dataclass(slots=True, eq=False)
class _Place:
    """A place: how many of its clusters were chosen, and the best of the others by their score within the place."""

    among: "_Neighbours"
    waiting: list[Offer] = field(default_factory=list)  # in order, if no places lie within
    inside: "_Neighbours | None" = None
    count: int = 0
    offers: dict[int, Offer] = field(default_factory=dict)

    def look(self, weight: int) -> None:
        """Find out what there is to offer."""
        if self.inside is not None:
            self.offers = _promising(self.inside.offers(), weight)
        else:
            self.offers = {0: self.waiting[0]} if self.waiting else {}


@dataclass(slots=True, eq=False)
class _Neighbours:
    """Places that are compared with each other: values of one key within one place of the constraint before."""

    within: _Place | None
    shift: int  # where the constraint's bits are in the score
    max_skew: int | None  # of a hard constraint
    places: dict[str | None, _Place] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # how many places have which count
    least: int = 0
    most: int = 0
    # By count and by score within the place. An offer of a place that has another count by now is out of date.
    offered: dict[int, dict[int, list[tuple[Offer, _Place]]]] = field(default_factory=dict)

    def place(self, value: str | None) -> _Place:
        """Return the place of a value."""
        found = self.places.get(value)
        if found is None:
            found = self.places[value] = _Place(self)
        return found

    def enter(self, place: _Place) -> None:
        """Take a place with its present count and offers."""
        count = place.count
        self.numbers[count] = self.numbers.get(count, 0) + 1
        if place.offers:
            by_score = self.offered.setdefault(count, {})
            for score, offer in place.offers.items():
                heappush(by_score.setdefault(score, []), (offer, place))

    def chosen(self, place: _Place) -> None:
        """Count one more cluster of a place, whose offers are others now."""
        self.numbers[place.count] -= 1
        place.count += 1
        self.most = max(self.most, place.count)
        self.enter(place)
        if not self.numbers[self.least]:
            del self.numbers[self.least]
            self.least += 1

    def offers(self) -> dict[int, Offer]:
        """Return the best cluster that may be chosen for each score that there is."""
        best: dict[int, Offer] = {}
        span = self.most - self.least
        for count in [*self.offered]:
            if self.max_skew is not None and count + 1 - self.least > self.max_skew:
                continue
            part = _MOST * (self.most - count) // span << self.shift if span else 0
            by_score = self.offered[count]
            for score in [*by_score]:
                heap = by_score[score]
                while heap and heap[0][1].count != count:
                    heappop(heap)
                if not heap:
                    del by_score[score]
                    continue
                offer = heap[0][0]
                if part + score not in best or offer < best[part + score]:
                    best[part + score] = offer
            if not by_score:
                del self.offered[count]
        return best


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
    homes: dict[int, _Place] = {}
    top = _Neighbours(None, _BITS * (len(constraints) - 1), _skew(constraints[0]))
    known: dict[Values, _Place] = {}
    for number, cluster in candidates.items():
        values = _values(constraints, cluster)
        if None in values and (missing := _missing(constraints, values)):
            barred[number] = missing
            continue
        place = known.get(values)
        if place is None:
            place = known[values] = _found(top, constraints, values)
        place.waiting.append((-totals[number], cluster.name, number))
        homes[number] = place
    _prepare(top, weight)
    chosen: dict[int, int] = {}
    while len(chosen) < limit and (offers := top.offers()):
        number, score = _best(offers, weight)
        chosen[number] = score
        _choose(homes[number], weight)
    return Spread(tuple(chosen), chosen, barred)


def hard(constraints: Sequence[SpreadConstraint]) -> bool:
    """Tell whether spreading can leave a cluster out although there is room for it."""
    return any(_skew(constraint) is not None for constraint in constraints)


def _skew(constraint: SpreadConstraint) -> int | None:
    return constraint.max_skew if constraint.when_unsatisfiable == "DoNotSchedule" else None


def _values(constraints: Sequence[SpreadConstraint], cluster: Cluster) -> Values:
    return tuple(
        [
            (cluster.claims if constraint.topology_key_type == "Claim" else cluster.labels).get(constraint.topology_key)
            for constraint in constraints
        ]
    )


def _missing(constraints: Sequence[SpreadConstraint], values: Values) -> str:
    """Return the first key that a cluster has to have and has not; empty if there is none."""
    pairs = zip(constraints, values, strict=True)
    return next((each.topology_key for each, value in pairs if value is None and _skew(each) is not None), "")


def _found(top: _Neighbours, constraints: Sequence[SpreadConstraint], values: Values) -> _Place:
    """Return the innermost place of some values, made if it is new."""
    place = top.place(values[0])
    for constraint, value in zip(constraints[1:], values[1:], strict=True):
        if place.inside is None:
            place.inside = _Neighbours(place, place.among.shift - _BITS, _skew(constraint))
        place = place.inside.place(value)
    return place


def _prepare(neighbours: _Neighbours, weight: int) -> None:
    """Let all places know what they have to offer before the first choice."""
    for place in neighbours.places.values():
        if place.inside is not None:
            _prepare(place.inside, weight)
        heapify(place.waiting)
        place.look(weight)
        neighbours.enter(place)


def _promising(offers: dict[int, Offer], weight: int) -> dict[int, Offer]:
    """Return the offers of one place that can win, and those of the lowest and highest score, which set the scale."""
    if len(offers) < 3:
        return offers
    by_score = sorted(offers, reverse=weight >= 0)  # who spreads best, as the weight has it, comes first
    kept = {by_score[0]: offers[by_score[0]], by_score[-1]: offers[by_score[-1]]}
    best = kept[by_score[0]]
    for score in by_score:
        if offers[score] < best:
            best = kept[score] = offers[score]
    return kept


def _best(offers: Mapping[int, Offer], weight: int) -> tuple[int, int]:
    """Return the cluster with the highest sum, of equals the one with the first name, and its spread score."""
    least, most = min(offers), max(offers)
    span = most - least
    scored = ((200 * (score - least) // span - 100 if span else 0, offer) for score, offer in offers.items())
    _, _, number, part = min((total - weight * part, name, number, part) for part, (total, name, number) in scored)
    return number, part


def _choose(place: _Place, weight: int) -> None:
    """Take the first cluster of a place, and let everything that the place lies in know."""
    heappop(place.waiting)
    inner: _Place | None = place
    while inner is not None:
        inner.look(weight)
        inner.among.chosen(inner)
        inner = inner.among.within
