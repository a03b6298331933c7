"""What a work set tells about itself: conditions, counts, and every cluster that needs a look.

Three conditions and the counts are upstream's, word by word, because consumers compare them; but nothing is called
complete that is not certain, and no report counts that is about older content. What upstream hides is in two conditions
more and in `status.rollout`: what holds the rollout up, who timed out, and where each cluster stands.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition
from echelon.api.work_set import ManifestWorkReplicaSetSummary, PlacementSummary
from echelon.engine.plan import Patch
from echelon.engine.rollout.allocation import NOT_AS_EXPECTED
from echelon.engine.rollout.bookkeeping import patch_of
from echelon.engine.rollout.conditions import (
    AS_EXPECTED,
    EMPTY,
    ROLLED_OUT,
    ConditionDraft,
    conditions_of,
    merge_conditions,
    status_changed,
)
from echelon.engine.rollout.listing import summary_of
from echelon.engine.rollout.state import ReferenceRollout, Rollout
from echelon.engine.rollout.subject import Subject
from echelon.engine.work_set.view import WorkSet, WorkView

APPLIED = "ManifestworkApplied"


def unlabelled(subject: Subject, message: str, now: datetime) -> Patch | None:
    """Return the status of a set whose works could not be found again."""
    return _only(subject, [ConditionDraft(APPLIED, False, "InvalidManifestWorkName", message)], now)


def invalid(subject: Subject, message: str, now: datetime) -> Patch | None:
    """Return the status of a set with a template that no cluster could take."""
    drafts = [
        ConditionDraft(ROLLED_OUT, False, "Progressing", message),
        ConditionDraft(APPLIED, False, NOT_AS_EXPECTED, message),
    ]
    return _only(subject, drafts, now)


def status_of(
    work_set: WorkSet, works: Mapping[str, WorkView], rollout: Rollout, now: datetime, *, brief: bool = False
) -> Patch | None:
    """Return the write of what is different in a status. With `brief`, nothing unless a condition changes."""
    before = work_set.status
    counts = [_count(ref, works, rollout) for ref in rollout.references]
    total = _sum(counts)
    verified, rolled_out, *others = conditions_of(rollout)
    drafts = [verified, rolled_out, _applied(verified, total), *others]
    conditions = merge_conditions(before.conditions, drafts, work_set.metadata.generation, now)
    if brief and not status_changed(before.conditions, conditions):
        return None
    summaries = [
        _placement_summary(ref, _sum((own, _count(also, works, rollout))) if also.cluster_decisions else own)
        for ref, own, also in zip(rollout.references, counts, _shared(rollout), strict=True)
    ]
    progress = summary_of(rollout, now)
    changed: JSONObject = {}
    if conditions != before.conditions:
        changed["conditions"] = _wire(conditions)
    # Numbers that are all zero are told once, too.
    if total != before.summary or not before.placement_summary:
        changed["summary"] = _wire(total)
    if summaries != before.placement_summary:
        changed["placementSummary"] = _wire(summaries)
    if progress != before.rollout:
        changed["rollout"] = {"clusters": [], **_wire(progress)}
    return patch_of(rollout.subject, {"status": changed}, "status") if changed else None


def _applied(verified: ConditionDraft, total: ManifestWorkReplicaSetSummary) -> ConditionDraft:
    if total.total == 0:
        reason = EMPTY if verified.reason == EMPTY else NOT_AS_EXPECTED
        return ConditionDraft(APPLIED, False, reason, verified.message)
    if total.available == total.total and not total.progressing and not total.degraded:
        return ConditionDraft(APPLIED, True, AS_EXPECTED)
    if total.progressing and not total.degraded:
        message = f"{total.progressing} of {total.total} works are progressing"
        return ConditionDraft(APPLIED, False, "Processing", message)
    missing = total.total - total.available
    message = f"{missing} of {total.total} works are not available, {total.degraded} are degraded"
    return ConditionDraft(APPLIED, False, NOT_AS_EXPECTED, message)


def _count(ref: ReferenceRollout, works: Mapping[str, WorkView], rollout: Rollout) -> ManifestWorkReplicaSetSummary:
    """Count the works that have, or get now, what they should have, and what is reported of just that."""
    current, present = rollout.revision, rollout.subject.revision
    placement = ref.allocation.reference.placement
    unwanted = ref.allocation.undecided if placement is None or placement.settled else ()
    total = applied = available = progressing = degraded = updated = 0
    for entry in ref.cluster_decisions:
        work = works.get(entry.cluster)
        if entry.starts:
            total += 1
            updated += present == current
        elif work is not None and not work.terminating:
            updated += work.revision == present
            if work.revision == current:
                total += 1
                said = work.progress
                applied += said.applied
                available += said.available
                progressing += said.progressing
                degraded += said.degraded
    return ManifestWorkReplicaSetSummary(
        total=total,
        progressing=progressing,
        available=available,
        degraded=degraded,
        applied=applied,
        desired_total=sum(one.cluster not in unwanted for one in ref.cluster_decisions),
        updated=updated,
    )


def _shared(rollout: Rollout) -> list[ReferenceRollout]:
    """Return for each reference the clusters that it selects, too, and that have their work through another one."""
    refs = rollout.references
    if len(refs) == 1:
        return [ReferenceRollout(refs[0].allocation, None, ())]
    owned = {one.cluster: (number, one) for number, ref in enumerate(refs) for one in ref.cluster_decisions}
    found = []
    for number, ref in enumerate(refs):
        placement = ref.allocation.reference.placement
        selected = placement.groups.clusters if placement is not None else ()
        others = [owned[each] for each in sorted(selected) if each in owned]
        shared = tuple(one for owner, one in others if owner != number)
        found.append(ReferenceRollout(ref.allocation, None, shared))
    return found


def _sum(counts: Iterable[ManifestWorkReplicaSetSummary]) -> ManifestWorkReplicaSetSummary:
    fields = ManifestWorkReplicaSetSummary.__struct_fields__
    counts = list(counts)
    return ManifestWorkReplicaSetSummary(**{name: sum(getattr(each, name) for each in counts) for name in fields})


def _placement_summary(ref: ReferenceRollout, count: ManifestWorkReplicaSetSummary) -> PlacementSummary:
    placement = ref.allocation.reference.placement
    groups, selected = (len(placement.groups.groups), placement.selected) if placement is not None else (0, 0)
    text = f"{groups} ({count.total} / {selected} clusters applied)"
    return PlacementSummary(name=ref.name, available_decision_groups=text, summary=count)


def _only(subject: Subject, drafts: Sequence[ConditionDraft], now: datetime) -> Patch | None:
    before = list(subject.conditions)
    after: list[Condition] = merge_conditions(before, drafts, subject.metadata.generation, now)
    return patch_of(subject, {"status": {"conditions": _wire(after)}}, "status") if after != before else None


def _wire(value: object) -> JSONObject:
    wire: JSONObject = msgspec.to_builtins(value)
    return wire
