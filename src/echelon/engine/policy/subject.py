"""A policy as the subject of a rollout: a replica that is released is what its cluster holds.

A replica that waits for its turn has the content and does nothing with it, so to the rollout its cluster has nothing
yet. All clusters get that far before the first is released (the first pass): what the policy would find is known
everywhere before anything is changed anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from echelon.api.policy import POLICY
from echelon.api.times import parse_time
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.policy.bindings import overrides_of
from echelon.engine.policy.content import INFORM, PolicyContent, read_content, stored_fields, with_stored
from echelon.engine.policy.names import HASH_LABEL, POLICY_LABEL, replica_name
from echelon.engine.policy.record import Soak, SuccessTimes, status_of_released
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.strategy import CONCURRENCY, PolicyStrategy
from echelon.engine.policy.view import PolicyView, placing
from echelon.engine.rollout.control import ABORTED, PROMOTED
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.model import ClusterStatus, Hold, Phase, Wait
from echelon.engine.rollout.references import PlacementReference, join_placements
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.stored_revision import StoredRevision, cause_of
from echelon.engine.rollout.strategy import BadStrategy, StrategyType, mandatory_keys, read_strategy
from echelon.engine.rollout.subject import Holding, Subject

NOUN = "replica"
# Looking up a member of an enumeration takes ten times as long as looking up a name, and this is done for each cluster.
_TO_APPLY, _WAITS = Phase.TO_APPLY, Phase.TO_APPLY.value
OVERRIDES_IGNORED = (
    "bindings override the remediation action or are restricted, which has no effect on a policy with a rolloutStrategy"
    " other than All"
)


@dataclass(frozen=True)
class Contents:
    """What each cluster is to have: the content that is wanted, or what an abort goes back to."""

    by_revision: Mapping[str, PolicyContent]
    overrides: Mapping[str, str]  # by cluster: the action that a binding sets there

    def action(self, content: PolicyContent, cluster: str) -> str:
        """Return the action of a cluster, as it is to be written."""
        override = self.overrides.get(cluster, "")
        return override if override and content.action.lower() != override.lower() else content.action

    def revision(self, replica: Replica) -> str:
        """Return which revision a replica has in force, or the digest of something else.

        The digest of a content is its revision, except where a binding sets another action.
        """
        if replica.cluster in self.overrides:
            for revision, content in self.by_revision.items():
                if replica.digest == content.digest(self.action(content, replica.cluster)):
                    return revision
            return "" if replica.digest in self.by_revision else replica.digest
        return replica.digest


def contents_of(view: PolicyView, strategy: PolicyStrategy) -> Contents:
    """Return all that clusters may be meant to have."""
    found = {view.content.revision: view.content}
    if ABORTED in view.policy.metadata.annotations:
        for stored in view.revisions:
            if stored.content is not None:
                content = stored_content(view, stored)
                found.setdefault(content.revision, content)
    overrides = {} if strategy.asked_in_turn else overrides_of(view.ways, view.selected)
    return Contents(found, overrides)


def stored_content(view: PolicyView, stored: StoredRevision) -> PolicyContent:
    """Return the content of a stored revision, as this policy would give it to its clusters now."""
    return read_content(view.key, with_stored(view.policy.spec, stored.content or {}), view.set_members)


def subject_of(view: PolicyView, strategy: PolicyStrategy, contents: Contents, now: datetime) -> Subject:
    """Return what is rolled out, in the terms of every rollout."""
    meta, status, content = view.policy.metadata, view.policy.status, view.content
    references = references_of(view, strategy)
    subject = Subject(
        kind=POLICY,
        metadata=meta,
        noun=NOUN,
        revision=content.revision if not content.problem else "",
        content=stored_fields(view.policy.spec),
        cause=cause_of(meta.annotations),
        problem=content.problem,
        references=references,
        holdings=_holdings(view, strategy, contents, now),
        unreadable=view.unread,
        conditions=status.conditions,
        reported=status.rollout,
        revisions=_hashed_anew(view) if ABORTED in meta.annotations else view.revisions,
        revision_labels={HASH_LABEL: content.revision, POLICY_LABEL: replica_name(view.key)},
        default_concurrency=CONCURRENCY,
        outcomes=view.outcomes,
        stale=frozenset(each.cluster for each in view.replicas.values() if each.uid in view.stale),
        unbound=view.unbound,
        leaving=view.leaving,
        spared=view.spared,
        max_removals=view.max_removals,
    )
    if not strategy.in_turn:
        return subject
    other = {**view.outcomes.other, **_not_recalled(view, content)}
    subject = replace(subject, outcomes=replace(view.outcomes, content=_failed(view, content), other=other))
    return replace(subject, hold=_hold(subject, view, strategy))


def references_of(view: PolicyView, strategy: PolicyStrategy) -> tuple[PlacementReference, ...]:
    """Return where the policy goes: all placements as one, because it has one strategy for all of them."""
    references = [replace(each, strategy=strategy.strategy) for each in placing(view.ways, view.placements)]
    existing = [each for each in references if each.placement is not None]
    if strategy.in_turn or not existing:  # where there is an order, nobody can know who would come first
        existing = references
    if not existing:
        return ()
    joined = existing[0] if len(existing) == 1 else join_placements(existing, _mandatory(strategy))
    notes = [joined.note] + [f"there is no placement {each.name}" for each in references if each not in existing]
    if len(existing) < len(references) and joined.placement is not None:
        # It may only be mistyped: while it is missing nothing is certain enough to be taken away.
        joined = replace(joined, placement=replace(joined.placement, settled=False))
    if strategy.asked_in_turn and any(way.override or way.restricted for way in view.ways):
        notes.append(OVERRIDES_IGNORED)
    return (replace(joined, note="; ".join(filter(None, notes))),)


def _mandatory(strategy: PolicyStrategy) -> tuple[GroupKey, ...]:
    """Return the groups that come first, whichever placement they are of."""
    asked = strategy.strategy
    if asked.type != StrategyType.PROGRESSIVE.value or asked.progressive is None:
        return ()
    return mandatory_keys(asked.progressive.mandatory_decision_groups)


def is_waiting(replica: Replica, content: PolicyContent) -> bool:
    """Whether a replica has a content to be looked at only."""
    return replica.digest == content.digest(INFORM)


def is_ready(replica: Replica, view: PolicyView) -> bool:
    """Whether a replica that waits says so to everybody, as far as that can be said there."""
    return replica.stored == _WAITS or replica.is_of_another_agent or not view.keeps_status


def first_pass(subject: Subject, view: PolicyView) -> list[str]:
    """Return the clusters that have yet to get what they are to look at first. Who could not be given it is a failure,
    and waited for like one."""
    selected = {
        cluster for ref in subject.references if ref.placement is not None for cluster in ref.placement.groups.clusters
    }
    failed = {each for each, one in subject.outcomes.content.items() if one.revision == subject.revision}
    barred = view.unbound | view.leaving | failed | view.unread.keys()
    pending, waiting = [], view.content.digest(INFORM)
    for cluster in selected - barred:
        replica = view.replicas.get(cluster)
        if replica is not None and subject.holdings[cluster].revision == subject.revision:
            continue
        if replica is None or not (replica.digest == waiting and is_ready(replica, view)):
            pending.append(cluster)
    return sorted(pending)


def content_of(view: PolicyView, rollout: Rollout) -> PolicyContent:
    """Return what replicas are to hold: the policy's content, or that of the revision that an abort puts back."""
    return view.content if rollout.rollback_to is None else stored_content(view, rollout.rollback_to)


