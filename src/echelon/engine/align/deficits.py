"""Budgets that are overdrawn: pods died, or somebody lowered a limit.

What was granted has to be taken back, and that takes as long as a push takes. What is on its way back already is
remembered, or each round would take the same missing unit from another cluster until all stand still.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from echelon.engine.align.apportion import apportion
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.member import Member
from echelon.engine.align.sums import Sums
from echelon.engine.align.workload import OnDeficit


def take_back(sums: Sums, members: Sequence[Member], mode: OnDeficit) -> None:
    """Bring every sum that is overdrawn nearer to its limit."""
    if sums.available < 0:
        _take_unavailability(sums, members, mode)
    if sums.pods < 0:
        _take_surge(sums, members)
    if sums.updated < 0:
        _take_promises(sums, members)


def freeze(sums: Sums, member: Member) -> bool:
    """Let a member stand still, if that takes nothing from anybody."""
    reach = member.reach
    for grant in member.frozen():
        # A pause resizes, and where a sum is overdrawn a bound may hide what that takes or makes.
        takes = makes = False
        if isinstance(reach, DeploymentReach):
            takes, makes = reach.cut(grant.most) > 0, reach.makes(grant.most)
        if sums.admit(member, grant, takes=takes, makes=makes):
            return True
    return False


def _take_unavailability(sums: Sums, members: Sequence[Member], mode: OnDeficit) -> None:
    moving = [each for each in members if each.reachable and each.work and not each.is_frozen]
    coming = sum(each.expected.missing(each.bounds.floor) for each in members if each.expected)
    missing = -sums.available - coming
    if missing <= 0:
        return
    if mode is OnDeficit.FREEZE:
        for each in moving:
            freeze(sums, each)
        return
    # What a cluster can still take, or has taken: a unit that its end hands back is not there to be taken.
    spent = [min(each.held[0], max(0, each.replicas - each.bounds.floor)) for each in moving]
    kept = apportion(max(0, sum(spent) - missing), [each.work for each in moving], [0] * len(moving), spent)
    for each, before, after in zip(moving, spent, kept, strict=True):
        if after < before and _lower(sums, each, after):
            each.owe(before - after)
            missing -= before - after
    if missing > 0:
        # Pods beyond the wanted number are the last reserve.
        for each in moving:
            if not each.is_frozen and each.held[0] == 0:
                freeze(sums, each)


def _lower(sums: Sums, member: Member, unavailable: int) -> bool:
    grant = member.grant
    if grant is not None and member.contract.may_run(unavailable, grant.surge):
        return sums.admit(member, replace(grant, id=0, unavailable=unavailable))
    return freeze(sums, member)


def _take_surge(sums: Sums, members: Sequence[Member]) -> None:
    """Lower what is granted until it fits; pods that are there already go as their clusters move on."""
    moving = [each for each in members if each.reachable and each.work and each.held[1]]
    granted = sum(each.replicas + each.held[1] for each in members)
    excess = granted - sums.budgets.most_pods
    if excess <= 0:
        return
    surges = [each.held[1] for each in moving]
    kept = apportion(max(0, sum(surges) - excess), [each.work for each in moving], [0] * len(moving), surges)
    for each, before, after in zip(moving, surges, kept, strict=True):
        grant = each.grant
        if after == before or grant is None:
            continue
        if each.contract.may_run(grant.unavailable, after):
            sums.admit(each, replace(grant, id=0, surge=after))
        else:
            freeze(sums, each)


def _take_promises(sums: Sums, members: Sequence[Member]) -> None:
    """Raise partitions where updates were promised and not made."""
    limit = sums.budgets.most_updated
    rolling = [each for each in members if each.rolling and each.grant is not None]
    done = [each.maybe_updated for each in rolling]
    promised = [max(low, _promise(each)) for each, low in zip(rolling, done, strict=True)]
    kept = apportion(limit, [each.replicas for each in rolling], done, promised)
    for each, before, after in zip(rolling, promised, kept, strict=True):
        grant = each.grant
        if after < before and grant is not None and each.reachable:
            partition = grant.replicas if after == 0 else grant.replicas - after
            if sums.admit(each, replace(grant, id=0, partition=partition)):
                each.share = after


def _promise(member: Member) -> int:
    grant = member.grant
    return 0 if grant is None or member.is_frozen else grant.replicas - grant.partition
