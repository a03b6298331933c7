"""What is measured of rollouts: of each where it stands, and of all of a kind how they ended.

The figures of a rollout are those of its status, read when somebody asks: nothing is kept beside the caches, and what
is deleted is gone from here at once. Only leaders show them, so each is there once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from echelon.api.meta import Condition, ObjectMeta
from echelon.api.rollout import RolloutSummary
from echelon.engine.rollout.overall import RolloutStanding, duration, overall
from echelon.kube.clock import Clock
from echelon.kube.metrics import Metrics

_PHASES = ("to_apply", "progressing", "succeeded", "failed", "timed_out", "skipped")
_SECONDS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_OF_ONE = ("kind", "namespace", "name")


class RolloutStatus(NamedTuple):
    """What an object says of its rollout."""

    metadata: ObjectMeta
    conditions: Sequence[Condition]
    summary: RolloutSummary | None


Source = Callable[[], Iterable[RolloutStatus]]


class RolloutMetrics:
    """The metrics of all kinds of rollouts of a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._figures = _Figures()
        registry.register(self._figures)
        self._failures = Counter(
            "echelon_rollout_cluster_failures",
            "Clusters that have failed or missed their deadline.",
            ["kind"],
            registry=registry,
        )
        self._duration = Histogram(
            "echelon_rollout_duration_seconds",
            "How long rollouts took, from when they were no longer complete until they were.",
            ["kind"],
            registry=registry,
            buckets=_SECONDS,
        )

    @classmethod
    def of(cls, metrics: Metrics) -> "RolloutMetrics":
        """Return those of a process, which are made once."""
        return metrics.own(cls)

    def showing(self, kind: str, source: Source, clock: Clock) -> Callable[[], Awaitable[None]]:
        """Return what shows the rollouts of a kind for as long as it runs."""

        async def show() -> None:
            with self._figures.showing(kind, source, clock):
                await asyncio.get_running_loop().create_future()

        return show

    def changed(self, kind: str, before: RolloutStatus, after: RolloutStatus) -> None:
        """Hear that the status of a rollout is another one."""
        if (more := _failures(after.summary) - _failures(before.summary)) > 0:
            self._failures.labels(kind).inc(more)
        took = duration(overall(before.conditions), overall(after.conditions))
        if took is not None:
            self._duration.labels(kind).observe(took.total_seconds())


class _Figures(Collector):
    """Shows where each rollout stands."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[Source, Clock]] = {}

    @contextmanager
    def showing(self, kind: str, source: Source, clock: Clock) -> Iterator[None]:
        self._sources[kind] = (source, clock)
        try:
            yield
        finally:
            self._sources.pop(kind, None)

    def describe(self) -> Iterable[Metric]:
        return self._families()

    def collect(self) -> Iterable[Metric]:
        state, clusters, blocked, held = families = self._families()
        for kind, (source, clock) in self._sources.items():
            now = clock.now()
            for meta, conditions, summary in source():
                where, found = [kind, meta.namespace, meta.name], overall(conditions)
                state.add_metric([*where, found.standing.value], 1)
                since = found.blocked_since
                blocked.add_metric(where, max(0.0, (now - since).total_seconds()) if since is not None else 0)
                held.add_metric(where, found.standing is RolloutStanding.REMOVAL_HELD)
                for phase in _PHASES if summary is not None else ():
                    clusters.add_metric([*where, phase], getattr(summary, phase))
        return families

    @staticmethod
    def _families() -> tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily("echelon_rollout_state", "1 for the state that it is in.", labels=[*_OF_ONE, "state"]),
            GaugeMetricFamily("echelon_rollout_clusters", "Clusters by their phase.", labels=[*_OF_ONE, "phase"]),
            GaugeMetricFamily(
                "echelon_rollout_blocked_seconds", "For how long nothing goes on until somebody acts.", labels=_OF_ONE
            ),
            GaugeMetricFamily(
                "echelon_rollout_removals_held", "Whether removals wait for somebody's word.", labels=_OF_ONE
            ),
        )


def _failures(summary: RolloutSummary | None) -> int:
    return summary.failed + summary.timed_out if summary is not None else 0
