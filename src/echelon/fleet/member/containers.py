"""What a node reports of a pod at each stage of its life: the pieces of `status`, in the words of the kubelet."""

from echelon.api.base import JSONObject
from echelon.fleet.member import init_containers
from echelon.fleet.member.decide.pods import read_pod
from echelon.fleet.member.decide.scheduling import same_but_numbers

_RESTART_SECONDS = 10.0
_LONGEST_RESTART_SECONDS = 300.0
LAST_WORDS = "fatal: it ends, as the script of this cluster says"  # of a container that fails


def backoff(attempt: int) -> float:
    """Return how long to wait before a container is started again, or an image pulled again."""
    return float(min(_RESTART_SECONDS * 2 ** min(attempt, 10), _LONGEST_RESTART_SECONDS))


def pull_error(image: str, attempt: int) -> tuple[str, str]:
    """Return the reason and the message for an image that cannot be pulled."""
    if attempt:
        return "ImagePullBackOff", f'Back-off pulling image "{image}"'
    return "ErrImagePull", f'failed to pull and unpack image "{image}": not found'


def images_of(pod: JSONObject) -> tuple[str, ...]:
    """Return the images that a pod runs."""
    return tuple(container.get("image") or "" for container in pod["spec"]["containers"])


def scheduled(pod: JSONObject, node: str, now: str) -> JSONObject:
    """Return the status of a pod that has just reached its node."""
    first = bool(pod["spec"].get("initContainers"))
    waiting = {"waiting": {"reason": "PodInitializing" if first else "ContainerCreating"}}
    status = _with_containers(pod, waiting, ready=False, restarts=0)
    if first:
        status |= init_containers.waiting(pod)
    conditions = [
        init_containers.initialized(pod, status, now),
        _not_ready("Ready", pod, now),
        _not_ready("ContainersReady", pod, now),
        _condition("PodScheduled", "True", now),
    ]
    return {
        **status,
        "phase": "Pending",
        "hostIP": _address(node, "192.168"),
        "startTime": now,
        "conditions": conditions,
    }


def unschedulable(pod: JSONObject, why: str, now: str) -> JSONObject:
    """Return the status of a pod for which there is no node."""
    missing = {**_condition("PodScheduled", "False", now), "reason": "Unschedulable", "message": why}
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    if any(c["type"] == "PodScheduled" and _same_kind(c, missing) for c in conditions):
        return status
    return {**status, "conditions": _merged(conditions, [missing])}


def _same_kind(said: JSONObject, new: JSONObject) -> bool:
    return said.get("reason") == new["reason"] and same_but_numbers(said.get("message") or "", new["message"])


def not_pulled(pod: JSONObject, image: str, attempt: int, now: str) -> JSONObject:
    """Return the status of a pod one of whose images cannot be pulled; containers with others only wait."""
    reason, message = pull_error(image, attempt)
    creating = {"waiting": {"reason": "ContainerCreating"}}
    status = _with_containers(pod, creating, ready=False, restarts=read_pod(pod).restarts)
    state = {"waiting": {"reason": reason, "message": message}}
    status["containerStatuses"] = [
        {**each, "state": state} if each["image"] == image else each for each in status["containerStatuses"]
    ]
    return _unready(pod, status, now)


