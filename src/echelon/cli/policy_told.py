"""Replicas as the status of their policy tells of them, for whoever may not see the replicas themselves.

What a replica has follows from where its cluster stands: who waits has the content to look at, everybody else has it in
force. So the engine can judge them like any others. Nothing is known that the controller has not told yet.
"""

from collections.abc import Iterator
from datetime import datetime

from echelon.api.policy import ClusterCompliance
from echelon.api.times import parse_time
from echelon.engine.policy.content import INFORM, PolicyContent
from echelon.engine.policy.record import Record
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.strategy import PolicyStrategy, strategy_of
from echelon.engine.policy.subject import Contents, content_of, contents_of, subject_of
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.conditions import VERIFIED
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.strategy import BadStrategy, read_strategy

_GENERATION = 1  # of all of them: a verdict that was told is about what the replica had then


def told_replicas(view: PolicyView, now: datetime) -> dict[str, Replica]:
    """Return the replicas of a policy, by cluster, as its status tells of them."""
    strategy = strategy_of(view)
    contents = contents_of(view, strategy)
    rollout = roll_out(subject_of(view, strategy, contents, now), now)
    content = content_of(view, rollout) if _is_of_present(view) else None
    messages = (
        {each.cluster: each.message for each in rollout.subject.reported.clusters} if rollout.subject.reported else {}
    )
    return {
        each.clustername: _replica(each, strategy, contents, content, messages.get(each.clustername, ""))
        for each in (*view.policy.status.status, *_only_counted(view))
    }


def _is_of_present(view: PolicyView) -> bool:
    """Whether the status tells of the policy as it is now, and not of what it was before the last change."""
    meta = view.policy.metadata
    told = [each for each in view.policy.status.conditions if each.type == VERIFIED]
    return all(each.observed_generation == meta.generation for each in told)


def _only_counted(view: PolicyView) -> Iterator[ClusterCompliance]:
    """Return the clusters that a long status leaves out: those that are settled, and perhaps those that wait."""
    record, summary = Record.of(view.policy.status), view.policy.status.rollout
    if not record.abridged or summary is None:
        return
    waiting = sum(each.rollout_status == Phase.TO_APPLY.value for each in record.entries.values())
    if summary.to_apply > waiting:  # who of the others waits is not known
        return
    listed = (each.placement.groups.clusters for each in view.placing() if each.placement is not None)
    for cluster in sorted(frozenset[str]().union(*listed) - record.entries.keys()):
        yield ClusterCompliance(clustername=cluster, rollout_status=Phase.SUCCEEDED.value)


def _replica(
    told: ClusterCompliance, strategy: PolicyStrategy, contents: Contents, content: PolicyContent | None, message: str
) -> Replica:
    waits = strategy.in_turn and told.rollout_status == Phase.TO_APPLY.value
    digest = ""
    if content is not None and (waits or told.rollout_status not in ("", Phase.TO_APPLY.value)):
        digest = content.digest(INFORM) if waits else contents.full_digest(content, told.clustername)
    since = parse_time(told.rollout_last_transition_time)
    return Replica(
        cluster=told.clustername,
        name="",
        uid="",
        version="",
        generation=_GENERATION,
        labels={},
        annotations={},
        spec={},
        body="",
        digest=digest,
        written=_written(told.rollout_status, since, strategy),
        retried=None,
        turned=None,
        terminating=None,
        compliant=told.compliant,
        stored=told.rollout_status,
        stored_at=since,
        observed_generation=_GENERATION,
        reports={},
        message=message,
    )


def _written(status: str, since: datetime | None, strategy: PolicyStrategy) -> datetime | None:
    """Return when a cluster got its content, as far as that follows from where it stands, and since when."""
    if status == Phase.PROGRESSING.value:
        return since
    if status != Phase.TIMED_OUT.value or since is None:
        return None
    try:
        deadline = read_strategy(strategy.strategy).deadline
    except BadStrategy:
        return None
    return since - deadline if deadline is not None else None
