"""What a snapshot proves: which grants are dead, and which revision its counts are of.

A member's controller works on one version of its object at a time. Once it has observed a generation, it will not
act on an earlier one. Which push sat at which generation is learned from snapshots: each shows a push id and a
generation together. So of the pushes that were seen at a generation not above the observed one, all but the newest
are dead, and so is every push before them, seen or not.

Dead is not done. A Deployment's decisions reach its pods through ReplicaSets, so a replaced grant is kept until they
are at size, or until some time has passed where nobody can tell. The status of a StatefulSet counts pods that are
ending, so the same goes for it, unless the agent counts without them. A CloneSet's marks outlive the grant that made
them, so they are remembered until nothing is marked.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from echelon.engine.align.bounds import reach_of
from echelon.engine.align.clone_set_bounds import CloneSetReach
from echelon.engine.align.contract import Family
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger, Ordinals, Sizes
from echelon.engine.align.view import MemberView


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait where nobody can tell, in seconds."""

    settle: float = 5.0  # for what was decided under a replaced grant to happen
    stall: float = 600.0  # for something to move before broken pods are replaced out of turn


PATIENCE = Patience()


def observe(
    entry: ClusterLedger,
    view: MemberView | None,
    family: Family,
    now: float,
    patience: Patience = PATIENCE,
    *,
    reachable: bool = True,
) -> ClusterLedger:
    """Return what is known after a snapshot. An old one changes nothing.

    Time does, where nobody can tell: what has not been heard of for long has not happened. Of a cluster that cannot be
    reached nothing is heard at all, so for it time stands still.
    """
    if view is not None and (entry.view is None or not view.is_older_than(entry.view)) and view != entry.view:
        if entry.view is not None and view.uid != entry.view.uid:
            entry = _made_anew(entry)
        if entry.is_unknown and entry.view is None and not _is_known(entry, view):
            unknown = ClusterLedger.unknown(view, max(each.grant.most for each in entry.grants))
            entry = replace(entry, grants=(*unknown.grants, *entry.grants[1:]), sizes=unknown.sizes)
        entry = _placed(entry, view)
        alive = _last_observed(entry.grants, view)
        if family is Family.CLONE_SET:
            entry = _remember_marks(entry, alive)
        grants = _replaced(entry, alive, family, now)
        entry = replace(entry, grants=grants, view=view, revision=_revision_of(entry.grants, alive, view))
        newest = entry.newest
        kept = (entry.revision, newest.revision if newest else "")
        if not entry.ordinals.keys() <= set(kept):
            entry = replace(entry, ordinals={name: each for name, each in entry.ordinals.items() if name in kept})
    last = entry.view
    if last is None or (not reachable and last.settled is None):
        return entry
    return _settled(_without_dead(entry, last, family, now, patience), last, family, now, patience)


def next_retirement(entry: ClusterLedger, patience: Patience = PATIENCE) -> float | None:
    """Return when time alone will change something."""
    if entry.view is None or entry.view.settled is not None:
        return None
    times = [each.replaced_at + patience.settle for each in entry.grants if each.replaced_at is not None]
    if entry.quiet_since is not None:
        times.append(entry.quiet_since + patience.settle)
    return min(times, default=None)


def _is_known(entry: ClusterLedger, view: MemberView) -> bool:
    """Whether a snapshot is of a push that is known."""
    return any(each.grant.id == view.push_id and each.grant.revision for each in entry.grants)


def _made_anew(entry: ClusterLedger) -> ClusterLedger:
    """The object on the member was deleted and made again: generations begin anew, and tell nothing of before."""
    return replace(entry, grants=tuple(replace(each, generation=0) for each in entry.grants))


