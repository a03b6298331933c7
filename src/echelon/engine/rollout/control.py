"""What people tell a rollout, as annotations on the object that is rolled out.

Annotations, because they need no new API, survive any CRD, and show who wrote them in the audit log and the managed
fields. A value that cannot be read is a mistake that somebody has to hear of: a rollout that takes a mistyped `paused`
for "not paused" does the one thing that it was told not to do.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

from echelon.api.times import format_micro_time
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.model import Control

PAUSED = "echelon.dev/paused"
PROMOTED = "echelon.dev/promoted-at"
RETRIED = "echelon.dev/retried-at"
ABORTED = "echelon.dev/aborted"
APPROVAL = "echelon.dev/approval"
APPROVED = "echelon.dev/approved"
RESUMED = "echelon.dev/resumed-at"
ON_BREACH = "echelon.dev/on-breach"
ALLOW_EMPTY = "echelon.dev/allow-empty-groups"

_EVERY_GROUP = "all"
_WAIT, _STOP = "wait", "stop"

Annotations: TypeAlias = dict[str, str | None]  # to be merge_conditions; None removes


class BadControl(ValueError):
    """An annotation that controls a rollout cannot be read."""

    def __init__(self, annotation: str, value: str, rule: str) -> None:
        super().__init__(f'annotation {annotation} is "{value}": {rule}')
        self.annotation = annotation
        self.value = value
        self.rule = rule


def read_control(annotations: Mapping[str, str], revision: str) -> Control:
    """Read what a rollout of this revision was told. Words about another revision are not for it.

    Raises BadControl for the first annotation that cannot be read.
    """
    return Control(
        paused=_switch(annotations, PAUSED),
        promoted=_time(annotations, PROMOTED),
        retried=_time(annotations, RETRIED),
        gated=_gated(annotations.get(APPROVAL, "")),
        approved=_approved(annotations.get(APPROVED, ""), revision),
        aborted=bool(revision) and annotations.get(ABORTED) == revision,
        resumed=_time(annotations, RESUMED),
        stop_is_final=_stop_is_final(annotations.get(ON_BREACH, _WAIT)),
        allow_empty=_switch(annotations, ALLOW_EMPTY),
    )


def pause() -> Annotations:
    """Let nothing new start."""
    return {PAUSED: "true"}


def resume(now: datetime) -> Annotations:
    """Go on after a pause, or after a stop that is final."""
    return {PAUSED: None, RESUMED: format_micro_time(now)}


def promote(now: datetime) -> Annotations:
    """Let what has succeeded so far have soaked enough."""
    return {PROMOTED: format_micro_time(now)}


def retry(now: datetime) -> Annotations:
    """Give what has failed so far another chance, and an aborted revision too."""
    return {RETRIED: format_micro_time(now), ABORTED: None}


def abort(revision: str) -> Annotations:
    """Give this revision up."""
    return {ABORTED: revision}


def approve(revision: str, groups: Iterable[str], existing: str = "") -> Annotations:
    """Approve groups for this revision, besides those that `existing`, the annotation's value, approves for it."""
    try:
        before = _approved(existing, revision)
    except BadControl:
        before = frozenset()  # what cannot be read approves nothing, and a new approval mends it
    given = before | {group.strip() for group in groups}
    return {APPROVED: f"{revision}:{','.join(sorted(given - {''}))}"}


def approval_name(group: GroupKey) -> str:
    """What to call a group in an approval: its name if it has one, because indexes move when groups are inserted."""
    name = group.name or str(group.index)
    return f"{group.placement}/{name}" if group.placement else name


def _switch(annotations: Mapping[str, str], name: str) -> bool:
    value = annotations.get(name, "false")
    if value not in ("true", "false"):
        raise BadControl(name, value, "it must be true or false")
    return value == "true"


def _stop_is_final(value: str) -> bool:
    if value not in (_WAIT, _STOP):
        raise BadControl(ON_BREACH, value, "it must be wait or stop")
    return value == _STOP


def _time(annotations: Mapping[str, str], name: str) -> datetime | None:
    value = annotations.get(name)
    if value is None:
        return None
    rule = "it must be a time with its zone, such as 2026-11-01T12:00:00Z"
    try:
        found = datetime.fromisoformat(value)
    except ValueError as mistake:
        raise BadControl(name, value, rule) from mistake
    if found.tzinfo is None:
        raise BadControl(name, value, rule)
    return found


def _gated(value: str) -> frozenset[str] | None:
    listed = _listed(value)
    return None if _EVERY_GROUP in listed else listed


def _approved(value: str, revision: str) -> frozenset[str]:
    if not value:
        return frozenset()
    named, separator, groups = value.partition(":")
    if not separator or not named:
        raise BadControl(APPROVED, value, "it must be a revision, a colon, and groups by name or index: 5f7c9:canary,2")
    return _listed(groups) if named == revision else frozenset()


def _listed(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",")) - {""}
