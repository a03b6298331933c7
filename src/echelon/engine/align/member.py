"""One cluster in a round: what it has been granted, what it is charged with, and what is being considered for it.

This is the one mutable thing of the engine. It lives as long as a round.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from echelon.engine.align.bounds import Bounds, Reach, reach_of
from echelon.engine.align.contract import Contract, Family
from echelon.engine.align.deployment_bounds import DeploymentReach
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import ClusterLedger, Expected
from echelon.engine.align.workload import Target


class Member:
    """A cluster in a round. `grant` is what it would be sent; at first, what it was sent last."""

    __slots__ = (
        "bounds",
        "contract",
        "entry",
        "expected",
        "family",
        "grant",
        "name",
        "out",
        "outdated",
        "pods",
        "reach",
        "same",
        "share",
        "target",
        "updated",
        "want",
        "work",
    )

    def __init__(self, name: str, target: Target, entry: ClusterLedger, contract: Contract, *, keep_old: bool) -> None:
        self.name = name
        self.target = target
        self.entry = entry
        self.contract = contract
        self.family = contract.family
        self.out = self.grant = entry.newest
        self.reach: Reach = reach_of(entry, contract.family, target.revision)
        self.bounds = Bounds(self.reach.floor, self.reach.ceiling, self.reach.updated)
        self.expected = entry.expected
        self.want = self._wanted(keep_old=keep_old)
        view = entry.view
        # The counts are those of what was sent last, and that is what is wanted.
        self.same = bool(self.out) and view is not None and entry.revision == self.want == self.revision
        self.pods = view.pods if view else 0
        self.updated = view.updated if view and self.same else 0
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
    def reachable(self) -> bool:
        """Whether it may be sent anything."""
        return self.target.reachable

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
    def is_quiet(self) -> bool:
        """Whether no pod is being replaced, as far as anybody knows."""
        view = self.entry.view
        return view is not None and view.observed and len(self.entry.grants) == 1 and view.pods >= self.replicas

    @property
    def is_frozen(self) -> bool:
        """Whether its grant lets no update move."""
        grant = self.grant
        if grant is None:
            return True
        if self.family is Family.DEPLOYMENT:
            return grant.paused
        if grant.partition >= grant.replicas:
            return grant.replicas > 0
        return self.family is Family.CLONE_SET and self.same and grant.partition >= grant.replicas - self.updated > 0

    @property
    def held(self) -> tuple[int, int]:
        """The units of unavailability and of surge that its grant lets it use."""
        grant = self.grant
        return (0, 0) if grant is None or self.is_frozen else (grant.unavailable, grant.surge)

    def running(self, unavailable: int, surge: int, partition: int, replicas: int | None = None) -> Grant:
        """Return the grant under which the wanted revision is rolled out."""
        wanted = self.replicas if replicas is None else replicas
        return Grant(0, self.want, wanted, unavailable, surge, min(partition, wanted))

    def frozen(self) -> Iterator[Grant]:
        """Return grants of the wanted revision under which nothing is updated, the preferred one first."""
        replicas, out = self.replicas, self.out
        if self.family is Family.DEPLOYMENT:
            for surge in self._surges_of_a_pause():
                yield Grant(0, self.want, replicas, 1, surge, paused=True)
            return
        unavailable, surge = (out.unavailable, out.surge) if out else (1, 0)
        if not self.contract.may_run(unavailable, surge):
            unavailable = 1
        # Pods that die are made again, as old ones while there are fewer than the partition says.
        partition = replicas - self.updated if self.family is Family.CLONE_SET and self.same else replicas
        yield Grant(0, self.want, replicas, unavailable, surge, max(0, partition))

    def resized(self, replicas: int) -> Iterator[Grant]:
        """Return grants that differ from the present one in replicas, the preferred one first."""
        grant = self.grant
        if grant is None:
            yield self.running(1, 0, 0, replicas)
            return
        grown = replicas - grant.replicas
        frozen = grant.partition >= grant.replicas > 0
        partition = min(grant.partition, replicas) if grown < 0 and not frozen else max(0, grant.partition + grown)
        moved = replace(grant, id=0, replicas=replicas, partition=min(partition, replicas))
        if self.family is Family.DEPLOYMENT and grown > 0 and grant.surge:
            # What was a pod too many is one of those that are wanted: the total stays what it was.
            traded = replace(moved, surge=max(0, grant.surge - grown))
            if traded.paused or self.contract.may_run(traded.unavailable, traded.surge):
                yield traded
        yield moved

    def owe(self, amount: int) -> None:
        """Note that availability is on its way."""
        still = self.expected.missing(self.bounds.floor) if self.expected else 0
        self.expected = Expected(self.bounds.floor + still + amount, still + amount)

    def _wanted(self, *, keep_old: bool) -> str:
        """Return the revision that it is to have now."""
        target, out = self.target, self.out
        if not target.open:
            return target.stable or (out.revision if out else "")
        if not keep_old or not target.stable or target.stable == target.revision:
            return target.revision
        # While a partition keeps pods old, a new cluster is born with the old template, and stays with it until it
        # has its pods: sent both at once, it would have made them all with the new one.
        if out is None:
            return target.stable
        born = self.entry.view is not None and self.entry.view.pods > 0
        return target.stable if out.revision == target.stable and not born else target.revision

    def _surges_of_a_pause(self) -> list[int]:
        """A pause makes the total replicas + maxSurge: what is there, if that can be, or what was allowed."""
        if not isinstance(self.reach, DeploymentReach) or not self.reach.several:
            return [0]
        # More pods than ever were granted are pods that have yet to go, and no surplus.
        most = max(0, self.reach.highest - self.replicas)
        there = min(most, max(0, self.pods - self.replicas))
        sent = self.out.surge if self.out else 0
        return list(dict.fromkeys((there, sent, most)))
