"""How far a CloneSet can get.

It takes no available pod away below replicas - maxUnavailable, and surges only as far as there are pods to update or
marked pods to replace. What it does to pods of one revision it does once: a pod that was updated is not updated
again, so updates under grants of one revision do not add up, and those under different revisions do. When it has to
shrink, outdated pods beyond its partition go first. If these are not enough, updated ones go, and the outdated ones
that the partition has kept may go later, under another grant: these do add up.

A pod that is to be replaced is marked first and deleted later, under whatever spec there is by then. Such a pod is
condemned: it stays so through freezes, new templates and rollbacks.

Once all of its pods are updated, the member has forgotten the old revision. Then every pod that it makes is updated,
whatever the partition says.
"""

import msgspec

from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.unseen import UnseenReach


class _Seen(msgspec.Struct, frozen=True, gc=False):
    """The snapshot, as far as it counts, and the revision that is rolled out."""

    available: int
    updated: int
    outdated: int
    wanted_revision: str
    back: bool  # the wanted revision may be the one that the member comes from


class CloneSetReach(msgspec.Struct, frozen=True, gc=False):
    """See `bounds.Reach`."""

    seen: _Seen
    floor: int
    ceiling: int
    updated: int
    revision: str  # of the last grant
    same: bool  # nothing but the revision of the snapshot has been granted
    promoted: bool  # all pods may be updated, and the old revision forgotten
    condemned: int = 0  # by the present revision
    condemned_before: int = 0
    lost: int = 0  # outdated pods of the snapshot that the present revision may have taken
    lost_before: int = 0
    cut: int = 0  # updated pods of the snapshot that it may have taken because there were too many pods
    partition: int = 0  # the largest so far
    last: Grant | None = None
    marks: int = 0  # pods that the last grant may mark

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "CloneSetReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        known = entry.revision
        condemned = entry.condemned.get(known, 0)
        updated = entry.updated
        return cls(
            seen=_Seen(view.available, updated, view.pods - updated, revision, comes_from(entry, revision)),
            floor=view.available,
            ceiling=view.pods,
            updated=updated_at_first(entry, revision),
            revision=known,
            same=bool(known),
            promoted=known == revision and updated == view.pods,
            condemned=condemned,
            condemned_before=sum(entry.condemned.values()) - condemned,
        )

    def under(self, grant: Grant) -> "CloneSetReach":
        """Extend it by a grant."""
        seen = self.seen
        if grant.revision == self.revision:
            same, condemned, before = self.same, self.condemned, self.condemned_before
            lost, lost_before, cut = self.lost, self.lost_before, self.cut
        else:
            same, condemned, before = False, 0, self.condemned_before + self.condemned
            lost, lost_before, cut = 0, self.lost_before + self.lost + self.cut, 0
        wanted = grant.replicas
        partition = min(grant.partition, wanted)
        largest = max(self.partition, partition)
        # Old pods may also be made: as many as a partition has asked for.
        old = max(seen.outdated if same else self.ceiling, largest)
        to_update = max(0, old - partition)
        too_many = max(0, self.ceiling - wanted)
        surge = 0 if grant.paused else grant.surge
        marked = condemned + before
        if same:
            cut = max(cut, self._too_many_updated(grant, partition))
        # Old pods that are made besides make up for those that go instead of them.
        lost = max(lost, seen.outdated - partition if same else to_update, condemned)
        floor = max(
            min(seen.available, wanted - min(grant.unavailable, wanted)),
            seen.available - lost - cut - lost_before - before,
            self.floor - to_update - marked - too_many,
        )
        marks = 0 if grant.paused else min(to_update, grant.unavailable + grant.surge)
        updated, promoted = self.updated, self.promoted
        if grant.revision == seen.wanted_revision:
            most = wanted - partition + min(surge, marked)
            if seen.back:
                # Then whatever is missing is made as an updated pod.
                most = max(most, wanted - seen.outdated) if same else wanted
            updated = max(updated, wanted if promoted else most)
            promoted = promoted or updated >= wanted
        elif promoted or seen.back:
            # It comes from the wanted revision, so the old pods that it makes have it.
            updated = max(updated, partition)
        return CloneSetReach(
            seen,
            floor=max(0, min(self.floor, floor)),
            ceiling=max(self.ceiling, wanted + min(surge, max(to_update, marked))),
            updated=updated,
            revision=grant.revision,
            same=same,
            promoted=promoted,
            condemned=max(condemned, marks),
            condemned_before=before,
            lost=lost,
            lost_before=lost_before,
            cut=cut,
            partition=largest,
            last=grant,
            marks=marks,
        )

    def _too_many_updated(self, grant: Grant, partition: int) -> int:
        """Return how many updated pods it may have to take to come to its size, beside the outdated ones it may take.

        Only a lower size or a higher partition brings that about: a surge is never larger than what is to be updated.
        """
        seen, last = self.seen, self.last
        if last is None:
            return max(0, seen.updated + seen.outdated - grant.replicas - max(0, seen.outdated - partition))
        if grant.replicas >= last.replicas and partition <= min(last.partition, last.replicas):
            return 0
        return max(0, self.ceiling - grant.replicas - max(0, seen.outdated - self.lost - partition))

    def after(self, replaced: Outstanding) -> "CloneSetReach":
        """Extend it by a grant that was replaced: what it marked is counted as if it still could."""
        return self.under(replaced.grant)


def comes_from(entry: ClusterLedger, revision: str) -> bool:
    """Tell whether a member may come from a revision: then pods that it keeps old, or makes anew, have it."""
    newest = entry.newest
    # Where nothing is known of what it was sent before, it may come from any.
    return (
        revision in entry.former
        or "" in entry.former
        or (entry.returning and newest is not None and newest.revision == revision)
    )


def updated_at_first(entry: ClusterLedger, revision: str) -> int:
    """Return how many pods of a revision a cluster may have at its last snapshot.

    The snapshot tells, if it is of that revision. If not, there are none, unless the cluster has had it before.
    """
    view = entry.view
    if view is None:
        return 0
    if entry.revision == revision:
        return view.updated
    return view.pods if comes_from(entry, revision) else 0 if entry.revision else view.updated
