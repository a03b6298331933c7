"""How far a StatefulSet can get.

Every pod from the partition on is updated, from the last to the first, and nothing tells which pods those are that a
status counts as updated: after a rollback they may well be the first ones. So every ordinal from the partition on
counts as one that may be deleted, unless all pods that have the revision are known to have got it above the lowest
partition that was ever granted for it, or the member had nothing more to do under a partition. The one form in which
nothing is deleted is a partition of all replicas.

There is no surge. Scaling in takes the last ordinals, whatever else is down; but in order it does so only when all
the others are there, so until it is known that none is left beyond, those that are missing come on top of them.
"""

import msgspec
from msgspec.structs import replace

from echelon.engine.align.clone_set_bounds import comes_from, updated_at_first
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger, Ordinals
from echelon.engine.align.unseen import UnseenReach

_FAR = 1 << 30
_ANY = Ordinals()


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """The snapshot, as far as it counts, and the revision that is rolled out."""

    available: int
    updated: int
    outdated: int
    wanted_revision: str
    back: bool  # the member may come from the wanted revision: pods that have it may have any ordinal
    there: int  # ordinals below this had a pod, and no others; zero if that is not known


class StatefulSetReach(msgspec.Struct, frozen=True, gc=False):
    """See `bounds.Reach`."""

    seen: _Seen
    floor: int
    ceiling: int
    updated: int
    revision: str  # of the last grant
    same: bool  # nothing but the revision of the snapshot has been granted
    promoted: bool  # all pods may be updated, and the old revision forgotten
    ordinals: Ordinals  # that may have the revision of the snapshot
    least: int  # partition of grants of the wanted revision, as far as pods may have it
    there: int  # ordinals below this still have the pod of the snapshot, unless it was updated
    highest: int  # replicas that were granted before the snapshot, as far as pods may be left of them
    top: int  # pods of the snapshot with this ordinal or a higher one are counted as cut off
    above: int  # so are all with this ordinal or a higher one, also those that were made since
    largest: int = 0  # replicas of a grant since
    spans: tuple[tuple[int, int], ...] = ()  # ordinals of which pods were made updated, if they had to be made
    freed: tuple[tuple[int, int], ...] = ()  # ordinals that partitions have left to be updated, one way or the other
    lost: int = 0  # pods of the snapshot that the present revision may have taken
    lost_before: int = 0
    cuts: int = 0

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "StatefulSetReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        known = entry.revision
        updated = entry.updated
        outdated = view.pods - updated
        here = known == revision
        before = (each.grant.replicas for each in entry.grants if each.grant.id <= view.push_id)
        highest = max(view.pods, view.replicas, entry.sizes.highest if entry.sizes else 0, *before)
        ordinals = entry.ordinals.get(known, _ANY)
        there = view.pods if view.pods == highest == view.replicas else 0
        return cls(
            seen=_Seen(
                view.available,
                updated,
                outdated,
                revision,
                back=comes_from(entry, revision),
                there=there,
            ),
            floor=view.available,
            ceiling=view.pods,
            updated=updated_at_first(entry, revision),
            revision=known,
            same=bool(known),
            promoted=here and outdated == 0,
            ordinals=ordinals,
            least=ordinals.least if here and updated else _FAR,
            there=there,
            highest=highest,
            top=highest,
            above=highest,
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
        ordinals = self.ordinals.under(partition)
        cut = min(seen.updated + seen.outdated, max(0, self.top - wanted))
        cuts = self.cuts + cut
        cut_since = max(cut, self.above - wanted)
        to_update = wanted - partition
        if same:
            # Of the updated pods, those that are surely from the partition on, and surely not cut off.
            above = seen.updated - (partition - ordinals.least) - cuts
            existing = max(0, min(wanted, seen.there) - partition) if seen.there else to_update
            to_update = min(seen.outdated, max(0, existing - max(0, above)))
            if ordinals.below is not None:
                to_update = min(to_update, ordinals.below - partition)
        lost = max(lost, to_update)
        floor = max(
            min(seen.available, wanted - min(grant.unavailable, wanted), self.floor - cut_since),
            seen.available - lost - lost_before - cuts,
            self.floor - to_update - cut_since,
        )
        # Pods of the snapshot may be beyond all that are made since.
        largest = max(self.largest, wanted)
        beyond = min(max(0, self.highest - largest), seen.updated + seen.outdated)
        spans, freed = self.spans, self.freed
        updated, promoted, least = self.updated, self.promoted, self.least
        if grant.revision == seen.wanted_revision:
            least = min(least, partition)
            # Pods beyond those wanted count as long as they last, and hide as many that are missing.
            pods = seen.updated + seen.outdated
            kept = min(max(0, self.highest - wanted), pods)
            most = wanted + kept if seen.back else wanted - least + kept
            if same:
                # A pod that is missing from the partition on is made updated, and stays so under later grants; on a
                # template that the member comes from, every pod is.
                missing = max(0, wanted + kept - pods)
                spans = (*spans, (max(self.there, partition), wanted))
                freed = (*freed, (partition, wanted + kept))
                # An ordinal is updated once: the pod that is taken there, and the one that is missing, are one.
                since = lost + missing if seen.back else min(lost + min(missing, _covered(spans)), _covered(freed))
                most = seen.updated + since
            updated = max(updated, wanted + kept if promoted else min(most, wanted + kept))
            promoted = promoted or updated >= wanted
        elif promoted or seen.back:
            # It comes from the wanted revision, so the old pods that it makes have it.
            updated = max(updated, wanted)
        return StatefulSetReach(
            seen,
            floor=max(0, min(self.floor, floor)),
            ceiling=max(self.ceiling, largest + beyond),
            updated=updated,
            revision=grant.revision,
            same=same,
            promoted=promoted,
            ordinals=ordinals,
            least=least,
            there=min(self.there, wanted),
            highest=self.highest,
            largest=largest,
            top=min(self.top, wanted),
            above=wanted,
            spans=spans,
            freed=freed,
            lost=lost,
            lost_before=lost_before,
            cuts=cuts,
        )

    def after(self, replaced: Outstanding) -> "StatefulSetReach":
        """Extend it by what was decided under a grant that was replaced: pods that are ending still count as there."""
        return replace(self.under(replaced.grant), floor=min(self.floor, replaced.floor))


def _covered(spans: tuple[tuple[int, int], ...]) -> int:
    """Return how many ordinals are in at least one of the spans."""
    covered = end = 0
    for first, last in sorted(spans):
        covered += max(0, last - max(first, end))
        end = max(end, last)
    return covered
