"""What a person wants to know of a rollout: how far it is, where it is, and what whatever is not moving waits for.

The picture is made by the same functions that the controller decides with, so it is never behind the controller, and
it is the same whether a controller runs or not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.work import ManifestCondition, ManifestWork
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.durations import elapsed
from echelon.engine.rollout.model import Phase, Standing, Wait
from echelon.engine.rollout.reasons import names
from echelon.engine.work_set.conditions import ROLLED_OUT, missing_group, strange
from echelon.engine.work_set.leaving import held as held_removal
from echelon.engine.work_set.leaving import staying
from echelon.engine.work_set.rollout import RefRollout, Rollout, roll_out
from echelon.engine.work_set.view import WorkSetView

DONE, SOAKING, MOVING, FAILED, TIMED_OUT, WAITING, SKIPPED = (
    "done",
    "soaking",
    "in flight",
    "failed",
    "timed out",
    "waiting",
    "skipped",
)
_OF_PHASE = {
    Phase.TO_APPLY: WAITING,
    Phase.PROGRESSING: MOVING,
    Phase.SUCCEEDED: DONE,
    Phase.FAILED: FAILED,
    Phase.TIMED_OUT: TIMED_OUT,
    Phase.SKIPPED: SKIPPED,
}
_STATES = {
    Wait.BREACH: "stopped",
    Wait.PAUSED: "paused",
    Wait.APPROVAL: "awaiting approval",
    Wait.HELD: "rolling out",
}
COMPLETE, ROLLING_OUT, MISCONFIGURED, DELETING = "complete", "rolling out", "misconfigured", "deleting"
ABORTING, ABORTED, HELD, NO_CLUSTERS = "going back", "aborted", "held", "no clusters"
DISTURBED = "disturbed"  # it was complete, and a cluster that had it does not work at the moment
_HELD_REASONS = ("RemovalHeld",)
FINISHED = "finished, not everywhere"  # whatever failed was tolerated, and nobody waits any more


@dataclass(frozen=True)
class ObjectLine:
    """An object on a cluster."""

    title: str
    state: str
    message: str


@dataclass(frozen=True)
class ClusterLine:
    """A cluster."""

    name: str
    state: str
    age: str
    message: str
    objects: tuple[ObjectLine, ...] = ()


@dataclass(frozen=True)
class GroupLine:
    """A decision group, as one placement has it."""

    placement: str
    key: GroupKey
    counts: Mapping[str, int]
    active: bool
    message: str
    clusters: tuple[ClusterLine, ...]

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.key.name} ({self.key.index})" if self.key.name else f"group {self.key.index}"

    @property
    def total(self) -> int:
        """How many clusters it has."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Picture:
    """A rollout."""

    namespace: str
    name: str
    revision: str
    number: int
    age: str
    state: str
    message: str
    counts: Mapping[str, int]
    groups: tuple[GroupLine, ...]

    @property
    def total(self) -> int:
        """How many clusters it is about."""
        return sum(self.counts.values())

    @property
    def over(self) -> bool:
        """Whether waiting is of no use any more."""
        return self.state in (COMPLETE, FINISHED, "stopped", ABORTED, MISCONFIGURED, HELD, NO_CLUSTERS)


def draw(view: WorkSetView, works: Iterable[ManifestWork], now: datetime) -> Picture:
    """Draw a rollout as it is now."""
    rollout = roll_out(view, now)
    by_cluster = {work.metadata.namespace: work for work in works}
    groups = tuple(line for ref in rollout.refs for line in _groups(ref, rollout, by_cluster, now))
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.counts)
    state, message = _state(view, rollout)
    meta = view.work_set.metadata
    made = datetime.fromisoformat(meta.creation_timestamp) if meta.creation_timestamp else now
    return Picture(
        meta.namespace,
        meta.name,
        view.content.digest,
        rollout.past.number,
        elapsed(now - made),
        state,
        message,
        counts,
        groups,
    )


def _state(view: WorkSetView, rollout: Rollout) -> tuple[str, str]:
    if view.work_set.metadata.deletion_timestamp:
        return DELETING, "its works are being deleted"
    if held := _held(view, rollout):
        return HELD, held
    troubles = [ref.share.trouble.message for ref in rollout.refs if ref.share.trouble]
    if view.content.problem or troubles:
        return MISCONFIGURED, view.content.problem or "; ".join(troubles)
    if rollout.malformed:
        return _STATES[Wait.PAUSED], rollout.malformed
    if (missing := missing_group(rollout)) is not None:
        return HELD, missing.message
    if rollout.control.aborted:
        return _way_back(rollout)
    if not rollout.has_clusters:
        return _nobody(rollout)
    return _progress(view, rollout)


def _progress(view: WorkSetView, rollout: Rollout) -> tuple[str, str]:
    """Tell of a rollout that has clusters, and that nobody holds or aborted, how far it is."""
    if (rollout.complete or rollout.finished) and (left := _still_removing(view, rollout)):
        return ROLLING_OUT, left
    if rollout.complete:
        return COMPLETE, ""
    for ref in rollout.refs:
        if ref.decision is not None and ref.decision.blocked:
            return _STATES[ref.decision.blocked], ref.decision.blocked_message
    if rollout.strangers and _is_at_rest(rollout):
        return HELD, strange(view, rollout)
    if rollout.finished:
        return FINISHED, "the failures are within the budget; echelon rollout retry tries them again"
    if rollout.all_had_it and rollout.decided:
        ill = [one.cluster for ref in rollout.refs for one in ref.standings if one.phase is not Phase.SUCCEEDED]
        return DISTURBED, f"it was complete, and does not work at the moment on {names(ill)}"
    return ROLLING_OUT, ""


