"""What a Deployment says about itself: counts, and the conditions Available and Progressing.

Progressing is a clock. It is wound by every step forward, stands still under a pause, and when it runs out the
Deployment says so and goes on trying.
"""

from enum import StrEnum

import msgspec

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.deployment import DeploymentView
from echelon.fleet.member.decide.pods import seconds

NO_DEADLINE = 2**31 - 1
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"


class Moment(msgspec.Struct, frozen=True):
    """Now, as a number and as it is written."""

    at: float
    text: str


class Target(StrEnum):
    """What became of the new ReplicaSet since the last report."""

    SAME = "same"
    CREATED = "created"
    CHOSEN = "chosen"  # it was there: the template went back to what it had been


class Reported(msgspec.Struct, frozen=True):
    """A new status, and when to look again if nothing happens."""

    status: JSONObject
    again: float | None = None


def report(
    view: DeploymentView, old: JSONObject, *, generation: int, deadline: int, target: Target, now: Moment
) -> Reported:
    """Return the status of a Deployment."""
    counts = _counts(view, generation)
    if "collisionCount" in old:
        counts["collisionCount"] = old["collisionCount"]
    conditions = {each["type"]: each for each in old.get("conditions") or ()}
    enough = sum(each.available for each in view.sets) >= view.least
    _put(conditions, _availability(enough=enough), now)
    again = None
    if deadline != NO_DEADLINE:
        change = _paused_or_not(view, conditions.get("Progressing"))
        if change is not None:
            _put(conditions, change, now)
        if not view.paused:
            again = _progress(view, old, counts, conditions, deadline=deadline, target=target, now=now)
    # In the order in which the controller sets them for the first time.
    order = ("Available", "Progressing", "ReplicaFailure")
    return Reported({**counts, "conditions": [conditions[name] for name in order if name in conditions]}, again)


def _counts(view: DeploymentView, generation: int) -> JSONObject:
    sets, available = view.sets, sum(each.available for each in view.sets)
    numbers = {
        "replicas": sum(each.replicas for each in sets),
        "updatedReplicas": view.new.replicas if view.new else 0,
        "readyReplicas": sum(each.ready for each in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(each.size for each in sets) - available),
    }
    return {"observedGeneration": generation, **{name: number for name, number in numbers.items() if number}}


def _availability(*, enough: bool) -> JSONObject:
    if enough:
        return _condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    return _condition(
        "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    )


def _paused_or_not(view: DeploymentView, present: JSONObject | None) -> JSONObject | None:
    reason = present["reason"] if present else ""
    if view.paused and reason not in (PAUSED, TIMED_OUT):
        return _condition("Progressing", "Unknown", PAUSED, "Deployment is paused")
    if not view.paused and reason == PAUSED:
        return _condition("Progressing", "Unknown", RESUMED, "Deployment is resumed")
    return None


def _progress(
    view: DeploymentView,
    old: JSONObject,
    new: JSONObject,
    conditions: dict[str, JSONObject],
    *,
    deadline: int,
    target: Target,
    now: Moment,
) -> float | None:
    """Wind the clock, or see that it has run out; return when it will."""
    present = conditions.get("Progressing")
    reason = present["reason"] if present else ""
    name = view.new.name if view.new else ""
    if target is Target.SAME and reason == COMPLETE and new.get("replicas", 0) == new.get("updatedReplicas", 0):
        return None
    if view.new and _complete(view, new):
        text = f'ReplicaSet "{name}" has successfully progressed.'
        _put(conditions, _condition("Progressing", "True", COMPLETE, text), now)
        return None
    # With another template, all that was up to date no longer is.
    before = old if target is Target.SAME else {**old, "updatedReplicas": 0}
    if _moved(before, new) or target is Target.CHOSEN:
        _put(conditions, _condition("Progressing", "True", UPDATED, f'ReplicaSet "{name}" is progressing.'), now)
    elif target is Target.CREATED:
        _put(conditions, _condition("Progressing", "True", CREATED, f'Created new replica set "{name}"'), now)
    elif present is None and view.new:
        _put(conditions, _condition("Progressing", "True", FOUND, f'Found new replica set "{name}"'), now)
    elif (
        present and reason not in (TIMED_OUT, COMPLETE) and seconds(present.get("lastUpdateTime")) + deadline <= now.at
    ):
        text = f'ReplicaSet "{name}" has timed out progressing.'
        _put(conditions, _condition("Progressing", "False", TIMED_OUT, text), now)
    present = conditions.get("Progressing")
    if present is None or present["reason"] in (COMPLETE, TIMED_OUT):
        return None
    return seconds(present["lastUpdateTime"]) + deadline


def _complete(view: DeploymentView, new: JSONObject) -> bool:
    wanted = view.replicas
    return bool(new.get("updatedReplicas", 0) == new.get("replicas", 0) == new.get("availableReplicas", 0) == wanted)


def _moved(old: JSONObject, new: JSONObject) -> bool:
    def more(name: str) -> bool:
        return bool(new.get(name, 0) > old.get(name, 0))

    def outdated(status: JSONObject) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    forward = more("updatedReplicas") or more("readyReplicas") or more("availableReplicas")
    return forward or outdated(new) < outdated(old)


def _condition(kind: str, status: str, reason: str, message: str) -> JSONObject:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _put(conditions: dict[str, JSONObject], new: JSONObject, now: Moment) -> None:
    """Set a condition; one that says the same keeps its times, except that progress winds the clock."""
    old = conditions.get(new["type"])
    same_status = old is not None and old["status"] == new["status"]
    if old is not None and same_status and old["reason"] == new["reason"] and new["reason"] not in (UPDATED, CREATED):
        return
    since = old["lastTransitionTime"] if old is not None and same_status else now.text
    conditions[new["type"]] = {**new, "lastUpdateTime": now.text, "lastTransitionTime": since}
