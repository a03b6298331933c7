"""What a work set tells about itself: conditions, counts, and every cluster that needs a look.

Three conditions and the counts are upstream's, word by word, because consumers compare them; but nothing is called
complete that is not certain, and no report counts that is about older content. What upstream hides is in two
conditions more and in `status.rollout`: what holds the rollout up, who timed out, and where each cluster stands. That
list is as long as an object can bear, so those come first that somebody has to care about.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.api.work_set import (
    MANIFEST_WORK_REPLICA_SET,
    MAX_LISTED_CLUSTERS,
    ClusterRollout,
    ManifestWorkReplicaSetSummary,
    PlacementSummary,
    RolloutSummary,
)
from echelon.engine.plan import Patch
from echelon.engine.rollout.model import Phase, Standing, Wait
from echelon.engine.work_set.conditions import APPLIED, NOT_BOUND, ROLLED_OUT, Said, conditions_of, merged, turned_over
from echelon.engine.work_set.leaving import staying
from echelon.engine.work_set.rollout import RefRollout, Rollout
from echelon.engine.work_set.view import WorkSet, WorkSetView

DEADLINE = "ProgressDeadlineExceeded"
_MESSAGE = 1024
_WORST_FIRST = ("timed out", "failed", "progressing", "soaking", "waiting", "done", "skipped")
_PLACE = {Phase.TIMED_OUT: 0, Phase.FAILED: 1, Phase.PROGRESSING: 2, Phase.TO_APPLY: 4, Phase.SUCCEEDED: 5}


def unlabelled(work_set: WorkSet, message: str, now: datetime) -> Patch | None:
    """Return the status of a set whose works could not be found again."""
    return _only(work_set, [Said(APPLIED, False, "InvalidManifestWorkName", message)], now)


def invalid(work_set: WorkSet, message: str, now: datetime) -> Patch | None:
    """Return the status of a set with a template that no cluster could take."""
    said = [Said(ROLLED_OUT, False, "Progressing", message), Said(APPLIED, False, "NotAsExpected", message)]
    return _only(work_set, said, now)


def status_of(view: WorkSetView, rollout: Rollout, now: datetime, *, brief: bool = False) -> Patch | None:
    """Return the write of what is different in a status. With `brief`, nothing unless a condition turns over."""
    work_set, before = view.work_set, view.work_set.status
    counts = [_count(ref, rollout, view.content.digest) for ref in rollout.refs]
    total = _sum(counts)
    shared = _shared(rollout)
    generation = work_set.metadata.generation
    conditions = merged(before.conditions, conditions_of(view, rollout, total), generation, now)
    if brief and not turned_over(before.conditions, conditions):
        return None
    summaries = [
        _placement_summary(ref, _sum((own, _count(also, rollout, view.content.digest))) if also.standings else own)
        for ref, own, also in zip(rollout.refs, counts, shared, strict=True)
    ]
    progress = _progress(rollout, now)
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
    return _patch(work_set, changed) if changed else None


def _count(ref: RefRollout, rollout: Rollout, present: str) -> ManifestWorkReplicaSetSummary:
    """Count the works that have, or get now, what they should have, and what is reported of just that."""
    works, current = rollout.works, rollout.content.digest
    placement = ref.share.ref.placement
    unwanted = ref.share.lingering if placement is None or placement.settled else ()
    total = applied = available = progressing = degraded = updated = 0
    for standing in ref.standings:
        work = works.get(standing.cluster)
        if standing.starts:
            total += 1
            updated += present == current
        elif work is not None and not work.terminating:
            updated += work.digest == present
            if work.digest == current:
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
        desired_total=sum(one.cluster not in unwanted for one in ref.standings),
        updated=updated,
    )


def _shared(rollout: Rollout) -> list[RefRollout]:
    """Return for each reference the clusters that it selects, too, and that have their work through another one."""
    refs = rollout.refs
    if len(refs) == 1:
        return [RefRollout(refs[0].share, None, ())]
    owned = {one.cluster: (number, one) for number, ref in enumerate(refs) for one in ref.standings}
    found = []
    for number, ref in enumerate(refs):
        selected = ref.share.ref.placement.groups.clusters if ref.share.ref.placement is not None else ()
        others = [owned[each] for each in sorted(selected) if each in owned]
        found.append(RefRollout(ref.share, None, tuple(one for owner, one in others if owner != number)))
    return found


def _sum(counts: Iterable[ManifestWorkReplicaSetSummary]) -> ManifestWorkReplicaSetSummary:
    fields = ManifestWorkReplicaSetSummary.__struct_fields__
    counts = list(counts)
    return ManifestWorkReplicaSetSummary(**{name: sum(getattr(each, name) for each in counts) for name in fields})


def _placement_summary(ref: RefRollout, count: ManifestWorkReplicaSetSummary) -> PlacementSummary:
    placement = ref.share.ref.placement
    groups, selected = (len(placement.groups.groups), placement.selected) if placement is not None else (0, 0)
    text = f"{groups} ({count.total} / {selected} clusters applied)"
    return PlacementSummary(name=ref.share.ref.name, available_decision_groups=text, summary=count)


def _progress(rollout: Rollout, now: datetime) -> RolloutSummary:
    """Tell where the clusters stand, the worst first."""
    lines: list[list[tuple[RefRollout, Standing]]] = [[] for _ in _WORST_FIRST]
    counted: Counter[Phase] = Counter()
    for ref in rollout.refs:
        for standing in ref.standings:
            phase = Phase.PROGRESSING if standing.starts else standing.phase
            counted[phase] += 1
            place = 4 if standing.cluster in rollout.strangers else _PLACE.get(phase, 6)
            lines[3 if place == 5 and standing.wait is Wait.SOAK else place].append((ref, standing))
    worst = islice((each for line in lines for each in line), MAX_LISTED_CLUSTERS)
    return RolloutSummary(
        to_apply=counted[Phase.TO_APPLY],
        progressing=counted[Phase.PROGRESSING],
        succeeded=counted[Phase.SUCCEEDED],
        failed=counted[Phase.FAILED],
        timed_out=counted[Phase.TIMED_OUT],
        skipped=counted[Phase.SKIPPED],
        clusters=[_entry(rollout, ref, standing, now) for ref, standing in worst],
    )


def _entry(rollout: Rollout, ref: RefRollout, standing: Standing, now: datetime) -> ClusterRollout:
    since = now if standing.starts else standing.since if standing.phase is not Phase.TO_APPLY else None
    reason, message = _why(rollout, ref, standing)
    return ClusterRollout(
        cluster=standing.cluster,
        placement=ref.share.ref.name,
        group=standing.group.name,
        group_index=standing.group.index,
        status=(Phase.PROGRESSING if standing.starts else standing.phase).value,
        reason=reason[:_MESSAGE],
        message=message[:_MESSAGE],
        last_transition_time=format_time(since) if since is not None else "",
    )


def _why(rollout: Rollout, ref: RefRollout, standing: Standing) -> tuple[str, str]:
    """Say why a cluster is where it is. No text has an age in it, which would be another one at every look."""
    reason, message = _own_reason(rollout, ref, standing)
    if standing.cluster in ref.share.lingering:
        stay, text = staying(rollout.sharing.removal, standing.cluster)
        return reason if standing.failed else stay or reason, "; ".join(filter(None, (text, message)))
    if standing.phase is Phase.SKIPPED and standing.cluster in rollout.strangers:
        return NOT_BOUND, "it is in no cluster set that is bound to the namespace"
    return reason, message


def _own_reason(rollout: Rollout, ref: RefRollout, standing: Standing) -> tuple[str, str]:
    if standing.starts:
        return Wait.REPORT.value, "it was written, and the agent has not reported on it yet"
    if standing.phase is Phase.TO_APPLY:
        trouble = ref.share.trouble
        return (trouble.reason, trouble.message) if trouble else (standing.wait.value, standing.message)
    until = format_time(standing.until) if standing.until is not None else ""
    if standing.wait is Wait.SOAK:
        return Wait.SOAK.value, f"soaks until {until}"
    work = rollout.works.get(standing.cluster)
    failed = rollout.failed_writes.get(standing.cluster)
    if failed is not None:
        reason, message = failed.reason, failed.message
    else:
        reason, message = (work.progress.reason, work.progress.message) if work is not None else ("", "")
    if standing.phase is not Phase.TIMED_OUT:
        return reason, message
    return DEADLINE, ": ".join(filter(None, (f"its deadline was {until}", message)))


def _only(work_set: WorkSet, said: Sequence[Said], now: datetime) -> Patch | None:
    before = work_set.status.conditions
    after: list[Condition] = merged(before, said, work_set.metadata.generation, now)
    return _patch(work_set, {"conditions": _wire(after)}) if after != before else None


def _patch(work_set: WorkSet, changed: JSONObject) -> Patch:
    meta = work_set.metadata
    return Patch(
        MANIFEST_WORK_REPLICA_SET,
        meta.name,
        {"status": changed},
        meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        subresource="status",
    )


def _wire(value: object) -> JSONObject:
    wire: JSONObject = msgspec.to_builtins(value)
    return wire
