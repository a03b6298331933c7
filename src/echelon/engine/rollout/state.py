"""Where a rollout is, before anything is written: every cluster of every placement, and why.

This is what a plan acts on, what a status tells, and what a dry run shows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain

from echelon.engine.rollout.allocation import Allocation, Allocations
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.history import RevisionHistory
from echelon.engine.rollout.milestones import Milestones, notes
from echelon.engine.rollout.model import ClusterDecision, Control, Decision, Phase
from echelon.engine.rollout.named_groups import MissingGroup, newly_passed
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.strategy import StrategyType
from echelon.engine.rollout.subject import Holding, Subject

_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))


@dataclass(frozen=True)
class ReferenceRollout:
    """The rollout through one placement. There is no decision if nothing can be done for the reference."""

    allocation: Allocation
    decision: Decision | None
    cluster_decisions: tuple[ClusterDecision, ...]
    had_it: frozenset[str] = frozenset()  # clusters that worked with this content when it was complete
    missing: MissingGroup | None = None  # a group that somebody named, and without which nothing starts

    @property
    def name(self) -> str:
        """The name of the placement."""
        return self.allocation.reference.name

    @cached_property
    def starting(self) -> tuple[ClusterDecision, ...]:
        """The clusters that are to be written now."""
        return self.decision.to_start if self.decision is not None else ()


@dataclass(frozen=True)
class Rollout:
    """A rollout. `revision` is what the clusters are to have: what is wanted, or what an abort goes back to."""

    subject: Subject
    revision: str
    history: RevisionHistory
    control: Control
    malformed: str  # what is wrong with the control annotations
    allocations: Allocations
    references: tuple[ReferenceRollout, ...]
    rollback_to: StoredRevision | None = None  # the revision that an abort puts back
    abort_ignored: bool = False  # somebody gave up what was complete already
    unknown_approval: str = ""  # what is wrong with an approval
    completed: datetime | None = None  # when the content had reached every cluster, if it ever had
    failed_writes: Mapping[str, FailedWrite] = field(default_factory=dict)  # clusters that do not get it
    retries: frozenset[str] = frozenset()  # those of them that are tried again now
    not_stored: str = ""  # why the object or its revisions could not be written, until that is tried again
    unbound: tuple[str, ...] = ()  # selected, and in no cluster set that is bound to the namespace

    @property
    def holdings(self) -> Mapping[str, Holding]:
        """What each cluster holds."""
        return self.subject.holdings

    @property
    def cluster_decisions(self) -> Iterable[ClusterDecision]:
        """Every cluster of every reference."""
        return chain.from_iterable(ref.cluster_decisions for ref in self.references)

    @property
    def is_limited(self) -> bool:
        """Whether a budget holds within a wave, too: what is still to be written then waits for what failed."""
        strategies = [each.allocation.strategy for each in self.references if self.rollback_to is None]
        return any(each is not None and each.type is not StrategyType.ALL for each in strategies)

    def is_current(self, holding: Holding) -> bool:
        """Whether a cluster has what it should have."""
        return holding.revision == self.revision and not holding.terminating

    @cached_property
    def complete(self) -> bool:
        """Whether every cluster has the wanted content, works and has soaked, and that is certain."""
        return (
            not self.control.aborted
            and self._is_whole
            and all(
                each.decision is not None
                and each.allocation.settled
                and all(one.phase in _DONE and not one.in_flight for one in each.cluster_decisions)
                for each in self.references
            )
        )

    @property
    def decided(self) -> bool:
        """Whether every placement has said which clusters it wants."""
        return all(each.allocation.settled for each in self.references)

    @property
    def was_complete(self) -> bool:
        """Whether the present revision had reached every cluster, whatever happened to them, or was added, since."""
        return self.history.milestones.complete

    @property
    def all_had_it(self) -> bool:
        """Whether it was complete, and no cluster was added or written since."""
        return self.was_complete and all(
            one.cluster in ref.had_it for ref in self.references for one in ref.cluster_decisions
        )

    def writes_at(self, now: datetime) -> datetime:
        """Return the time of a write, which comes after whatever was complete before, also if clocks differ."""
        return now if self.completed is None else max(now, self.completed + timedelta(microseconds=1))

    def is_past(self, cluster: str) -> bool:
        """Whether the rollout is behind a cluster, and does not care for its clocks any more."""
        return any(cluster in ref.had_it for ref in self.references)

    def to_note(self, now: datetime) -> dict[str, str]:
        """Return the annotations that the present revision gets, because it has come to something."""
        history, known = self.history, self.history.milestones
        if history.present is None or history.present.number != history.number or self.control.aborted:
            return {}
        new = [
            newly_passed(ref.allocation, ref.cluster_decisions, self.control, known.passed) for ref in self.references
        ]
        passed = known.passed.union(*new)
        breach = any(ref.decision is not None and ref.decision.breach for ref in self.references)
        stops = breach and self.control.stop_is_final and stopped(self.control, known) is None
        # Clocks differ: what is noted must not be older than what it answers to, or it would be noted again for ever.
        written = (holding.written for holding in self.holdings.values() if self.is_current(holding))
        words = (self.control.retried, self.control.resumed)
        return notes(
            history.number,
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
            and each.allocation.settled
            and all(one.failed or (one.phase in _DONE and not one.in_flight) for one in each.cluster_decisions)
            for each in self.references
        )

    @property
    def tolerates_failures(self) -> bool:
        """Whether a budget allows for all that failed. Where clusters are not limited there is none."""
        unlimited = (
            ref
            for ref in self.references
            if ref.allocation.strategy is not None and ref.allocation.strategy.type is StrategyType.ALL
        )
        return not any(one.failed for ref in unlimited for one in ref.cluster_decisions)

    @property
    def _is_whole(self) -> bool:
        """Whether there is anybody to be done, nobody who may not be written, and nobody has to lose anything."""
        removal = self.allocations.removal
        return self.has_clusters and not self.unbound and not removal.held and not removal.pending

    @cached_property
    def has_clusters(self) -> bool:
        """Whether any cluster is selected. Where there is none, nothing has been brought to anybody."""
        return any(len(each.cluster_decisions) > len(each.allocation.undecided) for each in self.references)


def stopped(control: Control, known: Milestones) -> datetime | None:
    """Return when the rollout stopped for good, unless somebody has let it go on since."""
    at = known.stopped
    if at is None or not control.stop_is_final:
        return None
    over = any(word is not None and word > at for word in (control.retried, control.resumed))
    return None if over else at


def _latest(now: datetime, others: Iterable[datetime | None]) -> datetime:
    return max([now, *(each for each in others if each is not None)])
