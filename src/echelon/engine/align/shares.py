"""How many pods of each cluster may be updated.

A partition keeps pods old over all clusters. What it leaves is divided in proportion to the clusters' sizes; where
there are decision groups, earlier groups are filled before later ones get any, or a canary of two pods would never be
finished. What a cluster has been promised, or has updated, it keeps.
"""

from collections.abc import Sequence
from itertools import groupby

from echelon.engine.align.apportion import apportion
from echelon.engine.align.member import Member


def divide_updates(members: Sequence[Member], partition: int, total: int) -> None:
    """Set the share of each member, and what it has yet to do."""
    if partition:
        left = total - partition
        rolling = sorted((each for each in members if each.rolling), key=lambda each: each.target.group)
        promised = sum(_promised(each) for each in rolling)
        left -= promised
        for _, group in groupby(rolling, key=lambda each: each.target.group):
            left -= _divide(list(group), max(0, left))
    else:
        for each in members:
            each.share = each.replicas
    for each in members:
        each.work = _work(each)


def _promised(member: Member) -> int:
    grant = member.grant
    running = grant is not None and grant.revision == member.want and not member.is_frozen
    promised = grant.replicas - grant.partition if grant is not None and running else 0
    return min(member.replicas, max(promised, member.maybe_updated))


def _divide(members: Sequence[Member], more: int) -> int:
    """Divide so many updates beyond those that are promised; return how many were taken."""
    lower = [_promised(each) for each in members]
    sizes = [each.replicas for each in members]
    shares = apportion(sum(lower) + more, sizes, lower, sizes)
    for member, share in zip(members, shares, strict=True):
        member.share = share
    return sum(shares) - sum(lower)


def _work(member: Member) -> int:
    """Return how many pods are still to be updated."""
    if not member.same:
        return min(member.pods, member.share)
    if not member.contract.has_partition:
        return member.outdated
    work = max(0, min(member.outdated, member.share - member.updated))
    if work == 0 and member.is_frozen:
        # It stands still with pods that are too many, and keeps old ones of them that it should not.
        work = max(0, member.outdated - (member.replicas - member.share))
    return work
