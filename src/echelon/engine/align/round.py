"""A round: what each cluster is sent now.

It is a function of what is wanted, of the ledger and of the last snapshots, and gives the same again until one of them
changes. Whatever it sends keeps the three sums, over everything that any member might still act on. The order of the
steps is that of urgency: first everybody gets to know the new template and stands still with it, then what is overdrawn
is taken back, then clusters are resized, and what is left is handed out.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from echelon.engine.align.contract import Family
from echelon.engine.align.decisions import ClusterDecision, Round, reason_for
from echelon.engine.align.deficits import freeze, take_back
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger, Ledger, Sizes, Stalled
from echelon.engine.align.member import Member
from echelon.engine.align.resizing import resize
from echelon.engine.align.retire import PATIENCE, Patience, next_retirement, observe
from echelon.engine.align.shares import divide_updates
from echelon.engine.align.sums import Sums
from echelon.engine.align.tokens import drain, hand_out, release
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import Target, Workload


def align(
    workload: Workload, ledger: Ledger, views: Mapping[str, MemberView], now: float, patience: Patience = PATIENCE
) -> Round:
    """Decide what every cluster is sent now."""
    family = workload.contract.family
    entries = {
        name: observe(
            ledger.clusters.get(name, _NOTHING),
            views.get(name),
            family,
            now,
            patience,
            reachable=name not in workload.targets or workload.targets[name].reachable,
        )
        for name in sorted(ledger.clusters.keys() | workload.targets.keys())
    }
    # Before a first template was complete there are no old pods to keep.
    partition = workload.budgets.partition if any(each.stable for each in workload.targets.values()) else 0
    members = [
        Member(name, _target(workload, name, entry), entry, workload.contract, keep_old=partition > 0)
        for name, entry in entries.items()
    ]
    next_push = 1 + max((ledger.next_push - 1, *(view.push_id for view in views.values())))
    too_few = sum(each.bounds.floor for each in members) < workload.budgets.least_available
    stalled = _standing_still(ledger.stalled, members, next_push, now, patience) if too_few else None
    sums = Sums(workload.budgets, members, partition=partition, repairing=stalled is not None and stalled.repairing)
    _decide(workload, sums, members, partition)

    pushes = _number(members, next_push)
    clusters = {
        each.name: pushed(each.entry, pushes[each.name], family) if each.name in pushes else each.entry
        for each in members
    }
    clusters = {each.name: _with_expected(clusters[each.name], each) for each in members}
    complete = all(each.is_complete or _is_gone(each) for each in members) and not pushes
    new = Ledger(
        next_push=next_push + len(pushes),
        clusters={name: entry for name, entry in clusters.items() if entry.grants},
        stable=workload.template if complete and not workload.budgets.partition else ledger.stable,
        stalled=stalled,
    )
    return Round(
        ledger=ledger if new == ledger else new,
        pushes=pushes,
        decisions={each.name: _decision(each, sums, pushes, paused=workload.paused) for each in members},
        slack=sums.slack,
        complete=complete,
        stalled_since=stalled.since if stalled else None,
        look_again_at=_look_again_at(members, stalled, patience),
    )


_NOTHING = ClusterLedger()


def _target(workload: Workload, name: str, entry: ClusterLedger) -> Target:
    """Return what a cluster should come to; one that nobody names should come to nothing, as it is."""
    found = workload.targets.get(name)
    newest = entry.newest
    return found or Target(0, newest.revision if newest else "")


def _decide(workload: Workload, sums: Sums, members: Sequence[Member], partition: int) -> None:
    total = workload.budgets.total
    divide_updates(members, partition, total)
    for member in members:
        if member.out is not None and member.revision != member.want and member.want and member.reachable:
            _move(sums, member)
    if workload.paused:
        for member in members:
            if member.work and member.reachable and not member.is_frozen:
                freeze(sums, member)
    elif not (sums.repairing and sums.available < 0):
        take_back(sums, members, workload.on_deficit)
    resize(sums, members)
    if workload.paused:
        return
    divide_updates(members, partition, total)
    hand_out(sums, members)
    for member in members:
        if not release(sums, member):
            drain(sums, member)


def _move(sums: Sums, member: Member) -> None:
    """Send the wanted template in a form that updates nothing; what has no pods may have it at once."""
    if member.replicas == 0:
        sums.admit(member, member.running(1, 0, 0))
    elif sums.slack.updated is None or not member.goes_back or member.is_quiet:
        # Back on a template that it comes from, a member makes what is missing right then as updated pods.
        freeze(sums, member)


def _number(members: Iterable[Member], first: int) -> dict[str, Grant]:
    """Give ids to the grants that are to be sent."""
    pushes: dict[str, Grant] = {}
    for member in members:
        grant = member.grant
        if grant is None or not member.changed:
            continue
        if member.out is not None and grant.permits_as_much_as(member.out):
            member.grant = member.out
            continue
        pushes[member.name] = member.grant = replace(grant, id=first + len(pushes))
    return pushes


def pushed(entry: ClusterLedger, grant: Grant, family: Family) -> ClusterLedger:
    """Return the ledger of a cluster with one more grant."""
    newest = entry.newest
    former, returning, least = entry.former, entry.returning, entry.least_partition
    below = entry.outdated_below
    partition = min(grant.partition, grant.replicas)
    if newest is None:
        former, returning, least, below = (), False, 0, None
    elif newest.revision != grant.revision:
        former = tuple(dict.fromkeys((*former, newest.revision)))
        returning = grant.revision in former
        least, below = 0 if returning else partition, None
    else:
        least, below = min(least, partition), None if below is None else max(below, partition)
    sizes = entry.sizes
    if family is Family.DEPLOYMENT:
        sizes = _sizes(sizes, grant.most, anew=newest is None or newest.revision != grant.revision)
    return replace(
        entry,
        grants=(*entry.grants, Outstanding(grant)),
        former=former,
        returning=returning,
        least_partition=least,
        outdated_below=below,
        sizes=sizes,
    )


def _sizes(sizes: Sizes | None, most: int, *, anew: bool) -> Sizes:
    if sizes is None:
        return Sizes(most, most, most, most)
    low, high = (most, most) if anew else (min(sizes.revision_lowest, most), max(sizes.revision_highest, most))
    return Sizes(min(sizes.lowest, most), max(sizes.highest, most), low, high)


def _with_expected(entry: ClusterLedger, member: Member) -> ClusterLedger:
    expected = member.expected
    if expected is not None and not expected.missing(member.bounds.floor):
        expected = None
    return entry if expected == entry.expected else replace(entry, expected=expected)


def _standing_still(
    before: Stalled | None, members: Sequence[Member], next_push: int, now: float, patience: Patience
) -> Stalled:
    """Note since when nothing has moved although too few pods are available."""
    standing = (next_push, sum(each.updated for each in members), sum(each.pods for each in members))
    if before is not None and before.repairing:
        return before
    if before is None or before.standing != standing:
        return Stalled(now, standing)
    return replace(before, repairing=True) if now >= before.since + patience.stall else before


def _is_gone(member: Member) -> bool:
    """Whether a cluster that was left has nothing any more, and is known to."""
    view, grants = member.entry.view, member.entry.grants
    return (
        member.target.replicas == 0
        and not member.changed
        and member.replicas == 0
        and (not grants or (view is not None and view.pods == 0 and view.observed and len(grants) == 1))
    )


def _decision(member: Member, sums: Sums, pushes: Mapping[str, Grant], *, paused: bool) -> ClusterDecision:
    wait, message = reason_for(member, sums.slack, paused=paused)
    return ClusterDecision(
        cluster=member.name,
        grant=member.grant,
        pushed=member.name in pushes,
        bounds=member.bounds,
        complete=member.is_complete and not member.changed,
        gone=_is_gone(member),
        wait=wait,
        message=message,
    )


def _look_again_at(members: Iterable[Member], stalled: Stalled | None, patience: Patience) -> float | None:
    times = [next_retirement(each.entry, patience) for each in members if each.reachable]
    if stalled is not None and not stalled.repairing:
        times.append(stalled.since + patience.stall)
    return min((time for time in times if time is not None), default=None)
