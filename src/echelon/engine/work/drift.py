"""What somebody changed on a cluster that a manifest says otherwise: when it counts, how often, and how to tell.

What was applied is put back at once, but nobody is fought with every second: an autoscaler or another deployer that
does not give in would lead to writes without end. So pauses grow with every attempt, up to the time after which
everything is looked at anyway, and a long peace ends them. The count is in the report, so that it outlives an agent.
"""

import math
import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from echelon.api.base import JSONObject
from echelon.api.manifest_config import ManifestUpdateStrategy, ServerSideApplyConfig
from echelon.api.meta import Condition
from echelon.engine.conditions import ConditionStamp, find_condition
from echelon.engine.work.ignoring import server_side_apply
from echelon.engine.work.updating import DesiredObject, LastApplied, create_only, lacks_content, update

DRIFTED = "Drifted"
FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 240.0
QUIET_SECONDS = 600.0
MAX_CONFLICT_MESSAGE = 256

_REPAIR_COUNT = re.compile(r"put back (\d{1,9}) time")
_PLAIN = ServerSideApplyConfig()


class Drift(msgspec.Struct, frozen=True):
    """How often an object was put back for this generation, and whether it differs now and waits for its turn.

    `conflict` says why it is not put back at all: another manager has the field, and force is not allowed.
    """

    count: int = 0
    waiting: bool = False
    conflict: str = ""


class Repair(msgspec.Struct, frozen=True):
    """What is known of the attempts to put an object back. Times are seconds on any clock that only goes forward."""

    count: int = 0  # how often that changed something
    tries: int = 0  # since the last peace
    last: float = -math.inf

    @property
    def due(self) -> float:
        """From when on the object may be put back again."""
        if not self.tries:
            return -math.inf
        return self.last + min(FIRST_PAUSE_SECONDS * 2.0 ** min(self.tries - 1, 16), LAST_PAUSE_SECONDS)

    def tried(self, now: float, *, changed: bool) -> "Repair":
        """Return what is known after another attempt."""
        tries = 0 if now - self.last > QUIET_SECONDS else self.tries
        return replace(self, count=self.count + changed, tries=tries + 1, last=now)


NO_REPAIR = Repair()


def drifted(
    desired: DesiredObject, strategy: ManifestUpdateStrategy, live: JSONObject | None, last_applied: LastApplied | None
) -> bool:
    """Whether an object that was applied would be changed by applying it again.

    `last_applied` is what the server made of the manifest; without it a field that the server filled in looks like a
    change.
    """
    if strategy.type == "ReadOnly":
        return False
    if live is None:
        return not _removes_itself(desired)
    if strategy.type == "CreateOnly":
        return bool(create_only(desired, live))
    if strategy.type == "ServerSideApply":
        config = strategy.server_side_apply or _PLAIN
        return (
            bool(server_side_apply(desired, config, live))
            if config.ignore_fields
            else lacks_content(desired, live, last_applied)
        )
    return bool(update(desired, live, last_applied))


def drift_condition(drift: Drift, stamp: ConditionStamp) -> Condition | None:
    """Return the condition that tells of drift; none if there never was any."""
    often = f"put back {drift.count} time{'' if drift.count == 1 else 's'}"
    if drift.conflict:
        message = f"Changed on the cluster, {often}, and left so: {drift.conflict[:MAX_CONFLICT_MESSAGE]}"
        return stamp.condition(DRIFTED, "True", "FieldConflict", message)
    if drift.waiting:
        message = f"Differs from its manifest, {often}; the next attempt follows after a pause"
        return stamp.condition(DRIFTED, "True", "ChangedOnCluster", message)
    if not drift.count:
        return None
    return stamp.condition(DRIFTED, "False", "PutBack", f"Changed or deleted on the cluster, and {often}")


def count_of(conditions: Sequence[Condition], generation: int) -> int:
    """Return how often an object was put back for a generation, as it was told."""
    condition = find_condition(conditions, DRIFTED)
    if condition is None or condition.observed_generation != generation:
        return 0
    found = _REPAIR_COUNT.search(condition.message)
    return int(found[1]) if found else 0


def _removes_itself(desired: DesiredObject) -> bool:
    """Whether the manifest itself asks that the object goes after a while; making it anew would run it again."""
    if (desired.kind.group, desired.kind.kind) != ("batch", "Job"):
        return False
    spec = desired.manifest.get("spec")
    return isinstance(spec, dict) and spec.get("ttlSecondsAfterFinished") is not None
