"""A whole federated rollout in a few milliseconds: members, a hub that aligns them, and everything late in between.

All of it is drawn from a seed: sizes, budgets, kinds, how slow everything is, and what people and fate do meanwhile.
Pushes are delayed, lost, coalesced and reordered; snapshots too. A planner may crash between the ledger and the works.
"""

import hashlib
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from echelon.engine.align.budgets import Budgets
from echelon.engine.align.contract import CLONE_SET, CLONE_SET_V1BETA1, DEPLOYMENT, STATEFUL_SET, Contract
from echelon.engine.align.decisions import Round
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.retire import Patience
from echelon.engine.align.round import align
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import OnDeficit, Target, Workload
from tests.engine.align.members import (
    CloneSet,
    Deployment,
    Member,
    Pace,
    ParallelStatefulSet,
    StatefulSet,
    Surroundings,
)
from tests.engine.align.oracle import Limits, Oracle

KINDS: dict[str, tuple[type[Member], Contract]] = {
    "Deployment": (Deployment, DEPLOYMENT),
    "CloneSet": (CloneSet, CLONE_SET),
    "CloneSet v1beta1": (CloneSet, CLONE_SET_V1BETA1),
    "StatefulSet": (StatefulSet, STATEFUL_SET),
    "parallel StatefulSet": (ParallelStatefulSet, STATEFUL_SET),
}
FAMILIES = ("static", "template", "scale", "crash", "cut", "knobs", "pause", "mix")
END = 20_000.0


@dataclass
class Wish:
    """What people want at present."""

    template: str
    sizes: dict[str, int]
    unavailable: int
    surge: int
    partition: int
    paused: bool = False

    @property
    def total(self) -> int:
        return sum(self.sizes.values())


@dataclass
class Outcome:
    family: str
    kind: str
    seed: int
    strict: list[str]
    excused: list[str]
    races: list[str]
    repairs: list[str]
    stuck: str
    deaths: int
    pushes: int
    rounds: int
    digest: str
    took: float
    notes: list[str] = field(default_factory=list)


