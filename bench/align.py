"""What one round of a federated rollout costs: a thousand clusters in mid-rollout, three grants outstanding in each.

CPU time of this process, the best of several, so that others on the machine stay out of it. The same with ten times
the replicas must cost the same: a round hands budgets out in bulk, and not pod by pod.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import report
from bench.progress import Progress
from echelon.engine.align.budgets import RollingStrategy, resolve_budgets
from echelon.engine.align.contract import DEPLOYMENT
from echelon.engine.align.grant import Grant
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.round import align
from echelon.engine.align.view import MemberView
from echelon.engine.align.workload import Target, Workload

LIMIT = 50.0  # milliseconds
CLUSTERS = 1_000
REPLICAS = 20
_ROUNDS = 20
_NOW = 1_000.0
_HALF = RollingStrategy(max_unavailable="10%", max_surge="10%")
_FULL = RollingStrategy(max_unavailable="25%", max_surge="25%")


@dataclass(frozen=True)
class Aligned:
    """A figure: milliseconds of a round, and how many clusters it sent something."""

    clusters: int
    replicas: int
    pushes: int
    milliseconds: float

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.clusters:,} clusters of {self.replicas} pods"


def measure(progress: Progress, clusters: int = CLUSTERS) -> list[Aligned]:
    """Take both figures."""
    progress.begin("aligning federated rollouts")
    return [_measure(clusters, REPLICAS), _measure(clusters, 10 * REPLICAS)]


def table(figures: Sequence[Aligned]) -> str:
    """Return the figures."""
    rows = [("one round", "measured", "limit", "pushes")]
    rows += [(one.title, f"{one.milliseconds:.1f} ms", f"{LIMIT:g} ms", f"{one.pushes:,}") for one in figures]
    ratio = figures[-1].milliseconds / figures[0].milliseconds
    return f"{report.aligned(rows)}\n\nten times the replicas: {ratio:.2f} times the time"


def _measure(clusters: int, replicas: int) -> Aligned:
    names = [f"cluster-{number:05d}" for number in range(clusters)]
    ledger, views = _in_the_middle(names, replicas)
    workload = _workload(names, replicas, "v3", _FULL)
    best, pushes = float("inf"), 0
    for _ in range(_ROUNDS):
        began = time.process_time()
        found = align(workload, ledger, views, _NOW)
        best = min(best, time.process_time() - began)
        pushes = len(found.pushes)
    return Aligned(clusters, replicas, pushes, best * 1000)


def _in_the_middle(names: Sequence[str], replicas: int) -> tuple[Ledger, dict[str, MemberView]]:
    """Complete on one template, sent a second one and then more budget, none of which was observed yet."""
    ledger = align(_workload(names, replicas, "v1", _HALF), Ledger(), {}, 0.0).ledger
    views = {name: _view(entry.newest, replicas) for name, entry in ledger.clusters.items() if entry.newest}
    for template, strategy in (("v1", _HALF), ("v2", _HALF), ("v2", _FULL)):
        ledger = align(_workload(names, replicas, template, strategy), ledger, views, 1.0).ledger
    if {len(entry.grants) for entry in ledger.clusters.values()} != {3}:
        raise RuntimeError("the ledger of this benchmark should have three grants in each cluster")
    return ledger, views


def _workload(names: Sequence[str], replicas: int, template: str, strategy: RollingStrategy) -> Workload:
    targets = {name: Target(replicas, template) for name in names}
    return Workload(template, DEPLOYMENT, resolve_budgets(strategy, DEPLOYMENT, replicas * len(names)), targets)


def _view(grant: Grant, replicas: int) -> MemberView:
    return MemberView("uid", 1, grant.id, 1, 1, replicas, replicas, replicas, replicas, settled=True)
