"""The status of a work, from what became of each of its manifests.

An agent reports again and again; only what is new may change the status, or every look would be a write to the hub and
every clock would start anew. And nothing may be said about this generation from objects of the last one: what rules
and health say counts only after this generation's manifest was applied, or a rollout would be done before it began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

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
from echelon.engine.conditions import ConditionStamp, condition_stamp, find_condition, set_condition
from echelon.engine.work.adopted import ADOPTED, with_adopted
from echelon.engine.work.aggregation import JudgedManifest, work_conditions
from echelon.engine.work.configs import Options, options_for
from echelon.engine.work.drift import DRIFTED, Drift, drift_condition
from echelon.engine.work.feedback import Feedback, read_feedback
from echelon.engine.work.health import HEALTHY, Health, Progressing, grace_left, health
from echelon.engine.work.health_told import APPLIED_MESSAGE, applied_message, told, warnings_of, with_health
from echelon.engine.work.redaction import without_values
from echelon.engine.work.rules import RULE_REASONS, RuleBudget, RuleResult, evaluate

# What rules and feedback of a work may cost together: the agent does nothing else meanwhile.
BUDGET: Final = 80_000
PER_MANIFEST: Final = 100


@dataclass(frozen=True, slots=True)
class Applied:
    """The manifest was applied, or needed no change.

    `warnings` are what the server said to it: fields that it does not know and drops, versions that will go. None if
    nothing was written, so that what was told of the last write stands.
    """

    warnings: tuple[str, ...] | None = ()


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The manifest could not be applied."""

    error: str
    ignored_fields: bool = False  # the fault lies in ignoreFields


@dataclass(frozen=True, slots=True)
class Unreached:
    """The cluster's server was away, busy or in trouble; that says nothing about the manifest."""

    error: str


