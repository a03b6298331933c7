"""A whole federated rollout in a few milliseconds: members, a hub that aligns them, and everything late in between.

All of it is drawn from a seed: sizes, budgets, kinds, how slow everything is, and what people and fate do meanwhile.
Pushes are delayed, lost, coalesced and reordered; snapshots too. A planner may crash between the ledger and the works.
"""

import hashlib
import heapq
import itertools
from collections.abc import Callable
from dataclasses import replace
from random import Random

from echelon.engine.align.budgets import Budgets
from echelon.engine.align.decisions import Round
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.retire import Patience
from echelon.engine.align.round import align
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import Target, Workload
from tests.engine.align.members import Member, Surroundings
from tests.engine.align.oracle import Limits, Oracle
from tests.engine.align.shapes import KINDS, PARTITIONED, Shape, Wish


class World:
    """One run. `align` is what decides; other ways to split a budget can take its place."""

    def __init__(
        self,
        family: str,
        seed: int,
        *,
        kind: str = "",
        align: Callable[..., Round] = align,
        shape: Shape | None = None,
    ) -> None:
        self.rng = rng = Random(f"{family} {seed}")  # noqa: S311 - a simulation
        self.family, self.seed = family, seed
        if family == "young":  # about partitions
            kind = kind or rng.choice(PARTITIONED)
        shape = shape or Shape.drawn(rng, kind)
        self.kind, self.pace, self.latency, self.telling = shape.kind, shape.pace, shape.latency, shape.telling
        self.lossy, self.on_deficit = shape.lossy, shape.on_deficit
        self.make, self.contract = KINDS[self.kind]
        self.align = align
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        lag = self.pace.lag
        slowest = 4 * (lag + self.pace.sync) + 12 * self.latency
        self.patience = Patience(settle=slowest + 5.0, stall=300.0)
        self.names = list(shape.sizes)
        self.wish = Wish("v1", shape.sizes, shape.unavailable, shape.surge, 0)
        self.later_partition = shape.partition
        self.members: dict[str, Member] = {}
        self.views: dict[str, MemberView] = {}
        self.works: dict[str, Grant] = {}
        self.sent: dict[str, dict[int, Grant]] = {}
        self.unheard: set[str] = set()  # whose last report was lost
        self.undelivered: dict[str, int] = {}  # pushes that were lost
        self.cut: set[str] = set()
        self.cut_since: dict[str, float] = {}  # until what it missed has reached it
        # Decision groups: a later one is opened when all clusters of those before it are complete.
        self.groups = {name: rng.randint(0, 2) for name in self.names} if family == "groups" else {}
        self.open = len(self.names)
        self.refusing = 0.3 if family == "refused" else 0.0  # pushes that a member's API server takes never
        self.refused: set[int] = set()
        self.ledger = Ledger()
        self.stable = self.first = ""  # the template that was last complete everywhere, and the one of the first push
        self.planning = False
        self.last: Round | None = None
        self.pushes = self.rounds = self.died = 0
        self.waited_for_partition = False
        self.trace = hashlib.sha256()
        self.notes: list[str] = []
        # Status, plan, push and sync, each as late as it can be; what is lost comes with the next resync.
        loop = 2 * (self.pace.sync + lag) + (20 if self.telling else 13) * self.latency + 1.0
        loop += 2 * (21.0 + 23 * self.latency) if self.lossy else 0.0  # a report, and a push
        loop *= 4.0 if self.refusing else 1.0  # until something is taken
        self.oracle = Oracle(
            clock=lambda: self.now,
            revision_of=lambda _: self.wish.template,
            most_granted=self._most_granted,
            most_promised=self._most_promised,
            next_push=lambda: self.ledger.next_push,
            cut_since=self.cut_since.get,
            loop=loop,
            settle=0.0 if self.telling else self.patience.settle,
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
        self.at(self.oracle.loop, lambda: self._caught_up(name))
        self._look(name)
        if name in self.works:
            self._deliver(name, self.works[name])
        self.plan_soon()

    def _caught_up(self, name: str) -> None:
        if name not in self.cut:
            self.cut_since.pop(name, None)

    def _delay(self) -> float:
        return self.rng.uniform(0.02, 1.0) * self.latency * (5.0 if self.rng.random() < 0.1 else 1.0)

    def _look(self, name: str, *, again: bool = False) -> None:
        """The agent looks, and reports what it saw, some time later; what was lost comes when it does so `again`."""
        # An agent that cannot tell what is under way has nothing but its reports: time counts only if they arrive.
        lost = self.telling and self.rng.random() < self.lossy and not (again and name in self.unheard)
        if lost:
            self.unheard.add(name)
        else:
            self.unheard.discard(name)

        def report() -> None:
            view = self.members[name].snapshot(telling=self.telling)
            if view is not None and not lost:
                self.at(self._delay(), lambda: self._arrive(name, view))

        self.at(self._delay() / 4, report)

    def _arrive(self, name: str, view: MemberView) -> None:
        if name in self.cut:
            return
        # Reports overtake each other, and the hub has what came last, until the agent finds that out, and reports anew.
        # Only where time has to tell, the last is the newest: it is one status, which one agent writes.
        present = self.views.get(name)
        if view == present:
            return
        if self.telling and present is not None and view.is_older_than(present):
            self._look(name, again=True)
        if self.telling or present is None or not view.is_older_than(present):
            self.views[name] = view
        self.plan_soon()

    def _resync(self, name: str) -> None:
        """From time to time an agent reports and applies anew, whatever it has missed."""
        self._look(name, again=True)
        if name in self.works:
            self._deliver(name, self.works[name], again=True)
        self.at(20.0 + 10 * self.latency, lambda: self._resync(name))

    def _deliver(self, name: str, grant: Grant, *, again: bool = False) -> None:
        """Send a push; what was lost comes when it is sent `again`."""

        def apply() -> None:
            if name in self.cut:
                return
            # An agent may take what there is by now instead of what woke it.
            newest = self.works[name] if self.rng.random() < 0.5 else grant
            if newest.id not in self.refused:
                self._apply(name, newest)

        if self.rng.random() >= self.lossy or (again and self.undelivered.get(name) == grant.id):
            self.at(self._delay(), apply)
        else:
            self.undelivered[name] = grant.id

    def _apply(self, name: str, grant: Grant) -> None:
        member = self.members[name]
        if member.spec is None or grant.id > member.spec.id:
            if self.refusing and self.rng.random() < self.refusing:
                self._refuse(name, grant)
                return
            member.apply(grant)
            self.sent[name] = {each: sent for each, sent in self.sent[name].items() if each >= grant.id}

    def _refuse(self, name: str, grant: Grant) -> None:
        """A push is refused for certain: its agent does not try it again, and tells."""
        self.refused.add(grant.id)

        def told() -> None:
            self.ledger = self.ledger.refused(name, grant.id)
            self.plan_soon()

        self.at(self._delay(), told)

    def lose_ledger(self) -> None:
        """Somebody deletes the ledger, or writes something into it that cannot be read."""
        views = {name: view for name, view in self.views.items() if self.rng.random() < 0.8}
        most = 2 * max(self.wish.total + self.wish.surge, *(each.limit for each in self.members.values()))
        self.ledger = Ledger.lost(views, most, self.works)
        self.oracle.lose_ledger()
        self.plan_soon()

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
            name: Target(
                size,
                wish.template,
                self.stable,
                self.groups.get(name, 0),
                open=self._is_open(name),
                reachable=name not in self.cut,
                first="" if self.stable else self.ledger.first or "",
            )
            for name, size in wish.sizes.items()
        }
        return Workload(
            wish.template,
            self.contract,
            budgets,
            targets,
            paused=wish.paused,
            unreachable=frozenset(self.cut),
            on_deficit=self.on_deficit,
        )

    def _plan(self) -> None:
        self.planning = False
        self.rounds += 1
        closed = {name for name in self.groups if not self._is_open(name)}
        found = self.align(self.workload, self.ledger, dict(self.views), self.now, self.patience)
        self.ledger, self.last = found.ledger, found
        # Which template was complete is known from elsewhere, too: from the revisions that are kept of it.
        self.stable = self.stable if found.ledger.stable == "?" else found.ledger.stable
        self.oracle.repair(going_on=found.ledger.stalled is not None and found.ledger.stalled.repairing)
        self.first = self.first or (self.wish.template if found.pushes else "")
        crashed = self.rng.random() < 0.03
        if self.groups:
            self._open_groups(found, closed)
        for name, grant in found.pushes.items():
            self.pushes += 1
            self.trace.update(f"{self.now:.6f} {name} {grant}".encode())
            self.sent[name][grant.id] = grant
        # What a planner that crashed did not write, the next round writes: the ledger says what it should be. That may
        # be an earlier push than a work has, if the later one was refused.
        for name, entry in self.ledger.clusters.items():
            newest = entry.newest
            written = self.works.get(name)
            if newest is not None and newest.revision and (written is None or written.id != newest.id):
                if crashed and self.rng.random() < 0.5:
                    self.at(1.0, self.plan_soon)
                    continue
                self.works[name] = newest
                self._deliver(name, newest)
        if found.look_again_at is not None:
            self.at(max(0.01, found.look_again_at - self.now + 0.001), self.plan_soon)

    def _is_open(self, name: str) -> bool:
        """Whether a cluster may have the template; one that was granted it already goes on with it."""
        entry = self.ledger.clusters.get(name)
        has_it = entry is not None and entry.newest is not None and entry.newest.revision == self.wish.template
        return self.groups.get(name, 0) <= self.open or has_it

    def _open_groups(self, found: Round, closed: set[str]) -> None:
        wanted = self.wish.template
        for name, grant in found.pushes.items():
            if name in closed and grant.revision == wanted != self.stable:
                self.oracle.excused.append(f"{self.now:.2f} sent {grant} to {name}, whose group is not open")
        first = {name for name in self.wish.sizes if self.groups.get(name, 0) <= self.open}
        done = all(
            (each := found.decisions[name]).complete
            and each.grant
            and (each.grant.revision == wanted or each.grant.replicas == 0)
            for name in first
        )
        if done and self.open < max(self.groups.values(), default=0):
            self.open += 1
            self.at(self.rng.uniform(0.1, 5.0), self.plan_soon)

    # What the oracle asks.

    def _on_the_way(self, name: str) -> list[Grant]:
        spec = self.members[name].spec
        return [*self.sent[name].values(), *([spec] if spec else [])]

    def _most_granted(self) -> int:
        return sum(
            max([member.limit, *(member.most(each) for each in self._on_the_way(name))])
            for name, member in self.members.items()
        )

    def _most_promised(self) -> int:
        return sum(self._most_updated(name, member) for name, member in self.members.items())

    def _most_updated(self, name: str, member: Member) -> int:
        """Return how many pods may come to have the template. Once all have it, the member makes no others."""
        wanted = self.wish.template
        most, complete = sum(pod.revision == wanted for pod in member.active), False
        for grant in sorted(self._on_the_way(name), key=lambda each: each.id):
            if grant.revision == wanted:
                updated = grant.replicas if complete else member.most_updated(grant)
                most, complete = max(most, updated), complete or updated >= grant.replicas
        return most

    # People and fate.

    def change(self, **changes: object) -> None:
        before = self.wish.template
        self.wish = replace(self.wish, **changes)  # type: ignore[arg-type]  # names of fields
        self.note(f"{changes}")
        if self.wish.template != before:
            self.open = 0
            self.oracle.change_template()
        self.oracle.change(self._limits())
        self.plan_soon()

    def begin(self) -> None:
        """Everything is there and available: from now on the budgets hold."""
        self.oracle.limits = self._limits()
        self.oracle.pending = None

    def begin_early(self) -> None:
        """Not everything is there: what has to be available has to be reached first."""
        self.oracle.limits = replace(self._limits(), least_available=-1)
        self.oracle.pending = None

    def _limits(self) -> Limits:
        wish = self.wish
        old = self.stable or self.first
        partition = min(wish.partition, wish.total) if old not in ("", wish.template) else 0
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
            and self.as_wished()
        )

    def as_wished(self) -> bool:
        """Whether the members themselves have come to what was asked for."""
        wish = self.wish
        for name, member in self.members.items():
            pods = member.active
            if len(pods) != wish.sizes.get(name, 0) or not all(pod.available for pod in pods):
                return False
        return self.oracle.updated >= wish.total - wish.partition
