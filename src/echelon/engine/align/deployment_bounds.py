"""How far a Deployment can get.

Rolling, it takes no available pod away below replicas - maxUnavailable, makes none beyond replicas + maxSurge, and
never takes an updated one: what is updated and available stays. That last point hands budget back without a push, as
a cluster comes to its end.

Paused or resized while several ReplicaSets have pods, it spreads replicas + maxSurge over them in proportion to what
each remembers, and asks nobody whether a pod is available. What this may cost is the cut. With one ReplicaSet it only
follows the number of replicas.
"""

import msgspec
from msgspec.structs import replace

from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.unseen import UnseenReach

_NOTHING = -1


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """The snapshot, as far as it counts."""

    available: int
    told: int  # pods that ReplicaSets are to have; more may exist while some have yet to go
    updated: int
    outdated: int
    revision: str
    confirmed: int  # id of a grant that the member is known to have carried out
    former: tuple[str, ...]  # other revisions that pods may have; an empty one may be any

    def is_new(self, revision: str) -> bool:
        """Tell whether no pod can have a revision."""
        return revision != self.revision and revision not in self.former and "" not in (self.revision, *self.former)


class DeploymentReach(msgspec.Struct, frozen=True, gc=False):
    """See `bounds.Reach`."""

    seen: _Seen
    floor: int
    ceiling: int
    lowest: int  # of what ReplicaSets may remember as their ceiling
    highest: int
    stale: tuple[int, int] | None  # the same of those that take part again once it is not paused any more
    several: bool  # more than one ReplicaSet may have pods
    same: bool  # nothing but the revision of the snapshot has been granted
    bottom: int  # the fewest pods that it can have come to
    fewest: int = _NOTHING  # replicas
    most: int = _NOTHING
    cuts: int = 0
    resized: bool = False
    stands: bool = False  # it is known to stand still, with the pods of the snapshot
    surely_several: bool = False  # and these are of more than one ReplicaSet
    updated: int = 0  # there is no partition to keep

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "DeploymentReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        updated = entry.updated
        outdated = view.pods - updated
        told = view.pods if view.told is None else view.told
        available = min(view.available, told)  # the others have yet to go
        # A pause that was carried out, with nothing under way: the member stands still.
        # Where nobody can tell, the one that was observed is the first only after some time has passed.
        first = entry.grants[0].grant if entry.grants else None
        carried_out = first is not None and view.settled is not False and view.observed and view.push_id == first.id
        confirmed = first.id if first is not None and carried_out else _NOTHING
        sizes = (entry.sizes.lowest, entry.sizes.highest) if entry.sizes else (told, told)
        stale = None
        if view.resized is not None:
            sizes = view.resized
        elif first is not None and carried_out and first.paused:
            # Those with pods were resized by the pause, if there are several; if there is one, it matters only later.
            sizes, stale = (told, told), sizes
        others = sum(each != entry.revision for each in entry.former)
        return cls(
            seen=_Seen(available, told, updated, outdated, entry.revision, confirmed, entry.former),
            floor=available,
            ceiling=told,
            lowest=sizes[0],
            highest=sizes[1],
            stale=stale,
            several=outdated > 0 and (updated > 0 or not entry.revision or others > 1),
            same=bool(entry.revision),
            bottom=told,
        )

    def under(self, grant: Grant) -> "DeploymentReach":
        """Extend it by a grant."""
        seen = self.seen
        wanted, most = grant.replicas, grant.replicas + grant.surge
        same = self.same and grant.revision == seen.revision
        changed = self.most != _NOTHING and not self.fewest == self.most == wanted
        resizes = (grant.paused or changed) and self.several
        resized = self.resized or resizes or changed
        cut = self.cut(most) if resizes else 0
        cuts = self.cuts + cut
        fewest = wanted if self.most == _NOTHING or wanted < self.fewest else self.fewest

        lowest, highest, stale = min(most, self.lowest), max(most, self.highest), self.stale
        if stale is not None and not grant.paused:
            lowest, highest, stale = min(lowest, stale[0]), max(highest, stale[1]), None
        least = grant.least
        floor = min(seen.available, least, self.floor - cut)
        if same:
            floor = max(floor, seen.available - seen.outdated - cuts - max(0, seen.updated - fewest))
        if resizes:
            ceiling = most
        elif (grant.paused and not self.several) or (same and seen.outdated == 0):
            ceiling = wanted
        elif same and not resized:
            ceiling = min(most, seen.told + max(0, wanted - seen.updated))
        else:
            ceiling = most
        if resizes:
            bottom = most
        elif same and seen.outdated == 0:
            bottom = wanted
        else:
            bottom = least
        stands, surely_several = self._stands_still(grant, changed=changed)
        if stands:
            floor, ceiling, bottom = seen.available, seen.told, seen.told
        return DeploymentReach(
            seen,
            floor=self.floor if self.floor < floor else max(0, floor),
            ceiling=max(ceiling, self.ceiling),
            lowest=lowest,
            highest=highest,
            stale=stale,
            several=self.several or not (grant.paused or (same and seen.outdated == 0)),
            same=same,
            bottom=min(bottom, self.bottom),
            fewest=fewest,
            most=max(wanted, self.most),
            cuts=cuts,
            resized=resized,
            stands=stands,
            surely_several=surely_several,
        )

    def after(self, replaced: Outstanding) -> "DeploymentReach":
        """Extend it by what was decided, and may not have happened yet, under a grant that was replaced."""
        grant = replaced.grant
        new = self.under(grant)
        return replace(
            new,
            # What a resize takes is in no tail: it asks neither for availability nor for revisions.
            same=new.same and not grant.paused and not new.resized,
            cuts=self.cuts,
            floor=min(self.floor, replaced.floor),
            ceiling=max(self.ceiling, replaced.ceiling),
        )

    def _stands_still(self, grant: Grant, *, changed: bool) -> tuple[bool, bool]:
        """Tell whether it stands still with the pods of the snapshot, and whether surely several ReplicaSets have them.

        Only a new ReplicaSet of just the wanted size makes a paused Deployment drop the old ones, so it has none of a
        template that is new to it. One that has all pods follows the number of replicas; several keep what they have
        as long as the total is the same.
        """
        seen, wanted = self.seen, grant.replicas
        drops = seen.updated == wanted if grant.revision == seen.revision else not seen.is_new(grant.revision)
        if grant.id == seen.confirmed:
            stands = grant.paused and self.several and not drops
            return stands, stands and seen.told != wanted
        same_total = grant.most == seen.told and (not changed or self.surely_several)
        stands = grant.paused and self.stands and same_total and not drops
        return stands, stands and self.surely_several

    def makes(self, most: int) -> bool:
        """Tell whether a resize to so many pods may make some."""
        return self.several and most > self.bottom

    def cut(self, most: int) -> int:
        """Return how many pods a resize can take from ReplicaSets while it brings the total to `most`."""
        top = max(self.highest, self.ceiling)
        if not self.several or most >= top:
            return 0
        if self.stands and most <= min(self.lowest, self.ceiling):
            return self.ceiling - most  # all shrink, and by no more than the total does
        if self.ceiling <= most <= self.lowest and self.ceiling // 2 * 2 * (top - most) <= top:
            # None grows but the largest. The others have half of the pods at most, and that is too few to lose one.
            return 0
        # Where the total grows, to less than they remember, all but the largest shrink, which gets what they lose.
        # Where some grow although the total has to shrink, the largest pays for the others, too.
        return top if self.lowest < most < self.ceiling else top - most
