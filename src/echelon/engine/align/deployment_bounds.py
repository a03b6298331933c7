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


class DeploymentReach(msgspec.Struct, frozen=True, gc=False):
    """See `bounds.Reach`."""

    seen: _Seen
    floor: int
    ceiling: int
    lowest: int  # of what ReplicaSets may remember as their ceiling
    highest: int
    several: bool  # more than one ReplicaSet may have pods
    same: bool  # nothing but the revision of the snapshot has been granted
    fewest: int = _NOTHING  # replicas
    most: int = _NOTHING
    cuts: int = 0
    resized: bool = False
    updated: int = 0  # there is no partition to keep

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "DeploymentReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        updated = min(view.updated, view.pods) if entry.revision else 0
        outdated = view.pods - updated
        told = view.pods if view.told is None else view.told
        # A pause that was carried out, with nothing under way: the member stands still.
        carried_out = view.settled and view.observed and len(entry.grants) == 1
        confirmed = entry.grants[0].grant.id if carried_out else _NOTHING
        sizes = entry.sizes
        return cls(
            seen=_Seen(view.available, told, updated, outdated, entry.revision, confirmed),
            floor=view.available,
            ceiling=told,
            lowest=sizes.lowest if sizes else told,
            highest=sizes.highest if sizes else told,
            several=outdated > 0 and (updated > 0 or not entry.revision or len(entry.former) > 1),
            same=bool(entry.revision),
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
        fewest = wanted if self.most == _NOTHING else min(self.fewest, wanted)

        floor = min(seen.available, grant.least, self.floor - cut)
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
        if grant.paused and grant.id == seen.confirmed and self.several and seen.updated < wanted:
            floor, ceiling = seen.available, seen.told
        return DeploymentReach(
            seen,
            floor=max(0, min(self.floor, floor)),
            ceiling=max(self.ceiling, ceiling),
            lowest=min(self.lowest, most),
            highest=max(self.highest, most),
            several=self.several or not (grant.paused or (same and seen.outdated == 0)),
            same=same,
            fewest=fewest,
            most=max(self.most, wanted),
            cuts=cuts,
            resized=resized,
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

    def makes(self, most: int) -> bool:
        """Tell whether a resize to so many pods may make some."""
        return self.several and most > self.seen.told

    def cut(self, most: int) -> int:
        """Return how many pods a resize can take from ReplicaSets while it brings the total to `most`."""
        top = max(self.highest, self.ceiling)
        if not self.several or most >= top:
            return 0
        # Where some grow although the total has to shrink, the largest pays for the others, too.
        return top if self.lowest < most < self.ceiling else top - most
