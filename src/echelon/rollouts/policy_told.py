"""Replicas as the status of their policy tells of them, for whoever may not see the replicas themselves.

What a replica has follows from where its cluster stands: who waits has the content to look at, everybody else has it in
force. So the engine can judge them like any others. Nothing is known that the controller has not told yet.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from echelon.api.base import JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.policy import ClusterCompliance, PolicyStatus
from echelon.api.times import format_micro_time, parse_time
from echelon.engine.policy.content import INFORM
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.policy.record import SuccessTimes
from echelon.engine.policy.replica import Replica, read_replica
from echelon.engine.policy.strategy import PolicyStrategy, strategy_of
from echelon.engine.policy.subject import content_of, contents_of, subject_of
from echelon.engine.policy.view import PolicyView, placing
from echelon.engine.rollout.annotations import WRITTEN_ANNOTATION
from echelon.engine.rollout.conditions import VERIFIED
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.strategy import BadStrategy, read_strategy

_GENERATION = 1  # of all of them: a verdict that was told is about what the replica had then
_SOMETHING_ELSE: JSONObject = {}


def told_replicas(view: PolicyView, now: datetime) -> dict[str, Replica]:
    """Return the replicas of a policy, by cluster, as its status tells of them."""
    strategy = strategy_of(view)
    contents = contents_of(view, strategy)
    rollout = roll_out(subject_of(view, strategy, contents, now), now)
    content, present = content_of(view, rollout), _is_of_present(view)
    summary = view.policy.status.rollout
    messages = {each.cluster: each.message for each in summary.clusters} if summary is not None else {}
    alike: dict[str, Replica] = {}  # one with each action: contents are compared by digests, which cost
    found: dict[str, Replica] = {}
    for entry in (*view.policy.status.status, *_only_counted(view)):
        action = _action(entry, strategy, contents.action(content, entry.clustername)) if present else None
        spec = content.spec_with(action) if action is not None else _SOMETHING_ELSE
        replica = read_replica(_document(entry, strategy, spec), alike.get(str(action)))
        alike.setdefault(str(action), replica)
        found[entry.clustername] = replace(replica, message=messages.get(entry.clustername, ""))
    return found


def placed_clusters(view: PolicyView) -> frozenset[str]:
    """Return the clusters that are to have a policy."""
    placements = (each.placement for each in placing(view.ways, view.placements))
    return frozenset[str]().union(*(each.groups.clusters for each in placements if each is not None))


def _is_of_present(view: PolicyView) -> bool:
    """Whether the status tells of the policy as it is now, and not of what it was before the last change."""
    meta = view.policy.metadata
    told = [each for each in view.policy.status.conditions if each.type == VERIFIED]
    return all(each.observed_generation == meta.generation for each in told)


def _only_counted(view: PolicyView) -> Iterator[ClusterCompliance]:
    """Return the clusters that a long status leaves out: those that are settled, and perhaps those that wait."""
    record, summary = SuccessTimes.of(view.policy.status), view.policy.status.rollout
    if not record.abridged or summary is None:
        return
    waiting = sum(each.rollout_status == Phase.TO_APPLY.value for each in record.entries.values())
    if summary.to_apply > waiting:  # who of the others waits is not known
        return
    for cluster in sorted(placed_clusters(view) - record.entries.keys()):
        yield ClusterCompliance(clustername=cluster, rollout_status=Phase.SUCCEEDED.value)


def _action(told: ClusterCompliance, strategy: PolicyStrategy, full: str) -> str | None:
    """Return the action of a replica that has the content; None if it has something else."""
    if told.rollout_status in ("", Phase.TO_APPLY.value):
        return INFORM if told.rollout_status and strategy.in_turn else None
    return full


def _document(told: ClusterCompliance, strategy: PolicyStrategy, spec: JSONObject) -> RawPolicy:
    written = _written(told.rollout_status, parse_time(told.rollout_last_transition_time), strategy)
    annotations = {WRITTEN_ANNOTATION: format_micro_time(written)} if written is not None else {}
    return RawPolicy(
        metadata=ObjectMeta(namespace=told.clustername, generation=_GENERATION, annotations=annotations),
        spec=spec,
        status=PolicyStatus(
            compliant=told.compliant,
            rollout_status=told.rollout_status,
            rollout_last_transition_time=told.rollout_last_transition_time,
            observed_generation=_GENERATION,
        ),
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
