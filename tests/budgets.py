"""How many lives each simulation lives: as many as a budget of seconds allows, and never fewer than a minimum.

What a newcomer waits for must not grow with every capability, and what is merged should be tried for as long as can be
afforded. So the seconds of a simulation are written down here, once for `make test` and once for `make test-all`. They
decide how many seeds are tried, in order from 0, and never whether a test passes. A run ends with the seeds that it has
tried, and a digest of what happened in them: two runs of the same seeds have the same digest on any machine.

A test says whose budget it uses, and asks for one seed after the other:

    @pytest.mark.lives("placement")
    def test_nobody_vanishes(lives: Lives) -> None:
        for seed in lives:
            lives.note(simulate(SCENARIO, seed))

It is run in several shares, for the processors to share them and for none to come near the limit of a test that hangs.
`ECHELON_SEEDS=0-1999` asks for these seeds whatever they cost; `ECHELON_SEED=7` runs one again, as a failure tells.
"""

import fcntl
import hashlib
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from echelon.fleet.simulation import SEED_VARIABLE, LifeOutcome

FULL = "ECHELON_FULL"
SEEDS_VARIABLE = "ECHELON_SEEDS"
SHARE_SECONDS = 30.0
SHARE_SEEDS = 25
Record = tuple[str, dict[int, str], float]  # of a share: its simulation, its seeds with digests, its seconds
QUICK_SECONDS, FULL_SECONDS = 30.0, 1200.0  # of one processor, for everything in the table together


@dataclass(frozen=True)
class Budget:
    """Seconds of one processor, and how many seeds are tried however long they take.

    Lives that go on from the state in which the one before them ended are `chained`: they cannot be shared, and have
    no seed that can be asked for alone.
    """

    at_least: int
    quick: float
    full: float
    chained: bool = False


BUDGETS: Mapping[str, Budget] = {
    "runtime": Budget(4, 0.75, 15),
    "placement": Budget(12, 1.5, 120),
    "placement in the past": Budget(2, 0.75, 10),
    "work sets": Budget(4, 0.75, 20),
    "crashes of work sets": Budget(5, 0.75, 20),
    "rollouts": Budget(10, 1.5, 180),
    "rollouts on real clusters": Budget(2, 0.75, 30),
    "crashes of rollouts": Budget(6, 1.5, 180),
    "policies": Budget(2, 0.75, 25),
    "policies on real members": Budget(2, 0.75, 20),
    "crashes of policies": Budget(5, 0.75, 30),
    "leaving": Budget(2, 0.75, 15),
    "agent": Budget(2, 0.75, 15),
    "agent of a moving hub": Budget(2, 0.75, 15),
    "crashes of an agent": Budget(5, 0.5, 15),
    "crashes of an agent of a moving hub": Budget(4, 0.5, 15),
    "policies on a cluster": Budget(2, 0.75, 15),
    "crashes of policies on a cluster": Budget(4, 0.5, 15),
    "configuration policies": Budget(2, 0.75, 20),
    "crashes of configuration policies": Budget(4, 0.75, 15),
    "federated budgets": Budget(44, 0.75, 30),
    "federated workloads": Budget(2, 0.5, 30),
    "crashes of federated workloads": Budget(2, 0.75, 30),
    "federated workloads on a cluster": Budget(2, 0.5, 15),
    "crashes of federated workloads on a cluster": Budget(4, 0.5, 15),
    "propagation": Budget(4, 0.5, 15),
    "plans": Budget(2, 0.5, 20),
    "plans of workloads": Budget(2, 0.5, 15),
    "plans of clique sets": Budget(2, 0.5, 15),
    "pod cliques": Budget(3, 0.75, 30),
    "pod clique sets": Budget(2, 0.5, 30),
    "crashes of pod clique sets": Budget(2, 0.5, 30),
    "leader election": Budget(2, 0.5, 15),
    "leaders in processes": Budget(5, 1, 30, chained=True),
    "kill -9 of the store": Budget(5, 0.75, 30, chained=True),
    "kill -9 of the hub": Budget(2, 0.75, 30, chained=True),
    "hostile requests": Budget(2, 0.5, 30),
}