class Present(msgspec.Struct, frozen=True):
    """The object as it is on the cluster, read after it was applied."""

    object: JSONObject


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The object could not be read."""

    error: str


ApplyResult: TypeAlias = Applied | NotApplied | Unreached
LiveState: TypeAlias = Present | Absent | Unreadable


class ObservedManifest(msgspec.Struct, frozen=True):
    """What became of a manifest. `meta` has as much of its identity as is known; its ordinal is the place in the spec.

    `applied` is None in a pass that only looks: what was said about the last attempt is kept. So is what was said about
    drift if `drift` is None, and about objects that were there before the work if `adopted` is. `has_status`: objects
    of its kind have a status that a controller writes. `cause` is why the object is not well, if somebody looked.
    """

    meta: ManifestResourceMeta
    applied: ApplyResult | None
    live: LiveState
    drift: Drift | None = None
    has_status: bool = False
    adopted: bool | None = None
    cause: str = ""


def report(
    work: ManifestWork,
    observed: Sequence[ObservedManifest],
    now: datetime,
    *,
    raw_limit: int | None = None,
    secret_values: bool = False,
) -> ManifestWorkStatus:
    """Return the status of a work; equal to the old one if nothing has changed.

    One manifest each was `observed`, in the spec's order. Feedback that is no plain value is reported as JSON if it has
    at most `raw_limit` bytes; without a limit it is an error. What secrets hold is hidden from feedback and rules,
    unless `secret_values` are to be told.
    """
    if not secret_values:
        observed = [_without_values(each) for each in observed]
    stamp = condition_stamp(work.metadata.generation, now)
    completed = _is_true(work.status.conditions, "Complete")
    reported = _Reported(work.status.resource_status.manifests)
    budget = RuleBudget(BUDGET + len(observed) * PER_MANIFEST, BUDGET)
    judged = [
        _judge(
            each,
            reported.of(each.meta),
            options_for(work.spec.manifest_configs, each.meta),
            stamp,
            raw_limit,
            budget=budget,
            completed=completed,
        )
        for each in observed
    ]
    return ManifestWorkStatus(
        conditions=work_conditions(work.status.conditions, judged, stamp),
        resource_status=ManifestResourceStatus(manifests=[each.manifest for each in judged]),
    )


def look_again(status: ManifestWorkStatus, observed: Sequence[ObservedManifest], now: datetime) -> timedelta | None:
    """Return after which time a report says something else although nothing happens; None if it does not."""
    stamp = condition_stamp(0, now)
    left = [
        grace_left(each.live.object, stamp.since(_begin(manifest.conditions)))
        for manifest, each in zip(status.resource_status.manifests, observed, strict=True)
        if each.has_status and isinstance(each.live, Present)
    ]
    return min(filter(None, left), default=None)


def _without_values(observed: ObservedManifest) -> ObservedManifest:
    live = observed.live
    if not isinstance(live, Present) or (shown := without_values(live.object)) is live.object:
        return observed
    return replace(observed, live=Present(shown))


class _Reported:
    """What was reported of manifests before: by their whole identity, or by all but their place if that is unique."""

    def __init__(self, manifests: Sequence[ManifestCondition]) -> None:
        self._exact: Mapping[ManifestResourceMeta, ManifestCondition] = {each.resource_meta: each for each in manifests}
        self._without_ordinal: dict[ManifestResourceMeta, ManifestCondition | None] = {}
        for each in manifests:
            key = _without_ordinal(each.resource_meta)
            self._without_ordinal[key] = None if key in self._without_ordinal else each

    def of(self, meta: ManifestResourceMeta) -> ManifestCondition:
        key = _without_ordinal(meta)
        known = self._exact.get(meta) or (self._without_ordinal.get(key) if key != _NOTHING else None)
        return known or ManifestCondition(resource_meta=meta)


def _without_ordinal(meta: ManifestResourceMeta) -> ManifestResourceMeta:
    return replace(meta, ordinal=0)


_NOTHING = ManifestResourceMeta(ordinal=0)


def _judge(
    observed: ObservedManifest,
    before: ManifestCondition,
    options: Options,
    stamp: ConditionStamp,
    raw_limit: int | None,
    *,
    budget: RuleBudget,
    completed: bool,
) -> JudgedManifest:
    conditions, feedback = before.conditions, before.status_feedback
    condition = (
        _applied(observed.applied, find_condition(conditions, "Applied"), stamp)
        if observed.applied is not None
        else None
    )
    if condition is not None:
        conditions = set_condition(conditions, condition, per_generation=True)
    if all(rule.condition != DRIFTED for rule in options.conditions):
        conditions = _with_drift(conditions, observed.drift, stamp)
    if observed.adopted is not None and all(rule.condition != ADOPTED for rule in options.conditions):
        conditions = with_adopted(conditions, stamp, adopted=observed.adopted)
    # A work or an object that is complete is never applied again; what it was is what it stays.
    settled = (
        completed or _is_true(conditions, "Complete") or stamp.current(find_condition(conditions, "Applied"), "True")
    )
    found = observed.live if isinstance(observed.live, Present) and _complete(observed.meta) else None
    rule_results: Sequence[RuleResult] = evaluate(options.conditions, found.object, budget) if found and settled else ()
    if all(each.condition != "Available" for each in rule_results):
        conditions = set_condition(conditions, _available(observed, stamp))
    if found:
        read = read_feedback(options.feedback, found.object, raw_limit, budget)
        changed = list(read.values) != feedback.values
        feedback = StatusFeedback(values=list(read.values))
        synced = _synced(read, stamp, asked=bool(options.feedback))
        conditions = set_condition(conditions, synced, restart=changed)
    if found and settled:
        conditions = _with_rule_results(conditions, rule_results, stamp)
    judged = _health(observed, conditions, stamp, settled=settled)
    if judged is not None:
        judged = told(judged, observed.cause, warnings_of(conditions, stamp), whole=observed.meta.kind == "Pod")
        conditions = with_health(conditions, judged if settled else HEALTHY, stamp)
    manifest = ManifestCondition(resource_meta=observed.meta, status_feedback=feedback, conditions=list(conditions))
    return JudgedManifest(manifest, judged, ruled=settled and not isinstance(observed.live, Absent))


def _applied(applied: ApplyResult, before: Condition | None, stamp: ConditionStamp) -> Condition | None:
    """Say what became of an attempt; nothing if it says nothing and something is known of this generation."""
    match applied:
        case Unreached(error):
            known = before is not None and stamp.current(before) and before.status != "Unknown"
            message = f"Nothing is known yet, for the cluster's API server did not carry out the request: {error}"
            return None if known else stamp.condition("Applied", "Unknown", "ClusterUnreachable", message)
        case Applied(warnings):
            earlier = before.message if before is not None and stamp.current(before, "True") else APPLIED_MESSAGE
            message = earlier if warnings is None else applied_message(warnings)
            return stamp.condition("Applied", "True", "AppliedManifestComplete", message)
        case NotApplied(error, ignored_fields=True):
            message = f"Failed to process ignoreFields: {error}"
            return stamp.condition("Applied", "False", "AppliedManifestSSAIgnoreFieldError", message)
        case NotApplied(error):
            return stamp.condition("Applied", "False", "AppliedManifestFailed", f"Failed to apply manifest: {error}")


def _with_drift(conditions: Sequence[Condition], drift: Drift | None, stamp: ConditionStamp) -> list[Condition]:
    """Tell of drift of this generation; what was told of another one is over."""
    before = find_condition(conditions, DRIFTED)
    condition = drift_condition(drift, stamp) if drift is not None else before
    if condition is None or not stamp.current(condition):
        return [each for each in conditions if each is not before]
    # A higher count is news, whatever the status.
    return set_condition(
        conditions, condition, per_generation=True, restart=before is None or before.message != condition.message
    )


def _available(observed: ObservedManifest, stamp: ConditionStamp) -> Condition:
    if not _complete(observed.meta):
        return stamp.condition("Available", "Unknown", "IncompleteResourceMeta", "Resource meta is incomplete")
    match observed.live:
        case Present():
            return stamp.condition("Available", "True", "ResourceAvailable", "Resource is available")
        case Absent():
            return stamp.condition("Available", "False", "ResourceNotAvailable", "Resource is not available")
        case Unreadable(error):
            message = f"Failed to fetch resource: {error}"
            return stamp.condition("Available", "Unknown", "FetchingResourceFailed", message)


def _synced(read: Feedback, stamp: ConditionStamp, *, asked: bool) -> Condition:
    kind = "StatusFeedbackSynced"
    if read.errors:
        message = read.errors[0] if len(read.errors) == 1 else f"[{', '.join(read.errors)}]"
        message = f"Sync status feedback failed with error {message}"
        return stamp.condition(kind, "False", "StatusFeedbackSyncFailed", message)
    return stamp.condition(kind, "True", "StatusFeedbackSynced" if asked else "NoStatusFeedbackSynced")


def _with_rule_results(
    conditions: Sequence[Condition], rule_results: Sequence[RuleResult], stamp: ConditionStamp
) -> list[Condition]:
    """Add what rules say, and drop what rules said that are gone."""
    made = {each.condition: each for each in rule_results if each.condition not in ("Applied", "StatusFeedbackSynced")}
    kept = [each for each in conditions if each.type in made or not each.reason.startswith(RULE_REASONS)]
    for kind, each in made.items():
        kept = set_condition(kept, stamp.condition(kind, each.status, each.reason, each.message), per_generation=True)
    return kept


def _health(
    observed: ObservedManifest, conditions: Sequence[Condition], stamp: ConditionStamp, *, settled: bool
) -> Health | None:
    if not settled or not _complete(observed.meta):
        applied = find_condition(conditions, "Applied")
        condition = (
            applied.message if applied is not None and stamp.current(applied) and applied.status != "True" else ""
        )
        return Progressing("NotApplied", condition or "not applied yet")
    if observed.drift is not None and observed.drift.waiting and not isinstance(observed.live, Absent):
        return Progressing(DRIFTED, "was changed on the cluster and waits to be put back")
    match observed.live:
        case Present(obj):
            if observed.has_status and grace_left(obj, stamp.since(_begin(conditions))):
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
