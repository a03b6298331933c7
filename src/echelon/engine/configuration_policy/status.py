"""What is told after an evaluation: the status, and the reports that become events and history.

An evaluation that mended something is told twice, first what was wrong and then what became of it, and written once:
whoever reads the status only ever sees the end. A report is made when there is news, or when the policy is another one
than last time: then somebody waits for the first word about it. Otherwise nothing is written.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import (
    ConfigurationPolicy,
    ConfigurationPolicyStatus,
    TemplateCondition,
    TemplateStatus,
    Validity,
)
from echelon.api.policy import ComplianceHistory, PendingChange
from echelon.api.times import format_micro_time, format_time
from echelon.engine.configuration_policy.diff import diff
from echelon.engine.configuration_policy.findings import Finding
from echelon.engine.configuration_policy.looking import MOST_ANNOUNCED
from echelon.engine.configuration_policy.messages import (
    CHANGES,
    CLEANUP_ERROR,
    COMPLIANT,
    NON_COMPLIANT,
    TERMINATING,
    Verdict,
    cut,
    report,
    verdict,
)
from echelon.engine.configuration_policy.related import bounded, related_objects
from echelon.engine.configuration_policy.results import Evaluation, Leaver, findings_of
from echelon.engine.configuration_policy.templates import TemplateProblem

MOST_HISTORY = 10
# Characters of all messages about templates together: a status of thousands of them has to fit into an object.
_MOST_TEXT = 256 * 1024
_LEAST_TEXT = 40
# Between the two reports of one evaluation, so that everybody has them in this order.
_LATER = timedelta(microseconds=10)


@dataclass(frozen=True)
class Report:
    """Something to be told, as an event and in the history."""

    at: datetime
    state: str
    message: str


@dataclass(frozen=True)
class Conclusion:
    """The status after an evaluation, and what is to be told before it is written; oldest first."""

    status: ConfigurationPolicyStatus
    reports: tuple[Report, ...]
    is_news: bool  # whether the status says anything that the one before did not


def conclude(policy: ConfigurationPolicy, evaluation: Evaluation, now: datetime) -> Conclusion:
    """Tell what an evaluation has come to."""
    before, verdicts = policy.status, _verdicts(evaluation, first=False)
    state = _state(verdicts)
    details = _details(before, verdicts, now)
    related = related_objects(policy, evaluation)
    listed = bounded(related)
    pending, more = ([], 0) if evaluation.enforced else _pending(policy, evaluation)
    status = ConfigurationPolicyStatus(
        compliant=state,
        compliancy_details=details,
        last_evaluated=format_time(now),
        last_evaluated_generation=policy.metadata.generation,
        related_objects=listed,
        history=before.history,
        pending_changes=pending,
    )
    remarks = _remarks(policy, evaluation, status, pending=more, unlisted=len(related) - len(listed))
    reports = [Report(now, state, report(state, verdicts, policy.spec, more=remarks))]
    if evaluation.mended:
        first = _verdicts(evaluation, first=True)
        wrong = Report(now, _state(first), report(_state(first), first, policy.spec))
        reports = [wrong, replace(reports[0], at=now + _LATER)]
    elif _is_told(policy, status):
        reports = []
    history = [ComplianceHistory(last_timestamp=format_micro_time(each.at), message=each.message) for each in reports]
    status = msgspec.structs.replace(status, history=[*reversed(history), *before.history][:MOST_HISTORY])
    return Conclusion(status, tuple(reports), timeless(status) != timeless(before))


def terminating(policy: ConfigurationPolicy, left: tuple[str, ...], now: datetime) -> Conclusion:
    """Tell that a policy cannot go yet, because some of its objects are still there."""
    before = policy.status
    said = Verdict(False, CLEANUP_ERROR, "; ".join(left))
    status = msgspec.structs.replace(
        before, compliant=TERMINATING, compliancy_details=_details(before, [said], now), pending_changes=[]
    )
    if before.compliant == TERMINATING and before.compliancy_details == status.compliancy_details:
        return Conclusion(before, (), is_news=False)
    message = report(TERMINATING, [said], None)
    history = [ComplianceHistory(last_timestamp=format_micro_time(now), message=message), *before.history]
    status = msgspec.structs.replace(status, history=history[:MOST_HISTORY])
    return Conclusion(status, (Report(now, NON_COMPLIANT, message),), is_news=True)


def changed_something(status: ConfigurationPolicyStatus | JSONObject) -> bool:
    """Whether the evaluation that a status tells of changed something on the cluster, so that it was not the last word.

    If such a status is not Compliant, another evaluation follows, and that one is the verdict.
    """
    if isinstance(status, dict):
        try:
            status = msgspec.convert(status, ConfigurationPolicyStatus)
        except msgspec.ValidationError:
            return False  # it is not one of ours
    reasons = {said.reason for each in status.compliancy_details for said in each.conditions}
    return bool(CHANGES & (reasons | {each.reason for each in status.related_objects}))


def timeless(status: ConfigurationPolicyStatus) -> ConfigurationPolicyStatus:
    """Return what a status says, whenever it was said."""
    return msgspec.structs.replace(status, last_evaluated="")


def _verdicts(evaluation: Evaluation, *, first: bool) -> list[Verdict]:
    """Return what is told of each template: first of all, or in the end."""
    found: list[Verdict] = []
    for each in evaluation.templates:
        if isinstance(each, TemplateProblem):
            found.append(Verdict(False, each.reason, each.message))
        else:
            found.append(verdict(each.kind.plural, [one.found if first else one.told for one in each.results]))
    if evaluation.unpruned and not first:
        found.append(Verdict(False, CLEANUP_ERROR, "; ".join(evaluation.unpruned)))
    return found


def _state(verdicts: list[Verdict]) -> str:
    return COMPLIANT if all(each.compliant for each in verdicts) else NON_COMPLIANT


def _details(before: ConfigurationPolicyStatus, verdicts: list[Verdict], now: datetime) -> list[TemplateStatus]:
    details: list[TemplateStatus] = []
    longest = max(_MOST_TEXT // max(len(verdicts), 1), _LEAST_TEXT)
    for index, each in enumerate(verdicts):
        known = before.compliancy_details[index].conditions if index < len(before.compliancy_details) else []
        condition = TemplateCondition(
            type=each.type,
            status="True",
            reason=each.reason,
            message=cut(each.message, longest),
            last_transition_time=format_time(now),
        )
        for old in known[:1]:
            if _timeless_condition(old) == _timeless_condition(condition):
                condition = old
        details.append(TemplateStatus(compliant=each.state, validity=Validity(), conditions=[condition]))
    return details


def _is_told(policy: ConfigurationPolicy, status: ConfigurationPolicyStatus) -> bool:
    """Whether there is nothing to tell that was not told before, of this very generation."""
    before = policy.status
    return (
        before.compliant == status.compliant
        and before.last_evaluated_generation == status.last_evaluated_generation
        and [each.conditions for each in before.compliancy_details]
        == [each.conditions for each in status.compliancy_details]
    )


def _pending(policy: ConfigurationPolicy, evaluation: Evaluation) -> tuple[list[PendingChange], int]:
    """Return what enforcing would change, and how much more than that."""
    fixes = [each for each in findings_of(evaluation.templates) if each.is_mendable]
    changes = [_change(each) for each in fixes[:MOST_ANNOUNCED]]
    changes += [_deletion(each) for each in evaluation.leavers[: MOST_ANNOUNCED - len(changes)]]
    more = len(fixes) + len(evaluation.leavers) - len(changes)
    before = policy.status.pending_changes
    unchanged = policy.status.last_evaluated_generation == policy.metadata.generation
    if unchanged and list(map(_bare, before)) == list(map(_bare, changes)):
        # A server that is asked what it would create makes up addresses and ports, others each time.
        changes = [old if old.change == "Create" else new for old, new in zip(before, changes, strict=True)]
    return changes, more


def _bare(change: PendingChange) -> PendingChange:
    return msgspec.structs.replace(change, diff="")


def _change(finding: Finding) -> PendingChange:
    target = finding.target
    return PendingChange(
        api_version=target.kind.api_version,
        kind=target.kind.kind,
        namespace=target.namespace,
        name=target.name,
        change=finding.change,
        diff=diff(target.kind, finding.base, finding.after),
    )


def _deletion(leaver: Leaver) -> PendingChange:
    entry = leaver.entry
    return PendingChange(
        api_version=entry.api_version,
        kind=entry.kind,
        namespace=entry.namespace,
        name=entry.name,
        change="Delete",
        diff=diff(leaver.kind, leaver.live, None),
    )


def _remarks(
    policy: ConfigurationPolicy,
    evaluation: Evaluation,
    status: ConfigurationPolicyStatus,
    *,
    pending: int,
    unlisted: int,
) -> str:
    said: list[str] = []
    if pending:
        said.append(f"{pending} more changes are pending than are listed")
    if unlisted:
        said.append(f"{unlisted} more objects are related than are listed, and they will not be pruned")
    if evaluation.forgotten:
        said.append(f"{evaluation.forgotten} objects will not be pruned, because there are too many to remember")
    if _is_final(policy, evaluation, status):
        which = "compliant" if status.compliant == COMPLIANT else "noncompliant"
        said.append(
            f"This policy will not be evaluated again due to spec.evaluationInterval.{which} being set to never"
        )
    return "; ".join(said)


def _is_final(policy: ConfigurationPolicy, evaluation: Evaluation, status: ConfigurationPolicyStatus) -> bool:
    """Whether a policy is not evaluated again until somebody changes it."""
    if policy.spec is None or evaluation.failed:
        return False
    interval = policy.spec.evaluation_interval
    if status.compliant == COMPLIANT:
        return interval.compliant == "never"
    return interval.noncompliant == "never" and not changed_something(status)


def _timeless_condition(condition: TemplateCondition) -> TemplateCondition:
    return msgspec.structs.replace(condition, last_transition_time="")
