"""What one decision of a rollout costs: a fleet in groups of a hundred, half of it done.

CPU time of this process, the best of several, so that others on the machine stay out of it. The figures next to ours
are of the rollout library that others use (in Go, on another machine of the same class); it was not measured here.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench import report
from bench.progress import Progress
from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import ClusterStatus, Phase
from echelon.engine.rollout.strategy import Strategy, StrategyType
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.rollout.walk import decide

LIMIT = 20.0  # milliseconds, at ten thousand clusters

_ELSEWHERE = {
    (StrategyType.PROGRESSIVE, 1_000): 4.2,
    (StrategyType.PROGRESSIVE, 10_000): 439.0,
    (StrategyType.PER_GROUP, 1_000): 1.5,
    (StrategyType.PER_GROUP, 10_000): 209.0,
}
_GROUP = 100
_ROUNDS = 40
_NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Decided:
    """A figure: milliseconds of a decision over so many clusters."""

    kind: StrategyType
    clusters: int
    milliseconds: float

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.kind}, {self.clusters:,} clusters"

    @property
    def elsewhere(self) -> float:
        """The same of the other library."""
        return _ELSEWHERE[self.kind, self.clusters]


def measure(progress: Progress) -> list[Decided]:
    """Take all figures."""
    progress.begin("deciding rollouts")
    return [Decided(kind, clusters, _decision(kind, clusters)) for kind, clusters in _ELSEWHERE]


def _decision(kind: StrategyType, clusters: int) -> float:
    names = [f"cluster-{number:05d}" for number in range(clusters)]
    groups = {
        GroupKey(start // _GROUP): frozenset(names[start : start + _GROUP]) for start in range(0, clusters, _GROUP)
    }
    done = [ClusterStatus(name, Phase.SUCCEEDED, _NOW - timedelta(hours=1)) for name in names[: clusters // 2]]
    strategy = Strategy(
        kind, timedelta(minutes=5), timedelta(minutes=10), Threshold(5), max_concurrency=Threshold(_GROUP)
    )
    best = float("inf")
    for _ in range(_ROUNDS):
        fresh = DecisionGroups(groups)  # nothing is remembered from one reconcile to the next
        begun = time.process_time()
        decision = decide(strategy, fresh, done, _NOW)
        best = min(best, time.process_time() - begun)
        if len(decision.to_start) != _GROUP or len(decision.cluster_decisions) != clusters:
            raise RuntimeError(f"{len(decision.to_start)} of {len(decision.cluster_decisions)} clusters start")
    return best * 1e3


def table(figures: Sequence[Decided]) -> str:
    """Return the figures next to the others'."""
    rows = [("one decision", "measured", "limit", "elsewhere", "times better")]
    rows += [
        (
            one.title,
            f"{one.milliseconds:.2f} ms",
            f"{LIMIT:g} ms" if one.clusters == 10_000 else "",
            f"{one.elsewhere:g} ms",
            f"{one.elsewhere / one.milliseconds:.1f}",
        )
        for one in figures
    ]
    return report.aligned(rows)
