"""What a hub measures: requests and how long they take, watches, and what it stores.

The names of requests are those of Kubernetes' own servers, so that dashboards know them. An address can be anything:
who asks for a thousand kinds that do not exist must not make a thousand series, so they are counted as one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from echelon.hub.web.request import RequestInfo

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SUBRESOURCES = frozenset(("", "status", "scale", "token", "approval", "finalize", "eviction", "binding", "log"))
_VERBS = frozenset(("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "head"))


@dataclass(frozen=True)
class Stored:
    """What a hub stores, all logical clusters together."""

    objects: int
    revisions: int  # that can be listed and watched
    compacted: int  # revisions that can no longer be
    file_bytes: int


class HubMetrics:
    """The metrics of one hub."""

    def __init__(self, registry: CollectorRegistry, stored: Callable[[], Stored]) -> None:
        self.registry = registry
        registry.register(_Storage(stored))
        self._requests = Counter(
            "apiserver_request",
            "Requests by verb, resource and code.",
            ["verb", "group", "resource", "subresource", "code"],
            registry=registry,
        )
        self._durations = Histogram(
            "apiserver_request_duration_seconds",
            "How long requests took; watches are not among them.",
            ["verb", "group", "resource", "subresource"],
            registry=registry,
            buckets=_SECONDS,
        )
        self._counted: dict[tuple[tuple[str, ...], int], Counter] = {}
        self._measured: dict[tuple[str, ...], Histogram] = {}
        self.watches = Gauge(
            "apiserver_longrunning_requests", "Watches and followed logs that are open.", registry=registry
        )

    def answered(self, info: RequestInfo, code: int, seconds: float, *, known: bool) -> None:
        """Count a request; of a resource that is not `known` only that somebody asked for one."""
        verb = info.verb if info.verb in _VERBS else "other"
        subresource = info.subresource if info.subresource in _SUBRESOURCES else "other"
        asked = (verb, *((info.group, info.resource, subresource) if known else ("", "", "")))
        counted = self._counted.get((asked, code))
        if counted is None:  # looking a series up by its labels takes as long as all the rest
            counted = self._counted[asked, code] = self._requests.labels(*asked, str(code))
        counted.inc()
        if info.lasting:
            return
        measured = self._measured.get(asked)
        if measured is None:
            measured = self._measured[asked] = self._durations.labels(*asked)
        measured.observe(seconds)


class _Storage(Collector):
    def __init__(self, stored: Callable[[], Stored]) -> None:
        self._stored = stored

    def describe(self) -> Iterable[Metric]:
        return self._families(Stored(0, 0, 0, 0))

    def collect(self) -> Iterable[Metric]:
        return self._families(self._stored())

    @staticmethod
    def _families(stored: Stored) -> Sequence[Metric]:
        return (
            GaugeMetricFamily("echelon_hub_storage_objects", "Objects that are stored.", value=stored.objects),
            GaugeMetricFamily("echelon_hub_storage_size_bytes", "Size of the database.", value=stored.file_bytes),
            GaugeMetricFamily(
                "echelon_hub_storage_revisions", "Changes that can be listed and watched.", value=stored.revisions
            ),
            CounterMetricFamily(
                "echelon_hub_storage_compacted_revisions", "Changes that were forgotten.", value=stored.compacted
            ),
        )
