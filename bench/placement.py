"""What one label of one cluster costs the placement engine, as the fleet around it grows.

A hundred placements, and a cluster that leaves one of them for another. Once they have ten clusters each whatever the
size of the fleet, and everything is done up to the writes to be made; so the fleet is all that grows. And once each has
a hundredth of the fleet, and is scheduled; who has more clusters has more to group and to slice, but not to choose.
CPU time of this process, the best of several rounds, so that others on the machine stay out of it.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from bench import report
from bench.progress import Progress
from echelon.api.cluster import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.keys import Key
from echelon.api.placement import Placement
from echelon.engine.placement.groups import regroup
from echelon.engine.placement.publish import publish
from echelon.engine.placement.scheduler import Scheduler
from echelon.engine.placement.slices import Slice, recall, reslice

SIZES = (1_000, 10_000, 100_000)
LIMIT = 2.0  # times the cost in the smallest fleet

_PLACEMENTS = 100
_MEMBERS = 10
_ROUNDS = 10
_NOW = datetime(2026, 11, 1, tzinfo=UTC)
_NAMESPACE = "bench"


@dataclass(frozen=True)
class Growth:
    """What a change costs in fleets of all sizes, in microseconds."""

    title: str
    microseconds: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times the cost in the smallest fleet the highest one is."""
        return max(self.microseconds) / self.microseconds[0]


def measure(progress: Progress, sizes: Sequence[int] = SIZES) -> list[Growth]:
    """Take all figures."""
    few, many = list[float](), list[float]()
    for size in sizes:
        progress.begin(f"placing {size:,} clusters")
        few.append(_cost(_Fleet(size, _few), publishing=True))
        many.append(_cost(_Fleet(size, _many), publishing=False))
    return [
        Growth(f"to the writes, {_MEMBERS} clusters a placement", tuple(few)),
        Growth("to the schedule, 1% of the fleet a placement", tuple(many)),
    ]


def _few(number: int) -> int:
    return number % _PLACEMENTS if number < _PLACEMENTS * _MEMBERS else -1


def _many(number: int) -> int:
    return number % _PLACEMENTS


class _Fleet:
    """Placements on a fleet, and their decisions."""

    def __init__(self, size: int, app: Callable[[int], int]) -> None:
        self.engine = Scheduler()
        self.slices: dict[Key, tuple[Slice, ...]] = {}
        everything = {"selectorType": "LabelSelector", "labelSelector": {}}
        meta = {"name": "global", "namespace": _NAMESPACE}
        self.engine.cluster_set(
            msgspec.convert({"metadata": meta, "spec": {"clusterSelector": everything}}, ManagedClusterSet)
        )
        self.engine.binding(
            msgspec.convert({"metadata": meta, "spec": {"clusterSet": "global"}}, ManagedClusterSetBinding)
        )
        for number in range(size):
            self.engine.cluster(_cluster(number, app(number)))
        for number in range(_PLACEMENTS):
            for key in self.engine.placement(_placement(number)):
                self.schedule(key)
                self.publish(key)

    def schedule(self, key: Key) -> None:
        if self.engine.schedule(key, _NOW) is None:
            raise RuntimeError(f"there is no placement {key}")

    def publish(self, key: Key) -> None:
        schedule = self.engine.schedule(key, _NOW)
        if schedule is None:
            raise RuntimeError(f"there is no placement {key}")
        existing = self.slices.get(key, ())
        members = schedule.groups
        groups = regroup(recall(existing).groups, members, (), len(members))
        desired = reslice(key[1], existing, groups)
        publish(existing, desired, "RollingUpdate")
        self.slices[key] = desired
        self.engine.decided(key, members)


def _cost(fleet: _Fleet, *, publishing: bool) -> float:
    """Return the microseconds of one change, in the best round."""
    gc.collect()
    gc.freeze()
    best = float("inf")
    for turn in range(1, _ROUNDS + 1):
        changed = [_cluster(number, (number + turn) % _PLACEMENTS) for number in range(_PLACEMENTS)]
        begun = time.process_time()
        for cluster in changed:
            concerned = fleet.engine.cluster(cluster)
            if len(concerned) != 2:
                raise RuntimeError(f"{len(concerned)} placements look at a cluster that goes from one to another")
            for key in concerned:
                (fleet.publish if publishing else fleet.schedule)(key)
        best = min(best, (time.process_time() - begun) / len(changed))
    gc.unfreeze()
    return best * 1e6


def _cluster(number: int, app: int) -> ManagedCluster:
    labels = {"app": f"app-{app}", "region": f"region-{number % 10}"}
    meta = {"name": f"cluster-{number:06d}", "labels": labels}
    return msgspec.convert({"metadata": meta, "spec": {"hubAcceptsClient": True}}, ManagedCluster)


def _placement(number: int) -> Placement:
    selector = {"labelSelector": {"matchLabels": {"app": f"app-{number}"}}}
    spec = {"predicates": [{"requiredClusterSelector": selector}]}
    return msgspec.convert(
        {"metadata": {"name": f"placement-{number}", "namespace": _NAMESPACE}, "spec": spec}, Placement
    )


def table(figures: Sequence[Growth], sizes: Sequence[int] = SIZES) -> str:
    """Return the figures by size of the fleet, and how much they grow."""
    rows = [("one label of one cluster, 100 placements", *(f"of {size:,}" for size in sizes), "ratio", "limit", "")]
    for one in figures:
        costs = (f"{each:,.0f} µs" for each in one.microseconds)
        met = "met" if one.ratio <= LIMIT else "missed"
        rows.append((one.title, *costs, f"{one.ratio:.2f}", f"≤ {LIMIT:g}", met))
    return report.aligned(rows)
