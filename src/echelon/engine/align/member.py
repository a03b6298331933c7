"""One cluster in a round: what it has been granted, what it is charged with, and what is being considered for it.

This is the one mutable thing of the engine. It lives as long as a round.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from echelon.engine.align.bounds import Bounds, Reach, reach_of
from echelon.engine.align.contract import Contract, Family
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.workload import Target


class Member:
    """A cluster in a round. `grant` is what it would be sent; at first, what it was sent last."""

    __slots__ = (
        "bounds",
        "contract",
        "entry",
        "family",
        "grant",
        "keeps_old",
        "name",
        "out",
        "outdated",
        "pods",
        "reach",
        "reachable",
        "same",
        "selected",
        "share",
        "target",
        "unknown",
        "updated",
        "want",
        "work",
    )

    def __init__(
        self,
        name: str,
        target: Target,
        entry: ClusterLedger,
        contract: Contract,
        *,
        keep_old: bool,
        paused: bool = False,
        selected: bool = True,
    ) -> None:
        self.name = name
        self.target = target
        self.selected = selected  # or else it was left, and has to come to nothing
        self.entry = entry
        self.contract = contract
        self.family = contract.family
        self.out = self.grant = entry.newest
        self.reach: Reach = reach_of(entry, contract.family, target.revision)
        self.bounds = Bounds(self.reach.floor, self.reach.ceiling, self.reach.updated)
        self.unknown = entry.is_unknown
        # Whether it may be sent anything: not while what it has to report first is on its way.
        waits = self.unknown and (entry.view is None or bool(self.out and self.out.revision))
        self.reachable = target.reachable and not waits
        self.keeps_old = keep_old  # because a partition does over all clusters
        self.want = self._wanted(keep_old=keep_old, paused=paused)
        view = entry.view
        # The counts are those of what was sent last, and that is what is wanted.
        self.same = bool(self.out) and view is not None and entry.revision == self.want == self.revision
        self.pods = view.pods if view else 0
        self.updated = entry.updated if self.same else 0
        self.outdated = self.pods - self.updated
        self.share = self.replicas  # how many of its pods may be updated
        self.work = 0  # pods that have yet to be updated

    @property
    def revision(self) -> str:
        """The revision of its grant."""
        return self.grant.revision if self.grant else ""

    @property
    def replicas(self) -> int:
        """The replicas of its grant."""
        return self.grant.replicas if self.grant else 0

    @property
    def available(self) -> int:
        """What was last reported as available."""
        return self.entry.view.available if self.entry.view else 0

    @property
    def told(self) -> int:
        """How many pods it surely had, or was to have, when it was last heard of."""
        view = self.entry.view
        if view is None:
            return 0
        told = view.pods if view.told is None else view.told
        # A status counts pods that have yet to go.
        return told if view.settled is not None or self.out is None else min(told, self.out.most)

    @property
    def floor_to_come(self) -> int:
        """The lowest availability once it can act on nothing but its present grant."""
        if self.grant is None or (not self.changed and len(self.entry.grants) == 1):
            return self.bounds.floor
        alone = replace(self.entry, grants=(Outstanding(self.grant),))
        return max(self.bounds.floor, reach_of(alone, self.family, self.target.revision).floor)

    @property
    def changed(self) -> bool:
        """Whether it is to be sent something."""
        return self.grant is not self.out

    @property
    def rolling(self) -> bool:
        """Whether its pods count as updated: it is to have the new template."""
        return self.want == self.target.revision

    @property
    def is_complete(self) -> bool:
        """Whether it has come to all that may be asked of it, is available, and nothing is under way."""
        return (
            self.same
            and not self.work
            and len(self.entry.grants) == 1
            and self.replicas == self.pods == self.available == self.target.replicas
        )

    @property
    def is_updated(self) -> bool:
        """Whether all of its pods have the new template."""
        return not self.selected or not self.replicas or (self.rolling and self.updated >= self.replicas)

    @property
    def goes_back(self) -> bool:
        """Whether pods may have the wanted revision from an earlier time."""
        return self.want in self.entry.former

    @property
    def maybe_updated(self) -> int:
        """How many of its pods may have the wanted revision by now, but for what was promised to it."""
        if self.same or not self.goes_back:
            return min(self.replicas, self.updated)
        return min(self.replicas, self.pods)

    @property
    def has_reported(self) -> bool:
        """Whether it has observed its last push, and can act on no other."""
        view = self.entry.view
        return view is not None and view.observed and len(self.entry.grants) == 1

    @property
    def is_quiet(self) -> bool:
        """Whether no pod is being replaced, as far as anybody knows."""
        return self.has_reported and self.pods >= self.replicas

    @property
    def is_frozen(self) -> bool:
        """Whether its grant lets no update move."""
        grant = self.grant
        if grant is None:
            return True
        return grant.paused if self.family is Family.DEPLOYMENT else self.stands_still(grant.partition)

    @property
    def may_take(self) -> bool:
        """Whether it takes pods: those that it updates or, frozen or not, those that it has too many."""
        return self.drops or (self.work > 0 and not self.is_frozen)

    @property
    def drops(self) -> bool:
        """Whether it takes pods that it has too many although it is frozen.

        A CloneSet always does, and a Deployment once its new ReplicaSet is complete.
        """
        if self.family is Family.DEPLOYMENT:
            return self.same and self.outdated > 0 and self.updated >= self.replicas and self.told > self.replicas
        return self.family is Family.CLONE_SET and self.pods > self.replicas

    def stands_still(self, partition: int) -> bool:
        """Tell whether nothing is updated under a partition."""
        if not self.contract.has_partition:
            return False
        if partition >= self.replicas:
            return self.replicas > 0
        return self.family is Family.CLONE_SET and self.same and partition >= self.replicas - self.updated > 0

    @property
    def has_stopped(self) -> bool:
        """Whether it has updated all that the partition of its grant lets it, and is not frozen by that.

        A StatefulSet is not: pods that die from the partition on come back updated.
        """
        grant = self.grant
        if grant is None or self.family is not Family.STATEFUL_SET or not self.same or grant is not self.out:
            return False
        return grant.partition > 0 and self.updated >= grant.replicas - grant.partition

    @property
    def held(self) -> tuple[int, int]:
        """The units of unavailability and of surge that its grant lets it use."""
        grant = self.grant
        return (0, 0) if grant is None or self.is_frozen or self.has_stopped else (grant.unavailable, grant.surge)

    def running(self, unavailable: int, surge: int, partition: int, replicas: int | None = None) -> Grant:
        """Return the grant under which the wanted revision is rolled out."""
        wanted = self.replicas if replicas is None else replicas
        return Grant(0, self.want, wanted, unavailable, surge, min(partition, wanted))

    def frozen(self, *, keep: bool = False) -> Iterator[Grant]:
        """Return grants of the wanted revision under which nothing is updated, the preferred one first.

        Pods that there are too many of it takes all the same, unless it is to `keep` them: called wanted, they stay.
        """
        replicas, out = self.replicas, self.out
        if self.family is Family.DEPLOYMENT:
            if keep and self.drops:
                yield Grant(0, self.want, self.told, 1, paused=True)
            for surge in self._surges_of_a_pause():
                yield Grant(0, self.want, replicas, 1, surge, paused=True)
            return
        # Pods that die are made again, as old ones while there are fewer than the partition says. It is never lowered:
        # what was updated meanwhile may have been replaced.
        done = self.updated if self.family is Family.CLONE_SET and self.same else 0
        before = out.partition if out is not None and out.revision == self.want else 0
        if keep and self.drops:
            kept = before + self.pods - replicas
            yield Grant(0, self.want, self.pods, 1, 0, min(self.pods, max(kept, self.pods - done)))
        least = self.contract.least_unavailable
        if keep and self.drops and out is not None and out.revision == self.want and out.surge >= least > 0:
            # It has to be allowed to lack a pod. With one more wanted, and one less too many, it lacks none that is.
            wanted = replicas + least
            yield Grant(0, self.want, wanted, least, out.surge - least, min(wanted, max(before + least, wanted - done)))
        surge = out.surge if out else 0
        unavailable = self.contract.least_unavailable if surge else 1
        yield Grant(0, self.want, replicas, unavailable, surge, min(replicas, max(before, replicas - done)))

    def trades(self, grant: Grant) -> bool:
        """Tell whether a grant calls wanted what was a pod too many, and permits no more pods than were permitted."""
        out = self.out
        if out is None or self.family is not Family.CLONE_SET or grant.most > out.most:
            return False
        return 0 < grant.replicas - out.replicas <= self.contract.least_unavailable

    def resized(self, replicas: int) -> Iterator[Grant]:
        """Return grants that differ from the present one in replicas, the preferred one first."""
        grant = self.grant
        if grant is None:
            yield self.running(1, 0, 0, replicas)
            return
        grown = replicas - grant.replicas
        frozen = grant.partition >= grant.replicas > 0
        partition = min(grant.partition, replicas) if grown < 0 and not frozen else max(0, grant.partition + grown)
        partition = partition if self.contract.has_partition else 0
        moved = replace(grant, id=0, replicas=replicas, partition=min(partition, replicas))
        if grown > 0 and self.contract.has_partition and not self.is_frozen and not self.keeps_old:
            # A raised partition is not only about the pods that it grows by: what is missing below it at this moment,
            # because it is being updated, would be made as an old pod, and be updated a second time.
            yield replace(moved, partition=grant.partition)
        if self.family is Family.DEPLOYMENT and grown > 0 and grant.surge:
            # What was a pod too many is one of those that are wanted: the total stays what it was.
            traded = replace(moved, surge=max(0, grant.surge - grown))
            if traded.paused or self.contract.may_run(traded.unavailable, traded.surge):
                yield traded
        yield moved

    def _wanted(self, *, keep_old: bool, paused: bool) -> str:
        """Return the revision that it is to have now."""
        target, out = self.target, self.out
        if not target.open:
            # It had better wait than be born with what was complete nowhere.
            return target.stable or (out.revision if out else "")
        if paused and out is None:
            # A pause keeps the new template from being rolled out: here, too. A paused Deployment makes no first pods.
            return target.stable if self.family is Family.DEPLOYMENT else target.old or target.revision
        if out is not None and self.entry.view is None and not self.unknown:
            # It may have all of its pods, and nobody knows of them: what it is sent now must replace none of them, and
            # what stands still makes none, if it has none yet.
            return out.revision
        if not keep_old or not target.old or target.old == target.revision:
            return target.revision
        # While a partition keeps pods old, a new cluster is born with the old template, and stays with it until it
        # has its pods: sent both at once, it would have made them all with the new one.
        if out is None:
            return target.old
        born = self.entry.view is not None and self.entry.view.pods > 0
        return target.old if out.revision == target.old and not born else target.revision

    def _surges_of_a_pause(self) -> list[int]:
        """A pause makes the total replicas + maxSurge: what is there, if that can be, or what was allowed."""
        if not isinstance(self.reach, DeploymentReach) or not self.reach.several:
            return [0]
        # More pods than ever were granted are pods that have yet to go, and no surplus.
        most = max(0, self.reach.highest - self.replicas)
        there = min(most, max(0, self.pods - self.replicas))
        sent = self.out.surge if self.out else 0
        return list(dict.fromkeys((there, sent, most)))
