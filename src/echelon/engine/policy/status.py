"""What a policy tells about itself: its ways, each of its clusters, how compliant they are, how far the rollout is.

A cluster is listed if it has a replica, and for no other reason. The list is what the hub remembers of each cluster,
too, so it is kept as long as a server takes it; beyond that, those that are settled are only counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy import ClusterCompliance, PolicyPlacement, PolicyStatus
from echelon.api.times import format_micro_time
from echelon.engine.conditions import find_condition
from echelon.engine.plan import Patch
from echelon.engine.policy.bindings import told_placements
from echelon.engine.policy.cluster_list import clusters_of
from echelon.engine.policy.kept_status import annotation_of, upstream_part
from echelon.engine.policy.record import ABRIDGED
from echelon.engine.policy.view import PolicyView
from echelon.engine.rollout.annotations import STATUS_ANNOTATION
from echelon.engine.rollout.bookkeeping import patch_of
from echelon.engine.rollout.conditions import (
    ROLLED_OUT,
    VERIFIED,
    ConditionDraft,
    conditions_of,
    merge_conditions,
    status_changed,
)
from echelon.engine.rollout.listing import summary_of
from echelon.engine.rollout.model import Phase, Wait
from echelon.engine.rollout.reasons import names
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.strategy import StrategyType
from echelon.engine.rollout.subject import Subject

_OPEN = frozenset((Phase.TO_APPLY, Phase.PROGRESSING))
_FAILED = frozenset((Phase.FAILED, Phase.TIMED_OUT))


@dataclass(frozen=True)
class StatusWrites:
    """The writes of a status: of the policy's own, and of an annotation where that has no room for all of it."""

    status: Patch | None = None
    annotation: Patch | None = None

    @property
    def any(self) -> bool:
        """Whether something is told."""
        return self.status is not None or self.annotation is not None


def refused_status(view: PolicyView, subject: Subject, reason: str, message: str, now: datetime) -> StatusWrites:
    """Return the status of a policy that cannot be rolled out."""
    drafts = [ConditionDraft(VERIFIED, False, reason, message), ConditionDraft(ROLLED_OUT, False, reason, message)]
    before = view.policy.status
    conditions = merge_conditions(before.conditions, drafts, subject.metadata.generation, now)
    return _writes(view, subject, before, msgspec.structs.replace(before, conditions=conditions))


def disabled_status(view: PolicyView, subject: Subject, now: datetime) -> StatusWrites:
    """Return the status of a policy that is on no cluster because nobody wants it there, or only where it cannot go."""
    refused = {cluster: why for cluster, why in view.outcomes.other.items() if cluster in view.replicas}
    message = "spec.disabled is true"
    if refused:
        message += f"; the replicas of {names(sorted(refused))} are not removed: {refused[min(refused)]}"
    drafts = [ConditionDraft(each, False, "Disabled", message) for each in (VERIFIED, ROLLED_OUT)]
    before = view.policy.status
    conditions = merge_conditions(before.conditions, drafts, view.policy.metadata.generation, now)
    left = [
        ClusterCompliance(clustername=cluster, clusternamespace=cluster, compliant=each.compliant)
        for cluster, each in sorted(view.replicas.items())
        if cluster in refused or each.terminating is not None
    ]
    after = PolicyStatus(placement=_placements(view), status=left, conditions=conditions)
    return _writes(view, subject, before, after)


