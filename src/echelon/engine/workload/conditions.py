"""What a binding says about itself in conditions: Karmada's two, and those of a federated rollout."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

from echelon.api.karmada import ResourceBinding
from echelon.engine.align import BudgetDecision, Budgets, BudgetWait, RollingStrategy, Round
from echelon.engine.rollout.conditions import ConditionDraft
from echelon.engine.rollout.reasons import names
from echelon.engine.rollout.removal import Removal, Stay
from echelon.engine.workload.names import MADE_BY, PROPAGATION
from echelon.engine.workload.view import WorkloadView

SCHEDULED, FULLY_APPLIED = "Scheduled", "FullyApplied"
ALIGNED, PROGRESSING, STALLED = "RolloutAligned", "RolloutProgressing", "RolloutStalled"
PARTITION, IGNORED = "BlockedByPartition", "FieldsIgnored"
STRANGE_WORKS = "WorksIgnored"

KIND_NOT_ALIGNED, OVERRIDE_CONFLICT, BAD_STRATEGY = "KindNotAligned", "OverrideConflict", "BadStrategy"
OVERRIDE_FAILED = "OverrideFailed"
HUB_RUNS_TEMPLATE, NO_TEMPLATE, BOTH_ZERO = "HubRunsTemplate", "TemplateNotFound", "BothZero"
LEDGER_LOST, FOREIGN_WORK, NAME_TOO_LONG = "LedgerLost", "WorkOfAnotherBinding", "NameTooLong"
SECOND_BINDING = "TemplateHasAnotherBinding"
_MOST_CAUSES = 3
HELD = "Held"  # nothing is sent until somebody corrects something


def karmada_conditions(view: WorkloadView) -> list[ConditionDraft]:
    """Return the conditions that Karmada's tools look at."""
    drafts = [_fully_applied(view)]
    if view.binding.metadata.annotations.get(MADE_BY) != PROPAGATION:  # whoever chose the clusters says how
        drafts.insert(0, _scheduled(view.binding))
    return drafts


def _scheduled(binding: ResourceBinding) -> ConditionDraft:
    if binding.spec.clusters:
        return ConditionDraft(SCHEDULED, True, "Success", "Binding has been scheduled successfully.")
    return ConditionDraft(SCHEDULED, False, "NoClusterFit", "the binding names no cluster")


def _fully_applied(view: WorkloadView) -> ConditionDraft:
    missing = [
        name
        for name in view.targets
        if (work := view.works.get(name)) is None or work.terminating is not None or not work.report.applied
    ]
    if view.targets and not missing:
        return ConditionDraft(FULLY_APPLIED, True, "FullyAppliedSuccess", "All works have been successfully applied")
    message = "Failed to apply all works, see status.aggregatedStatus for details"
    said = f"{message}: {names(missing)}" if missing else message
    return ConditionDraft(FULLY_APPLIED, False, "FullyAppliedFailed", said)


def held_conditions(reason: str, message: str) -> list[ConditionDraft]:
    """Return the conditions of a binding of which nothing is carried out."""
    return [
        ConditionDraft(ALIGNED, False, reason, message),
        ConditionDraft(PROGRESSING, False, HELD, f"nothing is sent: {message}"),
    ]


def ignored_fields(binding: ResourceBinding) -> list[ConditionDraft]:
    """Return what says that parts of a binding have no effect, or that none are left."""
    spec, found = binding.spec, []
    if spec.graceful_eviction_tasks:
        found.append("spec.gracefulEvictionTasks: clusters are left when spec.clusters does not name them any more")
    if spec.failover is not None and (spec.failover.application is not None or spec.failover.cluster is not None):
        found.append("spec.failover: nothing is moved because it is not healthy")
    if spec.components:
        found.append("spec.components")
    if spec.propagate_deps:
        found.append("spec.propagateDeps: what the template depends on is not sent along")
    if found:
        return [ConditionDraft(IGNORED, True, "NotSupported", "no effect have " + "; ".join(found))]
    if any(each.type == IGNORED for each in binding.status.conditions):
        return [ConditionDraft(IGNORED, False, "None")]
    return []


def ignored_works(view: WorkloadView) -> list[ConditionDraft]:
    """Return what names works that say they are of the binding and cannot be, or says that none are left.

    An agent may change what its works say. That has no effect here, and is nothing that happens by itself.
    """
    if view.strange:
        message = f"no effect have works that say they are of this binding and are not: {names(view.strange)}"
        return [ConditionDraft(STRANGE_WORKS, True, "NotOfThisBinding", message)]
    if any(each.type == STRANGE_WORKS for each in view.binding.status.conditions):
        return [ConditionDraft(STRANGE_WORKS, False, "None")]
    return []


def passing_conditions(why: str, *, done: int, total: int, removal: Removal) -> list[ConditionDraft]:
    """Return the conditions of a workload that is passed through."""
    message = f"{why}; each cluster keeps its own budgets, and none holds over all of them"
    left = _still_to_go(removal)
    progress = f"{done} of {total} clusters are done{left}"
    complete = done == total and not left
    return [
        ConditionDraft(ALIGNED, False, KIND_NOT_ALIGNED, message),
        ConditionDraft(PROGRESSING, not complete, "Complete" if complete else "Progressing", progress),
        ConditionDraft(STALLED, False, "NotStalled"),
        ConditionDraft(PARTITION, False, "NotBlocked"),
    ]


