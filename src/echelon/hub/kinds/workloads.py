"""The habits of pods and of the kinds that make pods."""

from collections.abc import Iterator
from dataclasses import replace

from echelon.api import labels
from echelon.api.base import JSONObject
from echelon.hub.access.identity import User
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds import pods
from echelon.hub.kinds.strategy import Strategy, anything_but_status_changed, immutable, no_finalizers
from echelon.kube.errors import Cause

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


def _containers(pod_spec: JSONObject) -> Iterator[JSONObject]:
    for name in _CONTAINER_LISTS:
        yield from pod_spec.get(name) or ()


def _fill_pod_spec(pod_spec: JSONObject) -> None:
    """Fill in what depends on another field, and so cannot be a default in the schema."""
    for container in _containers(pod_spec):
        image = container.get("image") or ""
        tag = image.rsplit("/", 1)[-1].partition(":")[2]
        newest = "@" not in image and tag in ("", "latest")
        container.setdefault("imagePullPolicy", "Always" if newest else "IfNotPresent")
        resources = container.get("resources") or {}
        for amounts in resources.values():
            if isinstance(amounts, dict):  # half a core may be written as a number
                amounts.update({name: repr(n) for name, n in amounts.items() if isinstance(n, float)})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    if pod_spec.get("serviceAccountName"):
        pod_spec.setdefault("serviceAccount", pod_spec["serviceAccountName"])


def _fill_template(obj: JSONObject) -> JSONObject:
    spec: JSONObject = obj.setdefault("spec", {})
    # What is missing here is reported at the fields of the pod, and not as a missing template.
    template = spec.setdefault("template", {})
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        pod_spec = template.setdefault("spec", {})
        if isinstance(pod_spec, dict):
            _fill_pod_spec(pod_spec)
    return spec