def status_of(
    view: PolicyView, rollout: Rollout, written: Mapping[str, Phase], now: datetime, *, brief: bool = False
) -> StatusWrites:
    """Return the write of what is different in a status. With `brief`, nothing unless the rollout turns over.

    `written` are the clusters that get content with this plan, and where they stand then.
    """
    before, generation = view.policy.status, view.policy.metadata.generation
    drafts, state = conditions_of(rollout), rollout_state(rollout, written)
    conditions = merge_conditions(before.conditions, drafts, generation, now)
    if brief and state == before.rollout_status and not status_changed(before.conditions, conditions):
        return StatusWrites()
    listed, abridged = clusters_of(view, rollout, written, now)
    if abridged or find_condition(before.conditions, ABRIDGED) is not None:
        draft = ConditionDraft(ABRIDGED, bool(abridged), "TooManyClusters" if abridged else "Complete", abridged)
        conditions = merge_conditions(conditions, [draft], generation, now)
    changed_at = before.rollout_last_transition_time if state == before.rollout_status else format_micro_time(now)
    after = PolicyStatus(
        compliant=compliance_of(_states(view, written)),
        rollout_status=state,
        rollout_last_transition_time=changed_at if state else "",
        placement=_placements(view),
        status=listed,
        conditions=conditions,
        rollout=summary_of(rollout, now),
    )
    return _writes(view, rollout.subject, before, after)


def _states(view: PolicyView, written: Mapping[str, Phase]) -> set[str]:
    """Return the states that the policy has on clusters; none on one that gets it now."""
    new = {""} if written.keys() - view.replicas.keys() else set[str]()
    return new | {each.compliant for each in view.replicas.values()}


def compliance_of(states: set[str]) -> str:
    """Return the state of a policy by those that it has on its clusters: the worst, and none before all have one."""
    if not states:
        return ""
    for worst in ("NonCompliant", "Pending"):
        if worst in states:
            return worst
    return "Compliant" if states == {"Compliant"} else ""


def rollout_state(rollout: Rollout, written: Mapping[str, Phase]) -> str:
    """Return the one word for a rollout.

    What was given up has failed, wherever its clusters are. A cluster that timed out is a failure here, and told by its
    own name below.
    """
    if not rollout.has_clusters:
        return ""
    decisions = [each.decision for each in rollout.references if each.decision is not None]
    stopped = any(each.blocked is Wait.BREACH for each in decisions) and not rollout.complete
    if rollout.control.aborted or stopped or any(each.breach for each in decisions):
        return Phase.FAILED.value
    entries = list(rollout.cluster_decisions)
    soaking = any(each.phase is Phase.SUCCEEDED and each.in_flight for each in entries)
    if soaking or any(written.get(each.cluster, each.phase) in _OPEN for each in entries):
        return Phase.PROGRESSING.value
    strategies = [each.allocation.strategy for each in rollout.references]
    everywhere = all(each is None or each.type is StrategyType.ALL for each in strategies)
    if everywhere and any(each.phase in _FAILED for each in entries):
        return Phase.FAILED.value
    return Phase.SUCCEEDED.value


def _placements(view: PolicyView) -> list[PolicyPlacement]:
    existing = [name for name, ref in view.placements.items() if ref.placement is not None]
    return told_placements(view.ways, view.selected, existing)


def _writes(view: PolicyView, subject: Subject, before: PolicyStatus, after: PolicyStatus) -> StatusWrites:
    """Return the writes of what is different; what is empty now goes."""
    if view.keeps_status:
        changed = {
            each.encode_name: msgspec.to_builtins(getattr(after, each.name)) or None
            for each in msgspec.structs.fields(PolicyStatus)
            if getattr(before, each.name) != getattr(after, each.name)
        }
        if (rollout := changed.get("rollout")) is not None:
            changed["rollout"] = {"clusters": [], **rollout}
        return StatusWrites(_patch(subject, changed))
    told, known = annotation_of(after), subject.metadata.annotations.get(STATUS_ANNOTATION)
    body: JSONObject = {"metadata": {"annotations": {STATUS_ANNOTATION: told}}}
    old, new = upstream_part(before), upstream_part(after)
    changed = {name: new.get(name) for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return StatusWrites(_patch(subject, changed), patch_of(subject, body) if told != known else None)


def _patch(subject: Subject, changed: JSONObject) -> Patch | None:
    return patch_of(subject, {"status": changed}, "status") if changed else None
