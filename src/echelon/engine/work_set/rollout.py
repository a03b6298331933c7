"""Where a work set is with its rollout, before anything is written: every cluster of every placement, and why.

This is what a plan acts on, what a status tells, and what a dry run shows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from echelon.engine.rollout.control import BadControl, read_control
from echelon.engine.rollout.failed_writes import FailedWrite, relevant
from echelon.engine.rollout.model import ClusterStatus, Control, Decision, Phase, Standing
from echelon.engine.rollout.strategy import Strategy
from echelon.engine.rollout.walk import decide
from echelon.engine.work_set.content import Content, read_content
from echelon.engine.work_set.history import Past, recall
from echelon.engine.work_set.sharing import Share, Sharing, share_out
from echelon.engine.work_set.view import RevisionView, WorkSetView, WorkView


@dataclass(frozen=True)
class RefRollout:
    """The rollout through one placement. There is no decision if the reference is in trouble."""

    share: Share
    decision: Decision | None
    standings: tuple[Standing, ...]

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
    failed_writes: Mapping[str, FailedWrite] = field(default_factory=dict)  # clusters that do not get it
    retries: frozenset[str] = frozenset()  # those of them that are tried again now
    not_stored: str = ""  # why the set or its revisions could not be written, until that is tried again

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
        return not self.control.aborted and all(
            each.decision is not None
            and each.share.settled
            and all(one.phase in _DONE and not one.in_flight for one in each.standings)
            for each in self.refs
        )

    @cached_property
    def finished(self) -> bool:
        """Whether nobody waits or moves any more: every cluster is done, or has failed and that is tolerated."""
        return all(
            each.decision is not None
            and not each.decision.blocked
            and each.share.settled
            and all(one.failed or (one.phase in _DONE and not one.in_flight) for one in each.standings)
            for each in self.refs
        )


_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))


def roll_out(view: WorkSetView, now: datetime) -> Rollout:
    """Find out where a set is with its rollout."""
    spec, content = view.work_set.spec, view.content
    past = recall(view.revisions, content.digest, spec.revision_history_limit, view.work_set.metadata.uid)
    control, malformed = _control(view.work_set.metadata.annotations, content.digest)
    back_to = None
    if control.aborted and past.completed is not None:
        back_to = past.completed
        content = read_content(back_to.template)
    sharing = share_out(view, content.digest)
    failed = _failed_writes(view, content.digest, sharing, now)
    steering = _steering(control, back_to)
    rolling = _Rolling(content, now, steering, sharing.works, failed, at_once=back_to is not None)
    refs = tuple(rolling.ref(share) for share in sharing.shares)
    due = _are_due(view, control)
    retries = frozenset(_retries(refs, failed, steering)) if due and failed else frozenset[str]()
    not_stored = "" if due else view.outcomes.own
    return Rollout(content, past, control, malformed, sharing, refs, back_to, failed, retries, not_stored)


def _failed_writes(view: WorkSetView, digest: str, sharing: Sharing, now: datetime) -> Mapping[str, FailedWrite]:
    """Return the clusters that are to get a content and could not be given it, or of which nobody can tell."""
    unread = {each.cluster: FailedWrite(digest, each.since or now, True, each.message) for each in view.unread}
    if not view.outcomes.content and not unread:
        return {}
    selected = [cluster for share in sharing.shares for cluster in share.groups.clusters]
    current = [each.cluster for each in sharing.works.values() if each.digest == digest and not each.terminating]
    return relevant({**view.outcomes.content, **unread}, digest, selected, current)


def _retries(refs: Iterable[RefRollout], failed: Mapping[str, FailedWrite], control: Control) -> Iterator[str]:
    """Return the clusters that could not be written and still may be: they are in flight, so they need no slot."""
    if control.paused or control.aborted:
        return
    for ref in refs:
        for each in ref.standings if ref.decision is not None else ():
            if (
                each.cluster in failed
                and each.cluster not in ref.share.lingering
                and ref.decision is not None
                and each.group in ref.decision.reached
                and not control.holds_back(each.group)
            ):
                yield each.cluster


def _are_due(view: WorkSetView, control: Control) -> bool:
    """Whether what failed is to be tried again: it is time, or somebody has asked for it since."""
    outcomes = view.outcomes
    if outcomes.next_try is None:
        return True
    return control.retried is not None and (outcomes.tried is None or control.retried > outcomes.tried)


def _control(annotations: Mapping[str, str], digest: str) -> tuple[Control, str]:
    """Read what people have said. If a word of it cannot be understood, nothing starts until somebody repeats it."""
    try:
        return read_control(annotations, digest), ""
    except BadControl as error:
        return Control(paused=True), str(error)


def _steering(control: Control, back_to: RevisionView | None) -> Control:
    """Return what the walker is told. What an abort puts back waits for nobody."""
    return control if back_to is None else Control(retried=control.retried)


@dataclass(frozen=True)
class _Rolling:
    content: Content
    now: datetime
    control: Control
    works: Mapping[str, WorkView]
    failed: Mapping[str, FailedWrite]
    at_once: bool

    def ref(self, share: Share) -> RefRollout:
        strategy = share.strategy
        if self.at_once:  # also where the user's strategy is what went wrong
            strategy = Strategy(deadline=strategy.deadline if strategy is not None else None)
        if strategy is None:
            return RefRollout(share, None, self._standing_still(share))
        statuses = self._statuses(share, strategy.deadline)
        short = share.ref.placement.short if share.ref.placement is not None else ()
        decision = decide(strategy, share.groups, statuses, self.now, self.control, short=short)
        return RefRollout(share, decision, decision.standings)

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
            if work.digest == digest or work.terminating:
                found.append(work.status)
            elif cluster in lingering:
                busy = self._is_busy(work.status, deadline)
                found.append(ClusterStatus(cluster, Phase.PROGRESSING if busy else Phase.SKIPPED))
            elif self._is_busy(work.status, deadline):
                found.append(ClusterStatus(cluster, Phase.TO_APPLY, work.status.since))
        if not self.failed:
            return found
        return [status for status in found if status.cluster not in self.failed] + [
            failed.status(cluster) for cluster, failed in self.failed.items() if cluster in clusters
        ]

    def _is_busy(self, status: ClusterStatus, deadline: timedelta | None) -> bool:
        """Whether a cluster may still come to work with the older content that it has."""
        if status.phase is Phase.SUCCEEDED:
            return False
        return deadline is None or status.since is None or self.now - status.since < deadline

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