def _holdings(view: PolicyView, strategy: PolicyStrategy, contents: Contents, now: datetime) -> dict[str, Holding]:
    record, soak = SuccessTimes.of(view.policy.status), _soak(view, strategy)
    waiting = {each.digest(INFORM) for each in contents.by_revision.values()} if strategy.in_turn else set[str]()
    found: dict[str, Holding] = {}
    for cluster, replica in view.replicas.items():
        digest = replica.digest
        revision = contents.revision(replica) if contents.overrides else digest
        if replica.terminating is not None:
            before = status_of_released(replica, record, soak, now)
            status = ClusterStatus(cluster, Phase.PROGRESSING, replica.terminating)
            found[cluster] = Holding(
                cluster=cluster, revision=revision, status=status, terminating=True, before_removal=before
            )
            continue
        if strategy.in_turn and replica.held:
            revision = ""  # if it is in force, somebody has edited it before its turn
        in_force = revision in contents.by_revision and replica.digest not in waiting
        status = status_of_released(replica, record, soak, now) if in_force else ClusterStatus(cluster, _TO_APPLY)
        found[cluster] = Holding(
            cluster=cluster,
            revision="" if replica.digest in waiting else revision,
            status=status,
            reason=replica.compliant or Wait.REPORT.value,
            message=replica.message,
            written=replica.written,
        )
    return found


def _failed(view: PolicyView, content: PolicyContent) -> Mapping[str, FailedWrite]:
    """Return the clusters that could not be given the content, or could not be told that they have to wait.

    Those that have got it to look at have not failed to get that, also if nobody heard that they did; their release may
    fail, later. Who could not be told is a failure for as long as that is so.
    """
    found = dict(view.outcomes.content)
    if not found and not view.outcomes.other:
        return found
    for cluster, replica in view.replicas.items():
        if not is_waiting(replica, content):
            continue
        failed, written = found.get(cluster), replica.written
        if failed is not None and (failed.held or (written is not None and failed.since < written)):
            del found[cluster]
        if cluster in view.outcomes.other and not is_ready(replica, view) and written is not None:
            found[cluster] = FailedWrite(content.revision, written, False, view.outcomes.other[cluster], held=True)
    return found


def _not_recalled(view: PolicyView, content: PolicyContent) -> dict[str, str]:
    """Return the clusters that have the content in force, and that an abort could not hold again, and why.

    They have not failed to get it, so no budget counts them; but they are tried again like everybody, and told of.
    """
    if ABORTED not in view.policy.metadata.annotations:
        return {}
    released = content.digest(content.action)
    return {
        cluster: failed.message
        for cluster, failed in view.outcomes.content.items()
        if failed.held
        and failed.revision == content.revision
        and (replica := view.replicas.get(cluster)) is not None
        and replica.digest == released
    }


def _hold(subject: Subject, view: PolicyView, strategy: PolicyStrategy) -> Hold | None:
    if strategy.held:
        return Hold(Wait.HELD, strategy.held)
    pending = first_pass(subject, view)
    if not pending:
        return None
    count = f"{len(pending)} clusters have" if len(pending) > 1 else f"{pending[0]} has"
    return Hold(Wait.INSPECTION, f"{count} yet to get the policy as inform; nobody is enforced before that")


def _soak(view: PolicyView, strategy: PolicyStrategy) -> Soak:
    promoted = parse_time(view.policy.metadata.annotations.get(PROMOTED))
    try:
        return Soak(read_strategy(strategy.strategy).soak, promoted)
    except BadStrategy:  # which the conditions tell; nothing starts
        return Soak()


def _hashed_anew(view: PolicyView) -> tuple[StoredRevision, ...]:
    """Return the revisions with the hashes that their contents have now; policy sets may have changed since."""
    return tuple(
        replace(each, revision=stored_content(view, each).revision) if each.content is not None else each
        for each in view.revisions
    )
