"""Whether pods and jobs work: things that run once, and may have failed for good.

A pod that is about to restart looks alive for a moment after each start, so what its containers wait for counts more
than its phase.
"""

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import (
    HEALTHY,
    Degraded,
    Health,
    Progressing,
    condition,
    items,
    number,
    part,
    text,
    unobserved,
)
from echelon.engine.work.pod_trouble import BROKEN


def pod(obj: JSONObject) -> Health:
    """Judge a pod: it is ready, or it has succeeded."""
    status = part(obj, "status")
    if "observedGeneration" in status and (waits := unobserved(obj)):
        return waits
    phase = text(status, "phase")
    if phase == "Succeeded":
        return HEALTHY
    if phase == "Failed":
        return Degraded("PodFailed", text(status, "message") or text(status, "reason") or "has failed")
    if broken := _broken_container(status):
        return broken
    ready = condition(status, "Ready")
    if ready.get("status") == "True":
        return HEALTHY
    scheduled = condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return Progressing("Unscheduled", text(scheduled, "message") or "has no node yet")
    return Progressing("PodNotReady", text(ready, "message") or f"is {phase.lower() or 'pending'} and not ready")


def _broken_container(status: JSONObject) -> Degraded | None:
    for each in [*items(status, "initContainerStatuses"), *items(status, "containerStatuses")]:
        waiting = part(each, "state", "waiting")
        reason = text(waiting, "reason")
        if reason in BROKEN:
            why = text(waiting, "message")
            return Degraded(reason, f"container {text(each, 'name')}: {reason}" + (f": {why}" if why else ""))
    return None


def job(obj: JSONObject) -> Health:
    """Judge a job: it is complete. A suspended one waits for somebody to let it run."""
    status, spec = part(obj, "status"), part(obj, "spec")
    if condition(status, "Complete").get("status") == "True":
        return HEALTHY
    for kind in ("Failed", "FailureTarget"):
        failed = condition(status, kind)
        if failed.get("status") == "True":
            return Degraded("JobFailed", text(failed, "message") or text(failed, "reason") or "has failed")
    if spec.get("suspend") is True:
        return Progressing("Suspended", "is suspended")
    wanted = number(spec, "completions", number(spec, "parallelism", 1))
    return Progressing("JobRunning", f"{number(status, 'succeeded')} of {wanted} complete")
