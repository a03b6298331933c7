"""Scheduling: from all clusters to those that a placement gets.

What is asked of a schedule differs: decisions need the clusters that were chosen, events a few scores, explanations all
of them. So a schedule has the choice as bitmaps, and computes the rest when asked. That looks at the fleet, so ask
before the fleet changes; a schedule notices if that is too late.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from pyroaring import BitMap

from echelon.engine.placement.compiled import CompiledPlacement
from echelon.engine.placement.ranking import first
from echelon.engine.placement.scores import ScoringContext
from echelon.engine.placement.sets import Eligibility


class Code(StrEnum):
    """How scheduling went."""

    SUCCESS = "Success"
    WARNING = "Warning"
    ERROR = "Error"
    MISCONFIGURED = "Misconfigured"


@dataclass(frozen=True)
class SchedulingOutcome:
    """How scheduling went, which step says so, and why."""

    code: Code = Code.SUCCESS
    plugin: str = ""
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether nothing was chosen, so that earlier decisions stand."""
        return self.code in (Code.ERROR, Code.MISCONFIGURED)


@dataclass(frozen=True)
class Part:
    """What one prioritizer contributes to a cluster's total."""

    prioritizer: str
    weight: int
    score: int


class OutdatedSchedule(RuntimeError):
    """A schedule was asked for something that it would have to look up in a fleet that has changed."""


@dataclass(frozen=True)
class Schedule:
    """What a placement gets. `selected` is in order of preference; all names are of clusters."""

    outcome: SchedulingOutcome
    eligibility: Eligibility
    available: bool = False  # whether the eligible sets have any cluster
    feasible: BitMap = field(default_factory=BitMap)  # those that passed all filters
    chosen: BitMap = field(default_factory=BitMap)
    unscheduled: int = 0
    look_again: datetime | None = None  # when time alone may change the result
    added: tuple[str, ...] = ()  # chosen, but not in the decisions that the placement has
    removed: tuple[str, ...] = ()
    order: tuple[int, ...] | None = None  # of the chosen, where choosing gave them one
    spread_scores: Mapping[int, int] = field(default_factory=dict)
    barred: Mapping[int, str] = field(default_factory=dict)  # without a value for this topology key
    compiled: CompiledPlacement | None = None
    context: ScoringContext | None = None
    revision: int = 0

    @cached_property
    def selected(self) -> tuple[str, ...]:
        """Names of the chosen clusters, the best first."""
        if self.context is None:
            return ()
        if self.order is not None:
            return tuple(self._context.fleet.names.of(self.order))
        totals = self.totals(self.chosen)
        return tuple(name for _, name, _ in first(self._context.fleet.names, totals, len(totals)))

    @cached_property
    def members(self) -> frozenset[str]:
        """Names of the chosen clusters."""
        return frozenset(self._context.fleet.names.of(self.chosen)) if self.context else frozenset()

    @cached_property
    def groups(self) -> dict[str, str]:
        """For each chosen cluster the named decision group that it belongs to, empty for none."""
        if self.context is None or self.compiled is None:
            return {}
        fleet, left = self._context.fleet, self.chosen
        found: dict[str, str] = {}
        for name, selector in self.compiled.groups:
            inside = selector.among(fleet, left)
            found |= dict.fromkeys(fleet.names.of(inside), name)
            left = left - inside
        return found | dict.fromkeys(fleet.names.of(left), "")

    @cached_property
    def scores(self) -> dict[str, int]:
        """Total scores of all clusters that passed the filters, by name."""
        if self.context is None:
            return {}
        totals = self.totals(self.feasible)
        return {name: totals[number] for number, name in self._named(totals)}

    def totals(self, clusters: BitMap) -> dict[int, int]:
        """Return the total scores of some of the feasible clusters."""
        if self.compiled is None:
            return {}
        prioritizers = self.compiled.prioritizers
        return prioritizers.totals(prioritizers.scores(self._context, clusters), clusters)

    def breakdown(self, clusters: BitMap) -> dict[str, tuple[Part, ...]]:
        """Return what each prioritizer gives to some of the feasible clusters, by name."""
        if self.compiled is None:
            return {}
        prioritizers = self.compiled.prioritizers
        scores = list(zip(prioritizers.weighted, prioritizers.scores(self._context, clusters), strict=True))
        return {
            name: (
                *(Part(prioritizer.name, weight, each.of(number)) for (prioritizer, weight), each in scores),
                *(
                    [Part("Spread", prioritizers.spread, self.spread_scores[number])]
                    if number in self.spread_scores
                    else []
                ),
            )
            for number, name in self._named(clusters)
        }

    def scored(self) -> Iterable[tuple[str, int]]:
        """Walk total scores by name of cluster, computing no more of them than are taken."""
        if self.context is None:
            return
        fleet, batch = self._context.fleet, list[str]()
        for name in fleet.in_order(self.feasible):
            batch.append(name)
            if len(batch) == 64:
                yield from self._totals_of(batch)
                batch = []
        yield from self._totals_of(batch)

    def _totals_of(self, names: list[str]) -> list[tuple[str, int]]:
        numbers = [cluster.id for cluster in map(self._context.fleet.find, names) if cluster]
        totals = self.totals(BitMap(numbers))
        return [(name, totals[number]) for name, number in zip(names, numbers, strict=True)]

    def _named(self, clusters: Iterable[int]) -> list[tuple[int, str]]:
        names = self._context.fleet.names
        return [(number, names[number]) for number in clusters]

    @property
    def _context(self) -> ScoringContext:
        if self.context is None or self.context.fleet.revision != self.revision:
            raise OutdatedSchedule("the fleet has changed since this schedule was made")
        return self.context
