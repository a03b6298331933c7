"""What a round decided, and for every cluster that does not move, why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from echelon.engine.align.bounds import Bounds
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.member import Member
from echelon.engine.align.sums import Slack


class BudgetWait(StrEnum):
    """Why a cluster is not further than it is; the reason in a status, for programs."""

    NOTHING = ""  # it is complete
    UPDATING = "Updating"  # it has what it needs, and is at it
    REPORT = "WaitingForReport"
    BUDGET = "WaitingForBudget"
    SURGE = "WaitingForSurge"
    PODS = "TooFewAvailable"
    PARTITION = "BlockedByPartition"
    GROUP = "WaitingForGroup"
    PAUSED = "Paused"
    UNREACHABLE = "ClusterUnreachable"
    LEDGER = "GrantsUnknown"


class BudgetDecision(msgspec.Struct, frozen=True, gc=False):
    """One cluster after a round: its newest grant, what it is charged with, and what it waits for."""

    cluster: str
    grant: Grant | None
    pushed: bool  # the grant is new, and to be written
    unavailable: int  # units of the budgets that the grant lets it use; none while it stands still
    surge: int
    outstanding: int  # grants that it might act on
    bounds: Bounds
    complete: bool
    gone: bool  # it was left, and has no pods any more: its work can be deleted
    wait: BudgetWait
    message: str


@dataclass(frozen=True, slots=True)
class Round:
    """What a round decided. The ledger is to be stored before any of the pushes is written."""

    ledger: Ledger
    pushes: Mapping[str, Grant]
    decisions: Mapping[str, BudgetDecision]
    slack: Slack
    complete: bool  # every cluster has come to all that was asked
    stalled_since: float | None  # too few pods are available, and nothing has moved since
    look_again_at: float | None  # when time alone will change something

    def explain(self, cluster: str) -> str:
        """Tell people what happens next with a cluster, and why not yet."""
        found = self.decisions.get(cluster)
        return found.message if found else "is no target"


def reason_for(member: Member, slack: Slack, unknown: Sequence[str], *, paused: bool) -> tuple[BudgetWait, str]:
    """Return why a cluster is not further than it is. What was granted to the `unknown` ones nobody knows."""
    target = member.target
    if not target.reachable:
        charged = _counted(len(member.entry.grants), "grant")
        why = target.reason or "cannot be reached"
        return BudgetWait.UNREACHABLE, f"{why}; is charged with {charged} all the same, and its last report counts"
    if member.unknown and not member.changed:
        return BudgetWait.LEDGER, "has to report a new push, since what it was granted before is not known"
    if member.changed:
        return BudgetWait.REPORT, "was sent a new grant, and has to report it"
    if unknown and (member.work or member.replicas != target.replicas):
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        return (
            BudgetWait.LEDGER,
            f"waits for {unknown[0]}{others}: what they were granted is not known until they report",
        )
    if not target.open and not member.work:
        return BudgetWait.GROUP, f"keeps the stable template until group {target.group} is open"
    waiting = member.work > 0 and member.is_frozen
    if paused and (member.work or member.replicas != target.replicas):
        return BudgetWait.PAUSED, "the workload is paused"
    if member.replicas != target.replicas:
        return _why_not_resized(member, slack)
    if waiting:
        return _why_frozen(member, slack)
    if len(member.entry.grants) > 1 or member.entry.view is None or not member.entry.view.observed:
        outstanding = _counted(len(member.entry.grants), "grant")
        return BudgetWait.REPORT, f"has {outstanding} that it might act on, and has to report the last"
    if member.work:
        return BudgetWait.UPDATING, f"has {_counted(member.work, 'pod')} to update"
    if member.available < member.replicas or member.pods != member.replicas:
        return BudgetWait.UPDATING, f"{member.available} of {member.replicas} available, {member.pods} there"
    if not member.same:
        return BudgetWait.REPORT, "has to report the template that it was sent"
    return BudgetWait.NOTHING, "is complete"


def _why_frozen(member: Member, slack: Slack) -> tuple[BudgetWait, str]:
    if slack.available < 0:
        return (
            BudgetWait.PODS,
            f"waits for {_counted(-slack.available, 'more pod')} elsewhere to be available, or sure to stay so",
        )
    if not slack.may_update and member.rolling:
        return (
            BudgetWait.PARTITION,
            "waits for the partition to be lowered, or for what others were promised to be known",
        )
    return BudgetWait.BUDGET, f"waits for budget: {_counted(member.work, 'pod')} to update, and others hold all of it"


def _why_not_resized(member: Member, slack: Slack) -> tuple[BudgetWait, str]:
    way = f"has {member.replicas} of {member.target.replicas} replicas"
    if member.replicas > member.target.replicas:
        if slack.available < 0:
            return BudgetWait.PODS, f"{way}, and too few pods are available to take one away"
        return BudgetWait.BUDGET, f"{way}, and shrinks as pods become available elsewhere"
    if not member.want:
        return BudgetWait.GROUP, f"{way}, and there is no stable template for it until its group is open"
    if slack.pods > 0 and member.rolling and not slack.may_update:
        return BudgetWait.PARTITION, f"{way}; new pods would be updated ones, and the partition allows no more"
    return BudgetWait.SURGE, f"{way}, and grows as pods go elsewhere"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
