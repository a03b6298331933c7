"""Budgets that are overdrawn: pods died, or somebody lowered a limit.

What was granted has to be taken back, and that takes as long as a push takes. What is on its way back already follows
from the grants: nothing else is remembered, so a round takes the same as the one before it, and nothing twice.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from echelon.engine.align.apportion import apportion
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.member import Member
from echelon.engine.align.sums import Sums
from echelon.engine.align.workload import OnDeficit

_PASSES = 3


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
    granted = _makes_anyway(sums, member)
    for grant in member.frozen(keep=sums.available < 0):
        # A pause resizes, and where a sum is overdrawn a bound may hide what that takes or makes.
        # Of a member of which nothing is known any more, there is no other way to find out.
        # What is called wanted may have gone by the time that it is heard of, and is made again.
        takes, makes = False, grant.replicas > member.replicas and not member.trades(grant)
        if isinstance(reach, DeploymentReach) and member.revision:
            takes = reach.cut(grant.most) > 0
            makes = makes or (reach.makes(grant.most) and grant.most > granted)
        if sums.admit(member, grant, takes=takes, makes=makes):
            return True
    return False


def _makes_anyway(sums: Sums, member: Member) -> int:
    """Return up to how many pods a member may make whatever it is sent: those that are wanted, in the end.

    And while there are more than there may be, as many as it has: a pause must not take what may be missing then. Only
    if that is not known for sure, nothing must be made that may have gone by now.
    """
    out = member.out
    if out is None or not sums.too_many or not member.has_reported:
        return out.replicas if out else 0
    # Rolling, it is about to lose those that are more than it may have.
    return max(out.replicas, member.told if out.paused else min(member.told, out.most))


def _take_unavailability(sums: Sums, members: Sequence[Member], mode: OnDeficit) -> None:
    """Take back until no cluster takes an available pod while too few are.

    What is on its way back already is known from the grants. Of what is missing beyond it, units that nobody has used
    are taken first, as many as are missing. If pods are missing all the same, a cluster may go on only when it has made
    up for all of them by itself: so whoever is the first has done it for the others, too, and nobody counts on pods
    that may never come. What cannot be taken from one cluster is taken from the others.
    """
    moving = [each for each in members if each.reachable and each.want and each.may_take]
    for _ in range(_PASSES):
        failed = _take_missing(sums, members, moving, mode)
        if not failed:
            return
        moving = [each for each in moving if each not in failed and not each.is_frozen]


def _take_missing(sums: Sums, members: Sequence[Member], moving: Sequence[Member], mode: OnDeficit) -> list[Member]:
    """Take what is missing from those that move; return those from which their part could not be taken."""
    left = [each.floor_to_come for each in members]
    missing = sums.budgets.least_available - sum(left)
    if missing <= 0:
        return []
    kept = {each.name: floor for each, floor in zip(members, left, strict=True)}
    if mode is OnDeficit.FREEZE:
        for each in moving:
            if each.grant is not None and each.grant.least < kept[each.name] + missing:
                _lower(sums, each, each.replicas + missing)
        return []
    unused = [max(0, each.available - kept[each.name]) for each in moving]
    keeps = apportion(max(0, sum(unused) - missing), [each.work for each in moving], [0] * len(moving), unused)
    missing = max(0, missing - sum(unused))
    failed = []
    for each, unit, keep in zip(moving, unused, keeps, strict=True):
        least = kept[each.name] + unit - keep + missing
        if each.grant is not None and each.grant.least < least:
            _lower(sums, each, least)
            if not each.is_frozen and each.grant.least < min(least, kept[each.name] + unit):
                failed.append(each)
    return failed


def _lower(sums: Sums, member: Member, least: int) -> bool:
    """Let a member take no pod unless so many are available there, or as near to that as can be."""
    grant, contract = member.grant, member.contract
    if grant is None:
        return False
    unavailable = max(0, member.replicas - least)
    lowered = replace(grant, id=0, unavailable=unavailable)
    if least <= member.replicas and contract.may_run(unavailable, grant.surge):
        return sums.admit(member, lowered)
    if freeze(sums, member):
        return True
    # A pause may take pods. One pod too many lets it go on without taking any.
    surge = max(grant.surge, 1)
    if contract.has_surge and contract.may_run(0, surge):
        rolling = replace(lowered, unavailable=0, surge=surge, paused=False)
        if sums.admit(member, rolling, makes=surge > grant.surge):
            return True
    return grant.unavailable > 1 and sums.admit(member, replace(lowered, unavailable=1))


def _take_surge(sums: Sums, members: Sequence[Member]) -> None:
    """Lower what is granted until it fits; pods that are there already go as their clusters move on.

    A cluster that was let move on with pods that it has too many is heard first: whether it had begun when its grant
    was lowered again would be a matter of milliseconds, and its update of a whole start of a pod.
    """
    moving = [each for each in members if each.reachable and each.work and each.want and each.held[1]]
    granted = sum(each.replicas + each.held[1] for each in members)
    excess = granted - sums.budgets.most_pods
    if excess <= 0:
        return
    surges = [each.held[1] for each in moving]
    least = [0 if each.has_reported else min(each.held[1], max(0, each.pods - each.replicas)) for each in moving]
    kept = apportion(max(0, sum(surges) - excess), [each.work for each in moving], least, surges)
    for each, before, left in zip(moving, surges, kept, strict=True):
        grant = each.grant
        if left == before or grant is None:
            continue
        runs = each.contract.may_run(grant.unavailable, left)
        if not runs and freeze(sums, each):
            continue
        surge = left if runs else 1
        if surge < before:
            sums.admit(each, replace(grant, id=0, surge=surge))


def _take_promises(sums: Sums, members: Sequence[Member]) -> None:
    """Raise partitions where updates were promised and not made.

    A promise that is kept is one that fits beside all that others may have made of theirs by now.
    """
    rolling = [each for each in members if each.rolling and each.grant is not None]
    done = [each.maybe_updated for each in rolling]
    unseen = sum(each.bounds.updated - low for each, low in zip(rolling, done, strict=True) if not each.has_reported)
    limit = sums.budgets.most_updated - unseen
    promised = [max(low, _promise(each)) for each, low in zip(rolling, done, strict=True)]
    kept = apportion(limit, [each.replicas for each in rolling], done, promised)
    for each, low, before, after in zip(rolling, done, promised, kept, strict=True):
        grant = each.grant
        if after >= before or grant is None or not each.reachable:
            continue
        if after <= low:
            lowered = freeze(sums, each)
        else:
            partition = grant.replicas - after
            lowered = sums.admit(each, replace(grant, id=0, partition=partition))
        if lowered:
            each.share = after


def _promise(member: Member) -> int:
    grant = member.grant
    promises = grant is not None and grant.revision == member.want and not member.is_frozen
    return grant.replicas - grant.partition if grant is not None and promises else 0
