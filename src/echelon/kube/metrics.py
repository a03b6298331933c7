"""What the runtime measures, for Prometheus.

All metrics are made in one place and handed around, so that two of them never fight for a name and a test, or one of a
hundred simulated agents, has a registry of its own. The work queue's names are those of Kubernetes' own controllers:
existing dashboards and alerts know them.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from echelon.api.kinds import Kind

T = TypeVar("T")

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Tally:
    """Counts durations: a histogram that is filled a million times for each time that somebody looks at it."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_SECONDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.counts[bisect_left(_SECONDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the counts as Prometheus has them: each includes those below it."""
        bounds = [*(str(bound) for bound in _SECONDS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


@dataclass
class QueueStats:
    """What a work queue counts. The callables are asked whenever somebody looks."""

    depth: Callable[[], float]
    oldest_age: Callable[[], float]
    adds: int = 0
    retries: int = 0
    waited: Tally = field(default_factory=Tally)
    worked: Tally = field(default_factory=Tally)


class _Queues(Collector):
    """Shows the work queues to Prometheus, under the names that Kubernetes' own controllers use."""

    def __init__(self) -> None:
        self.stats: dict[str, QueueStats] = {}

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        depth = GaugeMetricFamily("workqueue_depth", "Keys that wait for a worker.", labels=["name"])
        oldest = GaugeMetricFamily(
            "workqueue_oldest_waiting_seconds", "Age of the key that waits longest.", labels=["name"]
        )
        adds = CounterMetricFamily("workqueue_adds", "Keys that were added.", labels=["name"])
        retries = CounterMetricFamily("workqueue_retries", "Keys that are to be tried again.", labels=["name"])
        waited = HistogramMetricFamily("workqueue_queue_duration_seconds", "How long keys waited.", labels=["name"])
        worked = HistogramMetricFamily(
            "workqueue_work_duration_seconds", "How long keys were worked on.", labels=["name"]
        )
        for name, stats in self.stats.items():
            depth.add_metric([name], stats.depth())
            oldest.add_metric([name], stats.oldest_age())
            adds.add_metric([name], stats.adds)
            retries.add_metric([name], stats.retries)
            waited.add_metric([name], stats.waited.buckets(), stats.waited.total)
            worked.add_metric([name], stats.worked.buckets(), stats.worked.total)
        return (depth, oldest, adds, retries, waited, worked)


class Cached(Protocol):
    """A cache, as far as it is measured."""

    @property
    def kind(self) -> Kind[Any]:
        """What it is of."""
        ...

    @property
    def unreadable(self) -> Sized:
        """What it could not read."""
        ...

    def __len__(self) -> int:
        """Return how many objects it has."""
        ...


class _Caches(Collector):
    """Shows the caches that are kept at the moment: those of a leadership that has ended are not."""

    def __init__(self) -> None:
        self.kept: dict[int, Cached] = {}  # by identity, for caches are compared by nothing else

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        objects: Counter[str] = Counter()
        misfits: Counter[str] = Counter()
        for cache in self.kept.values():
            objects[cache.kind.resource] += len(cache)
            misfits[cache.kind.resource] += len(cache.unreadable)
        shown = GaugeMetricFamily("echelon_informer_objects", "Objects in caches.", labels=["kind"])
        unreadable = GaugeMetricFamily(
            "echelon_informer_unreadable", "Objects on the server that do not fit their type.", labels=["kind"]
        )
        for kind in objects:
            shown.add_metric([kind], objects[kind])
            unreadable.add_metric([kind], misfits[kind])
        return (shown, unreadable)


class _Collected(Collector):
    """What was collected at a moment."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def written_out(registry: CollectorRegistry) -> bytes:
    """Return metrics as Prometheus reads them. A thousand rollouts are ten thousand lines: they are written elsewhere.

    They are read here, where nothing changes meanwhile.
    """
    return await asyncio.to_thread(generate_latest, _Collected(registry.collect()))


class Metrics:
    """The metrics of a process, or of one part of it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._queues = _Queues()
        self._caches = _Caches()
        self.registry.register(self._queues)
        self.registry.register(self._caches)
        self._own: dict[Callable[[CollectorRegistry], Any], Any] = {}
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
        self.informer_backs = self._counter("echelon_informer_backs", "Older states that were believed.", ["kind"])
        self.handler_errors = self._counter("echelon_handler_errors", "Failures of change handlers.", ["kind"])
        self.index_differences = self._counter(
            "echelon_index_differences", "Places where an index was not what the caches say.", ["controller"]
        )
        self.events = self._counter("echelon_events", "Events by what became of them.", ["outcome"])
        self._leader = Gauge(
            "leader_election_master_status", "Whether this process leads.", ["name"], registry=self.registry
        )
        self.loop_lag = Histogram(
            "echelon_event_loop_lag_seconds",
            "How late the event loop was.",
            registry=self.registry,
            buckets=_LAG_SECONDS,
        )

    def show_queue(self, name: str, stats: QueueStats) -> None:
        """Show what a work queue counts; a later one takes the place of an earlier one of the same name."""
        self._queues.stats[name] = stats

    def own(self, kind: Callable[[CollectorRegistry], T]) -> T:
        """Return metrics of somebody's own, made once however often they are asked for."""
        if kind not in self._own:
            self._own[kind] = kind(self.registry)
        made: T = self._own[kind]
        return made

    def show_leader(self, lease: str, leading: Callable[[], bool]) -> None:
        """Show whether this process leads; a later election takes the place of an earlier one."""
        self._leader.labels(lease).set_function(leading)

    @contextmanager
    def showing(self, cache: Cached) -> Iterator[None]:
        """Show what a cache holds, for as long as somebody keeps it up to date."""
        self._caches.kept[id(cache)] = cache
        try:
            yield
        finally:
            del self._caches.kept[id(cache)]

    def _counter(self, name: str, what: str, labels: list[str]) -> CounterMetric:
        return CounterMetric(name, what, labels, registry=self.registry)
