"""Whether sets of pods from other projects have reached their spec: CloneSets, and Grove's sets of pod cliques.

Both may be told to keep old pods: a CloneSet by its partition, a set of cliques by OnDelete. Keeping them is what the
spec asks for, so it is no reason to wait, unless an annotation says that it is.
"""

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import (
    HEALTHY,
    Degraded,
    Health,
    Healthy,
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

WAIT_FOR_UPDATED = "echelon.dev/wait-for-updated"  # on a set under OnDelete: "true" waits for those who delete its pods


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
    """Judge a PodCliqueSet; under OnDelete nobody but the user replaces pods, so these are told of, not waited for."""
    spec, status = part(obj, "spec"), part(obj, "status")
    if waits := unobserved(obj):
        return waits
    accepted = condition(status, "Accepted")
    if accepted.get("status") == "False":
        return Degraded("NotAccepted", text(accepted, "message") or "the controller cannot carry it out")
    wanted, updated = number(spec, "replicas"), number(status, "updatedReplicas")
    progress, on_delete = part(status, "updateProgress"), text(part(spec, "updateStrategy"), "type") == "OnDelete"
    if not on_delete:
        under_way = bool(progress) and not text(progress, "updateEndedAt")
        if under_way or updated < wanted:
            return _with_errors("Updating", f"{min(updated, wanted)} of {wanted} updated", status)
    available = number(status, "availableReplicas")
    if available < wanted:
        return _with_errors("Unavailable", f"{available} of {wanted} available", status)
    outdated = number(status, "outdatedPodsCount")
    if not on_delete or not outdated:
        return HEALTHY
    told = f"pods that run an older template until somebody deletes them: {outdated}"
    waits_for = part(obj, "metadata", "annotations").get(WAIT_FOR_UPDATED) == "true"
    return Progressing("Outdated", told) if waits_for else Healthy(told)


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
