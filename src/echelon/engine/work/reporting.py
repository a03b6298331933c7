"""The status of a work, from what became of each of its manifests.

An agent reports again and again; only what is new may change the status, or every look would be a write to the hub and
every clock would start anew. And nothing may be said about this generation from objects of the last one: what rules
and health say counts only after this generation's manifest was applied, or a rollout would be done before it began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition
from echelon.api.work import (
    ManifestCondition,
    ManifestResourceMeta,
    ManifestResourceStatus,
    ManifestWork,
    ManifestWorkStatus,
    StatusFeedback,
)
from echelon.engine.conditions import find_condition, set_condition
from echelon.engine.work.aggregation import Judged, work_conditions
from echelon.engine.work.conditions import Clock, clock
from echelon.engine.work.configs import Options, options_for
from echelon.engine.work.drift import DRIFTED, Drift, drift_condition
from echelon.engine.work.feedback import Feedback, read_feedback
from echelon.engine.work.health import HEALTHY, Health, Progressing, grace_left, health
from echelon.engine.work.rules import RULE_REASONS, Finding, evaluate


@dataclass(frozen=True, slots=True)
class Applied:
    """The manifest was applied, or needed no change."""


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The manifest could not be applied."""

    error: str
    ignored_fields: bool = False  # the fault lies in ignoreFields


@dataclass(frozen=True, slots=True)
class Unreached:
    """The cluster's server was away, busy or in trouble; that says nothing about the manifest."""

    error: str


@dataclass(frozen=True, slots=True)
class Found:
    """The object as it is on the cluster, read after it was applied."""

    object: JSONObject


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The object could not be read."""

    error: str


Apply: TypeAlias = Applied | NotApplied | Unreached
Sight: TypeAlias = Found | Absent | Unreadable


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a manifest. `meta` has as much of its identity as is known; its ordinal is the place in the spec.

    `applied` is None in a pass that only looks: what was said about the last attempt is kept. So is what was said about
    drift if `drift` is None. `has_status`: objects of its kind have a status that a controller writes.
    """

    meta: ManifestResourceMeta
    applied: Apply | None
    seen: Sight
    drift: Drift | None = None
    has_status: bool = False


def report(
    work: ManifestWork, outcomes: Sequence[Outcome], now: datetime, *, raw_limit: int | None = None
) -> ManifestWorkStatus:
    """Return the status of a work; equal to the old one if nothing has changed.

    There is one outcome a manifest, in the spec's order. Feedback that is no plain value is reported as JSON if it has
    at most `raw_limit` bytes; without a limit it is an error.
    """
    time = clock(work.metadata.generation, now)
    completed = _is_true(work.status.conditions, "Complete")
    matching = _Before(work.status.resource_status.manifests)
    judged = [
        _judge(
            outcome,
            matching.of(outcome.meta),
            options_for(work.spec.manifest_configs, outcome.meta),
            time,
            raw_limit,
            completed=completed,
        )
        for outcome in outcomes
    ]
    return ManifestWorkStatus(
        conditions=work_conditions(work.status.conditions, judged, time),
        resource_status=ManifestResourceStatus(manifests=[each.manifest for each in judged]),
    )


def look_again(status: ManifestWorkStatus, outcomes: Sequence[Outcome], now: datetime) -> timedelta | None:
    """Return after which time a report says something else although nothing happens; None if it does not."""
    time = clock(0, now)
    left = [
        grace_left(outcome.seen.object, time.since(_begin(manifest.conditions)))
        for manifest, outcome in zip(status.resource_status.manifests, outcomes, strict=True)
        if outcome.has_status and isinstance(outcome.seen, Found)
    ]
    return min(filter(None, left), default=None)


class _Before:
    """What was reported of manifests before: by their whole identity, or by all but their place if that is unique."""

    def __init__(self, manifests: Sequence[ManifestCondition]) -> None:
        self._exact: Mapping[ManifestResourceMeta, ManifestCondition] = {each.resource_meta: each for each in manifests}
        self._placeless: dict[ManifestResourceMeta, ManifestCondition | None] = {}
        for each in manifests:
            key = _placeless(each.resource_meta)
            self._placeless[key] = None if key in self._placeless else each

    def of(self, meta: ManifestResourceMeta) -> ManifestCondition:
        key = _placeless(meta)
        known = self._exact.get(meta) or (self._placeless.get(key) if key != _NOTHING else None)
        return known or ManifestCondition(resource_meta=meta)


def _placeless(meta: ManifestResourceMeta) -> ManifestResourceMeta:
    return msgspec.structs.replace(meta, ordinal=0)


_NOTHING = ManifestResourceMeta(ordinal=0)


