"""Each figure with what it stands next to: the same of kube-apiserver, and what we aim at.

The figures of kube-apiserver with etcd are those that the project set out with: 10,000 ManagedClusters, 13 MB, on
another machine of the same class with two cores. This program did not measure them; with `--kubeconfig` it can.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Meaning:
    """How a figure is read."""

    title: str
    unit: str
    more_is_better: bool = False
    kubernetes: float | None = None
    aim: float | None = None  # so many times better than kube-apiserver
    per_cluster: bool = False  # grows with the fleet, so it compares only at 10,000 clusters


MEANINGS: Mapping[str, Meaning] = {
    "list_last_byte": Meaning("list, last byte (median of 7)", "ms", kubernetes=420.0, aim=5.0, per_cluster=True),
    "list_first_byte": Meaning("list, first byte", "ms", per_cluster=True),
    "list_size": Meaning("list, size", "MB", per_cluster=True),
    "creates": Meaning("creates, 48 in flight", "/s", more_is_better=True, kubernetes=1000.0, aim=1.5),
    "create_cpu": Meaning("create, CPU of the server", "µs"),
    "get_p50": Meaning("get, median", "ms"),
    "get_p99": Meaning("get, 99th percentile", "ms"),
    "updates": Meaning("status patches, 48 in flight", "/s", more_is_better=True),
    "update_cpu": Meaning("status patch, CPU of the server", "µs"),
    "fan_out": Meaning("1,000 updates to 100 watchers", "s"),
    "events": Meaning("events delivered", "/s", more_is_better=True),
    "fan_out_cpu": Meaning("event delivered, CPU of the server", "µs"),
    "memory": Meaning("memory with the fleet loaded", "MiB", kubernetes=1100.0, aim=4.0, per_cluster=True),
    "peak": Meaning("memory, most of the whole run", "MiB", per_cluster=True),
    "stored": Meaning("state on disk", "MB", per_cluster=True),
    "restart": Meaning("restart, until ready", "s", per_cluster=True),
}


def ratio(name: str, value: float, clusters: int) -> float | None:
    """Return how many times better a figure is than that of kube-apiserver; None where that cannot be said."""
    meaning = MEANINGS[name]
    if meaning.kubernetes is None or not value or (meaning.per_cluster and clusters != 10_000):
        return None
    return value / meaning.kubernetes if meaning.more_is_better else meaning.kubernetes / value
