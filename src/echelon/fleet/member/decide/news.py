"""What scheduler, kubelets and workload controllers would report of a change, as events, in Kubernetes' own words.

What is news is read off two versions of an object, so that nobody who moves pods has to remember to tell.
"""

from collections.abc import Iterator

import msgspec

from echelon.api.base import JSONObject

SCHEDULER, KUBELET = "default-scheduler", "kubelet"
_CONTROLLERS = {
    "ReplicaSet": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemonset-controller",
    "Job": "job-controller",
    "CloneSet": "cloneset-controller",
}
_NO_OBJECT: JSONObject = {}


class About(msgspec.Struct, frozen=True):
    """An object that something happened to."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class News(msgspec.Struct, frozen=True):
    """Something that happened: once more the same, if it is equal."""

    about: About
    reason: str
    message: str
    source: str
    warning: bool = False
    node: str = ""
    part: str = ""  # field path of a container


def of_pod(old: JSONObject | None, new: JSONObject) -> Iterator[News]:
    """Tell what a change of a pod means."""
    if old is None:
        yield from _created(new)
        old = _NO_OBJECT
    meta, spec, status = new["metadata"], new["spec"], new.get("status") or _NO_OBJECT
    before = old.get("status") or _NO_OBJECT
    about, node = About("v1", "Pod", meta["namespace"], meta["name"], meta["uid"]), spec.get("nodeName") or ""
    if node and old and not old["spec"].get("nodeName"):
        text = f"Successfully assigned {about.namespace}/{about.name} to {node}"
        yield News(about, "Scheduled", text, SCHEDULER)
    if "deletionTimestamp" in meta and old and "deletionTimestamp" not in old["metadata"]:
        for each in status.get("containerStatuses") or ():
            if "running" in (each.get("state") or _NO_OBJECT):
                text = f"Stopping container {each['name']}"
                yield News(about, "Killing", text, KUBELET, node=node, part=f"spec.containers{{{each['name']}}}")
    if status is before:
        return
    for lists, field in (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers")):
        present = before.get(lists) or ()
        for number, each in enumerate(status.get(lists) or ()):
            was = present[number] if number < len(present) else _NO_OBJECT
            if each is not was:
                yield from _container(about, node, field, was, each)
    if not node and (why := _unschedulable(status)) and why != _unschedulable(before):
        yield News(about, "FailedScheduling", why, SCHEDULER, warning=True)
    if status.get("reason") == "Evicted" and before.get("reason") != "Evicted":
        yield News(about, "Evicted", status.get("message") or "", KUBELET, warning=True, node=node)


def of_deletion(pod: JSONObject) -> Iterator[News]:
    """Tell that the controller of a pod deletes it."""
    name = pod["metadata"]["name"]
    for about, controller in _owners(pod):
        text = f"Deleted pod: {name}"
        if about.kind == "StatefulSet":
            text = f"delete Pod {name} in StatefulSet {about.name} successful"
        yield News(about, "SuccessfulDelete", text, controller)


def of_replica_set(old: JSONObject | None, new: JSONObject) -> Iterator[News]:
    """Tell how a Deployment resizes its ReplicaSets."""
    before, after = 0 if old is None else old["spec"].get("replicas", 1), new["spec"].get("replicas", 1)
    owner = next((each for each in new["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    if before != after and owner is not None and owner["kind"] == "Deployment":
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {new['metadata']['name']} from {before} to {after}"
        yield News(_referred(owner, new), "ScalingReplicaSet", text, "deployment-controller")


def of_job(old: JSONObject | None, new: JSONObject) -> Iterator[News]:
    """Tell how a Job ended."""
    meta, was, now = new["metadata"], _true(old or _NO_OBJECT), _true(new)
    about = About(new["apiVersion"], "Job", meta["namespace"], meta["name"], meta["uid"])
    if "Complete" in now and "Complete" not in was:
        yield News(about, "Completed", "Job completed", "job-controller")
    elif "Failed" in now and "Failed" not in was:
        condition = now["Failed"]
        reason, text = condition.get("reason") or "Failed", condition.get("message") or "Job has failed"
        yield News(about, reason, text, "job-controller", warning=True)


def _true(job: JSONObject) -> dict[str, JSONObject]:
    conditions = (job.get("status") or _NO_OBJECT).get("conditions") or ()
    return {each["type"]: each for each in conditions if each["status"] == "True"}


def _created(pod: JSONObject) -> Iterator[News]:
    name = pod["metadata"]["name"]
    for about, controller in _owners(pod):
        text = f"Created pod: {name}"
        if about.kind == "StatefulSet":
            text = f"create Pod {name} in StatefulSet {about.name} successful"
        yield News(about, "SuccessfulCreate", text, controller)


def _owners(pod: JSONObject) -> Iterator[tuple[About, str]]:
    for each in pod["metadata"].get("ownerReferences") or ():
        if each.get("controller") and (controller := _CONTROLLERS.get(each["kind"])):
            yield _referred(each, pod), controller


def _referred(reference: JSONObject, by: JSONObject) -> About:
    namespace = by["metadata"]["namespace"]
    return About(reference["apiVersion"], reference["kind"], namespace, reference["name"], reference["uid"])


def _container(about: About, node: str, field: str, was: JSONObject, now: JSONObject) -> Iterator[News]:
    name, image = now["name"], now.get("image") or ""
    old, new = was.get("state") or _NO_OBJECT, now.get("state") or _NO_OBJECT

    def say(reason: str, message: str, *, warning: bool = False) -> News:
        return News(about, reason, message, KUBELET, warning=warning, node=node, part=f"spec.{field}{{{name}}}")

    reason, before = _waiting(new), _waiting(old)
    if reason == "ContainerCreating" and not old:
        yield say("Pulling", f'Pulling image "{image}"')
    elif "running" in new and "running" not in old:
        if now.get("restartCount"):
            yield say("Pulled", f'Container image "{image}" already present on machine')
        else:
            if before not in ("ContainerCreating", "ErrImagePull", "ImagePullBackOff"):
                yield say("Pulling", f'Pulling image "{image}"')
            yield say("Pulled", f'Successfully pulled image "{image}"')
        yield say("Created", f"Created container: {name}")
        yield say("Started", f"Started container {name}")
    elif reason == "ErrImagePull" and before != reason:
        why = new["waiting"].get("message") or "not found"
        yield say("Failed", f'Failed to pull image "{image}": {why}', warning=True)
        yield say("Failed", "Error: ErrImagePull", warning=True)
    elif reason == "ImagePullBackOff" and before != reason:
        yield say("BackOff", f'Back-off pulling image "{image}"')
        yield say("Failed", "Error: ImagePullBackOff", warning=True)
    elif reason == "CrashLoopBackOff" and before != reason:
        text = f"Back-off restarting failed container {name} in pod {about.name}_{about.namespace}({about.uid})"
        yield say("BackOff", text, warning=True)
    elif "running" in new and was.get("ready") and not now.get("ready") and field == "containers":
        yield say("Unhealthy", "Readiness probe failed: the simulated container does not serve now", warning=True)


def _waiting(state: JSONObject) -> str:
    return (state.get("waiting") or _NO_OBJECT).get("reason") or ""


def _unschedulable(status: JSONObject) -> str:
    for each in status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return each.get("message") or ""
    return ""
