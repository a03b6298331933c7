"""Replicas are ramped: part of a grant, throttled by the same sums as an update.

Scaling a workload down or up moves the sums' limits first, so all clusters may follow at once. A pod that moves from
one cluster to another is made there within the surge before it is taken here, or taken here within the unavailability
before it is made there. A new cluster grows from nothing, one that is left shrinks to nothing.
"""

from collections.abc import Sequence

from echelon.engine.align.apportion import apportion
from echelon.engine.align.member import Member
from echelon.engine.align.sums import Sums


def resize(sums: Sums, members: Sequence[Member]) -> None:
    """Bring replicas nearer to what they should be."""
    # A template that is wanted no more is not sent any more: whoever has it yet has to move first.
    ready = [
        each
        for each in members
        if each.reachable and each.replicas != each.target.replicas and (not each.out or each.revision == each.want)
    ]
    _ramp(sums, [each for each in ready if each.replicas > each.target.replicas and _may_shrink(sums, each)], -1)
    _ramp(sums, [each for each in ready if each.replicas < each.target.replicas and each.want], +1)


def _may_shrink(sums: Sums, member: Member) -> bool:
    """While pods are missing none is taken; that it looks free, where it does, is no proof.

    Only where nothing has moved for long, pods may go that do not work.
    """
    return sums.available >= 0 or (sums.repairing and member.available < member.pods)


def _ramp(sums: Sums, members: Sequence[Member], direction: int) -> None:
    if not members:
        return
    wanted = [abs(each.target.replicas - each.replicas) for each in members]
    room = sums.pods if direction > 0 else sums.available
    steps = apportion(max(0, room), wanted, [0] * len(members), wanted)
    for member, step in zip(members, steps, strict=True):
        if step:
            _step(sums, member, direction, step)
    for member in members:
        # What costs nothing, such as a pod that is there already, is in nobody's share.
        left = abs(member.target.replicas - member.replicas)
        if left and _step(sums, member, direction, 1) and left > 1:
            _largest(sums, member, direction, left - 1)


def _step(sums: Sums, member: Member, direction: int, size: int) -> bool:
    if direction < 0 and sums.available < 0:
        size = min(size, member.pods - member.available)
    replicas = member.replicas + direction * size
    # A cluster that has forgotten the old template makes updated pods, whatever its partition.
    updates = direction > 0 and member.rolling and member.bounds.updated >= member.replicas
    return any(sums.admit(member, grant, makes=direction > 0, updates=updates) for grant in member.resized(replicas))


def _largest(sums: Sums, member: Member, direction: int, most: int) -> None:
    """Find the largest step that is admitted by halving."""
    while most > 0:
        if _step(sums, member, direction, most):
            return
        most //= 2