def _placed(entry: ClusterLedger, view: MemberView) -> ClusterLedger:
    """Learn at which generation a push sits, and what somebody else made of it."""
    grants = list(entry.grants)
    place = next((n for n, each in enumerate(grants) if each.grant.id == view.push_id and not each.drift), None)
    if place is None:
        return _with_unknown_push(entry, view)
    if view.drift is not None:
        last = grants[-1]
        if not (last.drift and last.grant == view.drift):
            grants.insert(place + 1, Outstanding(view.drift, generation=view.generation, drift=True))
            entry = _with_pods_of(entry, view.drift.revision)
    elif any(each.drift and each.generation < view.generation for each in grants[place + 1 :]):
        # It was put back: the push acts once more, after what had come over it.
        later = max(n for n, each in enumerate(grants) if each.drift and each.generation < view.generation)
        grants.insert(later + 1, replace(grants[place], generation=view.generation))
        del grants[place]
    elif not grants[place].generation or view.generation < grants[place].generation:
        grants[place] = replace(grants[place], generation=view.generation)
    return replace(entry, grants=tuple(grants))


def _with_pods_of(entry: ClusterLedger, revision: str) -> ClusterLedger:
    """What somebody else made of a push leaves pods behind that may have that template."""
    newest = entry.newest
    if revision in entry.former or (newest is not None and newest.revision == revision):
        return entry
    return replace(entry, former=(*entry.former, revision))


def _with_unknown_push(entry: ClusterLedger, view: MemberView) -> ClusterLedger:
    """A push that is not in the ledger, such as one that is younger than the backup a hub was restored from."""
    newest = entry.newest
    if newest is None or view.push_id < newest.id:
        return entry
    unknown = ClusterLedger.unknown(view, max(view.pods, *(each.grant.most for each in entry.grants)))
    return _placed(unknown, view)


def _last_observed(grants: tuple[Outstanding, ...], view: MemberView) -> int:
    """Return the place of the newest grant that is known to have been observed; those before it are dead."""
    observed = view.observed_generation
    return max((n for n, each in enumerate(grants) if 0 < each.generation <= observed), default=0)


def _revision_of(grants: tuple[Outstanding, ...], alive: int, view: MemberView) -> str:
    """Return the revision that the counts are of; nothing if it may be one of several."""
    if not grants:
        return ""
    known = grants[alive]
    if known.generation == view.observed_generation or (view.observed and known.grant.id == view.push_id):
        return known.grant.revision
    # Pushes may have come and gone unseen in between: as long as all have one revision, there is no doubt.
    possible = {each.grant.revision for each in grants[alive:] if each.grant.id <= view.push_id}
    return possible.pop() if len(possible) == 1 else ""


def _replaced(entry: ClusterLedger, alive: int, family: Family, now: float) -> tuple[Outstanding, ...]:
    """Note which grants are dead, with what they could bring about at most, seen from the snapshot before."""
    if not alive:
        return entry.grants
    reach = reach_of(replace(entry, grants=()), family, "")
    grants = list(entry.grants)
    for place, each in enumerate(grants[:alive]):
        if each.replaced_at is None:
            reach = reach.under(each.grant)
            grants[place] = replace(each, replaced_at=now, floor=reach.floor, ceiling=reach.ceiling)
        else:
            reach = reach.after(each)
    if isinstance(reach, DeploymentReach):
        # What the grant that came into force resized at once is as much under way: nothing tells of it, either.
        resized = reach.under(grants[alive].grant)
        if resized.cuts > reach.cuts:
            last = grants[alive - 1]
            grants[alive - 1] = replace(last, floor=min(last.floor, resized.floor))
    return tuple(grants)


def _without_dead(
    entry: ClusterLedger, view: MemberView, family: Family, now: float, patience: Patience
) -> ClusterLedger:
    def done(each: Outstanding) -> bool:
        if each.replaced_at is None:
            return False
        if family is Family.CLONE_SET or view.settled:
            return True
        if view.settled is not None:
            return family is Family.STATEFUL_SET
        return now >= each.replaced_at + patience.settle

    if not any(each.replaced_at is not None for each in entry.grants):
        return entry
    newest = entry.newest
    gone = [each for each in entry.grants if done(each) and each.grant is not newest]
    if not gone:
        return entry
    sizes, ordinals = entry.sizes, dict(entry.ordinals)
    for each in gone if family is not Family.CLONE_SET else ():
        grant = each.grant
        sizes = Sizes.only(grant) if sizes is None else sizes.and_of(grant)
        if grant.revision in ordinals:
            ordinals[grant.revision] = ordinals[grant.revision].under(min(grant.partition, grant.replicas))
    kept = tuple(each for each in entry.grants if not done(each) or each.grant is newest)
    return replace(entry, grants=kept, sizes=sizes, ordinals=ordinals)


