"""Cells of `kubectl get` that are more than a field.

People compare these columns with what other clusters show them, so each cell is computed as Kubernetes computes it,
down to `<none>` and `<unset>`. A cell sees nothing but the object; what depends on the time of day is a column of type
`date`, which the server shows as an age.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from echelon.api.base import JSON, JSONObject
from echelon.api.kinds import Column
from echelon.api.times import parse_time

Cell: TypeAlias = Callable[[JSONObject], JSON]

NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"
AGE = Column("Age", ".metadata.creationTimestamp", type="date")

_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"
_BALANCER_WIDTH = 16
_METRICS_SHOWN = 2
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_OPERATORS = {"In": "in", "NotIn": "notin"}


def at(obj: Mapping[str, Any], *path: str) -> JSON:
    """Return what is at a path, or None; a null on the way is a missing field."""
    found: JSON = obj
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def count(*path: str) -> Cell:
    """Return the cell of a number that is 0 when absent."""
    return lambda obj: at(obj, *path) or 0


def or_none(*path: str) -> Cell:
    """Return the cell of a text that may be missing."""
    return lambda obj: at(obj, *path) or NONE


def or_unknown(*path: str) -> Cell:
    """Return the cell of a text that somebody should have reported."""
    return lambda obj: at(obj, *path) or UNKNOWN


def or_unset(*path: str) -> Cell:
    """Return the cell of a setting that was left open; 0 is a setting."""
    return lambda obj: UNSET if at(obj, *path) is None else str(at(obj, *path))


def labels_cell(*path: str) -> Cell:
    """Return the cell of a map of labels."""
    return lambda obj: ",".join(f"{k}={v}" for k, v in sorted((at(obj, *path) or {}).items())) or NONE


def selector_text(selector: JSONObject | None) -> str:
    """Write a label selector as it is typed after `kubectl get -l`."""
    if selector is None:
        return NONE
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [_requirement(term) for term in selector.get("matchExpressions") or ()]
    return ",".join(sorted(terms)) or NONE


def _requirement(term: JSONObject) -> str:
    key, operator = term["key"], term["operator"]
    if operator in _OPERATORS:
        return f"{key} {_OPERATORS[operator]} ({','.join(sorted(term.get('values') or ()))})"
    return key if operator == "Exists" else f"!{key}"


def containers_at(*path: str) -> tuple[Column, Column]:
    """Return the columns about the containers at a path."""

    def cell(name: str) -> Cell:
        return lambda obj: ",".join(container.get(name, "") for container in at(obj, *path) or ())

    return Column("Containers", priority=1, cell=cell("name")), Column("Images", priority=1, cell=cell("image"))


CONTAINERS = containers_at("spec", "template", "spec", "containers")
SELECTOR = Column("Selector", priority=1, cell=lambda obj: selector_text(at(obj, "spec", "selector")))


def ready_of_wanted(obj: JSONObject) -> str:
    """READY of a workload: ready pods of wanted ones."""
    return f"{at(obj, 'status', 'readyReplicas') or 0}/{at(obj, 'spec', 'replicas') or 0}"


def controller(obj: JSONObject) -> str:
    """CONTROLLER: the owner that manages the object."""
    for owner in at(obj, "metadata", "ownerReferences") or ():
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = owner["kind"].lower()
            return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return NONE


def config_map_size(obj: JSONObject) -> int:
    """DATA of a ConfigMap: how many keys it has."""
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


def secret_size(obj: JSONObject) -> int:
    """DATA of a Secret: how many keys it has."""
    return len(obj.get("data") or {})


def node_status(obj: JSONObject) -> str:
    """STATUS of a node: ready or not, and whether it takes pods."""
    ready = next((c for c in at(obj, "status", "conditions") or () if c["type"] == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if at(obj, "spec", "unschedulable") else state


def node_roles(obj: JSONObject) -> str:
    """ROLES of a node, from its labels."""
    labels = at(obj, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(roles - {""})) or NONE


def node_address(type_: str) -> Cell:
    """Return the cell of a node's first address of a type."""
    addresses = ("status", "addresses")
    return lambda obj: next((a["address"] for a in at(obj, *addresses) or () if a["type"] == type_), NONE)


