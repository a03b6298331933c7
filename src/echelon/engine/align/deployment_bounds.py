"""How far a Deployment can get.

Rolling, it takes no available pod away below replicas - maxUnavailable, makes none beyond replicas + maxSurge, and
never takes an updated one: what is updated and available stays. That last point hands budget back without a push, as
a cluster comes to its end.

Paused or resized while several ReplicaSets have pods, it spreads replicas + maxSurge over them in proportion to what
each remembers, and asks nobody whether a pod is available. What this may cost is the cut. With one ReplicaSet it only
follows the number of replicas.
"""

from dataclasses import dataclass

from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.unseen import UnseenReach


@dataclass(frozen=True, slots=True)
class _Seen:
    """The snapshot, as far as it counts."""

    available: int
    told: int  # pods that ReplicaSets are to have; more may exist while some have yet to go
    updated: int
    outdated: int
    revision: str
    confirmed: int  # id of a grant that the member is known to have carried out; below zero for none


class DeploymentReach:
    """See `bounds.Reach`. Values never change: `under` makes new ones."""

    __slots__ = (
        "_cuts",
        "_fewest",
        "_highest",
        "_lowest",
        "_most",
        "_resized",
        "_same",
        "_seen",
        "ceiling",
        "floor",
        "several",
        "updated",
    )

    def __init__(self, seen: _Seen, floor: int, ceiling: int, lowest: int, highest: int) -> None:
        self._seen = seen
        self.floor = floor
        self.ceiling = ceiling
        self.updated = 0  # there is no partition to keep
        self.several = False  # whether more than one ReplicaSet may have pods
        self._same = True  # nothing but the revision of the snapshot has been granted
        self._fewest = self._most = -1  # replicas
        self._lowest, self._highest = lowest, highest  # what ReplicaSets may remember as their ceiling
        self._cuts = 0
        self._resized = False

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "DeploymentReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        updated = min(view.updated, view.pods) if entry.revision else 0
        # A pause that was carried out, with nothing under way: the member stands still.
        carried_out = view.settled and view.observed and len(entry.grants) == 1
        confirmed = entry.grants[0].grant.id if carried_out else -1
        told = view.pods if view.told is None else view.told
        seen = _Seen(view.available, told, updated, view.pods - updated, entry.revision, confirmed)
        sizes = entry.sizes
        lowest, highest = (sizes.lowest, sizes.highest) if sizes else (told, told)
        self = cls(seen, view.available, told, lowest, highest)
        self._same = bool(entry.revision)
        self.several = seen.outdated > 0 and (updated > 0 or not entry.revision)
        return self

    def under(self, grant: Grant) -> "DeploymentReach":
        """Extend it by a grant."""
        seen = self._seen
        wanted, most = grant.replicas, grant.replicas + grant.surge
        same = self._same and grant.revision == seen.revision
        changed = self._most >= 0 and not self._fewest == self._most == wanted
        resizes = (grant.paused or changed) and self.several
        cut = self.cut(most) if resizes else 0

        new = DeploymentReach(seen, self.floor, self.ceiling, min(self._lowest, most), max(self._highest, most))
        new._fewest = wanted if self._most < 0 else min(self._fewest, wanted)
        new._most = max(self._most, wanted)
        new._cuts = self._cuts + cut
        new._same = same
        new._resized = self._resized or resizes or changed
        new.several = self.several or not (grant.paused or (same and seen.outdated == 0))

        floor = min(seen.available, grant.least, self.floor - cut)
        if same:
            floor = max(floor, seen.available - seen.outdated - new._cuts - max(0, seen.updated - new._fewest))
        if resizes:
            ceiling = most
        elif (grant.paused and not self.several) or (same and seen.outdated == 0):
            ceiling = wanted
        elif same and not new._resized:
            ceiling = min(most, seen.told + max(0, wanted - seen.updated))
        else:
            ceiling = most
        if grant.paused and grant.id == seen.confirmed and self.several and seen.updated < wanted:
            floor, ceiling = seen.available, seen.told
        new.floor = max(0, min(self.floor, floor))
        new.ceiling = max(self.ceiling, ceiling)
        return new

    def after(self, replaced: Outstanding) -> "DeploymentReach":
        """Extend it by what was decided, and may not have happened yet, under a grant that was replaced."""
        grant = replaced.grant
        new = self.under(grant)
        # What a resize takes is in no tail: it asks neither for availability nor for revisions.
        new._same = new._same and not grant.paused and not new._resized
        new._cuts = self._cuts
        new.floor = min(self.floor, replaced.floor)
        new.ceiling = max(self.ceiling, replaced.ceiling)
        return new

    @property
    def remembered(self) -> int:
        """The highest ceiling that a ReplicaSet may remember."""
        return self._highest

    def makes(self, most: int) -> bool:
        """Tell whether a resize to so many pods may make some."""
        return self.several and most > self._seen.told

    def cut(self, most: int) -> int:
        """Return how many pods a resize can take from ReplicaSets while it brings the total to `most`."""
        if not self.several:
            return 0
        top = max(self._highest, self.ceiling)
        if most >= top:
            return 0
        # Where some grow although the total has to shrink, the largest pays for the others, too.
        return top if self._lowest < most < self.ceiling else top - most
