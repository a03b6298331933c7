"""A round: what each cluster is sent now.

It is a function of what is wanted, of the ledger and of the last snapshots, and gives the same again until one of them
changes. Whatever it sends keeps the three sums, over everything that any member might still act on. The order of the
steps is that of urgency: first everybody gets to know the new template and stands still with it, then what is overdrawn
is taken back, then clusters are resized, and what is left is handed out.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from echelon.engine.align.decisions import BudgetDecision, Round, reason_for
from echelon.engine.align.deficits import freeze, take_back
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger, Ledger, Ordinals, Stalled
from echelon.engine.align.member import Member
from echelon.engine.align.resizing import resize
from echelon.engine.align.retire import PATIENCE, Patience, next_retirement, observe
from echelon.engine.align.shares import divide_updates
from echelon.engine.align.sums import Slack, Sums
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
            _entry(workload, ledger, name, views.get(name)),
            views.get(name),
            family,
            now,
            patience,
            reachable=workload.reaches(name),
        )
        for name in sorted(ledger.clusters.keys() | workload.targets.keys())
    }
    begun = any(each.grants for each in ledger.clusters.values())
    first = ledger.first or "" if begun else workload.template
    partition = workload.budgets.partition if _keeps_old(workload, ledger.stable or first) else 0
    members = [
        Member(
            name,
            _target(workload, name, entry),
            entry,
            workload.contract,
            keep_old=partition > 0,
            paused=workload.paused,
            selected=name in workload.targets,
        )
        for name, entry in entries.items()
    ]
    next_push = 1 + max((ledger.next_push - 1, *(view.push_id for view in views.values())))
    too_few = sum(each.bounds.floor for each in members) < workload.budgets.least_available
    stalled = _standing_still(ledger.stalled, members, next_push, now, patience) if too_few else None
    sums = Sums(workload.budgets, members, partition=partition, repairing=stalled is not None and stalled.repairing)
    unknown = [each.name for each in members if each.unknown]
    _decide(workload, sums, members, partition, held=bool(unknown))

    pushes = _number(members, next_push)
    clusters = {
        each.name: pushed(each.entry, pushes[each.name]) if each.name in pushes else each.entry for each in members
    }
    if stalled is not None and pushes:
        stalled = replace(stalled, standing=(next_push + len(pushes), *stalled.standing[1:]))
    updated = (each.is_complete and (each.target.open or each.rolling) for each in members)
    complete = not pushes and all(done or _is_gone(each) for done, each in zip(updated, members, strict=True))
    granted = {name: entry for name, entry in clusters.items() if entry.grants}
    new = Ledger(
        next_push=next_push + len(pushes),
        clusters=granted,
        stable=workload.template if complete and all(each.is_updated for each in members) else ledger.stable,
        first=first if granted and first else UNSET,
        stalled=stalled,
    )
    slack = sums.slack
    return Round(
        ledger=ledger if new == ledger else new,
        pushes=pushes,
        decisions={each.name: _decision(each, slack, pushes, unknown, paused=workload.paused) for each in members},
        slack=slack,
        complete=complete,
        stalled_since=stalled.since if stalled else None,
        look_again_at=_look_again_at(members, stalled, patience),
    )


_NOTHING = ClusterLedger()


def _keeps_old(workload: Workload, old: str) -> bool:
    """Tell whether there is an old template to keep pods of: the one that was complete last, or else the first.

    There is none while the first one makes its way, nor on the way back to it.
    """
    known = [each for each in workload.targets.values() if each.old]
    if known:
        return any(each.old != each.revision for each in known)
    return old not in ("", workload.template)


def _entry(workload: Workload, ledger: Ledger, name: str, view: MemberView | None) -> ClusterLedger:
    """Return what is known of a cluster: of one that is not in the ledger, and has something, nothing."""
    known = ledger.clusters.get(name)
    if known is None:
        known = _NOTHING if view is None else ClusterLedger.unknown(view, max(view.pods, workload.budgets.most_pods))
    return known


def _target(workload: Workload, name: str, entry: ClusterLedger) -> Target:
    """Return what a cluster should come to; one that nobody names should come to nothing, as it is."""
    found = workload.targets.get(name)
    newest = entry.newest
    return found or Target(0, newest.revision if newest else "", reachable=workload.reaches(name))


def _decide(workload: Workload, sums: Sums, members: Sequence[Member], partition: int, *, held: bool) -> None:
    """Change grants in the order of urgency; nothing is raised while it is `held`."""
    total = workload.budgets.total
    divide_updates(members, partition, total)
    for member in members:
        if not member.reachable or not member.want or member.revision == member.want:
            continue
        if member.out is not None or member.target.replicas == 0:
            _move(sums, member)
    if workload.paused:
        for member in members:
            if member.work and member.reachable and not member.is_frozen:
                freeze(sums, member)
    elif not (sums.repairing and sums.available < 0):
        take_back(sums, members, workload.on_deficit)
    if held:
        return
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


def pushed(entry: ClusterLedger, grant: Grant) -> ClusterLedger:
    """Return the ledger of a cluster with one more grant."""
    newest = entry.newest
    former, returning, ordinals = entry.former, entry.returning, entry.ordinals
    if newest is None:
        former, returning, ordinals = (), False, {grant.revision: Ordinals()}
    elif newest.revision != grant.revision:
        former = tuple(dict.fromkeys((*former, newest.revision))) if entry.started else former
        returning = grant.revision in former
        ordinals = {**ordinals, grant.revision: Ordinals() if returning else Ordinals.none()}
    return replace(
        entry,
        grants=(*entry.grants, Outstanding(grant)),
        former=former,
        returning=returning,
        ordinals=ordinals,
        started=not grant.paused or (entry.started and newest is not None and newest.revision == grant.revision),
    )


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
        not member.selected
        and not member.changed
        and member.replicas == 0
        and (not grants or (view is not None and view.pods == 0 and view.observed and len(grants) == 1))
    )


def _decision(
    member: Member, slack: Slack, pushes: Mapping[str, Grant], unknown: Sequence[str], *, paused: bool
) -> BudgetDecision:
    wait, message = reason_for(member, slack, unknown, paused=paused)
    unavailable, surge = member.held
    return BudgetDecision(
        cluster=member.name,
        grant=member.grant,
        pushed=member.name in pushes,
        unavailable=unavailable,
        surge=surge,
        outstanding=len(member.entry.grants) + member.changed,
        bounds=member.bounds,
        complete=member.is_complete and not member.changed,
        gone=_is_gone(member),
        wait=wait,
        message=message,
    )


def _look_again_at(members: Iterable[Member], stalled: Stalled | None, patience: Patience) -> float | None:
    times = [next_retirement(each.entry, patience) for each in members if each.target.reachable]
    if stalled is not None and not stalled.repairing:
        times.append(stalled.since + patience.stall)
    return min((time for time in times if time is not None), default=None)
