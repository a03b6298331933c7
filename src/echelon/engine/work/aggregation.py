"""What a work says about all of its objects together.

A hub decides by `Progressing` and `Degraded` whether a cluster is done, has failed, or needs time. One object that is
not done keeps the work from being done, and one that is degraded degrades the work, so for these two True wins; for
all other conditions that rules make, False does. Where the user has no rule for an object, its health speaks for it.
"""

from collections.abc import Sequence

import msgspec

from echelon.api.meta import Condition
from echelon.api.work import ManifestCondition, ManifestResourceMeta
from echelon.engine.conditions import ConditionStamp, find_condition, set_condition
from echelon.engine.work.adopted import ADOPTED
from echelon.engine.work.described import described
from echelon.engine.work.drift import DRIFTED
from echelon.engine.work.health_state import Degraded, Health, Healthy
from echelon.engine.work.rules import RULE_REASONS

BUILT_IN = ("Applied", "Available", "StatusFeedbackSynced")
ROLLOUT_CONDITIONS = ("Progressing", "Degraded")
AGGREGATED = "ConditionRulesAggregated"
MAX_NAMED = 5
MAX_NAMED_MESSAGE = 400

_HEALTH_REASONS = {
    ("Progressing", "True"): "ObjectsProgressing",
    ("Progressing", "False"): "ObjectsHealthy",
    ("Degraded", "True"): "ObjectsDegraded",
    ("Degraded", "False"): "ObjectsNotDegraded",
}
HEALTHY_MESSAGE = "All objects are healthy"
_ALL_WELL = {"Progressing": HEALTHY_MESSAGE, "Degraded": "No object is degraded"}


class JudgedManifest(msgspec.Struct, frozen=True):
    """A manifest as it is reported, and what its object's health is; None if it could not be read, which is no news."""

    manifest: ManifestCondition
    health: Health | None
    ruled: bool  # what rules say about the object counts


class _Statement(msgspec.Struct, frozen=True):
    meta: ManifestResourceMeta
    status: str
    message: str
    ruled: bool


def work_conditions(
    before: Sequence[Condition], judged: Sequence[JudgedManifest], stamp: ConditionStamp
) -> list[Condition]:
    """Return the conditions of a work, made from those of its manifests; what others wrote stays."""
    manifests = [each.manifest for each in judged]
    conditions = list(before)
    for condition in (_applied(manifests, stamp), _available(manifests, stamp)):
        if condition is not None:
            conditions = set_condition(conditions, condition, per_generation=True)
    kinds = _rule_kinds(manifests)
    for kind in kinds:
        condition = _aggregated(kind, manifests, stamp)
        if condition is not None:
            conditions = set_condition(conditions, condition, per_generation=True)
    for kind in ROLLOUT_CONDITIONS:
        condition = _rollout_condition(kind, judged, stamp)
        known = find_condition(conditions, kind)
        if condition is not None:
            conditions = set_condition(conditions, condition, per_generation=True)
        elif known is None or not stamp.current(known):
            conditions = set_condition(conditions, _unreadable(kind, judged, stamp), per_generation=True)
    conditions = _with_drift(conditions, manifests, stamp)
    conditions = _with_adopted(conditions, manifests, stamp)
    has_owner = {*kinds, *ROLLOUT_CONDITIONS, *BUILT_IN}
    return [each for each in conditions if each.type in has_owner or not each.reason.startswith(RULE_REASONS)]


def _applied(manifests: Sequence[ManifestCondition], stamp: ConditionStamp) -> Condition | None:
    found = [find_condition(each.conditions, "Applied") for each in manifests]
    # Until each manifest of this generation was tried, the last word is about an older one and stays as it is.
    if not found or not all(stamp.current(each) for each in found):
        return None
    if all(stamp.current(each, "True") for each in found):
        return stamp.condition("Applied", "True", "AppliedManifestWorkComplete", "Apply manifest work complete")
    if not any(stamp.current(each, "False") for each in found):
        condition = zip(manifests, found, strict=True)
        unknown = [(one.resource_meta, each.message) for one, each in condition if each and each.status == "Unknown"]
        return stamp.condition("Applied", "Unknown", "ClusterUnreachable", _list(unknown))
    return stamp.condition("Applied", "False", "AppliedManifestWorkFailed", "Failed to apply manifest work")


def _with_drift(
    before: Sequence[Condition], manifests: Sequence[ManifestCondition], stamp: ConditionStamp
) -> list[Condition]:
    """Say which objects were changed on the cluster; nothing if none was, and if a rule of the user's says it."""
    drifted = [
        (each.resource_meta, condition) for each in manifests if (condition := find_condition(each.conditions, DRIFTED))
    ]
    if any(condition.reason.startswith(RULE_REASONS) for _, condition in drifted):
        return list(before)
    if not drifted:
        return [each for each in before if each.type != DRIFTED]
    worst = next((condition for _, condition in drifted if condition.status == "True"), drifted[0][1])
    message = _list([(meta, condition.message) for meta, condition in drifted])
    made = stamp.condition(DRIFTED, worst.status, worst.reason, message)
    known = find_condition(before, DRIFTED)
    return set_condition(before, made, per_generation=True, restart=known is None or known.message != message)