def _create_pod(cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    spec = obj.setdefault("spec", {})
    _fill_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    pods.bear_failing_nodes(spec)
    gated = pods.gated_conditions(spec, cluster.timestamp())
    obj["status"] = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"]), **gated}


def quality_of_service(pod_spec: JSONObject) -> str:
    """Return the class that decides which pods are evicted first."""
    resources = [container.get("resources") or {} for container in _containers(pod_spec)]
    if not any(r.get("requests") or r.get("limits") for r in resources):
        return "BestEffort"
    guaranteed = all(
        {"cpu", "memory"} <= (r.get("limits") or {}).keys() and (r.get("requests") or r["limits"]) == r["limits"]
        for r in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _pod_grace(pod: JSONObject, asked: int | None) -> int:
    """Give a pod on a node time to end; one that never got there has nothing to end."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return 0
    default = spec.get("terminationGracePeriodSeconds")
    grace = asked if asked is not None else 30 if default is None else int(default)
    standing = pod["metadata"].get("deletionGracePeriodSeconds")
    return grace if standing is None else min(grace, int(standing))


def _check_pod(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    if not spec.get("containers"):
        return [Cause("spec.containers", "Required value", "FieldValueRequired")]
    causes = pods.check_gates(spec, old and old.get("spec"))
    if causes or old is None or _fixed_part(spec, old) == _fixed_part(old.get("spec") or {}, old):
        return causes
    why = (
        "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
        "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
    )
    return [Cause("spec", why, "FieldValueForbidden")]


def _fixed_part(spec: JSONObject, old: JSONObject) -> JSONObject:
    loose = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates", "nodeName")
    fixed = {name: value for name, value in spec.items() if name not in loose}
    if (old.get("spec") or {}).get("schedulingGates"):
        fixed = pods.without_place(fixed)
    for name in _CONTAINER_LISTS:
        if name in fixed:
            fixed[name] = [{k: v for k, v in c.items() if k not in ("image", "resources")} for c in fixed[name]]
    return fixed


def _create_deployment(_cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    strategy = _fill_template(obj).setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **rolling}


def _update_deployment(cluster: LogicalCluster, obj: JSONObject, _old: JSONObject, user: User) -> None:
    _create_deployment(cluster, obj, user)


def _deployment_changed(new: JSONObject, old: JSONObject) -> bool:
    before, after = old["metadata"].get("annotations") or {}, new["metadata"].get("annotations") or {}
    return before != after or anything_but_status_changed(new, old)


def _check_deployment(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    strategy = (new.get("spec") or {}).get("strategy") or {}
    causes = _check_workload(new, old)
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate"):
        why = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        causes.append(Cause("spec.strategy.rollingUpdate", why, "FieldValueForbidden"))
    rolling = strategy.get("rollingUpdate") or {}
    if rolling and all(str(rolling.get(name, 1)) in ("0", "0%") for name in ("maxUnavailable", "maxSurge")):
        why = "Invalid value: 0: may not be 0 when `maxSurge` is 0"
        causes.append(Cause("spec.strategy.rollingUpdate.maxUnavailable", why))
    return causes


def _create_workload(_cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    _fill_template(obj)


def _update_workload(_cluster: LogicalCluster, obj: JSONObject, _old: JSONObject, _user: User) -> None:
    _fill_template(obj)


def _check_workload(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    template = spec.get("template") or {}
    selector = spec.get("selector")
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return [Cause("spec.selector", "Invalid value: empty selector is invalid for " + new["kind"].lower())]
    causes = _check_template(template) + immutable(new, old, "spec", "selector")
    try:
        matches = labels.from_label_selector(selector).matches((template.get("metadata") or {}).get("labels") or {})
    except labels.SelectorError as error:
        return [*causes, Cause("spec.selector", f"Invalid value: {error}")]
    if not matches:
        why = "Invalid value: `selector` does not match template `labels`"
        causes.append(Cause("spec.template.metadata.labels", why))
    return causes


def _check_template(template: JSONObject) -> list[Cause]:
    pod_spec = template.get("spec") or {}
    if not pod_spec.get("containers"):
        return [Cause("spec.template.spec.containers", "Required value", "FieldValueRequired")]
    policy = pod_spec.get("restartPolicy", "Always")
    if policy != "Always":
        why = f'Unsupported value: "{policy}": supported values: "Always"'
        return [Cause("spec.template.spec.restartPolicy", why, "FieldValueNotSupported")]
    return []


def _create_job(_cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    spec = _fill_template(obj)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("manualSelector"):
        return
    # A job owns the pods that carry its uid, whatever labels the user chose.
    uid, name = obj["metadata"]["uid"], obj["metadata"]["name"]
    template_meta = spec.setdefault("template", {}).setdefault("metadata", {})
    own = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
    legacy = {"controller-uid": uid, "job-name": name}
    template_meta["labels"] = {**template_meta.get("labels", {}), **own, **legacy}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _check_job(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    if not pod_spec.get("containers"):
        return [Cause("spec.template.spec.containers", "Required value", "FieldValueRequired")]
    causes: list[Cause] = []
    if pod_spec.get("restartPolicy") not in ("OnFailure", "Never"):
        why = 'Required value: valid values: "OnFailure", "Never"'
        causes.append(Cause("spec.template.spec.restartPolicy", why, "FieldValueRequired"))
    for name in ("completions", "selector", "template"):
        causes += immutable(new, old, "spec", name)
    return causes


_WORKLOAD = Strategy(
    counts_generations=True,
    prepare_create=_create_workload,
    prepare_update=_update_workload,
    validate=_check_workload,
)

STRATEGIES: dict[str, Strategy] = {
    "pods": Strategy(
        counts_generations=True,
        prepare_create=_create_pod,
        validate=_check_pod,
        grace_period=_pod_grace,
        may_go=no_finalizers,
    ),
    "deployments.apps": Strategy(
        counts_generations=True,
        first_status={},
        prepare_create=_create_deployment,
        prepare_update=_update_deployment,
        validate=_check_deployment,
        desired_state_changed=_deployment_changed,
    ),
    "replicasets.apps": replace(_WORKLOAD, first_status={"replicas": 0}),
    "statefulsets.apps": replace(_WORKLOAD, first_status={"replicas": 0, "availableReplicas": 0}),
    "daemonsets.apps": replace(
        _WORKLOAD,
        first_status=dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        ),
    ),
    "jobs.batch": Strategy(
        counts_generations=True,
        first_status={},
        prepare_create=_create_job,
        prepare_update=_update_workload,
        validate=_check_job,
    ),
}
