"""What an agent measures: its works, what it applied, what others changed, and when it last reached the hub."""

import asyncio
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from echelon.kube.metrics import Metrics


class AgentMetrics:
    """The metrics of one agent, or of all agents of a process together."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._works = _Works()
        registry.register(self._works)
        self.applies = Counter(
            "echelon_agent_applies", "Manifests that were applied, by what came of it.", ["result"], registry=registry
        )
        self.drift = Counter(
            "echelon_agent_drift", "Objects that somebody else changed and that were put back.", registry=registry
        )
        self._lag = Gauge(
            "echelon_agent_hub_lag_seconds", "Since when the hub has not taken a sign of life.", registry=registry
        )
        self._heard = 0.0

    @classmethod
    def of(cls, metrics: Metrics) -> "AgentMetrics":
        """Return those of a process, which are made once."""
        return metrics.own(cls)

    def heard(self) -> None:
        """Hear that the hub has taken a sign of life."""
        loop = asyncio.get_running_loop()
        if not self._heard:
            self._lag.set_function(lambda: loop.time() - self._heard)
        self._heard = loop.time()

    def show_works(self, cluster: str, counted: Callable[[], Iterable[bool]]) -> None:
        """Show the works of a cluster: of each whether all of it is applied. A later agent replaces an earlier one."""
        self._works.sources[cluster] = counted

    def applied(self, results: Iterable[bool]) -> None:
        """Count what came of applying manifests."""
        for well in results:
            self.applies.labels("success" if well else "failure").inc()


class _Works(Collector):
    def __init__(self) -> None:
        self.sources: dict[str, Callable[[], Iterable[bool]]] = {}

    def describe(self) -> Iterable[Metric]:
        return (self._family(),)

    def collect(self) -> Iterable[Metric]:
        found = [well for source in self.sources.values() for well in source()]
        works = self._family()
        works.add_metric(["applied"], sum(found))
        works.add_metric(["failing"], len(found) - sum(found))
        return (works,)

    @staticmethod
    def _family() -> GaugeMetricFamily:
        return GaugeMetricFamily("echelon_agent_works", "Works by whether all of it is applied.", labels=["state"])
