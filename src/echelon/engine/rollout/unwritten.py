"""Clusters that were to get the content and did not: what is still so, and who is tried again now."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from echelon.engine.rollout.allocation import Allocations
from echelon.engine.rollout.failed_writes import FailedWrite, relevant
from echelon.engine.rollout.model import Control, Decision, Phase
from echelon.engine.rollout.subject import Subject


def failed_writes(
    subject: Subject, revision: str, allocations: Allocations, now: datetime
) -> Mapping[str, FailedWrite]:
    """Return the clusters that could not be given a revision, or of which nobody can tell."""
    unread = {
        cluster: FailedWrite(revision, each.since or now, True, each.message)
        for cluster, each in subject.unreadable.items()
    }
    if not subject.outcomes.content and not unread:
        return {}
    selected = [cluster for each in allocations.references for cluster in each.groups.clusters]
    holdings = subject.holdings.values()
    current = [each.cluster for each in holdings if each.revision == revision and not each.terminating]
    return relevant({**subject.outcomes.content, **unread}, revision, selected, current)


def are_due(subject: Subject, control: Control) -> bool:
    """Whether what failed is to be tried again: it is time, or somebody has asked for it since."""
    outcomes = subject.outcomes
    if outcomes.next_try is None:
        return True
    return control.retried is not None and (outcomes.tried is None or control.retried > outcomes.tried)


def retries(
    references: Iterable[tuple[Decision, Collection[str], Control]], failed: Mapping[str, FailedWrite]
) -> Iterator[str]:
    """Return the clusters that still may be written. They are in flight, but for those that have timed out.

    Who has timed out gave its slot away, and needs a free one when it is written after all. A reference comes as its
    decision, the clusters that it lists no more, and what it was told.
    """
    for decision, undecided, control in references:
        free = len(failed) if decision.free is None else decision.free
        for each in decision.cluster_decisions:
            may_go_on = each.group in decision.reached and not control.holds_back(each.group)
            unfinished = each.phase is not Phase.SKIPPED and each.cluster not in undecided
            if each.cluster not in failed or not unfinished or not may_go_on:
                continue
            if each.phase is Phase.TIMED_OUT:
                if free <= 0:
                    continue
                free -= 1
            yield each.cluster
