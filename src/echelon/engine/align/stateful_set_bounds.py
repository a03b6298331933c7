"""How far a StatefulSet can get.

Every pod from the partition on is updated, from the last to the first, and nothing tells which pods those are that a
status counts as updated: after a rollback they may well be the first ones. So every ordinal from the partition on
counts as one that may be deleted, unless all pods that have the revision are known to have got it above the lowest
partition that was ever granted for it, or the member had nothing more to do under a partition. The one form in which
nothing is deleted is a partition of all replicas.

There is no surge. Scaling in takes the last ordinals, whatever else is down.
"""

import msgspec
from msgspec.structs import replace

from echelon.engine.align.clone_set_bounds import comes_from, updated_at_first
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.unseen import UnseenReach

_FAR = 1 << 30


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """The snapshot, as far as it counts, and the revision that is rolled out."""

    available: int
    pods: int
    updated: int
    outdated: int
    wanted_revision: str
    back: bool  # the member may come from the wanted revision: pods that have it may have any ordinal


class StatefulSetReach(msgspec.Struct, frozen=True, gc=False):
    """See `bounds.Reach`."""

    seen: _Seen
    floor: int
    ceiling: int
    updated: int
    revision: str  # of the last grant
    same: bool  # nothing but the revision of the snapshot has been granted
    promoted: bool  # all pods may be updated, and the old revision forgotten
    lowest: int  # partition of the revision of the snapshot
    below: int | None  # the ordinal below which all outdated pods are
    least: int  # partition of grants of the wanted revision, as far as pods may have it
    first: bool = True  # no grant so far: the next is the one that the snapshot was taken under
    lost: int = 0  # pods of the snapshot that the present revision may have taken
    lost_before: int = 0
    cuts: int = 0

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "StatefulSetReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        known, newest = entry.revision, entry.newest
        updated = min(view.updated, view.pods) if known else 0
        outdated = view.pods - updated
        here = known == revision
        # What is kept of partitions is about the newest revision; of another one nothing is known.
        lowest = entry.least_partition if newest is not None and newest.revision == known else 0
        return cls(
            seen=_Seen(
                view.available,
                view.pods,
                updated,
                outdated,
                revision,
                back=comes_from(entry, revision),
            ),
            floor=view.available,
            ceiling=view.pods,
            updated=updated_at_first(entry, revision),
            revision=known,
            same=bool(known),
            promoted=here and outdated == 0,
            lowest=lowest,
            below=entry.outdated_below,
            least=lowest if here and updated else _FAR,
        )

    def under(self, grant: Grant) -> "StatefulSetReach":
        """Extend it by a grant."""
        seen = self.seen
        if grant.revision == self.revision:
            same, lost, lost_before = self.same, self.lost, self.lost_before
        else:
            same, lost, lost_before = False, 0, self.lost_before + self.lost
        wanted = grant.replicas
        partition = min(grant.partition, wanted)
        lowest = min(self.lowest, partition)
        # A pod that dies below the partition comes back with the old revision.
        below = None if self.below is None else max(self.below, partition)
        cut = max(0, self.ceiling - wanted)
        cuts = self.cuts + cut
        to_update = wanted - partition
        if same:
            # Of the updated pods, those that are surely from the partition on, and surely not cut off.
            above = seen.updated - (partition - lowest) - cuts
            to_update = min(seen.outdated, max(0, to_update - max(0, above)))
            if below is not None:
                to_update = min(to_update, below - partition)
        lost = max(lost, to_update)
        floor = max(
            min(seen.available, wanted - min(grant.unavailable, wanted), self.floor - cut),
            seen.available - lost - lost_before - cuts,
            self.floor - to_update - cut,
        )
        updated, promoted, least = self.updated, self.promoted, self.least
        if grant.revision == seen.wanted_revision:
            least = min(least, partition)
            most = wanted if seen.back else wanted - least
            if same:
                # A pod that is missing from the partition on comes back updated; on a template that the member comes
                # from, every pod does.
                missing = max(0, wanted - seen.updated - seen.outdated)
                most = seen.updated + to_update + (missing if seen.back else min(missing, wanted - partition))
            updated = max(updated, wanted if promoted else min(most, wanted))
            promoted = promoted or updated >= wanted
        elif promoted or seen.back:
            # It comes from the wanted revision, so the old pods that it makes have it.
            updated = max(updated, wanted)
        return StatefulSetReach(
            seen,
            floor=max(0, min(self.floor, floor)),
            # While it still has pods beyond those wanted, some of these may be missing, and come back first.
            ceiling=max(self.ceiling, seen.pods + wanted if self.first and seen.pods > wanted else wanted),
            updated=updated,
            revision=grant.revision,
            same=same,
            promoted=promoted,
            lowest=lowest,
            below=below,
            least=least,
            first=False,
            lost=lost,
            lost_before=lost_before,
            cuts=cuts,
        )

    def after(self, replaced: Outstanding) -> "StatefulSetReach":
        """Extend it by what was decided under a grant that was replaced: pods that are ending still count as there."""
        return replace(self.under(replaced.grant), floor=min(self.floor, replaced.floor))
