"""What a placement tells about itself: conditions, decision groups, events.

Dashboards and scripts of the field compare these texts word by word, so they are wire format. Two things are ours: a
misconfigured placement keeps its last good decisions, and says so instead of pretending that no cluster matches; and
conditions name the generation that they are about.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from echelon.api.meta import Condition
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION, DecisionGroupStatus, Placement
from echelon.engine.conditions import condition_stamp, find_condition, set_condition
from echelon.engine.placement.schedule import Code, Schedule, SchedulingOutcome
from echelon.engine.placement.slices import Slice
from echelon.engine.plan import Emit, Reference

SATISFIED, MISCONFIGURED = "PlacementSatisfied", "PlacementMisconfigured"
PUBLISHED, WRITE_FAILED = "DecisionsPublished", "WriteFailed"
MAX_NOTE = 1000
MAX_SCORES = 300  # of which echelon placement explain tells all
KEPT = "Placement is misconfigured, the last good decisions are kept"

_Said = tuple[bool, str, str]  # whether it is so, reason, message


def conditions(placement: Placement, schedule: Schedule, selected: int, now: datetime) -> list[Condition]:
    """Return all conditions of a placement; `selected` is how many clusters its decisions have."""
    said = {
        MISCONFIGURED: _misconfigured(schedule.outcome),
        SATISFIED: _satisfied(placement, schedule, selected),
    }
    found: Sequence[Condition] = placement.status.conditions
    if find_condition(found, PUBLISHED) is not None:
        said[PUBLISHED] = (True, "DecisionsWritten", "All decisions are written")
    stamp = condition_stamp(placement.metadata.generation, now)
    for kind, each in said.items():
        found = set_condition(found, stamp.condition(kind, *each))
    return list(found)


def unpublished(placement: Placement, failures: Mapping[str, str], now: datetime) -> list[Condition]:
    """Return the conditions of a placement whose decisions could not be written; the others speak of those before."""
    stamp = condition_stamp(placement.metadata.generation, now)
    failed = stamp.condition(PUBLISHED, "False", WRITE_FAILED, _failures_note(failures))
    return set_condition(placement.status.conditions, failed)


def is_unpublished(placement: Placement) -> bool:
    """Whether a placement tells already that its decisions could not be written."""
    known = find_condition(placement.status.conditions, PUBLISHED)
    return known is not None and known.status == "False"


def decision_groups(slices: Iterable[Slice]) -> list[DecisionGroupStatus]:
    """Return the groups that slices belong to, by index."""
    by_index: dict[int, list[Slice]] = {}
    for each in slices:
        by_index.setdefault(each.group_index, []).append(each)
    return [
        DecisionGroupStatus(
            decision_group_index=index,
            decision_group_name=found[0].group_name,
            decisions=[each.name for each in found],
            cluster_count=sum(len(each.clusters) for each in found),
        )
        for index, found in sorted(by_index.items())
    ]


def created(placement: Placement, decision: str) -> Emit:
    """Tell that a decision was created."""
    return _emit(placement, decision, "DecisionCreate", "DecisionCreated", _note(placement, decision, "created"))


def updated(placement: Placement, decision: str, outcome: SchedulingOutcome) -> Emit:
    """Tell that a decision was updated, and with which reservation."""
    note, kind = _note(placement, decision, "updated"), "Normal"
    if outcome.code == Code.WARNING:
        note, kind = f"{note}: {outcome.message} in plugin {outcome.plugin}", "Warning"
    if len(note) > MAX_NOTE:
        note = note[: MAX_NOTE - 6] + "......"
    return _emit(placement, decision, "DecisionUpdate", "DecisionUpdated", note, kind)


def deleted(placement: Placement, decision: str) -> Emit:
    """Tell that a decision was deleted."""
    return _emit(placement, decision, "DecisionDelete", "DecisionDeleted", _note(placement, decision, "deleted"))


def held(placement: Placement) -> Emit:
    """Tell that decisions are kept although they look outdated."""
    meta = placement.metadata
    note = (
        f"Decisions of placement {meta.name} in namespace {meta.namespace} are kept: they are newer than what is known "
        "of the clusters"
    )
    return Emit(Reference(PLACEMENT, meta.name, meta.namespace, meta.uid), "DecisionHeld", "Wait", note, "Warning")


def write_failed(placement: Placement, failures: Mapping[str, str]) -> Emit:
    """Tell that decisions could not be written."""
    meta = placement.metadata
    note = _failures_note(failures)[:MAX_NOTE]
    return Emit(Reference(PLACEMENT, meta.name, meta.namespace, meta.uid), WRITE_FAILED, "Publish", note, "Warning")


def scored(placement: Placement, schedule: Schedule) -> Emit | None:
    """Tell the scores behind decisions; nothing if there are none. The same scores told again are one event."""
    note, meta = score_note(schedule.scored()), placement.metadata
    regarding = Reference(PLACEMENT, meta.name, meta.namespace, meta.uid)
    return Emit(regarding, "ScoreUpdate", "ScoreUpdated", note) if note else None


def score_note(scores: Iterable[tuple[str, int]]) -> str:
    """Return scores as text, as many as people read in an event; takes no more of them than that."""
    note = ""
    for name, score in scores:
        entry = f"{name}:{score} "
        if len(note) + len(entry) > MAX_SCORES:
            return note + "......"
        note += entry
    return note


def _failures_note(failures: Mapping[str, str]) -> str:
    (name, words), *others = sorted(failures.items())
    more = f"; and {len(others)} more" if others else ""
    return f"PlacementDecision {name} could not be written: {words}{more}"


def _misconfigured(outcome: SchedulingOutcome) -> _Said:
    if outcome.code == Code.MISCONFIGURED:
        return True, "Misconfigured", f"{outcome.plugin}:{outcome.message}"
    return False, "Succeedconfigured", "Placement configurations check pass"


def _satisfied(placement: Placement, schedule: Schedule, selected: int) -> _Said:
    eligibility, outcome = schedule.eligibility, schedule.outcome
    if not eligibility.everything and not eligibility.bound:
        return (
            False,
            "NoManagedClusterSetBindings",
            "No valid ManagedClusterSetBindings found in placement namespace",
        )
    if not eligibility.everything and not eligibility.names:
        sets = _listed(placement.spec.cluster_sets)
        return False, "NoIntersection", f"None of ManagedClusterSets {sets} is bound to placement namespace"
    if not schedule.available:
        sets = _listed(eligibility.names)
        return False, "AllManagedClusterSetsEmpty", f"All ManagedClusterSets {sets} have no member ManagedCluster"
    if outcome.code == Code.ERROR:
        return False, "NotAllDecisionsScheduled", outcome.message
    if not selected:
        return False, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate"
    if outcome.failed:
        return False, "NotAllDecisionsScheduled", KEPT
    if not schedule.unscheduled:
        return True, "AllDecisionsScheduled", "All cluster decisions scheduled"
    return False, "NotAllDecisionsScheduled", f"{schedule.unscheduled} cluster decisions unscheduled"


def _listed(names: Sequence[str]) -> str:
    return f"[{','.join(names)}]"


def _note(placement: Placement, decision: str, done: str) -> str:
    meta = placement.metadata
    return f"Decision {decision} is {done} with placement {meta.name} in namespace {meta.namespace}"


def _emit(placement: Placement, decision: str, reason: str, action: str, note: str, kind: str = "Normal") -> Emit:  # noqa: PLR0917 - an event is a row of words
    meta = placement.metadata
    return Emit(
        Reference(PLACEMENT, meta.name, meta.namespace, meta.uid),
        reason,
        action,
        note,
        kind,
        related=Reference(PLACEMENT_DECISION, decision, meta.namespace),
    )