def aligned_conditions(
    found: Round,
    budgets: Budgets,
    strategy: RollingStrategy,
    *,
    lost: str,
    waiting: Collection[str],
    foreign: Mapping[str, str],
    unknown: Mapping[str, str],
    causes: Mapping[str, str],
    removal: Removal,
) -> list[ConditionDraft]:
    """Return the conditions of a workload that is aligned.

    `waiting` are clusters that have nothing yet; of `unknown` ones nobody has the template that they were granted;
    `causes` are what pods say in clusters that are not well.
    """
    decisions = list(found.decisions.values())
    why = _told(
        {each.cluster: causes[each.cluster] for each in decisions if causes.get(each.cluster) and not each.complete}
    )
    return [
        _aligned(decisions, budgets, strategy, lost, foreign),
        _progressing(found, decisions, waiting, _still_to_go(removal), why),
        _stalled(found, decisions, unknown, why),
        _partition(decisions),
    ]


def _aligned(
    decisions: Collection[BudgetDecision],
    budgets: Budgets,
    strategy: RollingStrategy,
    lost: str,
    foreign: Mapping[str, str],
) -> ConditionDraft:
    total = (
        f"at least {budgets.least_available} of {budgets.total} pods stay available, and there are at most"
        f" {budgets.most_pods}"
    )
    if foreign:
        owners = "; ".join(f"{name}: {whose}" for name, whose in sorted(foreign.items()))
        return ConditionDraft(ALIGNED, False, FOREIGN_WORK, f"works with our name are of others: {owners}")
    unknown = [each.cluster for each in decisions if each.wait is BudgetWait.LEDGER]
    if lost or unknown:
        why = lost or "what was granted to some clusters is not known"
        who = f"; waiting for {names(unknown)}" if unknown else ""
        message = f"{why}: nobody gets more than it has until every cluster has reported a new push{who}"
        return ConditionDraft(ALIGNED, False, LEDGER_LOST, message)
    if budgets.both_were_zero:
        said = f"maxUnavailable is {strategy.max_unavailable} and maxSurge is {strategy.max_surge or 0}"
        message = f"{said}: both come to zero pods, so one may be unavailable, as in one cluster"
        return ConditionDraft(ALIGNED, True, BOTH_ZERO, f"{message}; {total}")
    return ConditionDraft(ALIGNED, True, "Aligned", total)


def _told(causes: Mapping[str, str]) -> str:
    """Return what the pods of a few clusters say."""
    said = "".join(f"; {name}: {cause}" for name, cause in sorted(causes.items())[:_MOST_CAUSES])
    more = len(causes) - _MOST_CAUSES
    return f"{said}; and {more} more" if more > 0 else said


def _still_to_go(removal: Removal) -> str:
    """Say which clusters nobody names any more and have their pods all the same, unless they may only be away."""
    left = [cluster for cluster, stay in removal.stays.items() if stay is not Stay.GRACE]
    return f"; no longer named, and not removed yet: {names(left)}" if left else ""


def _progressing(
    found: Round, decisions: Iterable[BudgetDecision], waiting: Collection[str], left: str, why: str
) -> ConditionDraft:
    everybody = list(decisions)
    done = sum(each.complete or each.gone for each in everybody)
    message = f"{done} of {len(everybody) + len(waiting)} clusters are complete{left}"
    if found.complete and not waiting and not left:
        return ConditionDraft(PROGRESSING, False, "Complete", message)
    return ConditionDraft(PROGRESSING, True, "Progressing", message + why)


def _stalled(found: Round, decisions: Iterable[BudgetDecision], unknown: Mapping[str, str], why: str) -> ConditionDraft:
    """Say who holds everything up, and since when, if that may last until somebody does something."""
    away = [each for each in decisions if each.wait is BudgetWait.UNREACHABLE and not each.complete]
    if away:
        first = away[0]
        message = f"{names([each.cluster for each in away])}: {first.message}"
        return ConditionDraft(STALLED, True, BudgetWait.UNREACHABLE.value, message)
    if unknown:
        message = f"{names(list(unknown))}: the template that was granted is not stored any more, and cannot be sent"
        return ConditionDraft(STALLED, True, "TemplateUnknown", message)
    if found.stalled_since is not None:
        since = datetime.fromtimestamp(found.stalled_since, UTC)
        message = f"too few pods are available, and nothing has moved since {since:%Y-%m-%dT%H:%M:%SZ}"
        return ConditionDraft(STALLED, True, BudgetWait.PODS.value, message + why)
    return ConditionDraft(STALLED, False, "NotStalled")


def _partition(decisions: Iterable[BudgetDecision]) -> ConditionDraft:
    blocked = [each for each in decisions if each.wait is BudgetWait.PARTITION]
    if blocked:
        message = f"{names([each.cluster for each in blocked])}: {blocked[0].message}"
        return ConditionDraft(PARTITION, True, BudgetWait.PARTITION.value, message)
    return ConditionDraft(PARTITION, False, "NotBlocked")
