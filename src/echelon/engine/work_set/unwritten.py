"""Clusters that were to get the content of a set and did not: what is still so, and who is tried again now."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from echelon.engine.rollout.failed_writes import FailedWrite, relevant
from echelon.engine.rollout.model import Control, Decision, Phase
from echelon.engine.work_set.sharing import Sharing
from echelon.engine.work_set.view import WorkSetView


def failed_writes(view: WorkSetView, digest: str, sharing: Sharing, now: datetime) -> Mapping[str, FailedWrite]:
    """Return the clusters that could not be given a content, or of which nobody can tell."""
    unread = {each.cluster: FailedWrite(digest, each.since or now, True, each.message) for each in view.unread}
    if not view.outcomes.content and not unread:
        return {}
    selected = [cluster for share in sharing.shares for cluster in share.groups.clusters]
    current = [each.cluster for each in sharing.works.values() if each.digest == digest and not each.terminating]
    return relevant({**view.outcomes.content, **unread}, digest, selected, current)


def are_due(view: WorkSetView, control: Control) -> bool:
    """Whether what failed is to be tried again: it is time, or somebody has asked for it since."""
    outcomes = view.outcomes
    if outcomes.next_try is None:
        return True
    return control.retried is not None and (outcomes.tried is None or control.retried > outcomes.tried)


def retries(
    refs: Iterable[tuple[Decision, Collection[str]]], failed: Mapping[str, FailedWrite], control: Control
) -> Iterator[str]:
    """Return the clusters that still may be written. They are in flight, but for those that have timed out.

    Who has timed out gave its slot away, and needs a free one when it is written after all. A reference comes as its
    decision and the clusters that it lists no more.
    """
    for decision, lingering in refs:
        free = len(failed) if decision.free is None else decision.free
        for each in decision.standings:
            may_go_on = each.group in decision.reached and not control.holds_back(each.group)
            unfinished = each.phase is not Phase.SKIPPED and each.cluster not in lingering
            if each.cluster not in failed or not unfinished or not may_go_on:
                continue
            if each.phase is Phase.TIMED_OUT:
                if free <= 0:
                    continue
                free -= 1
            yield each.cluster
