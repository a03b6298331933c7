"""Step by step, what the proof of the budgets rests on: whatever a member is sent, it stays within its bounds.

A member gets grants at random: other revisions and back, other sizes, pauses, partitions, budgets up and down. It acts
on them when it likes, skips some, and is looked at now and then. At every moment the real pods must be within the
bounds that the ledger has for it, and they must stay so when the next grant is charged.
"""

import heapq
import itertools
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.engine.align.bounds import bounds_of
from echelon.engine.align.contract import Contract, Family
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import ClusterLedger
from echelon.engine.align.retire import Patience, observe
from echelon.engine.align.round import pushed
from tests.engine.align.deployment_members import Deployment
from tests.engine.align.members import Member, Pace, Pod, Surroundings
from tests.engine.align.revisioned_members import CloneSet
from tests.engine.align.shapes import KINDS

WANTED = "v2"


class Trial:
    """One member, the grants that it is sent, and whether it stays where the ledger thinks it can be."""

    def __init__(self, kind: str, seed: int) -> None:
        make, self.contract = KINDS[kind]
        self.rng = Random(seed)  # noqa: S311 - a simulation
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        lag = self.rng.choice([0.0, 3.0])
        pace = Pace(sync=self.rng.choice([0.05, 0.5]), lag=lag, end=self.rng.choice([0.0, 2.0]))
        self.member: Member = make("c", Surroundings(self.rng, pace, self.at, lambda: self.now, self))
        self.telling = self.rng.random() < 0.6  # or else time has to tell what is over
        self.patience = Patience(settle=4 * (lag + pace.sync) + 5.0)
        self.entry = ClusterLedger()
        self.sent: list[Grant] = []
        self.ids = itertools.count(1)
        self.lost = False  # some pod died by itself: then nobody can say how many are available

    def at(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + delay, next(self.order), action))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.queue and self.queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self.queue)
            action()
        self.now = end

    # What happens to pods.

    def made(self, member: Member, pod: Pod) -> None:
        del pod
        bounds = bounds_of(self.entry, self.family, WANTED)
        assert member.limit <= bounds.ceiling, self.story("pods")
        updated = sum(each.revision == WANTED for each in member.active)
        assert self.family is Family.DEPLOYMENT or updated <= bounds.updated, self.story("updated")

    def taken(self, member: Member, pod: Pod, *, available: bool) -> None:
        del pod
        if not available or self.lost or (isinstance(member, Deployment) and member.raced is not None):
            return
        floor = bounds_of(self.entry, self.family, WANTED).floor
        assert sum(each.available for each in member.pods) >= floor, self.story("available")

    def became_available(self, member: Member, pod: Pod) -> None: ...
    def died(self, member: Member, pod: Pod, *, available: bool) -> None: ...

    # What people do.

    @property
    def family(self) -> Family:
        return self.contract.family

    def send(self, revision: str, replicas: int, numbers: tuple[int, int, int], *, paused: bool) -> None:
        grant = _legal(self.contract, next(self.ids), revision, replicas, numbers, paused=paused)
        self.entry = pushed(self.entry, grant)
        self.sent.append(grant)

    def deliver(self) -> None:
        self.member.apply(self.sent[-1] if self.rng.random() < 0.7 else self.rng.choice(self.sent))

    def look(self) -> None:
        view = self.member.snapshot(telling=self.telling)
        self.entry = observe(self.entry, view, self.family, self.now, self.patience)

    def lose(self) -> None:
        pods = self.member.active
        if pods:
            self.lost = True
            self.member.die(self.rng.choice(pods))

    def story(self, what: str) -> str:
        pods = [(pod.name, pod.revision, pod.available) for pod in self.member.active]
        return f"{what}: {bounds_of(self.entry, self.family, WANTED)}, and has {pods}\n{self.entry}\n{self.sent}"


def _legal(
    contract: Contract, number: int, revision: str, replicas: int, numbers: tuple[int, int, int], *, paused: bool
) -> Grant:
    unavailable, surge, partition = numbers
    surge = surge if contract.has_surge else 0
    unavailable = max(unavailable, contract.least_unavailable, 0 if surge else 1)
    partition = min(partition, replicas) if contract.has_partition else 0
    paused = paused and contract.family is Family.DEPLOYMENT
    return Grant(number, revision, replicas, unavailable, surge, partition, paused)


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.sampled_from(["v1", "v2", "v3"]),
            st.integers(0, 8),
            st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 8)),
            st.booleans(),
        ),
        st.sampled_from([("deliver",), ("look",), ("deliver",), ("look",), ("lose",)]),
        st.tuples(st.just("run"), st.sampled_from([0.1, 0.7, 2.5, 30.0])),
    ),
    max_size=30,
)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS, seed=st.integers(0, 1 << 30), replicas=st.integers(0, 8))
def test_a_member_stays_within_its_bounds_whatever_it_is_sent(
    kind: str, steps: list[tuple[object, ...]], seed: int, replicas: int
) -> None:
    trial = Trial(kind, seed)
    trial.send("v1", replicas, (1, 0, 0), paused=False)
    trial.deliver()
    trial.run(60.0)
    trial.look()
    for step in steps:
        if step[0] == "send":
            _, revision, size, numbers, paused = step
            trial.send(revision, size, numbers, paused=paused)  # type: ignore[arg-type]  # as drawn
        elif step[0] == "run":
            trial.run(step[1])  # type: ignore[arg-type]  # as drawn
        elif step[0] == "look":
            trial.look()
        elif step[0] == "lose":
            trial.lose()
        else:
            trial.deliver()
    for _ in range(3):
        trial.deliver()
        trial.run(60.0)
        trial.look()


@pytest.mark.parametrize("kind", KINDS)
@given(replicas=st.integers(0, 9), numbers=st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 9)))
@settings(max_examples=15)
def test_at_rest_a_member_is_charged_with_what_it_has(kind: str, replicas: int, numbers: tuple[int, int, int]) -> None:
    trial = Trial(kind, 1)
    for revision, size, said in (("v1", replicas, (1, 0, 0)), (WANTED, replicas, numbers)):
        trial.send(revision, size, said, paused=False)
        trial.member.apply(trial.sent[-1])
        trial.run(300.0)
        trial.look()
    bounds = bounds_of(trial.entry, trial.family, WANTED)
    assert (bounds.floor, bounds.ceiling) == (len(trial.member.active), len(trial.member.active))
    assert all(pod.available for pod in trial.member.active)


def test_the_members_of_these_tests_are_of_every_family() -> None:
    assert {contract.family for _, contract in KINDS.values()} == set(Family)
    assert KINDS["Deployment"][0] is Deployment
    assert KINDS["CloneSet"][0] is CloneSet
