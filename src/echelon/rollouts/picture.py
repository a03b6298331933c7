"""What a person wants to know of a rollout: how far it is, where it is, and what whatever is not moving waits for.

The picture is made by the same functions that the controller decides with, so it is never behind the controller, and
it is the same whether a controller runs or not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

import msgspec

from echelon.api.base import JSONObject
from echelon.api.times import format_time, parse_time
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout import conditions
from echelon.engine.rollout.conditions import ROLLED_OUT, missing_group, unbound_clusters
from echelon.engine.rollout.departures import held as held_removal
from echelon.engine.rollout.departures import staying
from echelon.engine.rollout.durations import elapsed
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import ClusterDecision, Phase, Wait
from echelon.engine.rollout.reasons import ByStatus, names
from echelon.engine.rollout.state import ReferenceRollout, Rollout
from echelon.engine.rollout.subject import Subject
from echelon.engine.work.aggregation import HEALTHY_MESSAGE

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
    Wait.INSPECTION: "rolling out",
}
COMPLETE, ROLLING_OUT, MISCONFIGURED, DELETING = "complete", "rolling out", "misconfigured", "deleting"
ABORTING, ABORTED, HELD, NO_CLUSTERS = "going back", "aborted", "held", "no clusters"
DISTURBED = "disturbed"  # it was complete, and a cluster that had it does not work at the moment
REMOVAL_HELD = "RemovalHeld"  # a reason
_HELD_REASONS = (REMOVAL_HELD,)
FINISHED = "finished, not everywhere"  # whatever failed was tolerated, and nobody waits any more
NOT_DONE = "failed"  # nobody waits any more, and nobody said that failures are tolerated
DISABLED = "disabled"  # it is meant for nobody at the moment
LEFT = "complete, pods outdated"  # as far as the controller goes: the rest is for whoever deletes pods
OUTDATED = "outdated"  # of a pod: it runs an older template until somebody deletes it
STOPPED, PAUSED, APPROVAL = _STATES[Wait.BREACH], _STATES[Wait.PAUSED], _STATES[Wait.APPROVAL]
REASONS = {  # of states, for programs
    COMPLETE: "Complete",
    FINISHED: conditions.FINISHED,
    NOT_DONE: conditions.FAILED,
    LEFT: "PodsOutdated",
    ROLLING_OUT: "RollingOut",
    DISTURBED: "Disturbed",
    STOPPED: "TooManyFailures",
    PAUSED: "Paused",
    APPROVAL: "AwaitingApproval",
    HELD: "Held",
    NO_CLUSTERS: "NoClusters",
    DISABLED: "Disabled",
    MISCONFIGURED: "Misconfigured",
    ABORTING: "GoingBack",
    ABORTED: "Aborted",
    DELETING: "Deleting",
}

_OVER = (COMPLETE, FINISHED, NOT_DONE, LEFT, STOPPED, ABORTED, MISCONFIGURED, HELD, NO_CLUSTERS, DISABLED)


@dataclass(frozen=True)
class ObjectLine:
    """An object on a cluster."""

    title: str
    state: str
    message: str
    preview: bool = False  # of a content that the cluster only looks at so far


class ClusterLine(msgspec.Struct, frozen=True, gc=False):
    """A cluster. There may be ten thousand in a picture, so these are made quickly."""

    name: str
    state: str
    age: str
    message: str
    objects: tuple[ObjectLine, ...] = ()
    reason: str = ""  # for programs: what it waits for, or what its agent says of it
    since: str = ""  # when it came to where it stands
    until: str = ""  # when its soak or its deadline ends, or when the deadline was
    said: str = ""  # the message without what follows from the state and these times


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
class Line:
    """A part of a rollout that takes place in one cluster, and its own parts."""

    title: str
    state: str
    text: str = ""  # in numbers
    message: str = ""  # why it is not fine
    parts: tuple["Line", ...] = ()
    detail: bool = False  # of no interest while it is fine


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
    kind: str = ""
    note: str = ""  # what whoever looks could not see
    budget: str = ""  # of a budget over all clusters, how much is spent
    parts: tuple[Line, ...] = ()  # of what is rolled out within one cluster, instead of groups
    noun: str = "clusters"  # what is counted
    created: str = ""  # when the object was
    time: str = ""  # when it was looked at
    reason: str = ""  # why it is in its state, for programs, where the state alone does not tell

    @property
    def total(self) -> int:
        """How many clusters, or whatever is counted, it is about."""
        return sum(self.counts.values())

    @property
    def over(self) -> bool:
        """Whether waiting is of no use any more."""
        return self.state in _OVER


_WITH_A_NOTE = f"{HEALTHY_MESSAGE}; "
_Objects: TypeAlias = Mapping[str, Sequence[ObjectLine]]


def draw(subject: Subject, objects: _Objects, now: datetime, *, recalls: bool = False) -> Picture:
    """Draw a rollout as it is now; `objects` are those on each cluster.

    `recalls`: an abort that has nothing to put back takes the content back where it was released.
    """
    rollout = roll_out(subject, now)
    groups = tuple(line for ref in rollout.references for line in _groups(ref, rollout, objects, now))
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.counts)
    state, message = _state(rollout, recalls=recalls)
    meta = subject.metadata
    made = parse_time(meta.creation_timestamp) or now
    return Picture(
        meta.namespace,
        meta.name,
        subject.revision,
        rollout.history.number,
        elapsed(now - made),
        state,
        message,
        counts,
        groups,
        subject.kind.singular,
        created=meta.creation_timestamp or "",
        time=format_time(now),
        reason=_reason(rollout) if state == HELD else "",
    )


def _reason(rollout: Rollout) -> str:
    """Return why a rollout is held, for programs."""
    if rollout.allocations.removal.held:
        return REMOVAL_HELD
    return "" if _held(rollout) or missing_group(rollout) is None else "GroupMissing"


def _state(rollout: Rollout, *, recalls: bool) -> tuple[str, str]:
    subject = rollout.subject
    if subject.metadata.deletion_timestamp:
        return DELETING, f"its {subject.noun}s are being deleted"
    if held := _held(rollout):
        return HELD, held
    errors = [ref.allocation.error.message for ref in rollout.references if ref.allocation.error]
    if subject.problem or errors:
        return MISCONFIGURED, subject.problem or "; ".join(errors)
    if rollout.malformed:
        return _STATES[Wait.PAUSED], rollout.malformed
    if (missing := missing_group(rollout)) is not None:
        return HELD, missing.message
    if rollout.control.aborted:
        return _way_back(rollout, recalls=recalls)
    if not rollout.has_clusters:
        return _nobody(rollout)
    return _progress(rollout)


def _progress(rollout: Rollout) -> tuple[str, str]:
    """Tell of a rollout that has clusters, and that nobody holds or aborted, how far it is."""
    if (rollout.complete or rollout.finished) and (left := _still_removing(rollout)):
        return ROLLING_OUT, left
    if rollout.complete:
        return COMPLETE, ""
    for ref in rollout.references:
        if ref.decision is not None and ref.decision.blocked:
            held = rollout.subject.hold is not None and rollout.subject.hold.wait is Wait.HELD
            state = HELD if held and ref.decision.blocked is Wait.HELD else _STATES[ref.decision.blocked]
            return state, ref.decision.blocked_message
    if rollout.unbound and _is_at_rest(rollout):
        return HELD, unbound_clusters(rollout)
    if rollout.finished and rollout.tolerates_failures:
        return FINISHED, "the failures are within the budget; echelon rollout retry tries them again"
    if rollout.finished and not rollout.all_had_it:
        return NOT_DONE, "nobody waits any more, and no budget allows for failures; echelon rollout retry tries again"
    if rollout.all_had_it and rollout.decided:
        ill = [one.cluster for one in rollout.cluster_decisions if one.phase is not Phase.SUCCEEDED]
        return DISTURBED, f"it was complete, and does not work at the moment on {names(ill)}"
    return ROLLING_OUT, ""


def _held(rollout: Rollout) -> str:
    """Return why the controller waits for people, also if it says that for a reason that is not known here."""
    if rollout.allocations.removal.held:
        return held_removal(rollout.allocations.removal)
    if rollout.not_stored:
        return rollout.not_stored
    for each in rollout.subject.conditions:
        if (each.type, each.status) == (ROLLED_OUT, "False") and each.reason in _HELD_REASONS:
            return each.message or each.reason
    return ""


def _still_removing(rollout: Rollout) -> str:
    """Return what the controller says while clusters have yet to lose what they have. When they do is its business."""
    subject = rollout.subject
    said = [each for each in subject.conditions if (each.type, each.status) == (ROLLED_OUT, "False")]
    told = next((each.message for each in said if each.observed_generation == subject.metadata.generation), "")
    return told if rollout.allocations.to_delete else ""


def _is_at_rest(rollout: Rollout) -> bool:
    """Whether nobody waits or moves but those who may not be written."""
    done = (Phase.SUCCEEDED, Phase.SKIPPED)
    return all(one.failed or (one.phase in done and not one.in_flight) for one in rollout.cluster_decisions)


def _way_back(rollout: Rollout, *, recalls: bool) -> tuple[str, str]:
    """Tell of an abort: it is over when the earlier revision is wherever it can be."""
    if rollout.rollback_to is None and recalls:
        released = [each.cluster for each in rollout.holdings.values() if rollout.is_current(each)]
        if released:
            return ABORTING, f"aborted: no earlier revision was complete, so {names(released)} are held again"
        return ABORTED, "aborted: no earlier revision was complete, so everybody is held, and nothing new starts"
    if rollout.rollback_to is None:
        return ABORTED, "aborted: no earlier revision was complete, so nothing is put back and nothing new starts"
    number = rollout.rollback_to.number
    if not rollout.finished:
        return ABORTING, f"aborted: revision {number} is put back"
    failed = [one.cluster for one in rollout.cluster_decisions if one.failed]
    if failed:
        return ABORTED, f"aborted: revision {number} is back, but does not work on {names(failed)}"
    return ABORTED, f"aborted: revision {number} is back everywhere"


def _nobody(rollout: Rollout) -> tuple[str, str]:
    if rollout.decided:
        empty = "; ".join(dict.fromkeys(map(_empty, rollout.references)))
        return NO_CLUSTERS, empty or "nothing says which clusters are to have it"
    placements = ", ".join(dict.fromkeys(ref.name for ref in rollout.references))
    return ROLLING_OUT, f"{placements} has not decided yet"


def _empty(ref: ReferenceRollout) -> str:
    placement = ref.allocation.reference.placement
    why = placement.unsatisfied if placement is not None else ""
    return f"placement {ref.name} selects nobody{f': {why}' if why else ''}"


def _groups(ref: ReferenceRollout, rollout: Rollout, objects: _Objects, now: datetime) -> Iterable[GroupLine]:
    active = set(ref.decision.active) if ref.decision else set[GroupKey]()
    members: dict[GroupKey, list[ClusterDecision]] = {key: [] for key in sorted(ref.allocation.groups.groups)}
    for entry in ref.cluster_decisions:
        members[entry.group].append(entry)
    scene = _Scene.of(rollout, objects, now)
    for key, cluster_decisions in members.items():
        lines = tuple(map(scene.line, cluster_decisions))
        first = next((one for one in cluster_decisions if one.phase is Phase.TO_APPLY and not one.starts), None)
        waiting = scene.sentence(first) if first is not None else ""
        counts = Counter(line.state for line in lines)
        yield GroupLine(key.placement or ref.name, key, counts, key in active, waiting, lines)


@dataclass(frozen=True)
class _Scene:
    """What the lines of all clusters of a rollout are made of."""

    rollout: Rollout
    objects: _Objects
    now: datetime
    undecided: frozenset[str]  # clusters that nobody lists at the moment
    sentences: dict[object, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rollout: Rollout, objects: _Objects, now: datetime) -> "_Scene":
        undecided = frozenset[str]().union(*(ref.allocation.undecided for ref in rollout.references))
        return cls(rollout, objects, now, undecided)

    def sentence(self, entry: ClusterDecision) -> str:
        """Return the message of a decision, made once: thousands wait for the same, which takes long to tell.

        A reason knows the times of a cluster, and not its name.
        """
        what = (id(entry.reason), entry.phase, entry.starts, entry.wait, entry.since, entry.until)
        if (found := self.sentences.get(what)) is None:
            found = self.sentences[what] = entry.message
        return found

    def line(self, entry: ClusterDecision) -> ClusterLine:
        rollout, cluster = self.rollout, entry.cluster
        state = SOAKING if entry.wait is Wait.SOAK else _OF_PHASE[entry.phase]
        age = elapsed(self.now - entry.since) if entry.since and state not in (WAITING, DONE) else ""
        holding = rollout.holdings.get(cluster)
        has_it = holding is not None and rollout.is_current(holding)
        own = told = ""
        if holding is not None and has_it and state in (FAILED, TIMED_OUT, MOVING):
            own, told = holding.message, holding.reason
        elif holding is not None and has_it and state in (DONE, SOAKING) and holding.message.startswith(_WITH_A_NOTE):
            own = holding.message.removeprefix(_WITH_A_NOTE)
        if (failed := rollout.failed_writes.get(cluster)) is not None:
            own = failed.message
        stays = ""
        if cluster in self.undecided:
            stays = staying(rollout.allocations.removal, cluster, rollout.subject.noun)[1]
        sentence = self.sentence(entry)
        follows = isinstance(entry.reason, ByStatus) and not entry.starts
        shown = self.objects.get(cluster, ())
        return ClusterLine(
            cluster,
            state,
            age,
            _joined(own, stays, sentence),
            tuple(shown if has_it else [each for each in shown if each.preview]),
            told or entry.wait.value or entry.phase.value,
            format_time(entry.since) if entry.since is not None else "",
            format_time(entry.until) if entry.until is not None else "",
            _joined(own, stays, "" if follows else sentence),
        )


def _joined(own: str, stays: str, sentence: str) -> str:
    return "; ".join(filter(None, (own, stays, sentence))) if own or stays else sentence


def document(picture: Picture) -> JSONObject:
    """Return a picture for programs; docs/cli.md says what its fields mean."""
    found: JSONObject = msgspec.to_builtins(picture)
    groups = [{**each, "total": sum(each["counts"].values())} for each in found["groups"]]
    for group in groups:
        for line in group["clusters"]:
            del line["until"], line["said"]  # the message has both
    reason = picture.reason or REASONS.get(picture.state, "")
    return {**found, "groups": groups, "reason": reason, "total": picture.total, "over": picture.over}