def running(pod: JSONObject, now: str, *, ready: bool) -> JSONObject:
    """Return the status of a pod whose containers run."""
    state = {"running": {"startedAt": now}}
    status = _with_containers(pod, state, ready=ready, restarts=read_pod(pod).restarts)
    address = _address(pod["metadata"]["uid"], "10")
    status |= {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    return _ready(status, now) if ready else _unready(pod, status, now)


def readiness(pod: JSONObject, now: str, *, ready: bool) -> JSONObject:
    """Return the status of a running pod that begins or ceases to serve."""
    status = dict(pod["status"])
    status["containerStatuses"] = [{**each, "ready": ready} for each in status.get("containerStatuses") or ()]
    return _ready(status, now) if ready else _unready(pod, status, now)


def crashed(pod: JSONObject, now: str) -> JSONObject:
    """Return the status of a pod whose containers ended with an error and will be started again."""
    name, restarts = pod["metadata"]["name"], read_pod(pod).restarts
    pause = int(backoff(restarts))
    message = f"back-off {pause}s restarting failed container in pod {name}_{pod['metadata']['namespace']}"
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    status = _with_containers(pod, state, ready=False, restarts=restarts + 1)
    last = {"terminated": {**_terminated(pod, 1, "Error", now), "message": LAST_WORDS}}
    status["containerStatuses"] = [{**each, "lastState": last} for each in status["containerStatuses"]]
    return _unready(pod, status, now)


def ended(pod: JSONObject, now: str, *, succeeded: bool) -> JSONObject:
    """Return the status of a pod that has run to its end."""
    code, reason = (0, "Completed") if succeeded else (1, "Error")
    words = {} if succeeded else {"message": LAST_WORDS}
    state = {"terminated": {**_terminated(pod, code, reason, now), **words}}
    status = _with_containers(pod, state, ready=False, restarts=read_pod(pod).restarts)
    status["phase"] = "Succeeded" if succeeded else "Failed"
    return _unready(pod, status, now, "PodCompleted" if succeeded else "PodFailed")


def evicted(pod: JSONObject, now: str) -> JSONObject:
    """Return the status of a pod that had to leave because the disk is full."""
    status = {**(pod.get("status") or {}), "phase": "Failed", "reason": "Evicted"}
    status["message"] = "The node was low on resource: ephemeral-storage."
    return _unready(pod, status, now, "PodFailed")


def unheard_of(pod: JSONObject, now: str) -> JSONObject:
    """Return the status of a pod whose node has fallen silent: nobody knows whether it serves."""
    status = pod["status"]
    return {**status, "conditions": _merged(status.get("conditions") or [], [_condition("Ready", "False", now)])}


def expelled(pod: JSONObject, now: str) -> JSONObject:
    """Return the status of a pod that is about to be deleted because of a taint of its node."""
    why = {"reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}
    status = pod["status"]
    target = {**_condition("DisruptionTarget", "True", now), **why}
    return {**status, "conditions": _merged(status.get("conditions") or [], [target])}


def _terminated(pod: JSONObject, code: int, reason: str, now: str) -> JSONObject:
    started = (pod.get("status") or {}).get("startTime", now)
    return {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}


def _with_containers(pod: JSONObject, state: JSONObject, *, ready: bool, restarts: int) -> JSONObject:
    """Return the status with all containers in one state: they share their fate."""
    before = {each["name"]: each for each in (pod.get("status") or {}).get("containerStatuses") or ()}
    containers = [
        {
            "name": container["name"],
            "image": container.get("image") or "",
            "imageID": "",
            "ready": ready,
            "started": "running" in state,
            "restartCount": restarts,
            "state": state,
            "lastState": before.get(container["name"], {}).get("lastState") or {},
        }
        for container in pod["spec"]["containers"]
    ]
    return {**(pod.get("status") or {}), "containerStatuses": containers}


def _ready(status: JSONObject, now: str) -> JSONObject:
    changed = [_condition("Ready", "True", now), _condition("ContainersReady", "True", now)]
    return {**status, "conditions": _merged(status.get("conditions") or [], changed)}


def _unready(pod: JSONObject, status: JSONObject, now: str, reason: str = "") -> JSONObject:
    changed = [_not_ready(name, pod, now) for name in ("Ready", "ContainersReady")]
    if reason:
        changed = [{"type": c["type"], "status": "False", "lastTransitionTime": now, "reason": reason} for c in changed]
    return {**status, "conditions": _merged(status.get("conditions") or [], changed)}


def _not_ready(kind: str, pod: JSONObject, now: str) -> JSONObject:
    names = " ".join(container["name"] for container in pod["spec"]["containers"])
    text = f"containers with unready status: [{names}]"
    return {**_condition(kind, "False", now), "reason": "ContainersNotReady", "message": text}


def _condition(kind: str, status: str, now: str) -> JSONObject:
    return {"type": kind, "status": status, "lastTransitionTime": now}


def _merged(present: list[JSONObject], changed: list[JSONObject]) -> list[JSONObject]:
    """Set conditions; one whose status does not change keeps its time."""
    found = {each["type"]: each for each in present}
    for each in changed:
        old = found.get(each["type"])
        if old is not None and old["status"] == each["status"]:
            each = {**each, "lastTransitionTime": old.get("lastTransitionTime")}  # noqa: PLW2901 - the same condition
        found[each["type"]] = each
    return list(found.values())


def _address(text: str, network: str) -> str:
    """Return an address that looks like one of a network and is always the same for a text."""
    number = int.from_bytes(text.encode()[-8:].rjust(8, b"\0")) * 2654435761 >> 8
    parts = [str(1 + (number >> shift) % 250) for shift in (0, 8, 16)]
    return ".".join([network, *parts][: 4 - network.count(".")])
