"""Schedules one placement: the clusters that pass its filters are kept, and brought up to date cluster by cluster.

Scheduling from scratch and following changes give the same result, because both go through here: from scratch is a
scheduler that is asked once. Following pays when a few of many clusters changed; if many did, starting again is
cheaper, because whole bitmaps are combined at once.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pyroaring import BitMap

from echelon.api.keys import Key
from echelon.api.placement import Placement
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.compiled import (
    CompiledPlacement,
    Misconfigured,
    Predicate,
    Unfinished,
    compile_placement,
)
from echelon.engine.placement.fleet import Cluster, FleetIndex
from echelon.engine.placement.ranking import Ranking
from echelon.engine.placement.schedule import Code, Schedule, SchedulingOutcome
from echelon.engine.placement.scores import AddOn, ScoringContext
from echelon.engine.placement.sets import EVERYTHING, Eligibility
from echelon.engine.placement.spread import Spread, hard, spread
from echelon.engine.placement.taints import IF_NEW, judge, tolerated

if TYPE_CHECKING:
    from echelon.engine.placement.opinions import Opinions

_CHECKED = 60_000  # what looking again at what expressions say may cost
_A_MOMENT = timedelta(microseconds=1)  # scores are valid up to and including their last moment


def _opinions(addons: ScoreIndex) -> "Opinions":
    from echelon.engine.placement import opinions  # noqa: PLC0415 - few have expressions; see `compiled`

    return opinions.Opinions(addons)


class PlacementScheduler:
    """One placement against the fleet."""

    def __init__(self, placement: Placement, fleet: FleetIndex, decisions: DecisionCounter, addons: ScoreIndex) -> None:
        self.key = Key(placement.metadata.namespace, placement.metadata.name)
        self.spec = placement.spec
        self.compiled: CompiledPlacement | None = None
        self.fault: Misconfigured | None = None
        try:
            self.compiled = compile_placement(placement)
        except Misconfigured as error:
            self.fault = error
        self._fleet, self._decisions, self._addons = fleet, decisions, addons
        self._opinions: Opinions | None = None
        if self.compiled is not None and self.compiled.uses_expressions:
            self._opinions = _opinions(addons)
        self._eligibility = EVERYTHING
        self._feasible = BitMap()
        self._deadlines: dict[int, datetime] = {}
        self._ranking: Ranking | None = None
        self._highest = 0
        self._position = 0
        self._dirty = BitMap()
        self._stale = True
        self._now: datetime | None = None

    @property
    def eligibility(self) -> Eligibility:
        """From what the placement may choose."""
        return self._eligibility

    def choose_from(self, eligibility: Eligibility) -> bool:
        """Let the placement choose from other sets; tell whether that is different."""
        if eligibility == self._eligibility:
            return False
        self._eligibility, self._stale = eligibility, True
        return True

    def touch(self, clusters: Iterable[int]) -> None:
        """Look at some clusters again when the placement is next scheduled."""
        numbers = list(clusters)
        self._dirty.update(numbers)
        if self._opinions is not None:
            for number in numbers:
                self._opinions.forget(number)

    def decided(self, clusters: BitMap) -> None:
        """Hear that these clusters came to, or went from, the placement's decisions."""
        self._dirty |= clusters & self._fleet.with_effect(IF_NEW)
        if self._eligibility.malformed:
            self._stale = True

    def advance(self, now: datetime, slice_cost: int) -> None:
        """Ask expressions about clusters that they were not asked about, for at most so much."""
        if self._opinions is not None:
            self._opinions.begin(slice_cost)
            with suppress(Misconfigured, Unfinished):
                self._catch_up(self._decisions.own(self.key), now)
            self._opinions.keep()

    def schedule(self, now: datetime, slice_cost: int | None = None) -> Schedule:
        """Choose clusters as of now. With a limit to what asking expressions may cost, raises `Unfinished`."""
        own = self._decisions.own(self.key)
        if self.compiled is None:
            return self._misconfigured(own, self.fault or Misconfigured("", ""))
        if self._opinions is not None:
            self._opinions.begin(slice_cost)
        try:
            changed = self._catch_up(own, now)
        except Misconfigured as fault:
            if self._opinions is not None:
                self._opinions.keep()
            return self._misconfigured(own, fault)
        if self._opinions is not None:
            self._opinions.keep()
        context = self._context(self.compiled, now)
        outcome, until = self._judge_scores(self.compiled, context)
        chosen, order, spreading = self._choose(self.compiled, context, changed)
        names, differing = self._fleet.names, chosen ^ own
        return Schedule(
            outcome,
            self._eligibility,
            available=bool(self._feasible or self._eligibility.clusters(self._fleet, own)),
            feasible=context.feasible,
            chosen=chosen,
            unscheduled=0 if self.compiled.limit is None else self.compiled.limit - len(chosen),
            look_again=min((*self._deadlines.values(), *until), default=None),
            added=tuple(sorted(names.of(differing & chosen))),
            removed=tuple(sorted(names.of(differing & own))),
            order=order,
            spread_scores=spreading.scores if spreading else {},
            barred=spreading.barred if spreading else {},
            compiled=self.compiled,
            context=context,
            revision=self._fleet.revision,
        )

    def _misconfigured(self, own: BitMap, fault: Misconfigured) -> Schedule:
        outcome = SchedulingOutcome(Code.MISCONFIGURED, fault.plugin, fault.message)
        return Schedule(outcome, self._eligibility, bool(self._eligibility.clusters(self._fleet, own)))

    def differences(self, numbers: BitMap) -> Iterator[str]:
        """Tell which of some clusters pass the filters, or not, otherwise than was found step by step."""
        if self.compiled is None or self._stale or self._now is None:
            return
        own = self._decisions.own(self.key)
        pool = (self._eligibility.clusters(self._fleet, own) & numbers) - self._dirty
        if self._opinions is not None:
            self._opinions.begin(_CHECKED)
        try:
            wanted = self.compiled.wanted(self._fleet, pool, self._agrees)
        except (Misconfigured, Unfinished):
            return
        due, _ = tolerated(self._fleet, wanted, self.compiled.tolerations, own, self._now)
        for number in ((self._feasible & numbers) - self._dirty) ^ due:
            passes = "passes" if number in due else "does not pass"
            yield f"cluster {self._fleet.names[number]} {passes} the filters of placement {self.key}"

    def _context(self, compiled: CompiledPlacement, now: datetime) -> ScoringContext:
        return ScoringContext(
            placement=self.key,
            fleet=self._fleet,
            addons=self._addons,
            decisions=self._decisions,
            tolerations=compiled.tolerations,
            feasible=self._feasible.copy(),
            now=now,
        )

    def _catch_up(self, own: BitMap, now: datetime) -> BitMap | None:
        """Bring the filters up to date; return the clusters that were looked at, none if it was all of them."""
        dirty = self._dirty | BitMap([number for number, until in self._deadlines.items() if until <= now])
        many = len(dirty) * 8 > len(self._feasible) + 64
        backwards = self._now is not None and now < self._now
        all_of_them = self._stale or many or backwards
        self._stale = True  # until all of it is done
        if all_of_them:
            self._start_again(own, now)
        else:
            for number in dirty:
                self._look_at(number, number in own, now)
        self._dirty, self._stale, self._now = BitMap(), False, now
        return None if all_of_them else dirty

    def _agrees(self, predicate: Predicate, cluster: Cluster) -> bool:
        return self._opinions is None or self._opinions.agrees(predicate, cluster)

    def _start_again(self, own: BitMap, now: datetime) -> None:
        if self.compiled is None:
            return
        pool = self._eligibility.clusters(self._fleet, own)
        wanted = self.compiled.wanted(self._fleet, pool, self._agrees)
        self._feasible, self._deadlines = tolerated(self._fleet, wanted, self.compiled.tolerations, own, now)

    def _look_at(self, number: int, decided: bool, now: datetime) -> None:
        self._feasible.discard(number)
        self._deadlines.pop(number, None)
        cluster = self._fleet.get(number)
        if self.compiled is None or cluster is None:
            return
        if not self._eligibility.contains(cluster, decided=decided) or not self.compiled.wants(cluster, self._agrees):
            return
        verdict = judge(cluster, self.compiled.tolerations, decided=decided, now=now)
        if verdict.tolerated:
            self._feasible.add(number)
            if verdict.until is not None:
                self._deadlines[number] = verdict.until

    def _judge_scores(
        self, compiled: CompiledPlacement, context: ScoringContext
    ) -> tuple[SchedulingOutcome, list[datetime]]:
        """Find expired scores, and when the next ones expire."""
        outcome, until = SchedulingOutcome(), []
        if malformed := self._eligibility.malformed:
            told = "; ".join(f"{name}: {why}" for name, why in sorted(malformed.items()))
            outcome = SchedulingOutcome(Code.WARNING, "ManagedClusterSet", told)
        for prioritizer, _ in compiled.prioritizers.weighted:
            if isinstance(prioritizer, AddOn):
                scores = prioritizer.score(context, context.feasible)
                if scores.warning:
                    outcome = SchedulingOutcome(Code.WARNING, prioritizer.name, scores.warning)
                if scores.until is not None:
                    until.append(scores.until + _A_MOMENT)
        return outcome, until

    def _choose(
        self, compiled: CompiledPlacement, context: ScoringContext, changed: BitMap | None
    ) -> tuple[BitMap, tuple[int, ...] | None, Spread | None]:
        feasible = context.feasible
        if compiled.constraints and (hard(compiled.constraints) or compiled.limit is not None):
            spreading = self._spread(compiled, context)
            return BitMap(spreading.chosen), spreading.chosen, spreading
        if compiled.limit is None:
            return feasible, None, None
        order = self._best(compiled, compiled.limit, context, changed)
        return BitMap(order), order, None

    def _spread(self, compiled: CompiledPlacement, context: ScoringContext) -> Spread:
        found = {number: self._fleet.get(number) for number in context.feasible}
        candidates = {number: cluster for number, cluster in found.items() if cluster is not None}
        prioritizers = compiled.prioritizers
        totals = prioritizers.totals(prioritizers.scores(context, context.feasible), context.feasible)
        limit = len(candidates) if compiled.limit is None else compiled.limit
        return spread(compiled.constraints, candidates, totals, limit=limit, weight=prioritizers.spread)

    def _best(
        self, compiled: CompiledPlacement, limit: int, context: ScoringContext, changed: BitMap | None
    ) -> tuple[int, ...]:
        """Return the best clusters in order, looking only at those whose scores may be others than before."""
        prioritizers, feasible = compiled.prioritizers, context.feasible
        counted = self._decisions.changed_since(self._position)
        highest = self._decisions.highest(self.key)
        ranking = self._ranking
        if ranking is not None and changed is not None and counted is not None:
            moved = changed | counted
            if prioritizers.local and highest == self._highest and len(moved) * 8 <= len(feasible) + 64:
                totals = prioritizers.totals(prioritizers.scores(context, moved & feasible), moved & feasible)
                for number in moved:
                    ranking.put(number, totals.get(number))
            else:
                ranking = None
        else:
            ranking = None
        if ranking is None or ranking.exhausted:
            ranking = Ranking(self._fleet.names, limit)
            ranking.fill(prioritizers.totals(prioritizers.scores(context, feasible), feasible))
        self._ranking, self._highest, self._position = ranking, highest, self._decisions.position
        return ranking.best()
