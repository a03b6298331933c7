"""What a policy tells about itself: its ways, each of its clusters, how compliant they are, how far the rollout is.

A cluster is listed if it has a replica, and for no other reason. The list is what the hub remembers of each cluster,
too, so it is kept as long as a server takes it; beyond that, those that are settled are only counted.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.policy import ClusterCompliance, PolicyPlacement, PolicyStatus, RemainingBinding
from echelon.api.times import format_micro_time, parse_time
from echelon.engine.conditions import find_condition
from echelon.engine.plan import Patch
from echelon.engine.policy.bindings import remaining_bindings, told_placements
from echelon.engine.policy.record import ABRIDGED
from echelon.engine.policy.replica import Replica
from echelon.engine.policy.view import PolicyView
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
from echelon.engine.rollout.model import ClusterDecision, Phase, Wait
from echelon.engine.rollout.reasons import names
from echelon.engine.rollout.state import Rollout
from echelon.engine.rollout.strategy import StrategyType
from echelon.engine.rollout.subject import Subject

MOST_BYTES = 900_000  # of the list of clusters; a server takes about 1.5 MiB in all
_OPEN = frozenset((Phase.TO_APPLY, Phase.PROGRESSING))
_FAILED = frozenset((Phase.FAILED, Phase.TIMED_OUT))
_DONE = frozenset((Phase.SUCCEEDED, Phase.SKIPPED))


def refused_status(subject: Subject, reason: str, message: str, now: datetime) -> Patch | None:
    """Return the status of a policy that cannot be rolled out."""
    drafts = [ConditionDraft(VERIFIED, False, reason, message), ConditionDraft(ROLLED_OUT, False, reason, message)]
    before = list(subject.conditions)
    after = merge_conditions(before, drafts, subject.metadata.generation, now)
    return patch_of(subject, {"status": {"conditions": _wire(after)}}, "status") if after != before else None


def disabled_status(view: PolicyView, subject: Subject, now: datetime) -> Patch | None:
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
    return _patch(view, subject, before, after)


def status_of(
    view: PolicyView, rollout: Rollout, written: Mapping[str, Phase], now: datetime, *, brief: bool = False
) -> Patch | None:
    """Return the write of what is different in a status. With `brief`, nothing unless the rollout turns over.

    `written` are the clusters that get content with this plan, and where they stand then.
    """
    before = view.policy.status
    clusters = _clusters(view, rollout, written, now)
    settled = {each.cluster for each in rollout.cluster_decisions if each.phase in _DONE and not each.in_flight}
    listed, abridged = fitting(clusters, settled - written.keys())
    drafts = conditions_of(rollout)
    if abridged or find_condition(before.conditions, ABRIDGED) is not None:
        drafts.append(ConditionDraft(ABRIDGED, bool(abridged), "TooManyClusters" if abridged else "Complete", abridged))
    conditions = merge_conditions(before.conditions, drafts, view.policy.metadata.generation, now)
    state = rollout_state(rollout, written)
    if brief and state == before.rollout_status and not status_changed(before.conditions, conditions):
        return None
    changed_at = before.rollout_last_transition_time if state == before.rollout_status else format_micro_time(now)
    after = PolicyStatus(
        compliant=compliance_of(clusters),
        rollout_status=state,
        rollout_last_transition_time=changed_at if state else "",
        placement=_placements(view),
        status=listed,
        conditions=conditions,
        rollout=summary_of(rollout, now),
    )
    return _patch(view, rollout.subject, before, after)


def compliance_of(clusters: Iterable[ClusterCompliance]) -> str:
    """Return the state of a policy: the worst of its clusters, and none before all have one."""
    states = {each.compliant for each in clusters}
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


def _clusters(
    view: PolicyView, rollout: Rollout, written: Mapping[str, Phase], now: datetime
) -> list[ClusterCompliance]:
    """Return every cluster that has a replica, or gets one now."""
    decided = {each.cluster: each for each in rollout.cluster_decisions}
    before = {each.clustername: each for each in view.policy.status.status}
    remaining = remaining_bindings(view.ways, view.selected)
    found = []
    for cluster in sorted(view.replicas.keys() | written.keys()):
        replica, entry = view.replicas.get(cluster), decided.get(cluster)
        phase = written.get(cluster) or (entry.phase if entry is not None else None)
        status = phase.value if phase is not None else ""
        found.append(
            ClusterCompliance(
                clustername=cluster,
                clusternamespace=cluster,
                compliant=replica.compliant if replica is not None else "",
                rollout_status=status,
                rollout_last_transition_time=_since(before.get(cluster), status, entry, replica, now),
                remaining_bindings=[RemainingBinding(placement_binding=each) for each in remaining.get(cluster, ())],
            )
        )
    return found


def _since(
    before: ClusterCompliance | None,
    status: str,
    entry: ClusterDecision | None,
    replica: Replica | None,
    now: datetime,
) -> str:
    """Return since when a cluster stands where it does, by our own clock."""
    if not status:
        return ""
    if status == Phase.SUCCEEDED.value and entry is not None and entry.since is not None:
        return format_micro_time(entry.since)
    known = parse_time(before.rollout_last_transition_time) if before and before.rollout_status == status else None
    is_old = known is not None and replica is not None and replica.written is not None and known < replica.written
    return format_micro_time(now if known is None or is_old else known)


def fitting(clusters: list[ClusterCompliance], settled: Collection[str]) -> tuple[list[ClusterCompliance], str]:
    """Return as much of a list as a server takes, and what was left out of it.

    Those that are settled lose their times first, then those that wait for their turn, who are known by what they have;
    then they lose their place. The others are what somebody has to look at, and the hub has to remember.
    """
    if _fits(clusters):
        return clusters, ""
    shorter = [_untimed(each) if each.clustername in settled else each for each in clusters]
    if _fits(shorter):
        return shorter, "the list of clusters is long: those that have succeeded are listed without times"
    shorter = [_untimed(each) if each.rollout_status == Phase.TO_APPLY.value else each for each in shorter]
    if _fits(shorter):
        return shorter, "the list of clusters is long: those that have succeeded or wait are listed without times"
    kept = [each for each in shorter if each.clustername not in settled]
    if not _fits(kept):
        kept = [each for each in kept if each.rollout_status != Phase.TO_APPLY.value]
    while not _fits(kept):
        kept = kept[: len(kept) * 3 // 4]
    count = len(clusters) - len(kept)
    return kept, f"the list of clusters is too long: {count} of {len(clusters)} are only counted, in status.rollout"


def _fits(clusters: Iterable[ClusterCompliance]) -> bool:
    return sum(map(_size, clusters)) <= MOST_BYTES


def _untimed(entry: ClusterCompliance) -> ClusterCompliance:
    return msgspec.structs.replace(entry, rollout_last_transition_time="")


def _size(entry: ClusterCompliance) -> int:
    """Return about how many bytes an entry takes."""
    bindings = sum(len(each.placement_binding) + 24 for each in entry.remaining_bindings)
    time = 62 if entry.rollout_last_transition_time else 0
    return 2 * len(entry.clustername) + len(entry.compliant) + len(entry.rollout_status) + 80 + time + bindings


def _placements(view: PolicyView) -> list[PolicyPlacement]:
    existing = [name for name, ref in view.placements.items() if ref.placement is not None]
    return told_placements(view.ways, view.selected, existing)


def _patch(view: PolicyView, subject: Subject, before: PolicyStatus, after: PolicyStatus) -> Patch | None:
    """Return the write of the fields that are different; those that are empty now go."""
    old, new = _wire(before), _wire(after)
    changed = {name: new.get(name) for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    if not view.keeps_status:
        changed = {name: each for name, each in changed.items() if name in ("compliant", "placement", "status")}
    if "rollout" in changed and changed["rollout"] is not None:
        changed["rollout"] = {"clusters": [], **changed["rollout"]}
    return patch_of(subject, {"status": changed}, "status") if changed else None


def _wire(value: object) -> JSONObject:
    wire: JSONObject = msgspec.to_builtins(value)
    return wire
