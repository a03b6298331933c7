"""The two stories of the proposal, round by round, on members that act: decide, act, and what was started comes up.

A row is what every cluster has after it acted: of its old and of its new pods, how many are available and how many are
there; and what it was last sent.
"""

import heapq
import itertools
from collections.abc import Callable
from random import Random

from echelon.engine.align.contract import CLONE_SET, DEPLOYMENT, Contract
from echelon.engine.align.decisions import BudgetWait, Round
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.round import align
from echelon.engine.align.workload import Workload
from tests.engine.align.deployment_members import Deployment
from tests.engine.align.members import Member, Pace, Pod, Surroundings
from tests.engine.align.notation import workload
from tests.engine.align.revisioned_members import CloneSet

ROUND = 10.0
Pods = tuple[int, int]  # available, there


class Clusters:
    """Members that act at once, whose pods take one round to come up."""

    def __init__(self, make: type[Member], wanted: Workload) -> None:
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.ledger = Ledger()
        surroundings = Surroundings(
            Random(1),  # noqa: S311 - a simulation
            Pace(sync=0.0, start=(ROUND, ROUND), end=0.0),
            lambda delay, action: heapq.heappush(self.queue, (self.now + delay, next(self.order), action)),
            lambda: self.now,
            self,
        )
        self.members = {name: make(name, surroundings) for name in wanted.targets}
        self.last: Round
        self.round(wanted)
        self.round(wanted)
        assert self.last.complete

    def round(self, wanted: Workload) -> dict[str, tuple[Pods, Pods]]:
        """Decide, let members act, and return what they have; then pods that were started come up."""
        views = {name: each.snapshot(telling=True) for name, each in self.members.items()}
        self.last = align(wanted, self.ledger, {name: view for name, view in views.items() if view}, self.now)
        self.ledger = self.last.ledger
        for name, grant in self.last.pushes.items():
            self.members[name].apply(grant)
        self._run(self.now + ROUND / 2)
        row = {name: (_pods(each, "v1"), _pods(each, "v2")) for name, each in self.members.items()}
        self._run(self.now + ROUND / 2)
        return row

    def granted(self, name: str) -> tuple[int, int, int]:
        grant = self.last.decisions[name].grant
        assert grant is not None
        return grant.unavailable, grant.surge, grant.partition

    @property
    def available(self) -> int:
        return sum(pod.available for each in self.members.values() for pod in each.active)

    def _run(self, end: float) -> None:
        while self.queue and self.queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self.queue)
            action()
        self.now = end

    def made(self, member: Member, pod: Pod) -> None: ...
    def taken(self, member: Member, pod: Pod, *, available: bool) -> None: ...
    def became_available(self, member: Member, pod: Pod) -> None: ...
    def died(self, member: Member, pod: Pod, *, available: bool) -> None: ...


def _pods(member: Member, revision: str) -> Pods:
    pods = [pod for pod in member.active if pod.revision == revision]
    return sum(pod.available for pod in pods), len(pods)


def _total(row: dict[str, tuple[Pods, Pods]]) -> tuple[int, int, int]:
    """How many are available, there and updated in all clusters together."""
    pods = [each for pair in row.values() for each in pair]
    return sum(each[0] for each in pods), sum(each[1] for each in pods), sum(new[1] for _, new in row.values())


def test_the_first_story_a_deployment_with_two_unavailable_and_one_too_many() -> None:
    def wanted(template: str) -> Workload:
        return workload(template, {"c1": 4, "c2": 6}, unavailable=2, surge=1, contract=DEPLOYMENT)

    clusters = Clusters(Deployment, wanted("v1"))
    rows = [
        ({"c1": ((3, 3), (0, 1)), "c2": ((5, 5), (0, 2))}, (8, 11, 3)),
        ({"c1": ((2, 2), (1, 2)), "c2": ((3, 3), (2, 4))}, (8, 11, 6)),
        ({"c1": ((1, 1), (2, 3)), "c2": ((1, 1), (4, 6))}, (8, 11, 9)),
        ({"c1": ((0, 0), (3, 4)), "c2": ((0, 0), (6, 6))}, (9, 10, 10)),
        ({"c1": ((0, 0), (4, 4)), "c2": ((0, 0), (6, 6))}, (10, 10, 10)),
    ]
    pushes = 0
    for row, total in rows:
        found = clusters.round(wanted("v2"))
        assert (found, _total(found)) == (row, total)
        assert (clusters.granted("c1"), clusters.granted("c2")) == ((1, 0, 0), (1, 1, 0))
        pushes += len(clusters.last.pushes)
    assert (pushes, clusters.last.complete) == (2, True)


def test_the_second_story_a_clone_set_that_keeps_four_pods_old() -> None:
    def wanted(template: str, partition: int) -> Workload:
        sizes = {"c1": 3, "c2": 7}
        contract: Contract = CLONE_SET
        return workload(template, sizes, unavailable=2, partition=partition, stable="v1", contract=contract)

    clusters = Clusters(CloneSet, wanted("v1", 0))
    rows = [
        # What c1 and c2 are sent, what they have, and what is available and updated in all.
        (4, (1, 0, 1), (1, 0, 3), {"c1": ((2, 2), (0, 1)), "c2": ((6, 6), (0, 1))}, (8, 2)),
        (4, (1, 0, 1), (1, 0, 3), {"c1": ((1, 1), (1, 2)), "c2": ((5, 5), (1, 2))}, (8, 4)),
        # c1 is done; its unit came back by itself.
        (4, (1, 0, 1), (2, 0, 3), {"c1": ((1, 1), (2, 2)), "c2": ((3, 3), (2, 4))}, (8, 6)),
        (4, (1, 0, 1), (2, 0, 3), {"c1": ((1, 1), (2, 2)), "c2": ((3, 3), (4, 4))}, (10, 6)),
        # The partition is lowered to nothing; c1 waits for a unit.
        (0, (1, 0, 1), (2, 0, 0), {"c1": ((1, 1), (2, 2)), "c2": ((1, 1), (4, 6))}, (8, 8)),
        (0, (1, 0, 0), (2, 0, 0), {"c1": ((0, 0), (2, 3)), "c2": ((0, 0), (6, 7))}, (8, 10)),
        (0, (1, 0, 0), (2, 0, 0), {"c1": ((0, 0), (3, 3)), "c2": ((0, 0), (7, 7))}, (10, 10)),
    ]
    for number, (partition, c1, c2, row, total) in enumerate(rows, 1):
        found = clusters.round(wanted("v2", partition))
        available, _, updated = _total(found)
        assert (number, found, (available, updated)) == (number, row, total)
        assert (number, clusters.granted("c1"), clusters.granted("c2")) == (number, c1, c2)
        if number == 5:
            assert clusters.last.decisions["c1"].wait is BudgetWait.BUDGET
    assert clusters.last.complete
