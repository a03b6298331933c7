"""Prioritizers: which of the clusters that may be chosen are better.

Scores are integers and must equal those of other implementations to the last digit, so every rounding here is
deliberate. A prioritizer says what most clusters get and which get something else: on a large fleet most are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import trunc
from typing import Protocol

from pyroaring import BitMap

from echelon.api.keys import Key
from echelon.api.scheduling import PrioritizerPolicy, ScoreCoordinate, Toleration
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.fleet import FleetIndex
from echelon.engine.placement.taints import PREFER, disliked

HIGHEST, LOWEST = 100, -100
SPREAD = "Spread"

_ADDITIVE, _EXACT = "Additive", "Exact"
_DEFAULTS = {"Balance": 1, "Steady": 1}
_SPREAD_BY_DEFAULT = 2


class PolicyError(ValueError):
    """A prioritizer policy that means nothing."""


@dataclass(frozen=True)
class ScoringContext:
    """What scores are computed from: the clusters that passed all filters, and what is known about them."""

    placement: Key
    fleet: FleetIndex
    addons: ScoreIndex
    decisions: DecisionCounter
    tolerations: Sequence[Toleration]
    feasible: BitMap
    now: datetime


@dataclass(frozen=True)
class Scores:
    """Scores of some clusters: the default one, and those that differ."""

    default: int = 0
    overrides: dict[int, int] = field(default_factory=dict)
    warning: str = ""
    until: datetime | None = None  # these scores change by themselves after this moment

    def of(self, number: int) -> int:
        """Return the score of one cluster."""
        return self.overrides.get(number, self.default)


class Prioritizer(Protocol):
    """Gives scores to clusters."""

    @property
    def name(self) -> str:
        """Name in messages and explanations."""

    @property
    def local(self) -> bool:
        """Whether one cluster's score can change without touching that of another."""

    def score(self, context: ScoringContext, clusters: BitMap) -> Scores:
        """Score some of the feasible clusters."""


@dataclass(frozen=True)
class Steady:
    """Prefers clusters that the placement has already."""

    name: str = "Steady"
    local: bool = True

    def score(self, context: ScoringContext, clusters: BitMap) -> Scores:
        """Give the most to what is there, and nothing to the rest."""
        return Scores(0, dict.fromkeys(clusters & context.decisions.own(context.placement), HIGHEST))


@dataclass(frozen=True)
class Balance:
    """Prefers clusters that few other placements have."""

    name: str = "Balance"
    local: bool = True

    def score(self, context: ScoringContext, clusters: BitMap) -> Scores:
        """Score by the count of other placements, relative to the highest count of any cluster."""
        own, highest = context.decisions.own(context.placement), context.decisions.highest(context.placement)
        overrides: dict[int, int] = {}
        for count, at_level in context.decisions.levels():
            if found := at_level & clusters:
                overrides |= dict.fromkeys(found - own, _balanced(count, highest))
                if count > 1:
                    overrides |= dict.fromkeys(found & own, _balanced(count - 1, highest))
        return Scores(HIGHEST, overrides)


def _balanced(count: int, highest: int) -> int:
    return 2 * trunc(100.0 * (0.5 - count / highest)) if highest else HIGHEST


@dataclass(frozen=True)
class Allocatable:
    """Prefers clusters with more of a resource to give, on the scale from the least to the most."""

    resource: str
    name: str
    local: bool = False

    def score(self, context: ScoringContext, clusters: BitMap) -> Scores:
        """Score clusters that tell both their capacity and what is allocatable; others get nothing."""
        amounts: dict[int, float] = {}
        for number in context.feasible:
            cluster = context.fleet.get(number)
            if cluster is not None and self.resource in cluster.allocatable:
                amounts[number] = cluster.allocatable[self.resource]
        if not amounts:
            return Scores()
        least, most = min(amounts.values()), max(amounts.values())
        wanted, span = clusters & BitMap(list(amounts)), most - least
        if not span:
            return Scores(0, dict.fromkeys(wanted, HIGHEST))
        return Scores(0, {each: trunc(((amounts[each] - least) / span - 0.5) * 2.0 * 100.0) for each in wanted})