def _with_adopted(
    before: Sequence[Condition], manifests: Sequence[ManifestCondition], stamp: ConditionStamp
) -> list[Condition]:
    """Say which objects were there before the work; nothing if none was, and if a rule of the user's says it."""
    told = [(each.resource_meta, found) for each in manifests if (found := find_condition(each.conditions, ADOPTED))]
    if any(found.reason.startswith(RULE_REASONS) for _, found in told):
        return list(before)
    if not told:
        return [each for each in before if each.type != ADOPTED]
    named = ", ".join(described(meta) for meta, _ in told[:MAX_NAMED])
    more = f" and {len(told) - MAX_NAMED} more" if len(told) > MAX_NAMED else ""
    message = f"{named}{more}: {told[0][1].message}"
    return set_condition(before, stamp.condition(ADOPTED, "True", told[0][1].reason, message))


def _available(manifests: Sequence[ManifestCondition], stamp: ConditionStamp) -> Condition:
    statuses = [found.status for each in manifests if (found := find_condition(each.conditions, "Available"))]
    missing, unknown, total = statuses.count("False"), statuses.count("Unknown"), len(manifests)
    if missing:
        message = f"{missing} of {total} resources are not available"
        return stamp.condition("Available", "False", "ResourcesNotAvailable", message)
    if unknown or not statuses:
        message = (
            f"{unknown} of {total} resources have unknown status" if unknown else "cannot get any available resource"
        )
        return stamp.condition("Available", "Unknown", "ResourcesStatusUnknown", message)
    return stamp.condition("Available", "True", "ResourcesAvailable", "All resources are available")


def _rule_kinds(manifests: Sequence[ManifestCondition]) -> list[str]:
    made = (each.type for one in manifests for each in one.conditions if each.reason.startswith(RULE_REASONS))
    return [kind for kind in dict.fromkeys(made) if kind not in ROLLOUT_CONDITIONS and kind not in BUILT_IN]


def _aggregated(kind: str, manifests: Sequence[ManifestCondition], stamp: ConditionStamp) -> Condition | None:
    made = [
        found
        for each in manifests
        if (found := find_condition(each.conditions, kind)) is not None and found.reason.startswith(RULE_REASONS)
    ]
    # What is complete stays complete, whatever the generation; anything else from an older one is no answer yet.
    if not all(stamp.current(each) or (kind == "Complete" and each.status == "True") for each in made):
        return None
    statuses = {each.status for each in made}
    status = next(each for each in ("False", "Unknown", "True") if each in statuses)
    return stamp.condition(kind, status, AGGREGATED, _aggregated_message([each.message for each in made]))


def _aggregated_message(messages: Sequence[str]) -> str:
    return messages[0] if len(messages) == 1 else f"Aggregated from {len(messages)} manifest conditions"


def _rollout_condition(kind: str, judged: Sequence[JudgedManifest], stamp: ConditionStamp) -> Condition | None:
    """Say whether the work is progressing or degraded; nothing if that depends on what could not be read."""
    stated = [_statement(kind, each, stamp) for each in judged]
    known = [each for each in stated if each is not None]
    statuses = {each.status for each in known}
    status = next((each for each in ("True", "Unknown") if each in statuses), "False")
    if status == "False" and len(known) < len(stated):
        return None
    if known and all(each.ruled for each in known):
        return stamp.condition(kind, status, AGGREGATED, _aggregated_message([each.message for each in known]))
    telling = [each for each in known if each.status == status]
    said = [(each.meta, each.message) for each in telling if each.message or status != "False"]
    message = _list(said) if status != "False" else "; ".join(filter(None, (_ALL_WELL[kind], _list(said))))
    return stamp.condition(kind, status, _HEALTH_REASONS.get((kind, status), "ObjectsUnknown"), message)


def _statement(kind: str, judged: JudgedManifest, stamp: ConditionStamp) -> _Statement | None:
    meta, condition = judged.manifest.resource_meta, find_condition(judged.manifest.conditions, kind)
    if (
        judged.ruled
        and condition is not None
        and stamp.current(condition)
        and condition.reason.startswith(RULE_REASONS)
    ):
        return _Statement(meta, condition.status, condition.message, ruled=True)
    match judged.health:
        case None:
            return None
        case Healthy(note):
            return _Statement(meta, "False", note if kind == "Progressing" else "", ruled=False)
        case Degraded(_, message):
            return _Statement(meta, "True", message, ruled=False)
        case progressing:
            return _Statement(meta, str(kind == "Progressing"), progressing.message, ruled=False)


def _unreadable(kind: str, judged: Sequence[JudgedManifest], stamp: ConditionStamp) -> Condition:
    silent = [each.manifest for each in judged if each.health is None]
    why = [(each.resource_meta, _why_unavailable(each)) for each in silent]
    return stamp.condition(kind, "Unknown", "ObjectsUnreadable", _list(why))


def _why_unavailable(manifest: ManifestCondition) -> str:
    available = find_condition(manifest.conditions, "Available")
    return available.message if available else ""


def _list(message: Sequence[tuple[ManifestResourceMeta, str]]) -> str:
    """Name objects and what is said about them, as many as people read."""
    shown = [f"{described(meta)}: {message[:MAX_NAMED_MESSAGE]}" for meta, message in message[:MAX_NAMED]]
    more = len(message) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])
