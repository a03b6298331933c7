"""A rollout as its own object tells of it: for a first look, while what is around it is still being read.

The status has what the controller last said of all clusters together. It is behind the controller, and says nothing of
waves; but it is there at once, whatever the size of the fleet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from echelon.api.base import APIStruct, JSONObject
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.rollout import RolloutSummary
from echelon.engine.rollout.conditions import BLOCKED, ROLLED_OUT, VERIFIED
from echelon.engine.rollout.overall import RolloutStanding, overall
from echelon.rollouts.picture import (
    ABORTED,
    APPROVAL,
    COMPLETE,
    DELETING,
    DONE,
    FAILED,
    HELD,
    MISCONFIGURED,
    MOVING,
    NO_CLUSTERS,
    PAUSED,
    ROLLING_OUT,
    SKIPPED,
    SOAKING,
    STOPPED,
    TIMED_OUT,
    WAITING,
)

NOTE: Final = "its clusters are still being read: this is what its status says"
_STATES: Final = {
    RolloutStanding.PENDING: ROLLING_OUT,
    RolloutStanding.PROGRESSING: ROLLING_OUT,
    RolloutStanding.COMPLETE: COMPLETE,
    RolloutStanding.STOPPED: STOPPED,
    RolloutStanding.PAUSED: PAUSED,
    RolloutStanding.ABORTED: ABORTED,
    RolloutStanding.AWAITING_APPROVAL: APPROVAL,
    RolloutStanding.REMOVAL_HELD: HELD,
    RolloutStanding.NO_CLUSTERS: NO_CLUSTERS,
    RolloutStanding.MISCONFIGURED: MISCONFIGURED,
    RolloutStanding.BLOCKED: HELD,
}
# The condition that tells more of a state, where it is not the one about what blocks a rollout.
_SPEAKING: Final = {
    RolloutStanding.MISCONFIGURED: (VERIFIED, "False"),
    RolloutStanding.REMOVAL_HELD: (ROLLED_OUT, "False"),
}


@dataclass(frozen=True)
class Glance:
    """What the status of a rollout says."""

    state: str = ROLLING_OUT
    message: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


class _Status(APIStruct, frozen=True, gc=False, kw_only=True):
    conditions: list[Condition] = msgspec.field(default_factory=list)
    rollout: RolloutSummary | None = None


class _Object(APIStruct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


def glance(document: JSONObject) -> Glance:
    """Return what an object says of its own rollout; of one that says nothing, that it goes on."""
    try:
        found = msgspec.convert(document, _Object)
    except msgspec.ValidationError:  # who reads it in full will say what is wrong
        return Glance()
    if found.metadata.deletion_timestamp:
        return Glance(DELETING, counts=_counts(found.status.rollout))
    conditions = [each for each in found.status.conditions if each.observed_generation == found.metadata.generation]
    standing = overall(conditions).standing
    state = _STATES[standing]
    speaks = _SPEAKING.get(standing, (BLOCKED, "True"))
    message = next((each.message for each in conditions if (each.type, each.status) == speaks), "")
    return Glance(state, message, _counts(found.status.rollout))


def _counts(told: RolloutSummary | None) -> dict[str, int]:
    """Return how many clusters stand where. Whoever succeeded and is not done soaks."""
    if told is None:
        return {}
    done = told.done.partition("/")[0]
    soaking = max(0, told.succeeded - int(done)) if done.isdigit() else 0
    counts = {
        DONE: told.succeeded - soaking,
        SOAKING: soaking,
        MOVING: told.progressing,
        FAILED: told.failed,
        TIMED_OUT: told.timed_out,
        WAITING: told.to_apply,
        SKIPPED: told.skipped,
    }
    return {state: number for state, number in counts.items() if number}
