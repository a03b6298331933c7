"""The one walker: given what every cluster reports, who starts now, and what do the others wait for?

It is strict. Every report is judged before anything starts, so that no failure goes unseen. The walk stops at the first
stage that is not through; nothing starts beyond it, and nothing at all once more clusters failed than are tolerated.
What is in flight goes on by itself.

Ten thousand clusters must cost milliseconds: the walk looks at sets and at the few clusters that are in flight or
failed, and reasons are values that many clusters share.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout import reasons
from echelon.engine.rollout.control import ABORTED, PAUSED
from echelon.engine.rollout.judge import Judge, most_worrying
from echelon.engine.rollout.model import (
    NO_CONTROL,
    ClusterDecision,
    ClusterStatus,
    Control,
    Decision,
    Phase,
    Reason,
    Wait,
)
from echelon.engine.rollout.stages import Stage, stages
from echelon.engine.rollout.strategy import Strategy

# Looking up a member of an enumeration takes ten times as long as looking up a name, and this is done for each cluster.
_TO_APPLY, _TIMED_OUT, _NOTHING = Phase.TO_APPLY, Phase.TIMED_OUT, Wait.NOTHING

_Waiting: TypeAlias = tuple[Wait, Reason]

_OPERATOR_MESSAGES = {
    Wait.PAUSED: f"paused: nothing new starts while {PAUSED} says so",
    Wait.ABORTED: f"aborted: nothing of this revision starts while {ABORTED} names it",
}


def decide(
    strategy: Strategy,
    groups: DecisionGroups,
    statuses: Iterable[ClusterStatus],
    now: datetime,
    control: Control = NO_CONTROL,
    *,
    incomplete_groups: Collection[GroupKey] = (),
) -> Decision:
    """Decide what a rollout does now. `statuses` has the clusters that have the desired content already.

    `incomplete_groups` are those that have more clusters than it is known which: nothing after them begins.
    """
    by_status = reasons.ByStatus(now)
    known = _judge_all(groups, statuses, now, Judge(strategy, now, control, by_status))
    walk = _Walk(known, control, now, incomplete_groups)
    walk.along(stages(strategy, groups))
    in_flight = [one for group in known.groups.values() for one in group.busy if one.in_flight]
    ends = [one.until for one in in_flight if one.until is not None and one.until > now]
    return Decision(
        cluster_decisions=_cluster_decisions(known, walk, by_status),
        removed=known.removed,
        newly_timed_out=known.newly_timed_out,
        breach=walk.breach,
        failures=walk.failures,
        recheck_after=min(ends) - now if ends else None,
        blocked=walk.blocked,
        blocked_message=walk.blocked_message,
        active=walk.active,
        reached=frozenset(walk.reached),
        free=walk.free,
    )


@dataclass(slots=True)
class _Group:
    """What the reports say of the clusters of one group."""

    names: list[str]
    judged: list[ClusterDecision | None]  # as the names; None for those that can still start
    fresh: list[str]  # those
    busy: list[ClusterDecision]  # in flight or failed


@dataclass(slots=True)
class _Known:
    """What the reports say."""

    groups: dict[GroupKey, _Group]
    written: dict[str, ClusterStatus]  # those that have the content and were not observed yet
    newly_timed_out: tuple[str, ...]
    removed: tuple[ClusterStatus, ...]


def _judge_all(groups: DecisionGroups, statuses: Iterable[ClusterStatus], now: datetime, judge: Judge) -> _Known:
    by_cluster = _one_each(tuple(statuses), now)
    known: dict[GroupKey, _Group] = {}
    written: dict[str, ClusterStatus] = {}
    timed_out: list[str] = []
    for key in sorted(groups.groups):
        names = sorted(filter(None, groups.groups[key]))  # a decision without a name is about no cluster
        group = known[key] = _Group(names, [], [], [])
        for name in names:
            status = by_cluster.pop(name, None)
            if status is None or status.phase is _TO_APPLY:
                group.judged.append(None)
                group.fresh.append(name)
                if status is not None:
                    written[name] = status
                continue
            entry = judge(status, key)
            group.judged.append(entry)
            if entry.wait or entry.phase is _TIMED_OUT:
                group.busy.append(entry)
                if entry.phase is _TIMED_OUT and status.phase is not _TIMED_OUT:
                    timed_out.append(name)
    gone = sorted(by_cluster.values(), key=lambda status: status.cluster)
    return _Known(known, written, tuple(sorted(timed_out)), tuple(status for status in gone if status.cluster))


def _one_each(statuses: tuple[ClusterStatus, ...], now: datetime) -> dict[str, ClusterStatus]:
    by_cluster = {status.cluster: status for status in statuses}
    return by_cluster if len(by_cluster) == len(statuses) else most_worrying(statuses, now)


@dataclass(slots=True)
class _Walk:
    """How far the walk came, and what it leaves to wait for."""

    known: _Known
    control: Control
    now: datetime
    incomplete_groups: Collection[GroupKey]
    starting: frozenset[str] = frozenset()
    waits: dict[GroupKey, _Waiting] = field(default_factory=dict)  # for those that don't start
    breach: bool = False
    failures: dict[GroupKey | None, tuple[str, ...]] = field(default_factory=dict)
    blocked: Wait = Wait.NOTHING
    blocked_message: str = ""
    active: tuple[GroupKey, ...] = ()
    reached: list[GroupKey] = field(default_factory=list)
    free: int | None = None

    def along(self, way: tuple[Stage, ...]) -> None:
        """Go from stage to stage until one is not through; all further ones wait for it."""
        by_operator = _by_operator(self.control)
        known = self.known.groups
        if by_operator is not None:
            hold = self.control.hold
            self.blocked = by_operator[0]
            self.blocked_message = _OPERATOR_MESSAGES.get(by_operator[0]) or (hold.message if hold is not None else "")
        waiting: _Waiting | None = None
        for stage in way:
            busy = [one for key in stage.groups for one in known[key].busy]
            failures = tuple(sorted(one.cluster for one in busy if one.failed))
            if failures:
                self.failures[stage.budget] = failures
            if waiting is not None:
                self._wait(stage, waiting)
                continue
            if by_operator is None:
                self.reached += stage.groups
            if len(failures) > stage.tolerated:
                waiting = self._stop(stage, failures, by_operator)
            else:
                fresh = {key: known[key].fresh for key in stage.groups}
                if any(fresh.values()) or any(one.in_flight and not one.failed for one in busy):
                    waiting = self._start(stage, fresh, busy, by_operator)
                elif missing := [key for key in stage.groups if key in self.incomplete_groups]:
                    self.active = stage.groups
                    waiting = (stage.wait, reasons.Unlisted(missing[0]))

    def _wait(self, stage: Stage, reason: _Waiting) -> None:
        self.waits.update(dict.fromkeys(stage.groups, reason))

    def _stop(self, stage: Stage, failures: tuple[str, ...], by_operator: _Waiting | None) -> _Waiting:
        """Stop at a stage in which too many failed; return what all others wait for."""
        why = reasons.TooManyFailures(failures, stage.tolerated, stage.budget)
        self.breach, self.active, self.free = True, stage.groups, 0
        if by_operator is None or by_operator[0] is Wait.BREACH:
            self.blocked, self.blocked_message = Wait.BREACH, why()
        self._wait(stage, by_operator or (Wait.BREACH, why))
        return by_operator or (Wait.BREACH, why)

    def _start(
        self,
        stage: Stage,
        fresh: Mapping[GroupKey, list[str]],
        busy: list[ClusterDecision],
        by_operator: _Waiting | None,
    ) -> _Waiting:
        """Start what may start in the stage where the walk is; return what the stages after it wait for."""
        self.active = stage.groups
        if by_operator is not None:
            self._wait(stage, by_operator)
            return by_operator
        held = tuple(key for key in stage.groups if fresh[key] and self.control.holds_back(key))
        flying = tuple(one for one in busy if one.in_flight)
        # Those that are disturbed already have a place, also where nobody lets them use it.
        free = stage.slots - len(flying) - sum(name in self.known.written for key in held for name in fresh[key])
        if free > 0:
            ready = [name for key in stage.groups if key not in held for name in fresh[key]]
            self.starting = frozenset(in_turn(ready, self.known.written)[:free])
        self.free = max(free - len(self.starting), 0)
        full = reasons.NoSlot(stage.slots, len(flying) + len(self.starting), sum(one.failed for one in flying))
        self._wait(stage, (Wait.SLOT, full))
        self.waits.update({key: (Wait.APPROVAL, reasons.NoApproval((key,))) for key in held})
        if held:
            self.blocked, self.blocked_message = Wait.APPROVAL, reasons.NoApproval(held)()
        moving = tuple(one for one in flying if not one.failed)
        starting = tuple(sorted(self.starting))
        earlier = reasons.EarlierGroup(stage.groups[0], stage.mandatory, moving, starting, bool(held), self.now)
        return stage.wait, earlier


def in_turn(clusters: list[str], written: Collection[str]) -> list[str]:
    """Those that were written and not observed yet come first, so that a crash does not widen the window."""
    if not written:
        return sorted(clusters)
    again = sorted(cluster for cluster in clusters if cluster in written)
    return again + sorted(cluster for cluster in clusters if cluster not in written)


def _by_operator(control: Control) -> _Waiting | None:
    if control.aborted:
        return Wait.ABORTED, reasons.ByOperator("aborted")
    if control.paused:
        return Wait.PAUSED, reasons.ByOperator("paused")
    return (control.hold.wait, reasons.ByOperator(control.hold.message)) if control.hold is not None else None


def _cluster_decisions(known: _Known, walk: _Walk, by_status: Reason) -> tuple[ClusterDecision, ...]:
    cluster_decisions: list[ClusterDecision] = []
    for key, group in known.groups.items():
        wait, why = walk.waits.get(key, (_NOTHING, by_status))
        for name, judged in zip(group.names, group.judged, strict=True):
            if judged is not None:
                cluster_decisions.append(judged)
                continue
            since = known.written[name].since if name in known.written else None
            if name in walk.starting:
                cluster_decisions.append(ClusterDecision(name, key, _TO_APPLY, since, True, _NOTHING, None, by_status))
            else:
                cluster_decisions.append(ClusterDecision(name, key, _TO_APPLY, since, False, wait, None, why))
    return tuple(cluster_decisions)
