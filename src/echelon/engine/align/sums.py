"""The three sums over all clusters, and what may be granted under them.

    the floors add up to no less than the pods that must stay available,
    the ceilings to no more than the pods that there may be,
    the most updated to no more than the partition allows.

A grant is admitted only if the sums hold with it in place, on top of everything that is outstanding. Where a sum is
broken already, because pods died or a budget was lowered, it is not enough that a grant makes it no worse: a bound
may be loose, and hide what a grant would spend. Then nothing is admitted that could spend of that budget at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from echelon.engine.align.bounds import Bounds
from echelon.engine.align.budgets import Budgets
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant
from echelon.engine.align.member import Member

_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Slack:
    """What is left of each budget; below zero where it is overdrawn."""

    available: int
    pods: int
    updated: int | None  # None where no partition keeps pods old

    @property
    def may_update(self) -> bool:
        """Whether the partition leaves room for one more updated pod."""
        return self.updated is None or self.updated > 0


class Sums:
    """The sums of a round, kept up to date as grants are admitted."""

    __slots__ = ("available", "budgets", "pods", "repairing", "too_many", "updated")

    def __init__(self, budgets: Budgets, members: Sequence[Member], *, partition: int, repairing: bool) -> None:
        self.budgets = budgets
        self.available = sum(each.bounds.floor for each in members) - budgets.least_available
        self.pods = budgets.most_pods - sum(each.bounds.ceiling for each in members)
        limit = budgets.total - partition if partition else _NO_LIMIT
        self.updated = limit - sum(each.bounds.updated for each in members)
        self.too_many = sum(each.told for each in members) > budgets.most_pods  # surely, whatever is on its way
        self.repairing = repairing  # nothing has moved for long, so broken clusters may mend themselves

    @property
    def slack(self) -> Slack:
        """What is left."""
        return Slack(self.available, self.pods, self.updated if self.updated < _NO_LIMIT // 2 else None)

    def admit(
        self, member: Member, grant: Grant, *, takes: bool = False, makes: bool = False, updates: bool = False
    ) -> bool:
        """Put a grant in place of the member's present one, if the sums allow it.

        `takes`, `makes` and `updates` say what the grant is for: to take available pods, to make pods, to update pods.
        """
        now = member.bounds
        reach = member.reach.under(grant)
        lower = now.floor - reach.floor
        higher = reach.ceiling - now.ceiling
        more = reach.updated - now.updated
        if lower > max(0, self.available) or higher > max(0, self.pods):
            return False
        if more > max(0, self.updated) and not _promises_no_more(member, grant):
            return False
        if takes and self.available < 0 and not self._mends(member, grant):
            return False
        makes = makes or (_begins(member, grant) and not self.repairing)
        if makes and self.pods < 0 and not _drains(member, grant):
            return False
        if updates and self.updated < 0:
            return False
        self.available -= lower
        self.pods -= higher
        self.updated -= more
        member.bounds = Bounds(reach.floor, reach.ceiling, reach.updated)
        member.grant = grant
        return True

    def withdraw(self, member: Member) -> None:
        """Leave a member with what it has."""
        now, before = member.bounds, member.reach
        self.available += before.floor - now.floor
        self.pods += now.ceiling - before.ceiling
        self.updated += now.updated - before.updated
        member.bounds = Bounds(before.floor, before.ceiling, before.updated)
        member.grant = member.out

    def _mends(self, member: Member, grant: Grant) -> bool:
        """Tell whether a grant takes nothing that works.

        The member is at or below what the grant would leave it, and once healed would still fit into the sum; or
        nothing else has moved for long.
        """
        if member.available > grant.least:
            return False
        healed = self.available - member.bounds.floor + grant.least
        return self.repairing or (healed >= 0 and not _cuts(member, grant))


def _promises_no_more(member: Member, grant: Grant) -> bool:
    """Tell whether a member can update no more pods than under its present grant, however loose both bounds are."""
    present = member.grant
    if present is None or grant.revision != present.revision or grant.replicas > present.replicas:
        return False
    return grant.partition >= min(present.partition, grant.replicas)


def _cuts(member: Member, grant: Grant) -> bool:
    """Tell whether a grant may resize several ReplicaSets of a member to fewer pods.

    That asks nobody which pods work: those that start may stay, and those that are available go.
    """
    reach = member.reach
    return isinstance(reach, DeploymentReach) and reach.under(grant).cuts > reach.cuts


def _begins(member: Member, grant: Grant) -> bool:
    """Tell whether a member begins with another template, and may make pods of it beside those that it has.

    It may have been granted as many before, and be done with them: what its grants allow does not tell what it makes.
    """
    out = member.out
    if out is None or grant.revision == out.revision or grant.paused:
        return False
    return grant.surge > 0 and grant.partition < grant.replicas


def _drains(member: Member, grant: Grant) -> bool:
    """Tell whether a member surely has as many pods as a grant would let it have, so that it makes none.

    Pods beyond those that it is to have now it is about to lose.
    """
    if not member.has_reported or not member.is_frozen or member.out is None:
        return False
    reach = member.reach
    surely = reach.bottom if isinstance(reach, DeploymentReach) else min(member.pods, member.out.replicas)
    return surely >= grant.most
