"""From a subject to the state of its rollout: what people said, who belongs where, and the walk of each reference."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from echelon.api.times import parse_time
from echelon.engine.rollout.allocation import Allocation, allocate
from echelon.engine.rollout.control import BadControl, read_control
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.history import load
from echelon.engine.rollout.judge import Judge
from echelon.engine.rollout.milestones import Milestones
from echelon.engine.rollout.model import ClusterDecision, ClusterStatus, Control, Decision, Hold, Phase, Wait
from echelon.engine.rollout.named_groups import MissingGroup, missing_mandatory, unknown_approval, unknown_gate
from echelon.engine.rollout.reasons import ByStatus
from echelon.engine.rollout.removal import RemovalControl, read_removal
from echelon.engine.rollout.state import ReferenceRollout, Rollout, stopped
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.strategy import Strategy
from echelon.engine.rollout.subject import Holding, Subject
from echelon.engine.rollout.unwritten import are_due, failed_writes, retries
from echelon.engine.rollout.walk import decide

_AT_REST = frozenset((Phase.SUCCEEDED, Phase.TO_APPLY))


def roll_out(subject: Subject, now: datetime) -> Rollout:
    """Find out where a rollout is."""
    history = load(
        subject.revisions, subject.revision, subject.history_limit, subject.metadata.uid, in_use=subject.in_use
    )
    control, removals, malformed = _control(subject)
    known = history.milestones
    abort_ignored = control.aborted and known.complete
    if abort_ignored:
        control = replace(control, aborted=False)
    rollback_to = history.completed if control.aborted else None
    revision = subject.revision if rollback_to is None else rollback_to.revision
    allocations = allocate(subject, revision, removals, now)
    completed = _completed(subject, revision)
    failed = failed_writes(subject, revision, allocations, now)
    steering = _steering(subject, control, rollback_to, known)
    walk = _ReferenceWalk(
        subject.unbound | subject.leaving,
        revision,
        now,
        steering,
        subject.holdings,
        failed,
        completed,
        known.passed,
        unknown_gate(allocations.references, control, known.passed),
        at_once=rollback_to is not None,
    )
    refs = tuple(map(walk.through, allocations.references))
    unbound = {
        each
        for allocation in allocations.references
        for each in subject.unbound & allocation.groups.clusters - allocation.undecided
    }
    due = are_due(subject, control)
    decided = [
        (ref.decision, ref.allocation.undecided, ref.allocation.control_of(steering))
        for ref in refs
        if ref.decision is not None
    ]
    return Rollout(
        subject,
        revision,
        history,
        control,
        malformed,
        allocations,
        refs,
        rollback_to,
        abort_ignored,
        unknown_approval(allocations.references, control, known.passed),
        completed,
        failed,
        frozenset(retries(decided, failed)) if due and failed else frozenset(),
        "" if due else subject.outcomes.own,
        tuple(sorted(unbound)),
    )


def _control(subject: Subject) -> tuple[Control, RemovalControl, str]:
    """Read what people have said. If a word of it cannot be understood, nothing starts until somebody repeats it."""
    annotations = subject.metadata.annotations
    try:
        control = read_control(annotations, subject.revision)
        return control, read_removal(annotations, paused=control.paused, limit=subject.max_removals), ""
    except BadControl as error:
        return Control(paused=True), RemovalControl(paused=True), str(error)


def _steering(subject: Subject, control: Control, rollback_to: StoredRevision | None, known: Milestones) -> Control:
    """Return what the walker is told. What an abort puts back waits for nobody."""
    if rollback_to is not None:
        return Control(retried=control.retried)
    if stopped(control, known) is None:
        return replace(control, hold=subject.hold) if subject.hold is not None else control
    why = "too many clusters had failed, and that is final: retry, resume or a new revision lets it go on"
    return replace(control, hold=Hold(Wait.BREACH, why))


def _completed(subject: Subject, revision: str) -> datetime | None:
    """Return when a content had reached every cluster, if it ever had."""
    return next((parse_time(each.completed) for each in subject.revisions if each.revision == revision), None)


def _is_fine(status: ClusterStatus, soaked: datetime) -> bool:
    return status.phase is Phase.SUCCEEDED and status.since is not None and status.since <= soaked


def _skipped(status: ClusterStatus) -> ClusterStatus:
    return ClusterStatus(status.cluster, Phase.SKIPPED)


@dataclass(frozen=True)
class _ReferenceWalk:
    """What the walks of all references of a rollout have in common."""

    barred: frozenset[str]  # clusters where nothing may start
    revision: str
    now: datetime
    control: Control
    holdings: Mapping[str, Holding]
    failed: Mapping[str, FailedWrite]
    completed: datetime | None
    passed: frozenset[str]
    gate: MissingGroup | None
    at_once: bool

    def through(self, allocation: Allocation) -> ReferenceRollout:
        strategy = allocation.strategy
        if self.at_once:  # also where the user's strategy is what went wrong
            strategy = Strategy(deadline=strategy.deadline if strategy is not None else None)
        clusters, holdings = allocation.groups.clusters, self.holdings
        had_it = frozenset[str]()
        if self.completed is not None:
            had_it = frozenset(cluster for cluster in clusters if self._had_it(holdings.get(cluster)))
        if strategy is None:
            return ReferenceRollout(allocation, None, self._standing_still(allocation), had_it)
        missing = None if self.at_once else self.gate or missing_mandatory(allocation, self.control, self.passed)
        control = allocation.control_of(self.control)
        if missing is not None and control.hold is None:
            control = replace(control, hold=Hold(Wait.HELD, missing.message))
        statuses = self._statuses(allocation, strategy.deadline)
        soaked = self.now - strategy.soak
        ill = {one.cluster: one for one in statuses if not _is_fine(one, soaked) and one.cluster in had_it}
        judged = [_skipped(one) if one.cluster in ill else one for one in statuses] if ill else statuses
        incomplete = allocation.incomplete_groups
        decision = decide(strategy, allocation.groups, judged, self.now, control, incomplete_groups=incomplete)
        if ill:
            decision = self._as_they_are(decision, strategy, ill)
        return ReferenceRollout(allocation, decision, decision.cluster_decisions, had_it, missing)

    def _had_it(self, holding: Holding | None) -> bool:
        """Whether a cluster worked with the content when that was complete.

        What becomes of it afterwards is its own trouble and not that of the rollout: it stops nobody and takes no
        place. Clusters that came later, or were written anew, are rolled out to as the strategy says.
        """
        if holding is None or self.completed is None or holding.revision != self.revision or holding.terminating:
            return False
        return holding.written is None or holding.written <= self.completed

    def _as_they_are(self, decision: Decision, strategy: Strategy, ill: Mapping[str, ClusterStatus]) -> Decision:
        """Return a decision that tells of those who had it how they are now, though that decided nothing."""
        judge = Judge(strategy, self.now, self.control, ByStatus(self.now))
        cluster_decisions = list(decision.cluster_decisions)
        ends = [] if decision.recheck_after is None else [decision.recheck_after]
        for number, one in enumerate(cluster_decisions):
            if one.cluster not in ill:
                continue
            found = judge(msgspec.structs.replace(ill[one.cluster], deadline_from=None), one.group)
            if found.wait:
                if found.wait is Wait.REPORT and found.until is not None:
                    ends.append(found.until - self.now)
                found = msgspec.structs.replace(found, wait=Wait.NOTHING)
            cluster_decisions[number] = found
        return replace(decision, cluster_decisions=tuple(cluster_decisions), recheck_after=min(ends, default=None))

    def _statuses(self, allocation: Allocation, deadline: timedelta | None = None) -> list[ClusterStatus]:
        """Return the clusters that have the content, and those that could not be given it.

        One that is still busy with older content goes first when others start: it is disturbed already, and the same
        places serve for both. One that has missed the deadline of its older content is not busy but dead, and has no
        place to give away. Whom nobody lists at the moment gets nothing: if it is busy, it takes a place.
        """
        revision, clusters, undecided = self.revision, allocation.groups.clusters, allocation.undecided
        found: list[ClusterStatus] = []
        for cluster, holding in self.holdings.items():
            if cluster not in clusters:
                continue
            if cluster in allocation.failed:
                found.append(allocation.failed[cluster])
            elif holding.revision == revision or holding.terminating:
                found.append(holding.status)
            elif cluster in undecided:
                busy = self._is_busy(holding.status, deadline)
                found.append(ClusterStatus(cluster, Phase.PROGRESSING if busy else Phase.SKIPPED))
            elif self._is_busy(holding.status, deadline):
                found.append(ClusterStatus(cluster, Phase.TO_APPLY, holding.status.since))
        if self.failed:
            unwritten = [failed.status(cluster) for cluster, failed in self.failed.items() if cluster in clusters]
            found = [status for status in found if status.cluster not in self.failed] + unwritten
        return self._without_barred(found, clusters)

    def _without_barred(self, found: list[ClusterStatus], clusters: frozenset[str]) -> list[ClusterStatus]:
        """Let nothing start in clusters that are leaving, or that this namespace has no say about."""
        if not (barred := {each for each in self.barred & clusters if not self._has_it(each)}):
            return found
        rest = [status for status in found if status.cluster not in barred]
        return [*rest, *(ClusterStatus(cluster, Phase.SKIPPED) for cluster in sorted(barred))]

    def _has_it(self, cluster: str) -> bool:
        holding = self.holdings.get(cluster)
        return holding is not None and (holding.revision == self.revision or holding.terminating)

    def _is_busy(self, status: ClusterStatus, deadline: timedelta | None) -> bool:
        """Whether a cluster may still come to work with the older content that it has."""
        if status.phase in _AT_REST:
            return False
        begun = status.deadline_from or status.since
        return deadline is None or begun is None or self.now - begun < deadline

    def _standing_still(self, allocation: Allocation) -> tuple[ClusterDecision, ...]:
        """Tell of the clusters of a reference for which nothing can be decided."""
        statuses = {status.cluster: status for status in self._statuses(allocation)}
        return tuple(
            ClusterDecision(cluster, key, statuses[cluster].phase, statuses[cluster].since)
            if cluster in statuses
            else ClusterDecision(cluster, key, Phase.TO_APPLY)
            for key, clusters in sorted(allocation.groups.groups.items())
            for cluster in sorted(clusters)
        )
