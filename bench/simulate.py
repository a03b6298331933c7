"""What `echelon simulate` costs: a change of a work set that every cluster of a captured fleet has, in many lives.

Two pods a cluster, groups of a hundred one after the other, a soak of five minutes, and pods that crash in one cluster
of a hundred. The whole command in a process of its own and its copies, from its start to the last printed line. Lives
that stop early are shorter, so clusters that got the change are counted, and CPU time is told for each of them, too.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from bench import report
from bench.plan import children_cpu, objects, work_set
from bench.progress import Progress
from echelon.fleet.capture import Capture, to_document

CLUSTERS, SEEDS = 1_000, 20
LIMIT = 60.0  # seconds, on two cores
_FAILURES = "crash on 1%"


@dataclass(frozen=True)
class Simulated:
    """A figure: what the lives of one fleet took."""

    clusters: int
    seeds: int
    seconds: float
    cpu: float
    reached: int  # clusters that got the change, over all lives
    load: float  # of the machine, when it ended

    @property
    def title(self) -> str:
        """What was measured."""
        return f"{self.clusters:,} clusters, {self.seeds} lives"


def measure(progress: Progress, clusters: int = CLUSTERS, seeds: int = SEEDS) -> Simulated:
    """Simulate a change for a fleet of this size."""
    progress.begin(f"simulating {seeds} lives of {clusters:,} clusters")
    with tempfile.TemporaryDirectory() as directory:
        fleet, change = Path(directory, "fleet.json"), Path(directory, "change.yaml")
        captured = Capture(datetime(2026, 11, 18, tzinfo=UTC), tuple(objects(clusters)))
        fleet.write_text(json.dumps(to_document(captured)))
        change.write_text(yaml.safe_dump(work_set("web:2")))
        what = ("-f", str(change), "--fleet", str(fleet), "--failures", _FAILURES, "--seeds", str(seeds), "-o", "json")
        command = [sys.executable, "-m", "echelon", "simulate", *what]
        before, began = children_cpu(), time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        seconds, cpu = time.monotonic() - began, children_cpu() - before
    if ended.returncode:
        raise RuntimeError(f"the simulation failed: {ended.stdout[-500:]}{ended.stderr[-500:]}")
    (rollout,) = json.loads(ended.stdout)["rollouts"]
    reached = sum(each["clusters"] for each in rollout["lives"])
    return Simulated(clusters, seeds, seconds, cpu, reached, os.getloadavg()[0])


def table(found: Sequence[Simulated]) -> str:
    """Return the figures next to what is allowed."""
    rows = [("echelon simulate, crash on 1%", "seconds", "CPU s", "CPU ms a cluster", "load", "limit")]
    for one in found:
        each = f"{one.cpu / max(one.reached, 1) * 1000:.1f}"
        limit = f"{LIMIT:g}" if (one.clusters, one.seeds) == (CLUSTERS, SEEDS) else ""
        rows.append((one.title, f"{one.seconds:.1f}", f"{one.cpu:.1f}", each, f"{one.load:.1f}", limit))
    return report.aligned(rows)
