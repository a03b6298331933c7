"""What a node reports of init containers: one runs after the other, and the pod is initialized when all have ended.

Sidecars, which are init containers that are always restarted, count as done as soon as they run.
"""

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.waiter import is_sidecar


def of(pod: JSONObject) -> list[JSONObject]:
    """Return the init containers of a pod."""
    return list(pod["spec"].get("initContainers") or ())


def current(pod: JSONObject) -> int | None:
    """Return the number of the init container whose turn it is; None when all are done."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    for number, container in enumerate(of(pod)):
        status = statuses[number] if number < len(statuses) else {}
        if not _done(container, status):
            return number
    return None


def is_running(pod: JSONObject, number: int) -> bool:
    """Tell whether an init container runs now."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return number < len(statuses) and "running" in (statuses[number].get("state") or {})


def restarts(pod: JSONObject, number: int) -> int:
    """Return how often an init container was started again."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return int(statuses[number].get("restartCount", 0)) if number < len(statuses) else 0


def waiting(pod: JSONObject) -> JSONObject:
    """Return the part of the status of a pod that is new on its node."""
    state = {"waiting": {"reason": "PodInitializing"}}
    return {"initContainerStatuses": [_status(each, state) for each in of(pod)]}


def began(pod: JSONObject, number: int, now: str) -> JSONObject:
    """Return the status of a pod of which an init container starts."""
    sidecar = is_sidecar(of(pod)[number])
    state = {"running": {"startedAt": now}}
    return _with(pod, number, now, state=state, started=sidecar, ready=sidecar)


def ended(pod: JSONObject, number: int, now: str) -> JSONObject:
    """Return the status of a pod of which an init container has done its work."""
    return _with(pod, number, now, state={"terminated": _end(pod, number, 0, "Completed", now)}, ready=True)


def held_up(pod: JSONObject, number: int, reason: str, message: str, now: str) -> JSONObject:
    """Return the status of a pod of which an init container cannot start."""
    return _with(pod, number, now, state={"waiting": {"reason": reason, "message": message}})


def crashed(pod: JSONObject, number: int, pause: float, now: str) -> JSONObject:
    """Return the status of a pod of which an init container ended with an error and will be started again."""
    meta, name = pod["metadata"], of(pod)[number]["name"]
    message = f"back-off {int(pause)}s restarting failed container={name} pod={meta['name']}_{meta['namespace']}"
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    last = {"terminated": _end(pod, number, 1, "Error", now)}
    return _with(pod, number, now, state=state, lastState=last, restartCount=restarts(pod, number) + 1)


def initialized(pod: JSONObject, status: JSONObject, now: str) -> JSONObject:
    """Return the condition that says whether all are done."""
    present = status.get("initContainerStatuses") or [{} for _ in of(pod)]
    missing = [each["name"] for each, seen in zip(of(pod), present, strict=True) if not _done(each, seen)]
    if not missing:
        return {"type": "Initialized", "status": "True", "lastTransitionTime": now}
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    why = {"reason": "ContainersNotInitialized", "message": message}
    return {"type": "Initialized", "status": "False", "lastTransitionTime": now, **why}


def _done(container: JSONObject, status: JSONObject) -> bool:
    if is_sidecar(container):
        return bool(status.get("started"))
    return ((status.get("state") or {}).get("terminated") or {}).get("exitCode") == 0


def _status(container: JSONObject, state: JSONObject) -> JSONObject:
    return {
        "name": container["name"],
        "image": container.get("image") or "",
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _end(pod: JSONObject, number: int, code: int, reason: str, now: str) -> JSONObject:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    state = (statuses[number].get("state") or {}) if number < len(statuses) else {}
    since = (state.get("running") or {}).get("startedAt", now)
    return {"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": now}


def _with(pod: JSONObject, number: int, now: str, **changed: object) -> JSONObject:
    status = pod.get("status") or {}
    statuses = list(status.get("initContainerStatuses") or waiting(pod)["initContainerStatuses"])
    statuses[number] = {**statuses[number], "ready": False, "started": False, **changed}
    new = {**status, "initContainerStatuses": statuses}
    condition = initialized(pod, new, now)
    conditions = list(status.get("conditions") or ())
    for place, old in enumerate(conditions):
        if old["type"] == "Initialized":
            if old["status"] == condition["status"]:
                condition["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[place] = condition
    return {**new, "conditions": conditions}
