"""Whether the sets of pods that Kubernetes itself knows have reached their spec.

Every stage of an update looks finished by some counter: old pods are available before the controller has seen the new
spec, new pods exist before they are available, and a surge has enough available pods while old ones still serve. So a
set has arrived only when the present spec was seen, every pod that should be new is, no pod is left over, and all are
available.
"""

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import (
    Degraded,
    Health,
    Progressing,
    complete,
    condition,
    kept_old,
    number,
    part,
    text,
    unobserved,
)


def deployment(obj: JSONObject) -> Health:
    """Judge a Deployment; one that is paused has arrived if no update is outstanding."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if waits := unobserved(obj):
        return waits
    late = condition(status, "Progressing")
    if late.get("status") == "False" and late.get("reason") == "ProgressDeadlineExceeded":
        return Degraded("ProgressDeadlineExceeded", text(late, "message") or "exceeded its progress deadline")
    if failing := _replica_failure(status):
        return failing
    wanted, total, updated = number(spec, "replicas", 1), number(status, "replicas"), number(status, "updatedReplicas")
    if updated < wanted and spec.get("paused") is True:
        return Progressing("Paused", f"is paused with {updated} of {wanted} updated")
    if updated < wanted:
        return Progressing("Updating", f"{updated} of {wanted} updated")
    if total > updated:
        return Progressing("OldPods", f"{total - updated} old still running")
    return complete(number(status, "availableReplicas"), wanted, total)


def replica_set(obj: JSONObject) -> Health:
    """Judge a ReplicaSet or a ReplicationController; pods that run an older template are none of its business."""
    status = part(obj, "status")
    if waits := unobserved(obj) or _replica_failure(status):
        return waits
    wanted = number(part(obj, "spec"), "replicas", 1)
    return complete(number(status, "availableReplicas"), wanted, number(status, "replicas"))


def stateful_set(obj: JSONObject) -> Health:
    """Judge a StatefulSet: below the partition pods stay old, and under OnDelete so does what nobody deletes."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if waits := unobserved(obj):
        return waits
    wanted = number(spec, "replicas", 1)
    # Clusters before Kubernetes 1.22 count ready pods only.
    available = number(status, "availableReplicas", number(status, "readyReplicas"))
    return _revision(spec, status, wanted) or complete(available, wanted, number(status, "replicas"))


def _revision(spec: JSONObject, status: JSONObject, wanted: int) -> Progressing | None:
    strategy = part(spec, "updateStrategy")
    rolling = part(strategy, "rollingUpdate")
    current, update = text(status, "currentRevision"), text(status, "updateRevision")
    if text(strategy, "type") == "OnDelete" or (current and current == update):
        return None
    partition, updated = number(rolling, "partition"), number(status, "updatedReplicas")
    expected = max(0, wanted - partition)
    if updated < expected and rolling.get("paused") is True:
        return Progressing("Paused", f"is paused with {updated} of {expected} updated")
    if updated < expected:
        return Progressing("Updating", f"{updated} of {expected} updated")
    if current and not partition:
        # The controller makes the new revision the current one only after every pod of it is ready.
        return Progressing("Updating", "the new revision is not yet the current one")
    return None


def daemon_set(obj: JSONObject) -> Health:
    """Judge a DaemonSet: a pod on every node that is meant, and of the present template unless OnDelete."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if waits := unobserved(obj):
        return waits
    wanted = number(status, "desiredNumberScheduled")
    strategy = part(spec, "updateStrategy")
    if text(strategy, "type") != "OnDelete":
        kept = kept_old(part(strategy, "rollingUpdate").get("partition"), wanted)
        updated, expected = number(status, "updatedNumberScheduled"), wanted - kept
        if updated < expected:
            return Progressing("Updating", f"{updated} of {expected} updated")
    return complete(number(status, "numberAvailable"), wanted)


def _replica_failure(status: JSONObject) -> Degraded | None:
    failure = condition(status, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    return Degraded("ReplicaFailure", text(failure, "message") or "pods cannot be created or deleted")
