"""Whether an object of a work does its job, by its own status and generation.

A rollout may go on only when the objects work, not when they exist, and most templates come without a rule that says
what working means. So the usual kinds are known here, and any other kind is taken at its word: its `Ready` and
`Available` conditions. A kind that says nothing about itself works by existing; if its objects have a status, its
controller is given a moment in which to say something.
"""

from collections.abc import Callable
from datetime import timedelta

from echelon.api.base import JSONObject
from echelon.engine.work.health_jobs import job, pod
from echelon.engine.work.health_sets import clique, clique_set, clone_set, scaling_group
from echelon.engine.work.health_state import (
    HEALTHY,
    UNOBSERVED,
    Degraded,
    Health,
    Healthy,
    Progressing,
    condition,
    items,
    number,
    part,
    text,
)
from echelon.engine.work.health_workloads import daemon_set, deployment, replica_set, stateful_set

__all__ = ["GRACE", "HEALTHY", "Degraded", "Health", "Healthy", "Progressing", "grace_left", "health"]

# How long an object without a status may be one whose controller has not come to it yet.
GRACE = timedelta(seconds=10)

# Conditions by which a kind that is not known here says whether it works, and those by which it says that it does not.
_GOOD = ("Ready", "Available")
_STUCK = ("Stalled", "Degraded")
_NONE = timedelta(0)


def health(obj: JSONObject) -> Health:
    """Judge an object by what it says about itself; never raises, whatever it is."""
    if text(part(obj, "metadata"), "deletionTimestamp"):
        return Progressing("Terminating", "is being deleted")
    group, _, _ = text(obj, "apiVersion").rpartition("/")
    judge = _JUDGES.get((group, text(obj, "kind")), _by_conditions)
    return judge(obj)


def grace_left(obj: JSONObject, age: timedelta | None) -> timedelta:
    """Return how long an object, of a kind that has a status, may still go without one.

    `age` is how long ago it was applied. Kubernetes' own kinds are known here or have nothing to say; their groups have
    no dot in their names.
    """
    group, _, _ = text(obj, "apiVersion").rpartition("/")
    if "." not in group or (group, text(obj, "kind")) in _JUDGES or part(obj, "status"):
        return _NONE
    # A time that is yet to come is of another clock, and says nothing.
    return max(GRACE - age, _NONE) if age is not None and age >= _NONE else _NONE


def _claim(obj: JSONObject) -> Health:
    phase = text(part(obj, "status"), "phase")
    if phase == "Bound":
        return HEALTHY
    if phase == "Lost":
        return Degraded("ClaimLost", "its volume is lost")
    return Progressing("ClaimPending", "no volume is bound yet")


def _service(obj: JSONObject) -> Health:
    balanced = text(part(obj, "spec"), "type") == "LoadBalancer"
    if balanced and not items(part(obj, "status", "loadBalancer"), "ingress"):
        return Progressing("NoLoadBalancer", "the load balancer has no address yet")
    return HEALTHY


def _definition(obj: JSONObject) -> Health:
    status = part(obj, "status")
    names = condition(status, "NamesAccepted")
    if names.get("status") == "False":
        return Degraded("NamesNotAccepted", text(names, "message") or "its names are taken")
    if names.get("status") == "True" and condition(status, "Established").get("status") == "True":
        return HEALTHY
    return Progressing("NotEstablished", "the API server does not serve it yet")


def _namespace(obj: JSONObject) -> Health:
    if text(part(obj, "status"), "phase") == "Terminating":
        return Progressing("Terminating", "is being deleted")
    return HEALTHY


def _by_conditions(obj: JSONObject) -> Health:
    status = part(obj, "status")
    generation = number(part(obj, "metadata"), "generation")
    if number(status, "observedGeneration", generation) < generation:
        return Progressing(UNOBSERVED, "the controller has not seen the present spec yet")
    for kind in _STUCK:
        found = condition(status, kind)
        if found.get("status") == "True":
            return Degraded(kind, _message_of(found, f"is {kind.lower()}"))
    if condition(status, "Reconciling").get("status") == "True":
        return Progressing("Reconciling", _message_of(condition(status, "Reconciling"), "is being reconciled"))
    for kind in _GOOD:
        found = condition(status, kind)
        if found and number(found, "observedGeneration", generation) < generation:
            return Progressing(UNOBSERVED, "the controller has not seen the present spec yet")
        if found and found.get("status") != "True":
            return Progressing(f"Not{kind}", _message_of(found, f"is not {kind.lower()}"))
    return HEALTHY


def _message_of(found: JSONObject, otherwise: str) -> str:
    return text(found, "message") or text(found, "reason") or otherwise


_JUDGES: dict[tuple[str, str], Callable[[JSONObject], Health]] = {
    ("apps", "Deployment"): deployment,
    ("apps", "StatefulSet"): stateful_set,
    ("apps", "DaemonSet"): daemon_set,
    ("apps", "ReplicaSet"): replica_set,
    ("", "ReplicationController"): replica_set,
    ("apps.kruise.io", "CloneSet"): clone_set,
    ("apps.kruise.io", "StatefulSet"): stateful_set,
    ("apps.kruise.io", "DaemonSet"): daemon_set,
    ("grove.io", "PodCliqueSet"): clique_set,
    ("grove.io", "PodCliqueScalingGroup"): scaling_group,
    ("grove.io", "PodClique"): clique,
    ("batch", "Job"): job,
    ("", "Pod"): pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("", "Namespace"): _namespace,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
