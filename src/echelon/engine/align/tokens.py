"""Handing out what is left of the budgets.

A unit of unavailability or of surge goes where the most work is for the units that are there already. Units are only
ever added to what a cluster has: nothing is moved between two clusters that both make progress, so there is nothing
that could go back and forth. What a cluster lacks anyway it may have for nothing.
"""

from collections.abc import Sequence
from itertools import product

from echelon.engine.align.apportion import apportion
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant
from echelon.engine.align.member import Member
from echelon.engine.align.sums import Sums

_PASSES = 3
_MOST_OUTSTANDING = 12  # a member that answers nothing must not make the ledger grow without end


def hand_out(sums: Sums, members: Sequence[Member]) -> None:
    """Let clusters roll out as far as the budgets allow."""
    waiting = [each for each in members if each.work and _is_to_be_updated(each) and _can_be_sent(each)]
    # Of equal averages those are served first that are under way, then by name.
    waiting.sort(key=lambda each: (each.is_frozen, each.name))
    if sums.repairing and sums.available < 0:
        _repair(sums, waiting)
        sums.repairing = False
    _resume(sums, waiting)
    served = waiting
    for _ in range(_PASSES):
        if not served:
            break
        served = _pass(sums, served)
    _offer_the_rest(sums, waiting)


def release(sums: Sums, member: Member) -> bool:
    """End a pause under which there is nothing to do: it takes nothing, and later growth needs it."""
    grant = member.grant
    if grant is None or not grant.paused or member.work or member.revision != member.want:
        return False
    return _can_be_sent(member) and sums.admit(member, member.running(1, 0, 0))


def drain(sums: Sums, member: Member) -> bool:
    """Let a paused Deployment lose some of the pods that it has too many, where it cannot lose all at once.

    What is left of them is called wanted for the time being: that keeps them, and the total does not change.
    """
    grant, reach = member.grant, member.reach
    if grant is None or grant is not member.out or not grant.paused or not _can_be_sent(member):
        return False
    if not isinstance(reach, DeploymentReach) or not reach.several or sums.available <= 0:
        return False
    replicas = member.bounds.floor - sums.available
    surge = member.bounds.ceiling - replicas
    if not member.replicas < replicas < member.available or surge < 1:
        return False
    return sums.admit(member, member.running(0, surge, 0, replicas), takes=True)


def _is_to_be_updated(member: Member) -> bool:
    """Whether there is any use in updating a member: of one that is left, the pods go as they are.

    Only a Deployment in the middle of an update had better finish it: whatever else it is sent moves pods.
    """
    return member.selected or (isinstance(member.reach, DeploymentReach) and member.reach.several)


def _can_be_sent(member: Member) -> bool:
    return member.reachable and bool(member.want) and len(member.entry.grants) < _MOST_OUTSTANDING


def _resume(sums: Sums, members: Sequence[Member]) -> None:
    """Let clusters that stopped at their partition go on with what they had, as far as that is still to be had."""
    for member in sorted(members, key=lambda each: (-each.work, each.name)):
        grant = member.grant
        begun = grant is not None and grant.revision == member.want and grant.partition < grant.replicas
        if grant is not None and begun and not grant.paused and member.is_frozen:
            _grant(sums, member, (grant.unavailable, grant.surge), (0, 0))


def _pass(sums: Sums, members: list[Member]) -> list[Member]:
    """Divide and grant once; return those that may have more in another pass."""
    work = [each.work for each in members]
    held = [each.held for each in members]
    most_missing = [_most_missing(sums, each) for each in members]
    free = [_free(sums, each, most) for each, most in zip(members, most_missing, strict=True)]
    lower = [max(u, f) for (u, _), f in zip(held, free, strict=True)]
    missing = apportion(sum(lower) + max(0, sums.available), work, lower, most_missing, [s for _, s in held])
    surge = [s for _, s in held]
    if members[0].contract.has_surge:
        # Pods beyond those wanted that a cluster stands still with it may keep until it is done.
        beyond = [max(0, each.bounds.ceiling - each.replicas) if each.is_frozen else 0 for each in members]
        upper = [max(s, min(each.work, max(sums.budgets.surge, b))) for each, s, b in _rows(members, surge, beyond)]
        room = [max(s, min(top, b)) for s, top, b in zip(surge, upper, beyond, strict=True)]
        surge = apportion(sum(room) + max(0, sums.pods), work, room, upper, missing)
    again = []
    for member, u, s, (u0, s0) in zip(members, missing, surge, held, strict=True):
        if _grant(sums, member, (u, s), (u0, s0)):
            again.append(member)
    return again


