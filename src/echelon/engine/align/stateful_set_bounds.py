"""How far a StatefulSet can get.

Every pod from the partition on is updated, from the last to the first, and nothing tells which pods those are that a
status counts as updated: after a rollback they may well be the first ones. So every ordinal from the partition on
counts as one that may be deleted, unless all pods that have the revision are known to have got it above the lowest
partition that was ever granted for it, or the member had nothing more to do under a partition. The one form in which nothing is deleted is a partition of all replicas.

There is no surge. Scaling in takes the last ordinals, whatever else is down.
"""

from echelon.engine.align.clone_set_bounds import updated_at_first
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.unseen import UnseenReach


class StatefulSetReach:
    """See `bounds.Reach`. Values never change: `under` makes new ones."""

    __slots__ = (
        "_available",
        "_back",
        "_begun",
        "_below",
        "_cuts",
        "_lost",
        "_lost_before",
        "_lowest",
        "_outdated",
        "_promoted",
        "_revision",
        "_same",
        "_updated",
        "_wanted_revision",
        "ceiling",
        "floor",
        "updated",
    )

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "StatefulSetReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        self = cls()
        self._available = self.floor = view.available
        self.ceiling = view.pods
        known = entry.revision
        newest = entry.newest
        self._updated = min(view.updated, view.pods) if known else 0
        self._outdated = view.pods - self._updated
        self._revision = known
        self._same = bool(known)
        self._wanted_revision = revision
        # The lowest partition is that of the newest revision; for another one nothing is known.
        self._lowest = entry.least_partition if newest is not None and newest.revision == known else 0
        self._below = entry.outdated_below
        self._lost = self._lost_before = self._cuts = 0
        self.updated = updated_at_first(entry, revision)
        # Pods that have the revision from an earlier time may have any ordinal.
        self._back = self.updated > 0 and (known != revision or entry.returning)
        self._begun = self._updated > 0 and known == revision
        self._promoted = known == revision and self._outdated == 0
        return self

    def under(self, grant: Grant) -> "StatefulSetReach":
        """Extend it by a grant."""
        new = StatefulSetReach()
        new._available, new._updated, new._outdated = self._available, self._updated, self._outdated
        new._wanted_revision, new._back, new._begun = self._wanted_revision, self._back, self._begun
        new._revision = grant.revision
        wanted = grant.replicas
        partition = min(grant.partition, wanted)
        if grant.revision == self._revision:
            new._same, lost, before = self._same, self._lost, self._lost_before
        else:
            new._same, lost, before = False, 0, self._lost_before + self._lost
        new._lowest = min(self._lowest, partition)
        # A pod that dies below the partition comes back with the old revision.
        new._below = None if self._below is None else max(self._below, partition)
        cut = max(0, self.ceiling - wanted)
        new._cuts = self._cuts + cut
        to_update = wanted - partition
        if new._same:
            # Of the updated pods, those that are surely from the partition on, and surely not cut off.
            above = self._updated - (partition - new._lowest) - new._cuts
            to_update = min(self._outdated, max(0, to_update - max(0, above)))
            if new._below is not None:
                to_update = min(to_update, new._below - partition)

        new._lost = max(lost, to_update)
        new._lost_before = before
        floor = max(
            min(self._available, wanted - min(grant.unavailable, wanted), self.floor - cut),
            self._available - new._lost - before - new._cuts,
            self.floor - to_update - cut,
        )
        new.floor = max(0, min(self.floor, floor))
        new.ceiling = max(self.ceiling, wanted)
        new.updated, new._promoted = self.updated, self._promoted
        if grant.revision == self._wanted_revision:
            most = wanted if self._back else wanted - (min(self._lowest, partition) if self._begun else partition)
            if new._same:
                # A pod that is missing from the partition on comes back updated.
                missing = max(0, wanted - self._updated - self._outdated)
                most = self._updated + to_update + min(missing, wanted - partition)
            new._promoted = self._promoted or max(most, self.updated) >= wanted
            new.updated = max(self.updated, wanted if self._promoted else min(most, wanted))
        return new

    def after(self, replaced: Outstanding) -> "StatefulSetReach":
        """Extend it by what was decided under a grant that was replaced: pods that are ending still count as there."""
        new = self.under(replaced.grant)
        new.floor = min(self.floor, replaced.floor)
        return new
