"""Everything that our processes measure, asked of the registries themselves: for a page, and for alerts that exist."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector

from echelon.agent.metrics import AgentMetrics
from echelon.controllers.cluster.fleet_silence import SilenceMetrics
from echelon.controllers.placement.metrics import PlacementMetrics
from echelon.controllers.pod_clique.metrics import PodCliqueMetrics
from echelon.controllers.rollout.metrics import RolloutMetrics
from echelon.hub.web.metrics import HubMetrics, Stored
from echelon.kube.metrics import Metrics

_SUFFIXES: Final = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@dataclass(frozen=True, order=True)
class MetricFamily:
    """A metric as Prometheus sees it."""

    name: str
    type: str
    labels: tuple[str, ...]
    what: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which it can be asked for."""
        return tuple(f"{self.name}{suffix}" for suffix in _SUFFIXES[self.type])

    @property
    def shown(self) -> str:
        """Its name, as people write it."""
        return self.series[0] if self.type == "counter" else self.name


def measured() -> dict[str, list[MetricFamily]]:
    """Return the metrics of each kind of process; what all have in common is under the empty name."""
    common = Metrics()
    ProcessCollector(registry=common.registry)
    shared = set(_families(common.registry))
    controllers, agent, hub = Metrics(), Metrics(), Metrics()
    RolloutMetrics.of(controllers)
    SilenceMetrics(controllers.registry)
    PlacementMetrics(controllers.registry)
    PodCliqueMetrics(controllers.registry)
    AgentMetrics.of(agent)
    HubMetrics(hub.registry, lambda: Stored(0, 0, 0, 0))
    found = {"": sorted(shared)}
    for name, metrics in (("echelon run", controllers), ("echelon agent", agent), ("echelon hub", hub)):
        found[name] = sorted(set(_families(metrics.registry)) - shared)
    return found


def series() -> frozenset[str]:
    """Return every name that an expression may use; `up` is Prometheus' own."""
    return frozenset(name for each in measured().values() for family in each for name in family.series) | {"up"}


def _families(registry: CollectorRegistry) -> Iterator[MetricFamily]:
    for collector in registry._collector_to_names:  # noqa: SLF001 - nothing else tells labels without samples
        for metric in collector.collect():
            labels = _labels(metric) or _labels(collector)
            yield MetricFamily(metric.name, metric.type, labels, metric.documentation)


def _labels(metric: Any) -> tuple[str, ...]:
    return tuple(getattr(metric, "_labelnames", None) or ())
