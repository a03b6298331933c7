"""What a report says of an object: whether it is well, the cause if that is known, and what the server warned of.

An object that does not work must be told from one that does by whoever looks at the manifests of a work, also if the
work has hundreds of them. So what is not well has a condition, `Progressing` or `Degraded`, unless a rule of the user's
says that; what is well has none, because most are, and a report has to stay small.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from echelon.api.meta import Condition
from echelon.api.work import ManifestWorkStatus
from echelon.engine.conditions import ConditionStamp, find_condition, set_condition
from echelon.engine.work.health_state import UNOBSERVED, Degraded, Health, Healthy
from echelon.engine.work.pod_trouble import one_line
from echelon.engine.work.rules import RULE_REASONS

APPLIED_MESSAGE = "Apply manifest complete"
HEALTH_CONDITIONS = ("Progressing", "Degraded")
MAX_WARNINGS = 3
MAX_WARNING = 200
_WARNED = f"{APPLIED_MESSAGE}; the server warns: "


def applied_message(warnings: Sequence[str]) -> str:
    """Say that a manifest was applied, and what the server warned of."""
    told_once = list(dict.fromkeys(filter(None, (one_line(each, MAX_WARNING) for each in warnings))))
    if not told_once:
        return APPLIED_MESSAGE
    more = len(told_once) - MAX_WARNINGS
    return _WARNED + "; ".join([*told_once[:MAX_WARNINGS], *([f"and {more} more"] if more > 0 else [])])


def warnings_of(conditions: Sequence[Condition], stamp: ConditionStamp | None = None) -> str:
    """Return what the server warned of when a manifest was applied, of the present generation if there is a stamp."""
    applied = find_condition(conditions, "Applied")
    if applied is None or applied.status != "True" or (stamp is not None and not stamp.current(applied)):
        return ""
    return applied.message.removeprefix(_WARNED) if applied.message.startswith(_WARNED) else ""


def told(health: Health, cause: str, warnings: str, *, whole: bool) -> Health:
    """Return health with all that people should know; with `whole` the cause says all that the health says."""
    warned = f"the server warns: {warnings}" if warnings else ""
    if isinstance(health, Healthy):
        return Healthy("; ".join(filter(None, (health.note, warned)))) if warned else health
    message = cause if cause and whole else ": ".join(filter(None, (health.message.rstrip(". "), cause)))
    return replace(health, message="; ".join(filter(None, (message if cause else health.message, warned))))


def unwell(status: ManifestWorkStatus, generation: int) -> list[tuple[int, bool]]:
    """Return the places of manifests whose objects are not well, and whether they have failed; these come first.

    What its controller has not looked at yet has nothing below it that would tell something about its spec.
    """
    places: dict[int, bool] = {}
    for each in status.resource_status.manifests:
        for said in each.conditions:
            known = (said.status, said.observed_generation) == ("True", generation) and said.reason != UNOBSERVED
            if known and said.type in HEALTH_CONDITIONS:
                place = each.resource_meta.ordinal
                places[place] = places.get(place, False) or said.type == "Degraded"
    return sorted(places.items(), key=lambda each: (not each[1], each[0]))


def with_health(conditions: Sequence[Condition], health: Health, stamp: ConditionStamp) -> list[Condition]:
    """Say of an object that it is not well; nothing if it is, or if a rule says it."""
    kind = "" if isinstance(health, Healthy) else "Degraded" if isinstance(health, Degraded) else "Progressing"
    kept = [
        each
        for each in conditions
        if each.type == kind or each.type not in HEALTH_CONDITIONS or each.reason.startswith(RULE_REASONS)
    ]
    known = find_condition(kept, kind)
    if isinstance(health, Healthy) or (known is not None and known.reason.startswith(RULE_REASONS)):
        return kept
    return set_condition(kept, stamp.condition(kind, "True", health.reason, health.message), per_generation=True)
