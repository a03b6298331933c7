"""Where a work set is with its rollout, before anything is written: every cluster of every placement, and why.

This is what a plan acts on, what a status tells, and what a dry run shows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

import msgspec

from echelon.api.times import parse_time
from echelon.engine.rollout.control import BadControl, read_control
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.judge import Judge
from echelon.engine.rollout.model import ClusterStatus, Control, Decision, Hold, Phase, Standing, Wait
from echelon.engine.rollout.reasons import OwnPace
from echelon.engine.rollout.removal import RemovalControl, read_removal
from echelon.engine.rollout.strategy import Strategy
from echelon.engine.rollout.walk import decide
from echelon.engine.work_set.content import Content, read_content
from echelon.engine.work_set.history import Past, recall
from echelon.engine.work_set.milestones import Milestones, notes
from echelon.engine.work_set.named_groups import (
    Missing,
    missing_mandatory,
    newly_passed,
    unknown_approval,
    unknown_gate,
)
from echelon.engine.work_set.sharing import Share, Sharing, share_out
from echelon.engine.work_set.unwritten import are_due, failed_writes, retries
from echelon.engine.work_set.view import RevisionView, WorkSetView, WorkView


@dataclass(frozen=True)
class RefRollout:
    """The rollout through one placement. There is no decision if the reference is in trouble."""

    share: Share
    decision: Decision | None
    standings: tuple[Standing, ...]
    had_it: frozenset[str] = frozenset()  # clusters that worked with this content when it was complete
    missing: Missing | None = None  # a group that somebody named, and without which nothing starts

    @cached_property
    def starting(self) -> tuple[Standing, ...]:
        """The clusters that are to be written now."""
        return tuple(each for each in self.standings if each.starts)


@dataclass(frozen=True)
class Rollout:
    """The rollout of a set. `content` is what the clusters are to have: the template, or what an abort goes back to."""

    content: Content
    past: Past
    control: Control
    malformed: str  # what is wrong with the control annotations
    sharing: Sharing
    refs: tuple[RefRollout, ...]
    back_to: RevisionView | None = None  # the revision that an abort puts back
    abort_ignored: bool = False  # somebody gave up what was complete already
    lost_approval: str = ""  # what is wrong with an approval
    completed: datetime | None = None  # when the content had reached every cluster, if it ever had
    failed_writes: Mapping[str, FailedWrite] = field(default_factory=dict)  # clusters that do not get it
    retries: frozenset[str] = frozenset()  # those of them that are tried again now
    not_stored: str = ""  # why the set or its revisions could not be written, until that is tried again
    strangers: tuple[str, ...] = ()  # selected, and in no cluster set that is bound to the namespace

    @property
    def works(self) -> Mapping[str, WorkView]:
        """The one work of each cluster that has any."""
        return self.sharing.works

    def is_current(self, work: WorkView) -> bool:
        """Whether a work has what it should have."""
        return work.digest == self.content.digest and not work.terminating

    @cached_property
    def complete(self) -> bool:
        """Whether every cluster has the present template, works and has soaked, and that is certain."""
        return (
            not self.control.aborted
            and self._is_whole
            and all(
                each.decision is not None
                and each.share.settled
                and all(one.phase in _DONE and not one.in_flight for one in each.standings)
                for each in self.refs
            )
        )

    @property
    def decided(self) -> bool:
        """Whether every placement has said which clusters it wants."""
        return all(each.share.settled for each in self.refs)

    @property
    def was_complete(self) -> bool:
        """Whether the present revision had reached every cluster, whatever happened to them, or was added, since."""
        return self.past.milestones.complete

    @property
    def all_had_it(self) -> bool:
        """Whether it was complete, and no cluster was added or written since."""
        return self.was_complete and all(one.cluster in ref.had_it for ref in self.refs for one in ref.standings)

    def writes_at(self, now: datetime) -> datetime:
        """Return the time of a write, which comes after whatever was complete before, also if clocks differ."""
        return now if self.completed is None else max(now, self.completed + timedelta(microseconds=1))

    def is_past(self, cluster: str) -> bool:
        """Whether the rollout is behind a cluster, and does not care for its clocks any more."""
        return any(cluster in ref.had_it for ref in self.refs)

    def to_note(self, now: datetime) -> dict[str, str]:
        """Return the annotations that the present revision gets, because it has come to something."""
        past, known = self.past, self.past.milestones
        if past.present is None or past.present.number != past.number or self.control.aborted:
            return {}
        new = [newly_passed(ref.share, ref.standings, self.control, known.passed) for ref in self.refs]
        passed = known.passed.union(*new)
        breach = any(ref.decision is not None and ref.decision.breach for ref in self.refs)
        stops = breach and self.control.stop_is_final and _stopped(self.control, known) is None
        # Clocks differ: what is noted must not be older than what it answers to, or it would be noted again for ever.
        written = (work.written for work in self.works.values() if self.is_current(work))
        words = (self.control.retried, self.control.resumed)
        return notes(
            past.number,
            completed=_latest(now, written) if self.complete and not self.all_had_it else None,
            passed=passed if passed != known.passed else None,
            stopped=_latest(now, words) if stops else None,
        )

    @cached_property
    def finished(self) -> bool:
        """Whether nobody waits or moves any more: every cluster is done, or has failed and that is tolerated."""
        return self._is_whole and all(
            each.decision is not None
            and not each.decision.blocked
            and each.share.settled
            and all(one.failed or (one.phase in _DONE and not one.in_flight) for one in each.standings)
            for each in self.refs
        )

    @property
    def _is_whole(self) -> bool:
        """Whether there is anybody to be done, nobody who may not be written, and nobody has to lose anything."""
        removal = self.sharing.removal
        return self.has_clusters and not self.strangers and not removal.held and not removal.pending

    @cached_property
    def has_clusters(self) -> bool:
        """Whether any cluster is selected. Where there is none, nothing has been brought to anybody."""
        return any(len(each.standings) > len(each.share.lingering) for each in self.refs)


_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))


def _is_fine(status: ClusterStatus, soaked: datetime) -> bool:
    return status.phase is Phase.SUCCEEDED and status.since is not None and status.since <= soaked


def _skipped(status: ClusterStatus) -> ClusterStatus:
    return ClusterStatus(status.cluster, Phase.SKIPPED)


def roll_out(view: WorkSetView, now: datetime) -> Rollout:
    """Find out where a set is with its rollout."""
    spec, content = view.work_set.spec, view.content
    past = recall(view.revisions, content.digest, spec.revision_history_limit, view.work_set.metadata.uid)
    control, removals, malformed = _control(view, content.digest)
    known = past.milestones
    abort_ignored = control.aborted and known.complete
    if abort_ignored:
        control = replace(control, aborted=False)
    back_to = None
    if control.aborted and past.completed is not None:
        back_to = past.completed
        content = read_content(back_to.template)
    sharing = share_out(view, content.digest, removals, now)
    completed = _completed(view, content.digest)
    failed = failed_writes(view, content.digest, sharing, now)
    steering = _steering(control, back_to, known)
    rolling = _Rolling(
        view.unbound | view.leaving,
        content,
        now,
        steering,
        sharing.works,
        failed,
        completed,
        known.passed,
        unknown_gate(sharing.shares, control, known.passed),
        at_once=back_to is not None,
    )
    refs = tuple(rolling.ref(share) for share in sharing.shares)
    strangers = {each for share in sharing.shares for each in view.unbound & share.groups.clusters - share.lingering}
    due = are_due(view, control)
    decided = [(ref.decision, ref.share.lingering) for ref in refs if ref.decision is not None]
    return Rollout(
        content,
        past,
        control,
        malformed,
        sharing,
        refs,
        back_to,
        abort_ignored,
        unknown_approval(sharing.shares, control, known.passed),
        completed,
        failed,
        frozenset(retries(decided, failed, steering)) if due and failed else frozenset(),
        "" if due else view.outcomes.own,
        tuple(sorted(strangers)),
    )


def _control(view: WorkSetView, digest: str) -> tuple[Control, RemovalControl, str]:
    """Read what people have said. If a word of it cannot be understood, nothing starts until somebody repeats it."""
    annotations = view.work_set.metadata.annotations
    try:
        control = read_control(annotations, digest)
        return control, read_removal(annotations, paused=control.paused, limit=view.max_removals), ""
    except BadControl as error:
        return Control(paused=True), RemovalControl(paused=True), str(error)


def _steering(control: Control, back_to: RevisionView | None, known: Milestones) -> Control:
    """Return what the walker is told. What an abort puts back waits for nobody."""
    if back_to is not None:
        return Control(retried=control.retried)
    if _stopped(control, known) is None:
        return control
    why = "too many clusters had failed, and that is final: retry, resume or a new template lets it go on"
    return replace(control, hold=Hold(Wait.BREACH, why))


def _stopped(control: Control, known: Milestones) -> datetime | None:
    """Return when the rollout stopped for good, unless somebody has let it go on since."""
    at = known.stopped
    if at is None or not control.stop_is_final:
        return None
    over = any(word is not None and word > at for word in (control.retried, control.resumed))
    return None if over else at


def _completed(view: WorkSetView, digest: str) -> datetime | None:
    """Return when a content had reached every cluster, if it ever had."""
    return next((parse_time(each.completed) for each in view.revisions if each.revision == digest), None)


def _latest(now: datetime, others: Iterable[datetime | None]) -> datetime:
    return max([now, *(each for each in others if each is not None)])


@dataclass(frozen=True)
class _Rolling:
    barred: frozenset[str]  # clusters where nothing may start
    content: Content
    now: datetime
    control: Control
    works: Mapping[str, WorkView]
    failed: Mapping[str, FailedWrite]
    completed: datetime | None
    passed: frozenset[str]
    gate: Missing | None
    at_once: bool

    def ref(self, share: Share) -> RefRollout:
        strategy = share.strategy
        if self.at_once:  # also where the user's strategy is what went wrong
            strategy = Strategy(deadline=strategy.deadline if strategy is not None else None)
        had_it = frozenset(cluster for cluster in share.groups.clusters if self._had_it(self.works.get(cluster)))
        if strategy is None:
            return RefRollout(share, None, self._standing_still(share), had_it)
        missing = None if self.at_once else self.gate or missing_mandatory(share, self.control, self.passed)
        control = self.control
        if missing is not None and control.hold is None:
            control = replace(control, hold=Hold(Wait.HELD, missing.message))
        statuses = self._statuses(share, strategy.deadline)
        soaked = self.now - strategy.soak
        ill = {one.cluster: one for one in statuses if one.cluster in had_it and not _is_fine(one, soaked)}
        through = [_skipped(one) if one.cluster in ill else one for one in statuses] if ill else statuses
        short = share.ref.placement.short if share.ref.placement is not None else ()
        decision = decide(strategy, share.groups, through, self.now, control, short=short)
        if ill:
            decision = self._as_they_are(decision, strategy, ill)
        return RefRollout(share, decision, decision.standings, had_it, missing)

    def _had_it(self, work: WorkView | None) -> bool:
        """Whether a cluster worked with the content when that was complete.

        What becomes of it afterwards is its own trouble and not that of the rollout: it stops nobody and takes no
        place. Clusters that came later, or were written anew, are rolled out to as the strategy says.
        """
        if work is None or self.completed is None or work.digest != self.content.digest or work.terminating:
            return False
        return work.written is None or work.written <= self.completed

    def _as_they_are(self, decision: Decision, strategy: Strategy, ill: Mapping[str, ClusterStatus]) -> Decision:
        """Return a decision that tells of those who had it how they are now, though that decided nothing."""
        judge = Judge(strategy, self.now, self.control, OwnPace(self.now))
        standings = list(decision.standings)
        ends = [] if decision.recheck_after is None else [decision.recheck_after]
        for number, one in enumerate(standings):
            if one.cluster not in ill:
                continue
            found = judge(replace(ill[one.cluster], deadline_from=None), one.group)
            if found.wait:
                if found.wait is Wait.REPORT and found.until is not None:
                    ends.append(found.until - self.now)
                found = msgspec.structs.replace(found, wait=Wait.NOTHING)
            standings[number] = found
        return replace(decision, standings=tuple(standings), recheck_after=min(ends, default=None))

    def _statuses(self, share: Share, deadline: timedelta | None = None) -> list[ClusterStatus]:
        """Return the clusters that have the content, and those that could not be given it.

        One that is still busy with older content goes first when others start: it is disturbed already, and the same
        places serve for both. One that has missed the deadline of its older content is not busy but dead, and has no
        place to give away. Whom nobody lists at the moment gets nothing: if it is busy, it takes a place.
        """
        digest, works = self.content.digest, self.works
        clusters, lingering = share.groups.clusters, share.lingering
        found: list[ClusterStatus] = []
        for cluster, work in works.items():
            if cluster not in clusters:
                continue
            if cluster in share.failed:
                found.append(share.failed[cluster])
            elif work.digest == digest or work.terminating:
                found.append(work.status)
            elif cluster in lingering:
                busy = self._is_busy(work.status, deadline)
                found.append(ClusterStatus(cluster, Phase.PROGRESSING if busy else Phase.SKIPPED))
            elif self._is_busy(work.status, deadline):
                found.append(ClusterStatus(cluster, Phase.TO_APPLY, work.status.since))
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
        work = self.works.get(cluster)
        return work is not None and (work.digest == self.content.digest or work.terminating)

    def _is_busy(self, status: ClusterStatus, deadline: timedelta | None) -> bool:
        """Whether a cluster may still come to work with the older content that it has."""
        if status.phase is Phase.SUCCEEDED:
            return False
        begun = status.deadline_from or status.since
        return deadline is None or begun is None or self.now - begun < deadline

    def _standing_still(self, share: Share) -> tuple[Standing, ...]:
        """Tell of the clusters of a reference for which nothing can be decided."""
        statuses = {status.cluster: status for status in self._statuses(share)}
        return tuple(
            Standing(cluster, key, statuses[cluster].phase, statuses[cluster].since)
            if cluster in statuses
            else Standing(cluster, key, Phase.TO_APPLY)
            for key, clusters in sorted(share.groups.groups.items())
            for cluster in sorted(clusters)
        )
