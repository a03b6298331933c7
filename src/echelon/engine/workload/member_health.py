"""Whether an object of a work does its job, in the three words that Karmada has for it.

By Karmada's rule a cluster in which nothing may be updated yet is unhealthy, because its pods are not all new; with
failover it would be left for that. A cluster that waits, paused or kept back by a partition, is judged by the pods that
it is to have: those that may be updated are, and all of them are available.
"""

from echelon.api.base import JSONObject
from echelon.engine.align.budgets import RollingStrategy
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.work.health import Healthy, health
from echelon.engine.work.health_state import UNOBSERVED, kept_old, number, part, text

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"

# The kinds whose health Karmada looks at; of all others it says that it does not know.
_JUDGED = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "ReplicaSet"),
        ("apps", "DaemonSet"),
        ("apps.kruise.io", "CloneSet"),
        ("", "Service"),
        ("", "Pod"),
        ("", "PersistentVolumeClaim"),
    }
)


def member_health(obj: JSONObject, interpreter: Interpreter | None) -> str:
    """Judge an object by what it says about itself."""
    if interpreter is not None:
        return _workload(obj, interpreter.get_rolling_strategy(obj))
    group, kind = text(obj, "apiVersion").rpartition("/")[0], text(obj, "kind")
    if (group, kind) not in _JUDGED:
        return UNKNOWN
    return HEALTHY if isinstance(health(obj), Healthy) else UNHEALTHY


def is_unwell(obj: JSONObject, interpreter: Interpreter | None) -> bool:
    """Whether it is worth asking why an object does not do its job: its controller has seen it, and it does not."""
    observed = number(part(obj, "status"), "observedGeneration") >= number(part(obj, "metadata"), "generation")
    if interpreter is not None:
        return observed and member_health(obj, interpreter) == UNHEALTHY
    found = health(obj)
    return not isinstance(found, Healthy) and found.reason != UNOBSERVED


def _workload(obj: JSONObject, strategy: RollingStrategy | None) -> str:
    meta, spec, status = part(obj, "metadata"), part(obj, "spec"), part(obj, "status")
    replicas = number(spec, "replicas", 1)
    kept = 0
    if strategy is not None:
        kept = replicas if strategy.paused else min(replicas, kept_old(strategy.partition, replicas))
    updated, available = number(status, "updatedReplicas"), number(status, "availableReplicas")
    observed = number(status, "observedGeneration") >= number(meta, "generation")
    good = observed and updated >= replicas - kept and available >= (replicas if kept else updated)
    return HEALTHY if good else UNHEALTHY