def _offer_the_rest(sums: Sums, members: Sequence[Member]) -> None:
    """Offer what is left to those who got nothing, one after the other.

    It may have been meant for clusters that cannot use it as long as others hold another budget, and these others may
    wait for just what is left.
    """
    for member in members:
        if member.changed:
            continue
        had, surged = member.held
        unavailable = max(had, min(_most_missing(sums, member), had + max(0, sums.available)))
        surge = surged
        if member.contract.has_surge:
            surge = max(surged, min(member.work, sums.budgets.surge, surged + max(0, sums.pods)))
        if (unavailable, surge) != (had, surged):
            _grant(sums, member, (unavailable, surge), (had, surged))


def _rows(members: list[Member], surge: list[int], beyond: list[int]) -> "zip[tuple[Member, int, int]]":
    return zip(members, surge, beyond, strict=True)


def _most_missing(sums: Sums, member: Member) -> int:
    # What it lacks it is charged with, whatever the budget is: that may well be more.
    lacks = max(0, member.replicas - member.available)
    return max(0, min(member.replicas, lacks + member.work, max(lacks, sums.budgets.unavailable)))


def _free(sums: Sums, member: Member, most: int) -> int:
    """Return how much unavailability a cluster may have at no cost, since it is charged with it anyway."""
    if sums.available < 0:
        return min(most, max(0, member.replicas - member.available))
    return min(most, max(0, member.replicas - member.bounds.floor))


def _grant(sums: Sums, member: Member, divided: tuple[int, int], held: tuple[int, int]) -> bool:
    """Grant what was divided, or a part of it; tell whether anything was."""
    (unavailable, surge), (had, surged) = divided, held
    if sums.pods < 0:
        surge = min(surge, max(surged, 1))  # enough to let pods go that are too many
    unavailable = max(unavailable, member.contract.least_unavailable) if unavailable or surge else unavailable
    tried = [(unavailable, surge), (unavailable, surged), (had, surge)]
    if member.revision != member.want:
        tried.append((unavailable, 0))  # the surge was for a template that is not wanted any more
    for partition, (u, s) in product(_partitions(sums, member), dict.fromkeys(tried)):
        if not member.contract.may_run(u, s) or member.stands_still(partition):
            continue
        if member.has_stopped and member.grant is not None and partition >= member.grant.partition:
            continue  # it goes on only with a lower one
        grant = member.running(u, s, partition)
        if member.grant is not None and grant.permits_as_much_as(member.grant):
            continue
        if sums.admit(member, grant, takes=True, makes=s > surged, updates=_updates(member, grant)):
            return True
    return False


def _updates(member: Member, grant: Grant) -> bool:
    present = member.grant
    same = present is not None and present.revision == grant.revision
    promised = present.replicas - present.partition if present is not None and same else 0
    return member.contract.has_partition and member.rolling and grant.replicas - grant.partition > promised


def _partitions(sums: Sums, member: Member) -> list[int]:
    """Return the partition for its share, or for as much of it as can be promised now, or one below the present one.

    Where it is not known which pods are updated, a step of one shows.
    """
    if not member.contract.has_partition:
        return [0]
    if not member.rolling:
        return [max(0, member.replicas - member.share)]  # on the way to the stable template, of which nothing is kept
    share = min(member.share, member.bounds.updated + max(0, sums.updated))
    partitions = [max(0, member.replicas - share)]
    if member.grant is not None and member.same and 0 < member.grant.partition - 1 > partitions[0]:
        partitions.append(min(member.replicas, member.grant.partition) - 1)
    return partitions


def _repair(sums: Sums, members: Sequence[Member]) -> None:
    """Nothing moves, and too little works: let broken clusters replace what is broken, within the budget in all.

    Two broken clusters would otherwise wait for each other for ever. Where nothing may be unavailable, it is one pod at
    a time: it is no more available than it will be.
    """
    members = sorted(members, key=lambda each: not each.selected)  # one that was left goes on with what may never work
    held = [
        each.held if each.selected and each.revision == each.want else (0, each.held[1]) for each in members
    ]  # of what may work
    left = max(1, sums.budgets.unavailable) - sum(unavailable for unavailable, _ in held)
    for member, (u0, s0) in zip(members, held, strict=True):
        broken = max(0, member.replicas - member.available)
        amount = min(broken - u0, left, member.work)
        if amount > 0 and _grant(sums, member, (u0 + amount, s0), (u0, s0)):
            left -= amount
