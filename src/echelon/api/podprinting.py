"""The READY, STATUS and RESTARTS of a pod, as `kubectl get pods` shows them.

No field of a pod says "CrashLoopBackOff" or "Init:1/2": Kubernetes puts them together from the phase, the conditions
and the state of every container, and people know the result by heart. A restart is shown without its age, because a
cell knows no time of day.
"""

from dataclasses import dataclass, replace

from echelon.api.base import JSONObject
from echelon.api.printing import NONE, at


@dataclass(frozen=True)
class _Seen:
    """What has been read off the containers so far."""

    reason: str
    ready: int = 0
    restarts: int = 0


def pod_ready(pod: JSONObject) -> str:
    """READY: ready containers of all that stay."""
    sidecars = sum(_is_sidecar(container) for container in at(pod, "spec", "initContainers") or ())
    return f"{_summary(pod).ready}/{len(at(pod, 'spec', 'containers') or ()) + sidecars}"


def pod_status(pod: JSONObject) -> str:
    """STATUS: the most telling word about the pod."""
    if at(pod, "metadata", "deletionTimestamp"):
        if at(pod, "status", "reason") == "NodeLost":
            return "Unknown"
        if at(pod, "status", "phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return _summary(pod).reason


def pod_restarts(pod: JSONObject) -> str:
    """RESTARTS: how often containers were restarted."""
    return str(_summary(pod).restarts)


def pod_ip(pod: JSONObject) -> str:
    """IP of a pod."""
    addresses = at(pod, "status", "podIPs") or ()
    return (addresses[0].get("ip") if addresses else at(pod, "status", "podIP")) or NONE


def pod_readiness_gates(pod: JSONObject) -> str:
    """READINESS GATES: those that are open, of all."""
    gates = [gate["conditionType"] for gate in at(pod, "spec", "readinessGates") or ()]
    return f"{sum(_is_true(pod, gate) for gate in gates)}/{len(gates)}" if gates else NONE


def _summary(pod: JSONObject) -> _Seen:
    reason = at(pod, "status", "reason") or at(pod, "status", "phase") or ""
    if any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in at(pod, "status", "conditions") or ()
    ):
        reason = "SchedulingGated"
    seen, initializing = _init_containers(pod, _Seen(reason))
    if initializing and not _is_true(pod, "Initialized"):
        return seen
    sidecar_restarts = sum(
        status.get("restartCount", 0)
        for status in at(pod, "status", "initContainerStatuses") or ()
        if status["name"] in _sidecars(pod)
    )
    return _containers(pod, replace(seen, restarts=sidecar_restarts))


def _init_containers(pod: JSONObject, seen: _Seen) -> tuple[_Seen, bool]:
    """Go through the init containers, up to the first that is not done."""
    sidecars = _sidecars(pod)
    total = len(at(pod, "spec", "initContainers") or ())
    for index, status in enumerate(at(pod, "status", "initContainerStatuses") or ()):
        seen = replace(seen, restarts=seen.restarts + status.get("restartCount", 0))
        ended, waiting = at(status, "state", "terminated"), at(status, "state", "waiting", "reason")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if status["name"] in sidecars and status.get("started"):
            seen = replace(seen, ready=seen.ready + bool(status.get("ready")))
            continue
        if ended is not None:
            return replace(seen, reason=f"Init:{_end(ended)}"), True
        if waiting and waiting != "PodInitializing":
            return replace(seen, reason=f"Init:{waiting}"), True
        return replace(seen, reason=f"Init:{index}/{total}"), True
    return seen, False


def _containers(pod: JSONObject, seen: _Seen) -> _Seen:
    """Go through the containers; the first one with something to say has the last word."""
    reason, error, running = seen.reason, "", 0
    restarts = seen.restarts
    for status in reversed(at(pod, "status", "containerStatuses") or ()):
        restarts += status.get("restartCount", 0)
        ended = at(status, "state", "terminated")
        if waiting := at(status, "state", "waiting", "reason"):
            reason = waiting
        elif ended is not None:
            reason = _end(ended)
            error = reason if ended.get("exitCode", 0) else error
        elif status.get("ready") and at(status, "state", "running") is not None:
            running += 1
    if reason == "Completed":
        if running and _is_true(pod, "Ready"):
            reason = "Running"
        elif error:
            reason = error
        elif running:
            reason = "NotReady"
    return _Seen(reason, seen.ready + running, restarts)


def _end(ended: JSONObject) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _sidecars(pod: JSONObject) -> set[str]:
    return {c["name"] for c in at(pod, "spec", "initContainers") or () if _is_sidecar(c)}


def _is_sidecar(container: JSONObject) -> bool:
    return container.get("restartPolicy") == "Always"


def _is_true(pod: JSONObject, condition: str) -> bool:
    conditions = at(pod, "status", "conditions") or ()
    return any(c["type"] == condition and c["status"] == "True" for c in conditions)
