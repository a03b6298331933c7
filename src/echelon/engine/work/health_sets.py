"""Whether sets of pods from other projects have reached their spec: CloneSets, and Grove's sets of pod cliques.

Both may be told to keep old pods: a CloneSet by its partition, a set of cliques by OnDelete. Keeping them is what the
spec asks for, so it is no reason to wait.
"""

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import (
    HEALTHY,
    Degraded,
    Health,
    Progressing,
    complete,
    condition,
    items,
    kept_old,
    number,
    part,
    text,
    unobserved,
)


def clone_set(obj: JSONObject) -> Health:
    """Judge a CloneSet: all but the partition are of the update revision and available, and so are all together."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if waits := unobserved(obj):
        return waits
    for kind in ("FailedScale", "FailedUpdate"):
        failed = condition(status, kind)
        if failed.get("status") == "True":
            return Degraded(kind, text(failed, "message") or "pods cannot be changed")
    wanted, strategy = number(spec, "replicas", 1), part(spec, "updateStrategy")
    expected = wanted - kept_old(strategy.get("partition"), wanted)
    if text(status, "currentRevision") and text(status, "currentRevision") == text(status, "updateRevision"):
        expected = 0  # there is no older revision, so nothing waits to be updated
    updated = number(status, "updatedReplicas")
    if updated < expected:
        if strategy.get("paused") is True:
            return Progressing("Paused", f"is paused with {updated} of {expected} updated")
        return Progressing("Updating", f"{updated} of {expected} updated")
    ready = number(status, "updatedAvailableReplicas", number(status, "updatedReadyReplicas"))
    if ready < expected:
        return Progressing("Updating", f"{ready} of {expected} updated and available")
    return complete(number(status, "availableReplicas"), wanted, number(status, "replicas"))


def clique_set(obj: JSONObject) -> Health:
    """Judge a PodCliqueSet; under OnDelete nobody but the user replaces pods, so nothing is waited for."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if waits := unobserved(obj):
        return waits
    wanted, updated = number(spec, "replicas", 1), number(status, "updatedReplicas")
    progress = part(status, "updateProgress")
    if text(part(spec, "updateStrategy"), "type") != "OnDelete":
        under_way = bool(progress) and not text(progress, "updateEndedAt")
        if under_way or updated < wanted:
            return _with_errors("Updating", f"{min(updated, wanted)} of {wanted} updated", status)
    available = number(status, "availableReplicas")
    if available < wanted:
        return _with_errors("Unavailable", f"{available} of {wanted} available", status)
    return HEALTHY


def scaling_group(obj: JSONObject) -> Health:
    """Judge a PodCliqueScalingGroup, which a set makes and updates."""
    status, wanted = part(obj, "status"), number(part(obj, "spec"), "replicas", 1)
    if waits := unobserved(obj):
        return waits
    return complete(number(status, "availableReplicas"), wanted)


def clique(obj: JSONObject) -> Health:
    """Judge a PodClique, which a set makes and updates."""
    status, wanted = part(obj, "status"), number(part(obj, "spec"), "replicas", 1)
    if waits := unobserved(obj):
        return waits
    ready = number(status, "readyReplicas")
    if ready < wanted:
        return _with_errors("NotReady", f"{ready} of {wanted} ready", status)
    return HEALTHY


def _with_errors(reason: str, message: str, status: JSONObject) -> Progressing:
    # Errors of the last reconcile are retried, so they explain a wait and do not end it.
    errors = [text(each, "description") for each in items(status, "lastErrors")]
    return Progressing(reason, "; ".join([message, *filter(None, errors[:1])]))
