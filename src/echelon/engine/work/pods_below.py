"""Which pods are an object's: by what they have to be looked for, and which of what is found counts.

Labels are what a server can be asked for, and they prove nothing: anybody's pod may have them. What counts is the
controller that a pod names. Of a Deployment only the pods of the present template tell something about the present
manifest, and these have a ReplicaSet between them and it.
"""

from collections.abc import Sequence

from echelon.api import labels
from echelon.api.base import JSONObject
from echelon.engine.pod_clique.names import MANAGED_BY, OPERATOR, PART_OF
from echelon.engine.work.health_state import items, part, text

REVISION = "deployment.kubernetes.io/revision"
TEMPLATE_HASH = "pod-template-hash"
_NO_PODS = frozenset(
    {
        ("", "PersistentVolumeClaim"),
        ("", "Service"),
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
# Controllers of pods that may themselves belong to something: every cluster has these, and whoever runs works may read
# them.
_BETWEEN = frozenset(
    {("apps", "ReplicaSet"), ("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("batch", "Job")}
)


def kind_of(obj: JSONObject) -> tuple[str, str]:
    """Return the group and the kind of an object."""
    return text(obj, "apiVersion").rpartition("/")[0], text(obj, "kind")


def may_have_pods(obj: JSONObject) -> bool:
    """Tell whether it is worth looking for pods of an object."""
    return bool(text(part(obj, "metadata"), "namespace")) and kind_of(obj) not in _NO_PODS


def selector_of(obj: JSONObject) -> str:
    """Return the labels that all pods of an object have; empty if nobody says."""
    if kind_of(obj) == ("grove.io", "PodCliqueSet"):
        return f"{MANAGED_BY}={OPERATOR},{PART_OF}={text(part(obj, 'metadata'), 'name')}"
    selector = part(obj, "spec", "selector")
    if kind_of(obj) == ("", "ReplicationController"):
        selector = {"matchLabels": selector}
    if not ({"matchLabels", "matchExpressions"} & selector.keys()):
        return ""
    try:
        return str(labels.from_label_selector(selector))
    except (ValueError, TypeError, AttributeError):  # of a kind that means something else by it
        return ""


def present_replica_set(deployment: JSONObject, sets: Sequence[JSONObject]) -> JSONObject | None:
    """Return the ReplicaSet of a Deployment's present template; None if it is not there."""
    meta = part(deployment, "metadata")
    revision = text(part(meta, "annotations"), REVISION)
    own = [each for each in sets if controller_of(each) == text(meta, "uid") != ""]
    present = [each for each in own if text(part(each, "metadata", "annotations"), REVISION) == revision]
    return present[0] if revision and present else None


def controller_of(obj: JSONObject) -> str:
    """Return the uid of what controls an object; empty if nothing does."""
    return text(_controller(obj), "uid")


def controller_between(obj: JSONObject) -> tuple[str, str, str] | None:
    """Return version, kind and name of an object's controller if that may itself belong to something."""
    found = _controller(obj)
    version, kind, name = text(found, "apiVersion"), text(found, "kind"), text(found, "name")
    return (version, kind, name) if name and (version.rpartition("/")[0], kind) in _BETWEEN else None


def _controller(obj: JSONObject) -> JSONObject:
    owners = items(part(obj, "metadata"), "ownerReferences")
    return next((each for each in owners if each.get("controller") is True), {})