def kernel(obj: JSONObject) -> str:
    """KERNEL-VERSION of a node, with its architecture."""
    architecture = at(obj, "status", "nodeInfo", "architecture")
    version: str = at(obj, "status", "nodeInfo", "kernelVersion") or UNKNOWN
    return f"{version} ({architecture})" if architecture else version


def service_cluster_ip(obj: JSONObject) -> str:
    """CLUSTER-IP of a service."""
    return next(iter(at(obj, "spec", "clusterIPs") or ()), at(obj, "spec", "clusterIP") or NONE)


def service_external_ip(obj: JSONObject) -> str:
    """EXTERNAL-IP of a service: where it is reached from outside."""
    external: list[str] = at(obj, "spec", "externalIPs") or []
    match at(obj, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            points = at(obj, "status", "loadBalancer", "ingress") or ()
            found = {point.get("ip") or point.get("hostname") for point in points} - {None}
            balancer = ",".join(sorted(found))
            if len(balancer) > _BALANCER_WIDTH:
                balancer = balancer[: _BALANCER_WIDTH - 3] + "..."
            return ",".join(filter(None, (balancer, *external))) or "<pending>"
        case "ExternalName":
            return str(at(obj, "spec", "externalName") or "")
    return UNKNOWN


def service_ports(obj: JSONObject) -> str:
    """PORT(S) of a service."""
    return ",".join(_port(port) for port in at(obj, "spec", "ports") or ()) or NONE


def _port(port: JSONObject) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def claim_phase(obj: JSONObject) -> str:
    """STATUS of a claim."""
    return "Terminating" if at(obj, "metadata", "deletionTimestamp") else at(obj, "status", "phase") or ""


def claim_capacity(obj: JSONObject) -> str:
    """CAPACITY of a claim, once it is bound."""
    return str(at(obj, "status", "capacity", "storage") or "0") if at(obj, "spec", "volumeName") else ""


def claim_access_modes(obj: JSONObject) -> str:
    """ACCESS MODES of a claim, once it is bound."""
    modes = set(at(obj, "status", "accessModes") or ()) if at(obj, "spec", "volumeName") else set()
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


claim_attributes_class = or_unset("spec", "volumeAttributesClassName")


def role_of_binding(obj: JSONObject) -> str:
    """ROLE that a binding grants."""
    return f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}"


def subjects(kind: str) -> Cell:
    """Return the cell of a binding's subjects of a kind."""

    def cell(obj: JSONObject) -> str:
        chosen = [subject for subject in obj.get("subjects") or () if subject["kind"] == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject['name']}" for subject in chosen)
        return ", ".join(subject["name"] for subject in chosen)

    return cell


