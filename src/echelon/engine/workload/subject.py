"""A binding as the subject of a rollout: the push that a cluster was granted last is what the cluster holds.

Which clusters may have the present template is the walker's to say, as for every rollout; how fast each of them gets
there is what `align` decides.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import msgspec

from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.rollout import RolloutStrategy
from echelon.api.times import parse_time
from echelon.engine.align import BudgetWait, Round
from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import ClusterStatus, Hold, Phase, Wait
from echelon.engine.rollout.references import PlacementReference, PlacementView
from echelon.engine.rollout.stored_revision import cause_of
from echelon.engine.rollout.strategy import StrategyType
from echelon.engine.rollout.subject import Holding, Subject
from echelon.engine.work.health_state import part, text
from echelon.engine.workload.alignment import Alignment
from echelon.engine.workload.names import BINDING_LABEL, HASH_LABEL, TEMPLATE_UID_LABEL
from echelon.engine.workload.status import with_cause
from echelon.engine.workload.templates import Templates, content_of
from echelon.engine.workload.view import WorkloadView
from echelon.engine.workload.works import WorkView

NOUN = "work"
ALL_AT_ONCE = RolloutStrategy(type=StrategyType.ALL.value)
# A cluster that waits for others is not late.
_WAITS_FOR_OTHERS = frozenset(
    (BudgetWait.BUDGET, BudgetWait.SURGE, BudgetWait.PODS, BudgetWait.PARTITION, BudgetWait.PAUSED, BudgetWait.LEDGER)
)


def subject_of(view: WorkloadView, templates: Templates, holdings: Mapping[str, Holding]) -> Subject:
    """Return what is rolled out, in the terms of every rollout."""
    meta, status = view.binding.metadata, view.binding.status
    label = f"{meta.namespace}.{meta.name}"
    uid = text(part(view.template, "metadata"), "uid")
    ledger = view.ledger
    granted = ledger.ledger if ledger is not None else None
    return Subject(
        kind=RESOURCE_BINDING,
        # What is stored with a revision is since when it is wanted, and that is counted by the template.
        metadata=msgspec.structs.replace(meta, generation=view.template_generation),
        noun=NOUN,
        revision=templates.revision,
        content=content_of(templates.base, templates.interpreter),
        cause=cause_of(part(view.template or {}, "metadata", "annotations")),
        references=(reference_of(view),),
        holdings=holdings,
        unreadable=view.unread,
        conditions=status.conditions,
        reported=ledger.status.rollout if ledger is not None else None,
        revisions=view.revisions,
        in_use=frozenset({granted.stable, granted.first or ""}) if granted is not None else frozenset(),
        revision_labels={HASH_LABEL: templates.revision, BINDING_LABEL: label, TEMPLATE_UID_LABEL: uid},
        outcomes=view.outcomes,
        stale=view.stale,
        leaving=view.leaving,
        spared=view.spared,
        max_removals=view.max_removals,
        hold=Hold(Wait.HELD, view.strategy_problem) if view.strategy_problem else None,
    )


def reference_of(view: WorkloadView) -> PlacementReference:
    """Return the clusters that the binding names, in the groups of the placement that it names, if it names one.

    What the binding says of its clusters is the last word. One that is in no group comes after all others.
    """
    named = frozenset(view.targets)
    placed = view.placement
    if placed is None:
        groups = DecisionGroups({GroupKey(): named})
        return PlacementReference(view.key.name, ALL_AT_ONCE, PlacementView(groups, len(named), settled=True))
    if placed.placement is None or placed.placement.error:
        return placed
    groups = DecisionGroups({key: each & named for key, each in placed.placement.groups.groups.items()})
    if rest := named - groups.clusters:
        last = max((key.index for key in groups.groups), default=-1)
        groups = DecisionGroups({**groups.groups, GroupKey(last + 1): rest})
    found = replace(placed.placement, groups=groups, selected=len(named), settled=True, unsatisfied="")
    return replace(placed, placement=found, uncertain=False)


def holdings_of(alignment: Alignment, standing: Round, now: datetime) -> dict[str, Holding]:
    """Return what each cluster has been granted, and how far it is with that."""
    view, templates = alignment.view, alignment.templates
    ledger = view.ledger
    known = {each.name: each for each in ledger.status.clusters} if ledger is not None else {}
    found: dict[str, Holding] = {}
    for name in sorted(view.works.keys() | alignment.begun.ledger.clusters.keys()):
        work, newest, decision = view.works.get(name), alignment.newest(name), standing.decisions.get(name)
        if work is None and newest is None:
            continue
        hashed = newest.revision if newest is not None else ""
        unwritten = newest is not None and name in view.outcomes.content and (work is None or work.push_id != newest.id)
        if unwritten or (work is not None and work.is_refused):
            # What was granted could not be written, or was given back. What the cluster has is what its work has.
            hashed = templates.hash_of(work.manifest) if work is not None else ""
        since = None
        if decision is not None and decision.complete:
            was = known.get(name)
            since = parse_time(was.complete_since) if was is not None and was.revision == hashed else None
            since = since or now
        found[name] = _holding(
            name,
            templates.revision_of(hashed, name) or hashed,
            work,
            since,
            reason=decision.wait.value if decision is not None else "",
            message=decision.message if decision is not None else "",
            waits=decision is not None and decision.wait in _WAITS_FOR_OTHERS,
        )
    return found


def passed_through(view: WorkloadView, templates: Templates) -> dict[str, Holding]:
    """Return what each cluster has of a workload that is not aligned: done is what was applied and is healthy."""
    found = {}
    for name, work in view.works.items():
        revision = templates.revision_of(templates.hash_of(work.manifest), name)
        report = work.report
        done = report.applied is True and work.health != "Unhealthy"
        since = report.since or work.written if done else None
        found[name] = _holding(
            name,
            revision or work.revision,
            work,
            since,
            reason=report.reason or Wait.REPORT.value,
            message=report.message,
            waits=False,
        )
    return found


def _holding(
    cluster: str, revision: str, work: WorkView | None, done: datetime | None, *, reason: str, message: str, waits: bool
) -> Holding:
    written = work.written if work is not None else None
    status = _status(cluster, work, done, waits=waits)
    if work is not None and work.terminating is not None:
        ending = ClusterStatus(cluster, Phase.PROGRESSING, work.terminating)
        return Holding(
            cluster=cluster, revision=revision, status=ending, written=written, terminating=True, before_removal=status
        )
    if status.phase is Phase.FAILED and work is not None:
        reason, message = work.report.reason, work.report.message
    elif status.phase is not Phase.SUCCEEDED and work is not None:
        message = with_cause(message, work.cause)
    return Holding(cluster=cluster, revision=revision, status=status, reason=reason, message=message, written=written)


def _status(cluster: str, work: WorkView | None, done: datetime | None, *, waits: bool) -> ClusterStatus:
    if work is not None and work.report.failed:
        return ClusterStatus(cluster, Phase.FAILED, work.report.since, work.pushed)
    if done is not None:
        return ClusterStatus(cluster, Phase.SUCCEEDED, done)
    if waits or work is None:
        return ClusterStatus(cluster, Phase.PROGRESSING)
    began = work.pushed or work.written
    return ClusterStatus(cluster, Phase.PROGRESSING, began, began)
