"""Where a rollout stands, in one word, as its own status says it: for those who count rollouts and do not read them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from echelon.api.meta import Condition
from echelon.api.times import parse_time
from echelon.engine.rollout.conditions import APPROVAL, BLOCKED, BREACH, EMPTY, REMOVAL_HELD, ROLLED_OUT, VERIFIED


class RolloutStanding(StrEnum):
    """Where a rollout stands."""

    PENDING = "pending"  # nobody has looked at it yet
    PROGRESSING = "progressing"
    COMPLETE = "complete"
    STOPPED = "stopped"  # more failures than its budget has
    PAUSED = "paused"
    ABORTED = "aborted"
    AWAITING_APPROVAL = "awaiting-approval"
    REMOVAL_HELD = "removal-held"
    NO_CLUSTERS = "no-clusters"
    MISCONFIGURED = "misconfigured"
    BLOCKED = "blocked"  # by anything else


_OF_BLOCK = {
    BREACH: RolloutStanding.STOPPED,
    "Paused": RolloutStanding.PAUSED,
    "Aborted": RolloutStanding.ABORTED,
    APPROVAL: RolloutStanding.AWAITING_APPROVAL,
}


@dataclass(frozen=True)
class Overall:
    """A rollout as its conditions have it. `since` when it has been complete, or has not."""

    standing: RolloutStanding
    blocked_since: datetime | None = None
    since: datetime | None = None


def overall(conditions: Iterable[Condition]) -> Overall:
    """Return where a rollout stands."""
    told = {each.type: each for each in conditions}
    done, blocked, verified = told.get(ROLLED_OUT), told.get(BLOCKED), told.get(VERIFIED)
    if done is None:
        return Overall(RolloutStanding.PENDING)
    since = parse_time(done.last_transition_time)
    is_blocked = blocked is not None and blocked.status == "True"
    until = parse_time(blocked.last_transition_time) if blocked is not None and is_blocked else None
    return Overall(_standing(done, blocked if is_blocked else None, verified), until, since)


def _standing(done: Condition, block: Condition | None, verified: Condition | None) -> RolloutStanding:
    if block is not None:
        return _OF_BLOCK.get(block.reason, RolloutStanding.BLOCKED)
    if done.status == "True":
        return RolloutStanding.COMPLETE
    if done.reason == REMOVAL_HELD:
        return RolloutStanding.REMOVAL_HELD
    if done.reason == EMPTY:
        return RolloutStanding.NO_CLUSTERS
    if verified is not None and verified.status == "False":
        return RolloutStanding.MISCONFIGURED
    return RolloutStanding.PROGRESSING


def duration(before: Overall, after: Overall) -> timedelta | None:
    """Return how long a rollout took that has just become complete; None if it has not."""
    ended = after.standing is RolloutStanding.COMPLETE and before.standing is not RolloutStanding.COMPLETE
    if not ended or before.since is None or after.since is None:
        return None
    return max(after.since - before.since, timedelta(0))
