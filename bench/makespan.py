"""How long a rollout over several clusters takes, against one cluster with the same pods and the same budget.

The same shapes are rolled out three times, in virtual time: in one cluster; over several, each of which has a fixed
share of the budget, as far as there is one for everybody; and over several with one budget for all, by the real
controllers and agents, which are a second away in each direction. Pods are counted by what members commit.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median, quantiles

from tests.fleet.pod_counter import Limits, PodCounter
from tests.fleet.workload_fleet import TEMPLATES, until_counted, voluntary, workload_fleet, workload_spec

from bench import report
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.fleet.member.profile import NodeShape, Pace, Profile
from echelon.kube.client import MergePatch

SHAPES = 24
SECONDS = 1.0  # between the hub and each cluster, in each direction
LIMITS = (1.2, 1.35)  # the median of the ratios, and nine of ten
_NAMESPACE = "shop"
_BEFORE, _AFTER = "nginx:v1", "nginx:v2"
_NO_LIMIT = Limits(0, 1 << 30)


@dataclass(frozen=True)
class Shape:
    """A workload, its clusters and its budget."""

    kind: str
    sizes: tuple[int, ...]  # of each cluster
    unavailable: int
    surge: int
    pace: Pace

    @property
    def replicas(self) -> int:
        """All pods."""
        return sum(self.sizes)

    @property
    def limits(self) -> Limits:
        """What must hold over all clusters together."""
        return Limits(self.replicas - self.unavailable, self.replicas + self.surge)


@dataclass(frozen=True)
class Makespan:
    """How long one shape took, in seconds, and the steps over a limit."""

    shape: Shape
    single: float
    split: float
    split_breaches: int
    federated: float
    federated_breaches: int

    @property
    def title(self) -> str:
        """What was rolled out."""
        shape = self.shape
        return f"{shape.kind} {'+'.join(map(str, shape.sizes))}, {shape.unavailable}/{shape.surge}"

    @property
    def ratio(self) -> float:
        """How much longer it took over several clusters."""
        return self.federated / self.single


def shapes(count: int, seed: int = 0) -> list[Shape]:
    """Draw shapes: two to ten clusters of one to twelve pods, and pods that take two to ten seconds to start."""
    random = Random(f"makespan {seed}")  # noqa: S311 - repeatable on purpose
    drawn = []
    for number in range(count):
        sizes = tuple(random.randint(1, 12) for _ in range(random.randint(2, 10)))
        most = max(1, sum(sizes) // 4)
        unavailable, surge = random.randint(0, most), random.randint(0, most)
        kind = ("Deployment", "CloneSet")[number % 2]
        pace = Pace(start=random.uniform(2.0, 10.0), spread=0.1)
        drawn.append(Shape(kind, sizes, max(unavailable, 1 - surge), surge, pace))
    return drawn


def measure(progress: Progress, count: int = SHAPES) -> list[Makespan]:
    """Roll every shape out in the three ways."""
    progress.begin("federated rollouts", count)
    found = []
    for shape in shapes(count):
        single, _ = _alone([shape.replicas], [(shape.unavailable, shape.surge)], shape)
        split, breaches = _alone(shape.sizes, divided(shape), shape)
        federated, own = run(_federated(shape))
        found.append(Makespan(shape, single, split, breaches, federated, own))
        progress.step()
    return found


def table(found: Sequence[Makespan]) -> str:
    """Return the ratios to one cluster."""
    rows = [("rollouts over 2 to 10 clusters", "median", "nine of ten", "with a step over a limit")]
    for title, ratios, breaches in (
        ("one budget for all", [one.ratio for one in found], [one.federated_breaches for one in found]),
        ("a fixed share for each", [one.split / one.single for one in found], [one.split_breaches for one in found]),
    ):
        over = f"{sum(map(bool, breaches))} of {len(found)}"
        rows.append((title, f"{median(ratios):.2f}", f"{quantiles(ratios, n=10)[-1]:.2f}", over))
    rows.append(("limit", f"{LIMITS[0]:g}", f"{LIMITS[1]:g}", "0"))
    return report.aligned(rows)


def divided(shape: Shape) -> list[tuple[int, int]]:
    """Return a fixed share of the budget for each cluster; nobody can do without one pod of either."""
    found = []
    for size in shape.sizes:
        unavailable, surge = shape.unavailable * size // shape.replicas, shape.surge * size // shape.replicas
        found.append((unavailable if unavailable or surge else 1, surge))
    return found


def _alone(sizes: Sequence[int], budgets: Sequence[tuple[int, int]], shape: Shape) -> tuple[float, int]:
    return run(_members(sizes, budgets, shape))


async def _members(sizes: Sequence[int], budgets: Sequence[tuple[int, int]], shape: Shape) -> tuple[float, int]:
    """Roll out on members that know nothing of each other."""
    profiles = [
        Profile(f"member-{number}", pace=shape.pace, seed=number, nodes=(NodeShape(),) * 2)
        for number in range(len(sizes))
    ]
    fleet = await Fleet.build(profiles, clock=running().clock.now)
    counter = PodCounter(running().time, "default", _NO_LIMIT)
    for member in fleet.members.values():
        member.cluster.store.on_commit(counter.follow(member.name))
    await fleet.start()
    kind = TEMPLATES[shape.kind]
    clients = [member.client() for member in fleet.members.values()]
    for client, size, (unavailable, surge) in zip(clients, sizes, budgets, strict=True):
        spec = workload_spec(shape.kind, _BEFORE, size, unavailable, surge)
        body = {**kind.type_meta, "metadata": {"name": "demo"}, "spec": spec}
        await client.create(kind.untyped(), body, "default")
    await until_counted(counter, _BEFORE, sum(sizes))
    await asyncio.sleep(60)
    counter.limits, counter.newest = shape.limits, _AFTER
    change: JSONObject = {"spec": {"template": workload_spec(shape.kind, _AFTER, 0, 0, 0)["template"]}}
    for client in clients:
        await client.patch(kind.untyped(), "demo", MergePatch(change), "default")
    took = await until_counted(counter, _AFTER, sum(sizes))
    await fleet.stop()
    return took, len(voluntary(counter))


async def _federated(shape: Shape) -> tuple[float, int]:
    """Roll out with one budget for all."""
    async with workload_fleet(len(shape.sizes), _NO_LIMIT, seconds=SECONDS, pace=shape.pace) as here:
        await here.bind(shape.kind, dict(zip(here.names, shape.sizes, strict=True)))
        await here.make(shape.kind, workload_spec(shape.kind, _BEFORE, shape.replicas, shape.unavailable, shape.surge))
        await until_counted(here.counter, _BEFORE, shape.replicas)
        await asyncio.sleep(60)
        here.counter.limits = shape.limits
        await here.roll_out(shape.kind, _AFTER)
        took = await until_counted(here.counter, _AFTER, shape.replicas)
        return took, len(voluntary(here.counter))
