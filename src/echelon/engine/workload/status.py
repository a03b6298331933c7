"""What is told of a workload: the status of its binding, and the figures of its ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING, AggregatedStatusItem
from echelon.api.meta import Condition
from echelon.api.rollout import RolloutSummary
from echelon.api.rollout_ledger import ROLLOUT_LEDGER, Budget, BudgetLeft, ClusterGrant, RolloutLedgerStatus
from echelon.api.times import format_micro_time, format_time
from echelon.engine.align import BudgetDecision, Budgets, BudgetWait, Ledger, Round
from echelon.engine.align.reflection import SNAPSHOT
from echelon.engine.plan import Patch
from echelon.engine.rollout.conditions import ConditionDraft, merge_conditions, status_changed
from echelon.engine.rollout.model import Phase
from echelon.engine.rollout.subject import Holding
from echelon.engine.workload.view import WorkloadView
from echelon.engine.workload.works import WorkView

_MESSAGE = 1024
_UNHEALTHY, _UNKNOWN = "Unhealthy", "Unknown"


def binding_status(
    view: WorkloadView,
    drafts: Sequence[ConditionDraft],
    now: datetime,
    *,
    standing: Mapping[str, BudgetDecision] | None = None,
    brief: bool = False,
) -> Patch | None:
    """Return the write of what is different in a binding's status. With `brief`, nothing unless a condition turns."""
    before, meta = view.binding.status, view.binding.metadata
    conditions: list[Condition] = merge_conditions(before.conditions, drafts, meta.generation, now)
    if brief and not status_changed(before.conditions, conditions):
        return None
    items = [
        _item(work, standing.get(name) if standing is not None else None)
        for name, work in sorted(view.works.items())
        if work.terminating is None
    ]
    changed: JSONObject = {}
    if conditions != before.conditions:
        changed["conditions"] = msgspec.to_builtins(conditions)
    if items != before.aggregated_status:
        changed["aggregatedStatus"] = msgspec.to_builtins(items)
    return Patch.of(RESOURCE_BINDING, meta, {"status": changed}, "status") if changed else None


def _item(work: WorkView, decision: BudgetDecision | None) -> AggregatedStatusItem:
    status = work.status
    if status is not None and SNAPSHOT in status:
        status = {name: value for name, value in status.items() if name != SNAPSHOT}
    applied = work.report.applied if work.report.applied is not None else work.report.was_applied
    health = work.health
    if health == _UNHEALTHY and applied and decision is not None and decision.wait is not BudgetWait.NOTHING:
        # It waits for its turn with pods of two templates, and that is no illness which anybody should move it for.
        health = _UNKNOWN
    return AggregatedStatusItem(
        cluster_name=work.cluster,
        status=status,
        applied=applied,
        applied_message="" if applied else work.report.message,
        health=health,
    )


def ledger_status(
    view: WorkloadView,
    found: Round,
    *,
    ledger: Ledger,
    budgets: Budgets,
    holdings: Mapping[str, Holding],
    summary: RolloutSummary,
    brief: bool = False,
) -> Patch | None:
    """Return the write of the ledger in figures, if they are others than before."""
    before = view.ledger.status if view.ledger is not None else RolloutLedgerStatus()
    views = {name: entry.view for name, entry in ledger.clusters.items() if entry.view is not None}
    slack = found.slack
    status = RolloutLedgerStatus(
        complete=found.complete,
        stalled_since=_time(found.stalled_since),
        budget=Budget(
            total=budgets.total, unavailable=budgets.unavailable, surge=budgets.surge, partition=budgets.partition
        ),
        left=BudgetLeft(unavailable=slack.available, surge=slack.pods, updates=slack.updated),
        available=sum(each.available for each in views.values()),
        updated=sum(_updated(ledger, name) for name in views),
        clusters=[
            _figures(each, ledger, holdings.get(name), view.works.get(name))
            for name, each in sorted(found.decisions.items())
        ],
        rollout=summary,
    )
    if status == before or (brief and _completeness(status) == _completeness(before)):
        return None
    wire: JSONObject = msgspec.to_builtins(status)
    # What is left out would stay as it was.
    wire = {"complete": False, "stalledSince": None, "clusters": [], **wire}
    wire["left"] = {"updates": None, **wire["left"]}
    wire["rollout"] = {"clusters": [], **wire["rollout"]}
    body = {"status": wire}
    if view.ledger is not None:
        return Patch.of(ROLLOUT_LEDGER, view.ledger.metadata, body, "status")
    return Patch(ROLLOUT_LEDGER, view.key.name, body, view.key.namespace, subresource="status")


def _figures(decision: BudgetDecision, ledger: Ledger, holding: Holding | None, work: WorkView | None) -> ClusterGrant:
    grant, entry = decision.grant, ledger.clusters.get(decision.cluster)
    view = entry.view if entry is not None else None
    done = holding is not None and holding.status.phase is Phase.SUCCEEDED and decision.complete
    since = holding.status.since if holding is not None and done else None
    return ClusterGrant(
        name=decision.cluster,
        push_id=grant.id if grant is not None else 0,
        revision=grant.revision if grant is not None else "",
        replicas=grant.replicas if grant is not None else 0,
        unavailable=decision.unavailable,
        surge=decision.surge,
        partition=grant.partition if grant is not None else 0,
        paused=grant.paused if grant is not None else False,
        floor=decision.bounds.floor,
        ceiling=decision.bounds.ceiling,
        outstanding=decision.outstanding,
        pods=view.pods if view is not None else 0,
        available=view.available if view is not None else 0,
        updated=_updated(ledger, decision.cluster),
        wait=decision.wait.value,
        message=with_cause(decision.message, work.cause if work is not None and not decision.complete else ""),
        complete_since=format_micro_time(since) if since is not None else "",
    )


def with_cause(message: str, cause: str) -> str:
    """Return what a cluster waits for, and what the worst of its pods says."""
    return "; ".join(filter(None, (message, cause)))[:_MESSAGE]


def _updated(ledger: Ledger, cluster: str) -> int:
    """Return the pods of the template that a cluster was sent last; of another one, none are known to be updated."""
    entry = ledger.clusters.get(cluster)
    if entry is None or entry.view is None or entry.newest is None or entry.revision != entry.newest.revision:
        return 0
    return entry.view.updated


def _completeness(status: RolloutLedgerStatus) -> tuple[object, ...]:
    """Return what clocks run from, and whether there is anything at all."""
    return status.complete, status.budget is None, [(each.name, each.complete_since) for each in status.clusters]


def _time(seconds: float | None) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC)) if seconds is not None else ""