@dataclass(frozen=True)
class AddOn:
    """Takes the score that an add-on gives, as long as it is valid."""

    resource: str
    score_name: str
    local: bool = False

    @property
    def name(self) -> str:
        """Name in messages and explanations."""
        return f"AddOn/{self.resource}/{self.score_name}"

    def score(self, context: ScoringContext, clusters: BitMap) -> Scores:
        """Take the scores that there are; those that have expired are named in a warning."""
        overrides: dict[int, int] = {}
        expired: list[str] = []
        until: datetime | None = None
        for number in clusters:
            name = context.fleet.names[number]
            scores = context.addons.get(name, self.resource)
            if scores is None:
                continue
            if scores.expired(context.now):
                expired.append(f"{name}/{self.resource}")
                continue
            if scores.valid_until is not None and (until is None or scores.valid_until < until):
                until = scores.valid_until
            overrides[number] = scores.values.get(self.score_name, 0)
        warning = f"AddOnPlacementScores {' '.join(sorted(expired))} expired" if expired else ""
        return Scores(0, overrides, warning, until)


@dataclass(frozen=True)
class PreferNoSelect:
    """Avoids clusters with a taint that asks for it, unless it is tolerated."""

    name: str = "PreferNoSelect"
    local: bool = True

    def score(self, context: ScoringContext, clusters: BitMap) -> Scores:
        """Give the least to clusters that want to be a later choice, and nothing to the rest."""
        asking = context.fleet.with_effect(PREFER) & clusters
        avoided = (context.fleet.get(number) for number in asking)
        return Scores(0, {each.id: LOWEST for each in avoided if each and disliked(each, context.tolerations)})


_BUILT_IN: dict[str, Prioritizer] = {
    "Balance": Balance(),
    "Steady": Steady(),
    "ResourceAllocatableCPU": Allocatable("cpu", "ResourceAllocatableCPU"),
    "ResourceAllocatableMemory": Allocatable("memory", "ResourceAllocatableMemory"),
    "PreferNoSelect": PreferNoSelect(),
}


@dataclass(frozen=True)
class WeightedPrioritizers:
    """The prioritizers of a placement with their weights, and the weight of its spread."""

    weighted: tuple[tuple[Prioritizer, int], ...]
    spread: int

    @property
    def local(self) -> bool:
        """Whether a change of one cluster leaves the scores of all others as they are."""
        return all(prioritizer.local for prioritizer, _ in self.weighted)

    def scores(self, context: ScoringContext, clusters: BitMap) -> list[Scores]:
        """Let every prioritizer score some clusters."""
        return [prioritizer.score(context, clusters) for prioritizer, _ in self.weighted]

    def totals(self, scores: Sequence[Scores], clusters: BitMap) -> dict[int, int]:
        """Add the scores up."""
        weights = [weight for _, weight in self.weighted]
        default = sum(weight * each.default for weight, each in zip(weights, scores, strict=True))
        totals = dict.fromkeys(clusters, default)
        for weight, each in zip(weights, scores, strict=True):
            for number, score in each.overrides.items():
                totals[number] += weight * (score - each.default)
        return totals


def compile_prioritizers(policy: PrioritizerPolicy) -> WeightedPrioritizers:
    """Understand a policy; raise PolicyError if it means nothing.

    Entries are told apart as others do it: two for one built-in prioritizer are one, and the last weight wins; every
    entry with an add-on is one of its own.
    """
    if policy.mode not in (_ADDITIVE, _EXACT, ""):
        raise PolicyError(f"incorrect prioritizer policy mode: {policy.mode}")
    exact = policy.mode == _EXACT
    entries: dict[object, tuple[ScoreCoordinate, int]] = {}
    for name, weight in {} if exact else {**_DEFAULTS, SPREAD: _SPREAD_BY_DEFAULT}.items():
        entries["BuiltIn", name, -1] = ScoreCoordinate(built_in=name), weight
    for index, config in enumerate(policy.configurations):
        where = config.score_coordinate
        entries[where.type, where.built_in, -1 if where.add_on is None else index] = where, config.weight
    wanted = [(where, weight) for where, weight in entries.values() if weight]
    spread = sum(weight for where, weight in wanted if _is_spread(where))
    return WeightedPrioritizers(
        tuple((_prioritizer(where), weight) for where, weight in wanted if not _is_spread(where)), spread
    )


def _is_spread(where: ScoreCoordinate) -> bool:
    return where.type == "BuiltIn" and where.built_in == SPREAD


def _prioritizer(where: ScoreCoordinate) -> Prioritizer:
    if where.type == "BuiltIn":
        if where.built_in not in _BUILT_IN:
            raise PolicyError(f"incorrect builtin prioritizer: {where.built_in}")
        return _BUILT_IN[where.built_in]
    if where.add_on is None:
        raise PolicyError("addOn should not be empty")
    return AddOn(where.add_on.resource_name, where.add_on.score_name)