def job_status(obj: JSONObject) -> str:
    """STATUS of a Job."""
    true = {c["type"] for c in at(obj, "status", "conditions") or () if c["status"] == "True"}
    if done := next((type_ for type_ in ("Complete", "Failed") if type_ in true), ""):
        return done
    if at(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next((type_ for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if type_ in true), "Running")


def job_completions(obj: JSONObject) -> str:
    """COMPLETIONS of a Job: pods that succeeded, of those that must."""
    succeeded, wanted = at(obj, "status", "succeeded") or 0, at(obj, "spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallel = at(obj, "spec", "parallelism") or 0
    return f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"


def job_duration(obj: JSONObject) -> str:
    """DURATION of a Job that has come to its end."""
    start, end = parse_time(at(obj, "status", "startTime")), parse_time(at(obj, "status", "completionTime"))
    return human_duration(int((end - start).total_seconds())) if start and end else ""


def human_duration(seconds: int) -> str:
    """Write a span of time with about two digits, as kubectl does."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    if minutes < 180:
        return f"{minutes}m" + (f"{seconds % 60}s" if minutes < 10 and seconds % 60 else "")
    if hours < 48:
        return f"{hours}h" + (f"{minutes % 60}m" if hours < 8 and minutes % 60 else "")
    if days < 730:
        return f"{days}d" + (f"{hours % 24}h" if days < 8 and hours % 24 else "")
    return f"{days // 365}y" + (f"{days % 365}d" if days < 2920 and days % 365 else "")


def event_columns(about: str, message: str) -> tuple[Column, ...]:
    """Return the columns of events, in an API that calls the object and the message so."""
    return (
        Column("Last Seen", type="date", cell=_event_last_seen),
        Column("Type", ".type"),
        Column("Reason", ".reason"),
        Column("Object", cell=_event_object),
        Column("Subobject", f".{about}.fieldPath", priority=1),
        Column("Source", priority=1, cell=_event_source),
        Column("Message", f".{message}"),
        Column("First Seen", type="date", priority=1, cell=_event_first_seen),
        Column("Count", type="integer", priority=1, cell=_event_count),
        Column("Name", ".metadata.name", priority=1, format="name"),
    )


def _event_object(obj: JSONObject) -> str:
    """OBJECT that an event is about, in either API."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    kind: str = (about.get("kind") or "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _event_first_seen(obj: JSONObject) -> str | None:
    """FIRST SEEN of an event, as a time."""
    return obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")


def _event_last_seen(obj: JSONObject) -> str | None:
    """LAST SEEN of an event, as a time."""
    if obj.get("series"):
        return at(obj, "series", "lastObservedTime") or None
    return obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or _event_first_seen(obj)


def _event_count(obj: JSONObject) -> int:
    """COUNT of an event; one that has no count happened once."""
    if obj.get("series"):
        return at(obj, "series", "count") or 0
    return obj.get("count") or obj.get("deprecatedCount") or 1


def _event_source(obj: JSONObject) -> str:
    """SOURCE of an event: who reported it, and from where."""
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


def autoscaler_reference(obj: JSONObject) -> str:
    """REFERENCE of an autoscaler: what it scales."""
    return f"{at(obj, 'spec', 'scaleTargetRef', 'kind')}/{at(obj, 'spec', 'scaleTargetRef', 'name')}"


def autoscaler_targets(obj: JSONObject) -> str:
    """TARGETS of an autoscaler: each metric as it is and as it should be."""
    metrics: Sequence[JSONObject] = at(obj, "spec", "metrics") or ()
    seen: Sequence[JSONObject] = at(obj, "status", "currentMetrics") or ()
    shown = [_metric(spec, seen[i] if i < len(seen) else {}) for i, spec in enumerate(metrics[:_METRICS_SHOWN])]
    more = f" + {len(metrics) - _METRICS_SHOWN} more..." if len(metrics) > _METRICS_SHOWN else ""
    return ", ".join(shown) + more or NONE


def _metric(spec: JSONObject, seen: JSONObject) -> str:
    name = {"Resource": "resource", "ContainerResource": "containerResource"}.get(spec["type"], spec["type"].lower())
    source, current = spec.get(name) or {}, at(seen, name, "current") or {}
    target = source.get("target") or {}
    of_resource = name in ("resource", "containerResource")
    prefix = f"{source.get('name')}: " if of_resource else ""
    if "averageValue" in target:
        average = " (avg)" if name in ("external", "object") else ""
        return f"{prefix}{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{average}"
    if of_resource:
        return f"{prefix}{_percent(current, UNKNOWN)}/{_percent(target, '<auto>')}"
    return f"{current.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"


def _percent(values: JSONObject, otherwise: str) -> str:
    return f"{values['averageUtilization']}%" if "averageUtilization" in values else otherwise
