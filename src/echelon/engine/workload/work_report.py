"""What an agent says of a work in its status, and whether that is news."""

from dataclasses import dataclass

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import ManifestStatus, ResourceIdentifier, Work, WorkStatus
from echelon.api.kinds import Kind
from echelon.engine.align.reflection import REFUSED_PUSH_ID, SNAPSHOT, refused_push
from echelon.engine.conditions import ConditionStamp, set_condition
from echelon.engine.work.cause import MAX_CAUSE
from echelon.engine.work.health_state import part, text
from echelon.engine.work.pod_trouble import one_line
from echelon.engine.workload.member_health import UNKNOWN

APPLIED = "Applied"
SUCCEEDED = "AppliedSuccessful"
SUCCESS = "Manifest has been successfully applied"
CAUSE = "cause"  # in the status of an object that is not well: what its pods say, for people
# Of a status that is larger nothing is told: works are listed by the thousand.
MOST_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class PushOutcome:
    """What came of the last attempt to apply a work; `refused` is the push that the cluster will never act on."""

    reason: str = SUCCEEDED
    message: str = SUCCESS
    refused: int | None = None
    applied: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What the object on the cluster says about itself; without a status it is not there, or not ours."""

    status: JSONObject | None = None
    health: str = UNKNOWN


def identify(manifest: JSONObject, kind: Kind[JSONObject] | None, namespace: str) -> ResourceIdentifier:
    """Return which manifest a status is about."""
    group, _, version = text(manifest, "apiVersion").rpartition("/")
    return ResourceIdentifier(
        ordinal=0,
        group=group,
        version=version,
        kind=text(manifest, "kind"),
        resource=kind.plural if kind is not None else "",
        namespace=namespace,
        name=text(part(manifest, "metadata"), "name"),
    )


def report(
    work: Work,
    identifier: ResourceIdentifier | None,
    outcome: PushOutcome | None,
    seen: Seen | None,
    stamp: ConditionStamp,
) -> WorkStatus:
    """Return the status of a work.

    Without an outcome nothing was tried; `seen` is None if nothing is known yet, and then what was said stays.
    """
    conditions = work.status.conditions
    if outcome is not None:
        said = stamp.condition(APPLIED, outcome.applied, outcome.reason, outcome.message)
        conditions = set_condition(conditions, said)
    if identifier is None:
        return WorkStatus(conditions=conditions, manifest_statuses=[])
    before = work.status.manifest_statuses
    if seen is None:
        status, health = (before[0].status, before[0].health) if before else (None, UNKNOWN)
    else:
        status, health = seen.status, seen.health
    refused = refused_in(work) if outcome is None else outcome.refused
    status = {name: value for name, value in (status or {}).items() if name != REFUSED_PUSH_ID}
    if refused is not None:
        status[REFUSED_PUSH_ID] = refused
    about = ManifestStatus(identifier=identifier, status=status or None, health=health)
    return WorkStatus(conditions=conditions, manifest_statuses=[about])


def refused_in(work: Work) -> int | None:
    """Return the push that was told to be refused, by us or by our predecessor."""
    statuses = work.status.manifest_statuses
    return refused_push(statuses[0].status or {}) if statuses else None


def with_cause(status: JSONObject, cause: str) -> JSONObject:
    """Add to the status of an object why it is not well. What an object itself says under that name stays."""
    return {**status, CAUSE: cause} if cause and CAUSE not in status else status


def cause_in(status: JSONObject | None) -> str:
    """Return why an object is not well, as its cluster told it: one line, and not a long one."""
    return one_line(text(status or {}, CAUSE), MAX_CAUSE)


def told_cause(work: Work) -> str:
    """Return why the object of a work is not well, as it was last told."""
    statuses = work.status.manifest_statuses
    return cause_in(statuses[0].status) if statuses else ""


def bounded(status: JSONObject) -> tuple[JSONObject, str]:
    """Return a status that is worth telling, and what to say of one that is not told."""
    size = len(msgspec.json.encode(status))
    if size <= MOST_BYTES:
        return status, ""
    kept = {SNAPSHOT: status[SNAPSHOT]} if SNAPSHOT in status else {}
    return kept, f"; its status has {size} bytes, and more than {MOST_BYTES} are not reported"


def is_news(new: WorkStatus, old: WorkStatus) -> bool:
    """Tell whether a status says something new. That what it says is still so is none."""
    if new.conditions != old.conditions or len(new.manifest_statuses) != len(old.manifest_statuses):
        return True
    return any(
        _without_version(one) != _without_version(other)
        for one, other in zip(new.manifest_statuses, old.manifest_statuses, strict=True)
    )


def _without_version(said: ManifestStatus) -> tuple[object, ...]:
    status = said.status or {}
    snapshot = {name: value for name, value in part(status, SNAPSHOT).items() if name != "version"}
    return said.identifier, said.health, {**status, SNAPSHOT: snapshot}