def _settled(entry: ClusterLedger, view: MemberView, family: Family, now: float, patience: Patience) -> ClusterLedger:
    """Forget what is over when one grant is left, the member has observed it, and nothing is under way."""
    newest = entry.newest
    if newest is None or len(entry.grants) > 1 or not view.observed or view.push_id != newest.id:
        return entry if entry.quiet_since is None else replace(entry, quiet_since=None)
    complete = entry.revision == newest.revision and entry.updated >= view.pods
    if complete and (entry.former or entry.returning):
        entry = replace(entry, former=(), returning=False)
    if family is Family.DEPLOYMENT:
        if entry.sizes is not None and view.settled is not False:
            entry = _sizes_known(entry, entry.sizes, complete=complete)
        return entry
    quiet = view.pods == view.available == newest.replicas
    since = (
        (now if entry.quiet_since is None else entry.quiet_since)
        if quiet and _in_doubt(entry, newest, family)
        else None
    )
    waited = view.settled is None and since is not None and now >= since + patience.settle
    if (view.settled or waited) and _in_doubt(entry, newest, family):
        ordinals = entry.ordinals
        if family is Family.STATEFUL_SET:
            least = ordinals[newest.revision].least if newest.revision in ordinals else 0
            ordinals = {newest.revision: Ordinals(least, min(newest.partition, newest.replicas))}
        return replace(entry, condemned={}, quiet_since=None, ordinals=ordinals, sizes=None)
    if complete and newest.revision in entry.condemned:
        kept = {name: number for name, number in entry.condemned.items() if name != newest.revision}
        entry = replace(entry, condemned=kept)
    return entry if since == entry.quiet_since else replace(entry, quiet_since=since)


def _in_doubt(entry: ClusterLedger, newest: Grant, family: Family) -> bool:
    """Whether a member that is quiet may still have something to do: marked pods, outdated ones, or some beyond."""
    if family is Family.CLONE_SET:
        return bool(entry.condemned)
    known = entry.ordinals.get(newest.revision)
    if entry.sizes is not None and entry.sizes.highest > newest.replicas:
        return True
    return known is None or known.below != min(newest.partition, newest.replicas)


def _sizes_known(entry: ClusterLedger, sizes: Sizes, *, complete: bool) -> ClusterLedger:
    """A pause that was carried out over several ReplicaSets has made all of them remember the same.

    And when all is updated, the one that is left was last resized under its own revision.
    """
    grant = entry.grants[-1].grant
    view = entry.view
    if grant.paused and view is not None and 0 < entry.updated < view.pods:
        known = Sizes.only(grant)
    elif complete and sizes.revision == grant.revision:
        known = replace(sizes, lowest=sizes.revision_lowest, highest=sizes.revision_highest)
    elif complete:
        known = Sizes.only(grant)
    else:
        return entry
    return entry if known == sizes else replace(entry, sizes=known)


def _remember_marks(entry: ClusterLedger, alive: int) -> ClusterLedger:
    """Keep what the dead grants may have marked."""
    if not alive:
        return entry
    marks = dict(entry.condemned)
    reach = reach_of(replace(entry, grants=()), Family.CLONE_SET, "")
    for each in entry.grants[:alive]:
        reach = reach.under(each.grant)
        grant = each.grant
        marked = reach.marks if isinstance(reach, CloneSetReach) else grant.unavailable + grant.surge
        if marked:
            marks[grant.revision] = max(marks.get(grant.revision, 0), marked)
    return entry if marks == entry.condemned else replace(entry, condemned=marks)