def _judge(
    outcome: Outcome,
    before: ManifestCondition,
    options: Options,
    time: Clock,
    raw_limit: int | None,
    *,
    completed: bool,
) -> Judged:
    conditions, feedback = before.conditions, before.status_feedback
    said = (
        _applied(outcome.applied, find_condition(conditions, "Applied"), time) if outcome.applied is not None else None
    )
    if said is not None:
        conditions = set_condition(conditions, said, per_generation=True)
    if all(rule.condition != DRIFTED for rule in options.conditions):
        conditions = _with_drift(conditions, outcome.drift, time)
    # A work or an object that is complete is never applied again; what it was is what it stays.
    settled = (
        completed or _is_true(conditions, "Complete") or time.current(find_condition(conditions, "Applied"), "True")
    )
    found = outcome.seen if isinstance(outcome.seen, Found) and _complete(outcome.meta) else None
    findings: Sequence[Finding] = evaluate(options.conditions, found.object) if found and settled else ()
    if all(each.condition != "Available" for each in findings):
        conditions = set_condition(conditions, _available(outcome, time))
    if found:
        read = read_feedback(options.feedback, found.object, raw_limit)
        changed = list(read.values) != feedback.values
        feedback = StatusFeedback(values=list(read.values))
        synced = _synced(read, time, asked=bool(options.feedback))
        conditions = set_condition(conditions, synced, restart=changed)
    if found and settled:
        conditions = _with_findings(conditions, findings, time)
    manifest = ManifestCondition(resource_meta=outcome.meta, status_feedback=feedback, conditions=list(conditions))
    judged = _health(outcome, conditions, time, settled=settled)
    return Judged(manifest, judged, ruled=settled and not isinstance(outcome.seen, Absent))


def _applied(applied: Apply, before: Condition | None, time: Clock) -> Condition | None:
    """Say what became of an attempt; nothing if it says nothing and something is known of this generation."""
    match applied:
        case Unreached(error):
            known = before is not None and time.current(before) and before.status != "Unknown"
            told = f"Nothing is known yet, for the cluster's API server did not carry out the request: {error}"
            return None if known else time.condition("Applied", "Unknown", "ClusterUnreachable", told)
        case Applied():
            return time.condition("Applied", "True", "AppliedManifestComplete", "Apply manifest complete")
        case NotApplied(error, ignored_fields=True):
            told = f"Failed to process ignoreFields: {error}"
            return time.condition("Applied", "False", "AppliedManifestSSAIgnoreFieldError", told)
        case NotApplied(error):
            return time.condition("Applied", "False", "AppliedManifestFailed", f"Failed to apply manifest: {error}")


def _with_drift(conditions: Sequence[Condition], drift: Drift | None, time: Clock) -> list[Condition]:
    """Tell of drift of this generation; what was told of another one is over."""
    before = find_condition(conditions, DRIFTED)
    said = drift_condition(drift, time) if drift is not None else before
    if said is None or not time.current(said):
        return [each for each in conditions if each is not before]
    # A higher count is news, whatever the status.
    return set_condition(
        conditions, said, per_generation=True, restart=before is None or before.message != said.message
    )


def _available(outcome: Outcome, time: Clock) -> Condition:
    if not _complete(outcome.meta):
        return time.condition("Available", "Unknown", "IncompleteResourceMeta", "Resource meta is incomplete")
    match outcome.seen:
        case Found():
            return time.condition("Available", "True", "ResourceAvailable", "Resource is available")
        case Absent():
            return time.condition("Available", "False", "ResourceNotAvailable", "Resource is not available")
        case Unreadable(error):
            told = f"Failed to fetch resource: {error}"
            return time.condition("Available", "Unknown", "FetchingResourceFailed", told)


def _synced(read: Feedback, time: Clock, *, asked: bool) -> Condition:
    kind = "StatusFeedbackSynced"
    if read.errors:
        told = read.errors[0] if len(read.errors) == 1 else f"[{', '.join(read.errors)}]"
        told = f"Sync status feedback failed with error {told}"
        return time.condition(kind, "False", "StatusFeedbackSyncFailed", told)
    return time.condition(kind, "True", "StatusFeedbackSynced" if asked else "NoStatusFeedbackSynced")


def _with_findings(conditions: Sequence[Condition], findings: Sequence[Finding], time: Clock) -> list[Condition]:
    """Add what rules say, and drop what rules said that are gone."""
    made = {each.condition: each for each in findings if each.condition not in ("Applied", "StatusFeedbackSynced")}
    kept = [each for each in conditions if each.type in made or not each.reason.startswith(RULE_REASONS)]
    for kind, each in made.items():
        kept = set_condition(kept, time.condition(kind, each.status, each.reason, each.message), per_generation=True)
    return kept


def _health(outcome: Outcome, conditions: Sequence[Condition], time: Clock, *, settled: bool) -> Health | None:
    if not settled or not _complete(outcome.meta):
        applied = find_condition(conditions, "Applied")
        said = applied.message if applied is not None and time.current(applied) and applied.status != "True" else ""
        return Progressing("NotApplied", said or "not applied yet")
    if outcome.drift is not None and outcome.drift.waiting and not isinstance(outcome.seen, Absent):
        return Progressing(DRIFTED, "was changed on the cluster and waits to be put back")
    match outcome.seen:
        case Found(obj):
            if outcome.has_status and grace_left(obj, time.since(_begin(conditions))):
                return Progressing("NoStatus", "its controller has not said anything about it yet")
            return health(obj)
        case Absent():
            # A job that removes itself when it is over was not lost.
            return HEALTHY if _is_true(conditions, "Complete") else Progressing("NotFound", "does not exist")
        case Unreadable():
            return None


def _begin(conditions: Sequence[Condition]) -> str:
    """Return since when an object is what it is: when it was applied, or last put back."""
    known = (find_condition(conditions, kind) for kind in ("Applied", DRIFTED))
    return max((each.last_transition_time for each in known if each is not None), default="")


def _complete(meta: ManifestResourceMeta) -> bool:
    return bool(meta.version and meta.resource and meta.name)


def _is_true(conditions: Sequence[Condition], kind: str) -> bool:
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"
