"""What the runtime measures, for Prometheus.

All metrics are made in one place and handed around, so that two of them never fight for a name and a test, or one of a
hundred simulated agents, has a registry of its own. The work queue's names are those of Kubernetes' own controllers:
existing dashboards and alerts know them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_LAG_INTERVAL = 0.25


@dataclass(frozen=True)
class QueueMetrics:
    """The metrics of one work queue."""

    adds: Counter
    retries: Counter
    latency: Histogram
    work: Histogram


class Metrics:
    """The metrics of a process, or of one part of it."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        name = ["name"]
        self._depth = self._gauge("workqueue_depth", "Keys that wait for a worker.", name)
        self._oldest = self._gauge("workqueue_oldest_waiting_seconds", "Age of the key that waits longest.", name)
        self._adds = self._counter("workqueue_adds", "Keys that were added.", name)
        self._retries = self._counter("workqueue_retries", "Keys that are to be tried again.", name)
        self._latency = self._histogram("workqueue_queue_duration_seconds", "How long keys waited.", name)
        self._work = self._histogram("workqueue_work_duration_seconds", "How long keys were worked on.", name)

        self.reconciles = self._counter("echelon_reconciles", "Reconciles by their end.", ["controller", "result"])
        self.writes = self._counter("echelon_writes", "Writes by verb, resource and status.", ["verb", "kind", "code"])
        self.guard_waits = self._counter(
            "echelon_guard_waits", "Reconciles put off until the caches have our own writes.", ["controller"]
        )
        self.guard_timeouts = self._counter(
            "echelon_guard_timeouts", "Own writes that the caches did not show in time.", ["controller"]
        )
        self.informer_lists = self._counter("echelon_informer_lists", "Complete lists.", ["kind"])
        self.informer_ends = self._counter("echelon_informer_ends", "Ends of lists and streams.", ["kind", "why"])
        self.informer_objects = self._gauge("echelon_informer_objects", "Objects in caches.", ["kind"])
        self.handler_errors = self._counter("echelon_handler_errors", "Failures of change handlers.", ["kind"])
        self.events = self._counter("echelon_events", "Events by what became of them.", ["outcome"])
        self.loop_lag = Histogram(
            "echelon_event_loop_lag_seconds",
            "How late the event loop was.",
            registry=self.registry,
            buckets=_LAG_SECONDS,
        )

    def queue(self, name: str, depth: Callable[[], float], oldest: Callable[[], float]) -> QueueMetrics:
        """Return the metrics of a queue; the callables are asked whenever somebody looks."""
        self._depth.labels(name).set_function(depth)
        self._oldest.labels(name).set_function(oldest)
        return QueueMetrics(
            self._adds.labels(name), self._retries.labels(name), self._latency.labels(name), self._work.labels(name)
        )

    def _counter(self, name: str, what: str, labels: list[str]) -> Counter:
        return Counter(name, what, labels, registry=self.registry)

    def _gauge(self, name: str, what: str, labels: list[str]) -> Gauge:
        return Gauge(name, what, labels, registry=self.registry)

    def _histogram(self, name: str, what: str, labels: list[str]) -> Histogram:
        return Histogram(name, what, labels, registry=self.registry, buckets=_SECONDS)


async def measure_lag(metrics: Metrics) -> None:
    """Measure until cancelled how much later than asked the event loop comes back."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LAG_INTERVAL
        await asyncio.sleep(_LAG_INTERVAL)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))