@dataclass(frozen=True)
class Plan:
    """Which seeds are tried, and in how many shares; without a last one, for as long as the seconds last."""

    first: int
    last: int | None
    shares: int
    at_least: int  # for each share
    seconds: float  # for each share


class BadSeeds(ValueError):
    """The environment asks for seeds that are none."""


def plan_of(budget: Budget, environment: Mapping[str, str] = os.environ) -> Plan:
    """Return what to run: what the environment asks for, else what the budget allows."""
    wanted = environment.get(SEEDS_VARIABLE) or ("" if budget.chained else environment.get(SEED_VARIABLE, ""))
    if wanted:
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", wanted)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise BadSeeds(
                f"{SEEDS_VARIABLE} is {wanted!r}, which is neither a seed nor a range of seeds such as 0-1999"
            )
        count = last - first + 1
        shares = 1 if budget.chained else math.ceil(count / SHARE_SEEDS)
        return Plan(first, last, shares, math.ceil(count / shares), 0.0)
    seconds = budget.full if environment.get(FULL) else budget.quick
    shares = 1 if budget.chained else math.ceil(seconds / SHARE_SECONDS)
    return Plan(0, None, shares, math.ceil(budget.at_least / shares), seconds / shares)


@dataclass
class Lives:
    """The seeds of one share of a simulation, each handed out once among all workers of a run, in order."""

    name: str
    plan: Plan
    counter: Path
    seen: dict[int, str] = field(default_factory=dict)  # by seed, a digest of what happened, where there is one
    seconds: float = 0.0

    def __iter__(self) -> Iterator[int]:
        return self.below(math.inf)

    def below(self, end: float) -> Iterator[int]:
        """Return the seeds, or numbers of cases, that are smaller than an end."""
        began = time.monotonic()
        last = math.inf if self.plan.last is None else self.plan.last
        while len(self.seen) < self.plan.at_least or self.seconds < self.plan.seconds:
            seed = self._next()
            if seed > last or seed >= end:
                return
            self.seen[seed] = ""
            yield seed
            self.seconds = time.monotonic() - began

    def note(self, outcome: LifeOutcome) -> LifeOutcome:
        """Remember what the present life was like."""
        self.seen[next(reversed(self.seen))] = outcome.digest
        return outcome

    @property
    def record(self) -> Record:
        """What a worker sends to the one that tells about the run."""
        return self.name, self.seen, self.seconds

    def _next(self) -> int:
        with self.counter.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            seed = int(file.read() or self.plan.first)
            file.truncate(0)
            file.write(str(seed + 1))
        return seed


def told(records: Iterable[Record]) -> list[str]:
    """Write a line for each simulation: its seeds, digests to compare other runs with, and what they took."""
    seen: defaultdict[str, dict[int, str]] = defaultdict(dict)
    seconds: defaultdict[str, float] = defaultdict(float)
    for name, tried, took in records:
        seen[name] |= tried
        seconds[name] += took
    return [f"{name}: {_story(name, lives)}, {seconds[name]:.0f} s" for name, lives in sorted(seen.items()) if lives]


def _story(name: str, lives: Mapping[int, str]) -> str:
    order = sorted(lives)
    if BUDGETS[name].chained:
        return f"{len(order)} times"
    whole = order == list(range(order[0], order[-1] + 1))
    text = f"{len(order)} seed{'s'[: len(order) > 1]}, {order[0]} to {order[-1]}{'' if whole else ' with gaps'}"
    prefix = [seed for seed in order if seed < order[0] + BUDGETS[name].at_least]
    if not all(lives.values()):
        return text
    return f"{text}, digest {_digest(lives, order)} ({_digest(lives, prefix)} up to {prefix[-1]})"


def _digest(lives: Mapping[int, str], chosen: Iterable[int]) -> str:
    return hashlib.sha256("\n".join(f"{seed} {lives[seed]}" for seed in chosen).encode()).hexdigest()[:12]
