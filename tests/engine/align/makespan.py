"""`python -m tests.engine.align.makespan --runs 100`: how long a federated rollout takes, next to one cluster.

The same workload, budgets and pods are rolled out in one cluster with all of the pods, and in many: with the ledger,
with budgets that are split once and for all (a share goes on to the next cluster when one is done), and with budgets
that are simply copied to every cluster. The ratio is that of the times from the new template until every pod is updated
and available. Delays are those of each way, to a cluster and back.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from statistics import mean, median, quantiles

from echelon.engine.align.apportion import apportion
from echelon.engine.align.decisions import Round
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import ClusterLedger, Ledger
from echelon.engine.align.retire import Patience, observe
from echelon.engine.align.round import align, pushed
from echelon.engine.align.sums import Slack
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import Workload
from tests.engine.align.members import Pace
from tests.engine.align.shapes import Shape
from tests.engine.align.world import World

DELAYS = (0.1, 0.5, 1.0, 3.0)
Planner = Callable[..., Round]


@dataclass
class Split:
    """Budgets that are split beforehand: every cluster gets its share once, and keeps it until it is done."""

    whole: bool = False  # every cluster gets all of it
    shares: dict[str, tuple[int, int]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def __call__(
        self, wanted: Workload, ledger: Ledger, views: Mapping[str, MemberView], now: float, patience: Patience
    ) -> Round:
        if wanted.template == "v1":
            return align(wanted, ledger, views, now, patience)
        if not self.shares:
            self._divide(wanted)
        family = wanted.contract.family
        entries = {
            name: observe(ledger.clusters[name], views.get(name), family, now, patience) for name in wanted.targets
        }
        done = {name for name, entry in entries.items() if _is_done(entry)}
        for name in done & self.shares.keys():
            if self.waiting and not self.whole:
                self.shares[self.waiting.pop(0)] = self.shares.pop(name)
        pushes: dict[str, Grant] = {}
        for name, (unavailable, surge) in self.shares.items():
            entry = entries[name]
            if entry.newest is not None and entry.newest.revision != wanted.template:
                push = Grant(
                    ledger.next_push + len(pushes), wanted.template, wanted.targets[name].replicas, unavailable, surge
                )
                pushes[name] = push
                entries[name] = pushed(entry, push)
        after = Ledger(next_push=ledger.next_push + len(pushes), clusters=entries, stable="v1")
        complete = len(done) == len(entries) and not pushes
        return Round(after, pushes, {}, Slack(0, 0, None), complete, None, None)

    def _divide(self, wanted: Workload) -> None:
        names, budgets = sorted(wanted.targets), wanted.budgets
        sizes = [wanted.targets[name].replicas for name in names]
        none = [0] * len(names)
        missing = apportion(budgets.unavailable, sizes, none, sizes)
        beyond = apportion(budgets.surge, sizes, none, sizes, missing)
        if self.whole:
            missing = [min(budgets.unavailable, size) for size in sizes]
            beyond = [budgets.surge for _ in sizes]
        for name, u, s in zip(names, missing, beyond, strict=True):
            if u + s:
                self.shares[name] = (u, s)
            else:
                self.waiting.append(name)


def _is_done(entry: ClusterLedger) -> bool:
    view, newest = entry.view, entry.newest
    return bool(
        view
        and newest
        and newest.revision == "v2"
        and view.push_id == newest.id
        and view.observed
        and view.pods == view.available == view.updated == newest.replicas
    )


class Race(World):
    """A world in which nothing happens but a rollout, with given delays."""

    delay = 0.0

    def _delay(self) -> float:
        return self.rng.uniform(0.05, 3.0) * self.delay


@dataclass(frozen=True)
class Lap:
    seconds: float
    pushes: int
    violated: bool


def race(shape: Shape, seed: int, delay: float, planner: Planner) -> Lap:
    world = Race("race", seed, align=planner, shape=shape)
    world.delay = delay
    world.plan_soon()
    if not world.run_until(3_000.0, world.complete):
        raise RuntimeError(f"{shape} was not born")
    world.begin()
    began, before = world.now, world.pushes
    world.change(template="v2")
    if not world.run_until(world.now + 100_000.0, world.as_wished):
        raise RuntimeError(f"{shape} was not rolled out")
    return Lap(world.now - began, world.pushes - before, bool(world.oracle.strict))


def drawn(seed: int) -> Shape:
    rng = Random(seed)  # noqa: S311 - a simulation
    sizes = {f"c{number}": rng.randint(1, 12) for number in range(rng.randint(2, 10))}
    total = sum(sizes.values())
    unavailable, surge = rng.choice([(1, 0), (0, 1), (1, 1), (2, 1), (total // 4, 0), (total // 4, total // 4)])
    pace = Pace(sync=0.1, start=(2.0, 10.0), end=1.0)
    shape = Shape(rng.choice(["Deployment", "CloneSet"]), sizes, unavailable, surge, pace=pace, latency=0.3)
    return replace(shape, unavailable=max(unavailable, 0 if surge else 1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.align.makespan", description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shapes = [(seed, drawn(seed)) for seed in range(options.seed, options.seed + options.runs)]
    alone = {
        seed: race(replace(shape, sizes={"c0": sum(shape.sizes.values())}, latency=0.001), seed, 0.001, Split(True))
        for seed, shape in shapes
    }
    planners: dict[str, Callable[[], Planner]] = {
        "ledger": lambda: align,
        "split once": Split,
        "copied": lambda: Split(whole=True),
    }
    print(f"{'':10}  delay   median    mean     p90   pushes  runs that broke a limit")
    for name, make in planners.items():
        for delay in DELAYS:
            laps = [(race(shape, seed, delay, make()), alone[seed]) for seed, shape in shapes]
            ratios = [lap.seconds / one.seconds for lap, one in laps]
            broken = sum(lap.violated for lap, _ in laps)
            print(
                f"{name:10}  {delay:5}  {median(ratios):7.2f} {mean(ratios):7.2f} {quantiles(ratios, n=10)[-1]:7.2f}"
                f" {mean(lap.pushes for lap, _ in laps):8.1f}  {broken} of {len(laps)}"
            )


if __name__ == "__main__":
    main()
