"""Why a cluster was chosen, or the first reason why it was not.

The reasons are in the order in which clusters are sorted out, so the first one is also the first that must be removed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pyroaring import BitMap

from echelon.api.label_terms import Requirement
from echelon.engine.placement import expressions
from echelon.engine.placement.compiled import CompiledPlacement, Predicate
from echelon.engine.placement.fleet import Cluster, FleetIndex
from echelon.engine.placement.ranking import first
from echelon.engine.placement.schedule import Part, Schedule
from echelon.engine.placement.scores import ScoringContext
from echelon.engine.placement.taints import LONG_AGO, Tolerance, judge


@dataclass(frozen=True)
class Explanation:
    """One cluster and what became of it. Rank, total and parts are there if it passed all filters."""

    cluster: str
    selected: bool
    reason: str  # one word for programs
    message: str
    rank: int | None = None
    total: int | None = None
    parts: tuple[Part, ...] = ()
    until: datetime | None = None  # when a toleration that it depends on ends


@dataclass(frozen=True)
class _Out:
    reason: str
    message: str


def explain(schedule: Schedule, fleet: FleetIndex, clusters: Iterable[str] | None = None) -> list[Explanation]:
    """Explain some clusters of a schedule, or all; by name."""
    wanted = [fleet.find(name) for name in sorted(set(clusters))] if clusters is not None else list(fleet)
    found = [cluster for cluster in wanted if cluster is not None]
    if schedule.compiled is None or schedule.context is None:
        message = f"the placement is misconfigured: {schedule.outcome.message}"
        return [Explanation(each.name, selected=False, reason="Misconfigured", message=message) for each in found]
    passed = BitMap([each.id for each in found]) & schedule.feasible
    totals, parts = schedule.totals(schedule.feasible) if passed else {}, schedule.breakdown(passed)
    ranks = {number: rank for rank, (_, _, number) in enumerate(first(fleet.names, totals, len(totals)), 1)}
    explained = []
    for cluster in found:
        if cluster.id not in schedule.feasible:
            out = _filtered(cluster, schedule, schedule.compiled, schedule.context)
            explained.append(Explanation(cluster.name, selected=False, reason=out.reason, message=out.message))
            continue
        out = _ranked(cluster, schedule, schedule.compiled, ranks[cluster.id])
        explained.append(
            Explanation(
                cluster.name,
                selected=cluster.id in schedule.chosen,
                reason=out.reason,
                message=out.message,
                rank=ranks[cluster.id],
                total=totals[cluster.id],
                parts=parts[cluster.name],
                until=_judged(cluster, schedule.compiled, schedule.context).until,
            )
        )
    return explained


def _decided(cluster: Cluster, context: ScoringContext) -> bool:
    return cluster.id in context.decisions.own(context.placement)


def _judged(cluster: Cluster, compiled: CompiledPlacement, context: ScoringContext) -> Tolerance:
    return judge(cluster, compiled.tolerations, decided=_decided(cluster, context), now=context.now)


def _filtered(cluster: Cluster, schedule: Schedule, compiled: CompiledPlacement, context: ScoringContext) -> _Out:
    if cluster.deleting:
        return _Out("Deleting", "is being deleted")
    if not schedule.eligibility.contains(cluster, decided=_decided(cluster, context)):
        names = ",".join(schedule.eligibility.names)
        return _Out("NotInClusterSet", f"is in none of the eligible cluster sets [{names}]")
    if not compiled.wants(
        cluster, lambda predicate, each: expressions.all_match(predicate.programs, each, context.addons)
    ):
        reasons = (
            f"predicates[{index}]: {_mismatch(predicate, cluster, context)}"
            for index, predicate in enumerate(compiled.predicates)
        )
        return _Out("NoPredicateMatches", "; ".join(reasons))
    verdict = _judged(cluster, compiled, context)
    taint = verdict.taint
    if taint is None:
        return _Out("Unknown", "has changed since the placement was scheduled")
    value = f"={taint.value}" if taint.value else ""
    ended = f" since {verdict.until:%Y-%m-%dT%H:%M:%SZ}" if verdict.until not in (None, LONG_AGO) else ""
    return _Out("TaintNotTolerated", f"taint {taint.key}{value}:{taint.effect} is not tolerated{ended}")


def _agrees(context: ScoringContext, predicate: Predicate, cluster: Cluster) -> bool:
    return expressions.all_match(predicate.programs, cluster, context.addons)


def _mismatch(predicate: Predicate, cluster: Cluster, context: ScoringContext) -> str:
    for kind, terms, facts in (
        ("label", predicate.selector.labels, cluster.labels),
        ("claim", predicate.selector.claims, cluster.claims),
    ):
        if missed := next(_unmet(terms, facts), None):
            return f"{kind} {missed}"
    view = expressions.view(cluster, context.addons)
    for index, program in enumerate(predicate.programs):
        if not expressions.matches(program, view):
            return f"celExpressions[{index}] is not true"
    return "does not match"


def _unmet(terms: Iterable[Requirement], facts: dict[str, str]) -> Iterator[str]:
    for term in terms:
        if not term.matches(facts):
            has = f"the cluster has {facts[term.key]!r}" if term.key in facts else "the cluster has none"
            yield f"{term}: {has}"


def _ranked(cluster: Cluster, schedule: Schedule, compiled: CompiledPlacement, rank: int) -> _Out:
    if cluster.id in schedule.chosen:
        return _Out("Selected", "is selected")
    if key := schedule.barred.get(cluster.id):
        return _Out("NoTopology", f"has no value for the topology key {key} of a hard spread constraint")
    if compiled.limit is not None and len(schedule.chosen) >= compiled.limit:
        return _Out("NotAmongTheBest", f"is number {rank} by score, and {compiled.limit} are wanted")
    return _Out("SpreadConstraint", "would break a hard spread constraint")