def _held(view: WorkSetView, rollout: Rollout) -> str:
    """Return why the controller waits for people, also if it says that for a reason that is not known here."""
    if rollout.sharing.removal.held:
        return held_removal(rollout.sharing.removal)
    if rollout.not_stored:
        return rollout.not_stored
    for each in view.work_set.status.conditions:
        if (each.type, each.status) == (ROLLED_OUT, "False") and each.reason in _HELD_REASONS:
            return each.message or each.reason
    return ""


def _still_removing(view: WorkSetView, rollout: Rollout) -> str:
    """Return what the controller says while clusters have yet to lose what they have. When they do is its business."""
    generation = view.work_set.metadata.generation
    said = [each for each in view.work_set.status.conditions if (each.type, each.status) == (ROLLED_OUT, "False")]
    told = next((each.message for each in said if each.observed_generation == generation), "")
    return told if rollout.sharing.removal.going else ""


def _is_at_rest(rollout: Rollout) -> bool:
    """Whether nobody waits or moves but those who may not be written."""
    standings = [one for ref in rollout.refs for one in ref.standings]
    return all(one.failed or (one.phase in (Phase.SUCCEEDED, Phase.SKIPPED) and not one.in_flight) for one in standings)


def _way_back(rollout: Rollout) -> tuple[str, str]:
    """Tell of an abort: it is over when the earlier revision is wherever it can be."""
    if rollout.back_to is None:
        return ABORTED, "aborted: no earlier revision was complete, so nothing is put back and nothing new starts"
    number = rollout.back_to.number
    if not rollout.finished:
        return ABORTING, f"aborted: revision {number} is put back"
    failed = [one.cluster for ref in rollout.refs for one in ref.standings if one.failed]
    if failed:
        return ABORTED, f"aborted: revision {number} is back, but does not work on {names(failed)}"
    return ABORTED, f"aborted: revision {number} is back everywhere"


def _nobody(rollout: Rollout) -> tuple[str, str]:
    if rollout.decided:
        return NO_CLUSTERS, "; ".join(dict.fromkeys(map(_empty, rollout.refs)))
    placements = ", ".join(dict.fromkeys(ref.share.ref.name for ref in rollout.refs))
    return ROLLING_OUT, f"{placements} has not decided yet"


def _empty(ref: RefRollout) -> str:
    placement = ref.share.ref.placement
    why = placement.unsatisfied if placement is not None else ""
    return f"placement {ref.share.ref.name} selects nobody{f': {why}' if why else ''}"


def _groups(ref: RefRollout, rollout: Rollout, works: Mapping[str, ManifestWork], now: datetime) -> Iterable[GroupLine]:
    active = set(ref.decision.active) if ref.decision else set[GroupKey]()
    members: dict[GroupKey, list[Standing]] = {key: [] for key in sorted(ref.share.groups.groups)}
    for standing in ref.standings:
        members[standing.group].append(standing)
    for key, standings in members.items():
        lines = tuple(_cluster(standing, rollout, works.get(standing.cluster), now) for standing in standings)
        waiting = next((one.message for one in standings if one.phase is Phase.TO_APPLY and not one.starts), "")
        counts = Counter(line.state for line in lines)
        yield GroupLine(ref.share.ref.name, key, counts, key in active, waiting, lines)


def _cluster(standing: Standing, rollout: Rollout, work: ManifestWork | None, now: datetime) -> ClusterLine:
    state = SOAKING if standing.wait is Wait.SOAK else _OF_PHASE[standing.phase]
    age = elapsed(now - standing.since) if standing.since and state not in (WAITING, DONE) else ""
    seen = rollout.works.get(standing.cluster)
    has_it = seen is not None and rollout.is_current(seen)
    said = seen.progress.message if seen is not None and has_it and state in (FAILED, TIMED_OUT, MOVING) else ""
    if (failed := rollout.failed_writes.get(standing.cluster)) is not None:
        said = failed.message
    gone = any(standing.cluster in ref.share.lingering for ref in rollout.refs)
    stays = staying(rollout.sharing.removal, standing.cluster)[1] if gone else ""
    message = "; ".join(filter(None, (said, stays, standing.message)))
    objects = tuple(map(_object, work.status.resource_status.manifests)) if work is not None and has_it else ()
    return ClusterLine(standing.cluster, state, age, message, objects)


def _object(manifest: ManifestCondition) -> ObjectLine:
    meta = manifest.resource_meta
    name = "/".join(filter(None, (meta.namespace, meta.name)))
    told = {each.type: each for each in manifest.conditions}
    for kind, bad, state in (
        ("Applied", "False", FAILED),
        ("Degraded", "True", FAILED),
        ("Available", "False", FAILED),
        ("Progressing", "True", MOVING),
    ):
        if kind in told and told[kind].status == bad:
            return ObjectLine(f"{meta.kind} {name}", state, told[kind].message)
    return ObjectLine(f"{meta.kind} {name}", DONE, "")


def document(picture: Picture) -> JSONObject:
    """Return a picture for programs."""
    found: JSONObject = msgspec.to_builtins(picture)
    return found