class World:
    """One run. `align` is what decides; tests of traps put something worse in its place."""

    def __init__(self, family: str, seed: int, *, kind: str = "", align: Callable[..., Round] = align) -> None:
        self.rng = rng = Random(f"{family} {seed}")  # noqa: S311 - a simulation
        self.family, self.seed = family, seed
        self.kind = kind or rng.choice(list(KINDS))
        self.make, self.contract = KINDS[self.kind]
        self.align = align
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.latency = rng.choice([0.05, 0.3, 1.0, 3.0, 10.0])
        lag = rng.choice([0.0, 0.0, 0.5, 3.0, 8.0]) if self.make is Deployment else 0.0
        self.pace = Pace(
            sync=rng.choice([0.05, 0.3, 2.0]), lag=lag, start=(2.0, rng.choice([2.5, 10.0])), end=rng.choice([0.0, 2.0])
        )
        self.telling = rng.random() < 0.7  # agents can tell what is under way
        slowest = 4 * (lag + self.pace.sync) + 12 * self.latency
        self.patience = Patience(settle=slowest + 5.0, stall=300.0)
        self.lossy = rng.choice([0.0, 0.0, 0.1, 0.3])
        self.on_deficit = rng.choice(list(OnDeficit))
        self.names = [f"c{number}" for number in range(rng.randint(1, 6))]
        sizes = {name: rng.choice([0, 1, 1, 2, 3, 5, 8, 12]) for name in self.names}
        total = sum(sizes.values())
        surge = rng.choice([0, 0, 1, 2, max(1, total // 4)]) if self.contract.has_surge else 0
        unavailable = rng.choice([0, 1, 1, 2, max(1, total // 4)])
        if unavailable + surge == 0:
            unavailable = 1
        unavailable = max(unavailable, self.contract.least_unavailable)
        partition = rng.choice([0, 0, rng.randint(0, total)]) if self.contract.has_partition else 0
        self.wish = Wish("v1", sizes, unavailable, surge, 0)
        self.later_partition = partition
        self.members: dict[str, Member] = {}
        self.views: dict[str, MemberView] = {}
        self.works: dict[str, Grant] = {}
        self.sent: dict[str, dict[int, Grant]] = {}
        self.cut: set[str] = set()
        self.ledger = Ledger()
        self.stable = ""
        self.planning = False
        self.last: Round | None = None
        self.pushes = self.rounds = self.died = 0
        self.trace = hashlib.sha256()
        self.notes: list[str] = []
        # Status, plan, push and sync, each as late as it can be; what is lost comes with the next resync.
        loop = 2 * (self.pace.sync + lag) + 13 * self.latency + 1.0
        loop += 21.0 + 23 * self.latency if self.lossy else 0.0
        # Nothing keeps a CloneSet from shedding pods that it has too many, frozen or not.
        reserve = self.on_deficit is OnDeficit.RECLAIM or self.make is CloneSet
        self.oracle = Oracle(
            clock=lambda: self.now,
            revision_of=lambda _: self.wish.template,
            most_granted=self._most_granted,
            most_promised=self._most_promised,
            loop=loop,
            back=2 * self.pace.start[1] if reserve else 0.0,
            limits=Limits(-1, 1 << 30),
        )
        for name in self.names:
            self.add_member(name)

    # Time.

    def at(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + delay, next(self.order), action))

    def run_until(self, end: float, done: Callable[[], bool]) -> bool:
        """Let things happen until it is done; False if it is not when time is up or nothing happens any more."""
        while self.queue:
            moment, _, action = self.queue[0]
            if moment > end:
                return False
            heapq.heappop(self.queue)
            self.now = moment
            action()
            if done():
                return True
        return False

    # Members and the way to them.

    def add_member(self, name: str) -> None:
        member = self.make(name, Surroundings(self.rng, self.pace, self.at, lambda: self.now, self.oracle))
        member.changed = lambda: self._look(name)
        self.members[name] = member
        self.oracle.members.append(member)
        self.sent[name] = {}
        self._resync(name)

    def heal(self, name: str) -> None:
        """A cluster can be reached again."""
        self.cut.discard(name)
        self._look(name)
        if name in self.works:
            self._deliver(name, self.works[name])
        self.plan_soon()

    def _delay(self) -> float:
        return self.rng.uniform(0.02, 1.0) * self.latency * (5.0 if self.rng.random() < 0.1 else 1.0)

    def _look(self, name: str) -> None:
        """The agent looks, and reports what it saw, some time later."""
        # An agent that cannot tell what is under way has nothing but its reports: time counts only if they arrive.
        lost = self.telling and self.rng.random() < self.lossy

        def report() -> None:
            view = self.members[name].snapshot(telling=self.telling)
            if view is not None and not lost:
                self.at(self._delay(), lambda: self._arrive(name, view))

        self.at(self._delay() / 4, report)

    def _arrive(self, name: str, view: MemberView) -> None:
        if name in self.cut:
            return
        # Reports overtake each other, and the hub has what came last.
        self.views[name] = view
        self.plan_soon()

    def _resync(self, name: str) -> None:
        """From time to time an agent reports and applies anew, whatever it has missed."""
        self._look(name)
        if name in self.works:
            self._deliver(name, self.works[name])
        if self.now < END:
            self.at(20.0 + 10 * self.latency, lambda: self._resync(name))

    def _deliver(self, name: str, grant: Grant) -> None:
        def apply() -> None:
            if name in self.cut:
                return
            # An agent may take what there is by now instead of what woke it.
            newest = self.works[name] if self.rng.random() < 0.5 else grant
            self._apply(name, newest)

        if self.rng.random() >= self.lossy:
            self.at(self._delay(), apply)

    def _apply(self, name: str, grant: Grant) -> None:
        member = self.members[name]
        if member.spec is None or grant.id > member.spec.id:
            member.apply(grant)
            self.sent[name] = {each: sent for each, sent in self.sent[name].items() if each >= grant.id}

    # The hub.

    def plan_soon(self) -> None:
        if not self.planning:
            self.planning = True
            self.at(self.rng.uniform(0.01, 0.3) * self.latency, self._plan)

    @property
    def workload(self) -> Workload:
        wish = self.wish
        unavailable = min(wish.unavailable, wish.total)
        budgets = Budgets(wish.total, unavailable, wish.surge, min(wish.partition, wish.total))
        targets = {
            name: Target(size, wish.template, self.stable, reachable=name not in self.cut)
            for name, size in wish.sizes.items()
        }
        return Workload(wish.template, self.contract, budgets, targets, paused=wish.paused, on_deficit=self.on_deficit)

    def _plan(self) -> None:
        self.planning = False
        self.rounds += 1
        found = self.align(self.workload, self.ledger, dict(self.views), self.now, self.patience)
        self.ledger, self.last = found.ledger, found
        self.stable = found.ledger.stable
        if found.ledger.stalled and found.ledger.stalled.repairing:
            self.oracle.repairing_until = self.now + self.oracle.loop + self.oracle.back
        crashed = self.rng.random() < 0.03
        for name, grant in found.pushes.items():
            self.pushes += 1
            self.trace.update(f"{self.now:.6f} {name} {grant}".encode())
            self.sent[name][grant.id] = grant
        # What a planner that crashed did not write, the next round writes: the ledger says what it should be.
        for name, entry in self.ledger.clusters.items():
            newest = entry.newest
            written = self.works.get(name)
            if newest is not None and (written is None or written.id < newest.id):
                if crashed and self.rng.random() < 0.5:
                    self.at(1.0, self.plan_soon)
                    continue
                self.works[name] = newest
                self._deliver(name, newest)
        if found.look_again_at is not None:
            self.at(max(0.01, found.look_again_at - self.now + 0.001), self.plan_soon)

    # What the oracle asks.

    def _on_the_way(self, name: str) -> list[Grant]:
        spec = self.members[name].spec
        return [*self.sent[name].values(), *([spec] if spec else [])]

    def _most_granted(self) -> int:
        return sum(
            max([member.limit, *(each.most for each in self._on_the_way(name))])
            for name, member in self.members.items()
        )

    def _most_promised(self) -> int:
        wanted = self.wish.template
        return sum(
            max([0, *(each.replicas - each.partition for each in self._on_the_way(name) if each.revision == wanted)])
            for name in self.members
        )

    # People and fate.

    def change(self, **changes: object) -> None:
        self.wish = replace(self.wish, **changes)  # type: ignore[arg-type]  # names of fields
        self.note(f"{changes}")
        if "template" in changes:
            self.oracle.change_template()
        self.oracle.change(self._limits())
        self.plan_soon()

    def begin(self) -> None:
        """Everything is there and available: from now on the budgets hold."""
        self.oracle.limits = self._limits()
        self.oracle.pending = None

    def _limits(self) -> Limits:
        wish = self.wish
        partition = min(wish.partition, wish.total) if self.stable else 0
        unavailable = min(wish.unavailable, wish.total)
        return Limits(wish.total - unavailable, wish.total + wish.surge, wish.total - partition if partition else None)

    def note(self, text: str) -> None:
        self.notes.append(f"{self.now:.2f} {text}")
        self.trace.update(text.encode())

    def complete(self) -> bool:
        last = self.last
        return bool(
            last
            and last.complete
            and last.look_again_at is None
            and not self.planning
            and not self.cut
            and all(each.at_rest for each in self.members.values())
            and self._as_wished()
        )

    def _as_wished(self) -> bool:
        """Whether the members themselves have come to what was asked for."""
        wish = self.wish
        for name, member in self.members.items():
            pods = member.active
            if len(pods) != wish.sizes.get(name, 0) or not all(pod.available for pod in pods):
                return False
        return self.oracle.updated >= wish.total - wish.partition
