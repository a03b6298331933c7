"""How far a CloneSet can get.

It takes no available pod away below replicas - maxUnavailable, and surges only as far as there are pods to update or
marked pods to replace. What it does to pods of one revision it does once: a pod that was updated is not updated
again, so removals under grants of one revision do not add up, and those under different revisions do.

A pod that is to be replaced is marked first and deleted later, under whatever spec there is by then. Such a pod is
condemned: it stays so through freezes, new templates and rollbacks.

Once all of its pods are updated, the member has forgotten the old revision. Then every pod that it makes is updated,
whatever the partition says.
"""

from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.unseen import UnseenReach


class CloneSetReach:
    """See `bounds.Reach`. Values never change: `under` makes new ones."""

    __slots__ = (
        "_available",
        "_condemned",
        "_condemned_before",
        "_lost",
        "_lost_before",
        "_outdated",
        "_partition",
        "_pods",
        "_promoted",
        "_revision",
        "_same",
        "_wanted_revision",
        "ceiling",
        "floor",
        "marks",
        "updated",
    )

    @classmethod
    def of(cls, entry: ClusterLedger, revision: str) -> "CloneSetReach | UnseenReach":
        """Start at the last snapshot."""
        view = entry.view
        if view is None:
            return UnseenReach(revision)
        self = cls()
        self._available = self.floor = view.available
        self._pods = self.ceiling = view.pods
        known = entry.revision
        self._outdated = view.outdated if known else view.pods
        self._revision = known
        self._same = bool(known)
        self._wanted_revision = revision
        self._condemned = entry.condemned.get(known, 0)  # by the present revision
        self._condemned_before = sum(entry.condemned.values()) - self._condemned
        self._lost = 0  # pods of the snapshot that the present revision may have taken
        self._lost_before = 0
        self._partition = 0  # the largest so far
        self.updated = updated_at_first(entry, revision)
        self._promoted = known == revision and view.outdated == 0
        self.marks = 0
        return self

    def under(self, grant: Grant) -> "CloneSetReach":
        """Extend it by a grant."""
        new = CloneSetReach()
        new._available, new._pods, new._outdated = self._available, self._pods, self._outdated
        new._wanted_revision = self._wanted_revision
        new._revision = grant.revision
        if grant.revision == self._revision:
            new._same, condemned, before = self._same, self._condemned, self._condemned_before
            lost, lost_before = self._lost, self._lost_before
        else:
            new._same, condemned, before = False, 0, self._condemned_before + self._condemned
            lost, lost_before = 0, self._lost_before + self._lost
        wanted = grant.replicas
        partition = min(grant.partition, wanted)
        new._partition = max(self._partition, partition)
        # Old pods may also be made: as many as a partition has asked for.
        old = max(self._outdated, new._partition) if new._same else max(self.ceiling, new._partition)
        to_update = max(0, old - partition)
        too_many = max(0, self.ceiling - wanted)
        surge = 0 if grant.paused else grant.surge
        marked = condemned + before

        new._lost = max(lost, to_update, condemned, too_many)
        new._lost_before = lost_before
        taken = new._lost + lost_before + before
        floor = max(
            min(self._available, wanted - min(grant.unavailable, wanted)),
            self._available - taken,
            self.floor - to_update - marked - too_many,
        )
        new.floor = max(0, min(self.floor, floor))
        new.ceiling = max(self.ceiling, wanted + min(surge, max(to_update, marked)))
        new.marks = 0 if grant.paused else min(to_update, grant.unavailable + grant.surge)
        new._condemned = max(condemned, new.marks)
        new._condemned_before = before
        new.updated, new._promoted = self.updated, self._promoted
        if grant.revision == self._wanted_revision:
            most = wanted - partition + min(surge, marked)
            new._promoted = self._promoted or max(most, self.updated) >= wanted
            new.updated = max(self.updated, wanted if self._promoted else most)
        return new

    def after(self, replaced: Outstanding) -> "CloneSetReach":
        """Extend it by a grant that was replaced: what was decided under it has happened, or is counted as granted."""
        return self.under(replaced.grant)


def updated_at_first(entry: ClusterLedger, revision: str) -> int:
    """Return how many pods of a revision a cluster may have at its last snapshot.

    The snapshot tells, if it is of that revision. If not, there are none, unless the cluster has had it before.
    """
    view = entry.view
    if view is None:
        return 0
    if entry.revision == revision:
        return view.updated
    newest = entry.newest
    back = revision in entry.former or (entry.returning and newest is not None and newest.revision == revision)
    return view.pods if back else 0 if entry.revision else view.updated
