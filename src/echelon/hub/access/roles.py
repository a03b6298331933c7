"""The roles and bindings that every cluster starts with, because people and tools expect them to be there.

The names, labels and rules are those of Kubernetes, so that `kubectl create rolebinding --clusterrole=view` means the
same here. Only the roles for people are here: the components that the others are for do not exist in the hub.
"""

from copy import deepcopy

from echelon.api.base import JSONObject
from echelon.hub.access.aggregation import aggregate
from echelon.hub.access.identity import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from echelon.hub.access.rbac import ALL, RBAC_GROUP

_API_VERSION = f"{RBAC_GROUP}/v1"
_BOOTSTRAP_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_BOOTSTRAP_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_READ_WRITE = sorted(_READ + _WRITE)

_HEALTH_PATHS = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY_PATHS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]

_APPS = [
    "daemonsets",
    "deployments",
    "deployments/scale",
    "replicasets",
    "replicasets/scale",
    "statefulsets",
    "statefulsets/scale",
]
_APPS_STATUS = ["daemonsets/status", "deployments/status", "replicasets/status", "statefulsets/status"]


def bootstrap_objects() -> list[JSONObject]:
    """Return all of them, roles before the bindings that refer to them, each one the caller's to keep.

    Aggregated roles come with their rules, so that they mean something from the first request on.
    """
    roles = _cluster_roles()
    for name, rules in aggregate(roles).items():
        next(role for role in roles if role["metadata"]["name"] == name)["rules"] = rules
    return deepcopy(roles + _cluster_role_bindings())


def _cluster_roles() -> list[JSONObject]:
    return [
        _role("cluster-admin", [_rule([ALL], [ALL], [ALL]), _paths([ALL], [ALL])]),
        _role("system:discovery", [_paths(sorted(_DISCOVERY_PATHS + _HEALTH_PATHS), ["get"])]),
        _role("system:public-info-viewer", [_paths(_HEALTH_PATHS, ["get"])]),
        _role(
            "system:basic-user",
            [
                _rule(["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
                _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
            ],
        ),
        _aggregated("admin"),
        _aggregated("edit", into="admin"),
        _aggregated("view", into="edit"),
        _role("system:aggregate-to-admin", _admin_rules(), into="admin"),
        _role("system:aggregate-to-edit", _edit_rules(), into="edit"),
        _role("system:aggregate-to-view", _view_rules(), into="view"),
    ]


def _cluster_role_bindings() -> list[JSONObject]:
    return [
        _binding("cluster-admin", [MASTERS]),
        _binding("system:discovery", [AUTHENTICATED]),
        _binding("system:basic-user", [AUTHENTICATED]),
        _binding("system:public-info-viewer", [AUTHENTICATED, UNAUTHENTICATED]),
    ]


def _admin_rules() -> list[JSONObject]:
    return [
        _rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
        _rule([RBAC_GROUP], ["rolebindings", "roles"], _READ_WRITE),
    ]


def _edit_rules() -> list[JSONObject]:
    connections = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]
    legacy = [
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "ingresses",
        "networkpolicies",
        "replicasets",
        "replicasets/scale",
        "replicationcontrollers/scale",
    ]
    core = [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ]
    return [
        _rule([""], [*connections, "secrets", "services/proxy"], _READ),
        _rule([""], ["serviceaccounts"], ["impersonate"]),
        _rule([""], ["pods", *connections], _WRITE),
        _rule([""], ["pods/eviction"], ["create"]),
        _rule([""], core, _WRITE),
        _rule([""], ["serviceaccounts/token"], ["create"]),
        _rule(["apps"], sorted([*_APPS, "deployments/rollback"]), _WRITE),
        _rule(["autoscaling"], ["horizontalpodautoscalers"], _WRITE),
        _rule(["batch"], ["cronjobs", "jobs"], _WRITE),
        _rule(["extensions"], legacy, _WRITE),
        _rule(["policy"], ["poddisruptionbudgets"], _WRITE),
        _rule(["networking.k8s.io"], ["ingresses", "networkpolicies"], _WRITE),
        _rule(["coordination.k8s.io"], ["leases"], _READ_WRITE),
        _rule(["events.k8s.io"], ["events"], _WRITE),
    ]


def _view_rules() -> list[JSONObject]:
    core = [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
    ]
    # Secrets are missing on purpose: a service account's token would be more than a view.
    observations = [
        "bindings",
        "events",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
    ]
    legacy = [
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "ingresses",
        "ingresses/status",
        "networkpolicies",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "replicationcontrollers/scale",
    ]
    return [
        _rule([""], core, _READ),
        _rule([""], observations, _READ),
        _rule([""], ["namespaces"], _READ),
        _rule(["discovery.k8s.io"], ["endpointslices"], _READ),
        _rule(["events.k8s.io"], ["events"], _READ),
        _rule(["apps"], sorted([*_APPS, *_APPS_STATUS, "controllerrevisions"]), _READ),
        _rule(["autoscaling"], ["horizontalpodautoscalers", "horizontalpodautoscalers/status"], _READ),
        _rule(["batch"], ["cronjobs", "cronjobs/status", "jobs", "jobs/status"], _READ),
        _rule(["extensions"], legacy, _READ),
        _rule(["policy"], ["poddisruptionbudgets", "poddisruptionbudgets/status"], _READ),
        _rule(["networking.k8s.io"], ["ingresses", "ingresses/status", "networkpolicies"], _READ),
    ]


def _role(name: str, rules: list[JSONObject], into: str = "") -> JSONObject:
    labels = dict(_BOOTSTRAP_LABELS)
    if into:
        labels[_label(into)] = "true"
    metadata = {"name": name, "labels": labels, "annotations": _BOOTSTRAP_ANNOTATIONS}
    return {"apiVersion": _API_VERSION, "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _aggregated(name: str, into: str = "") -> JSONObject:
    selector = {"matchLabels": {_label(name): "true"}}
    return {**_role(name, [], into), "aggregationRule": {"clusterRoleSelectors": [selector]}}


def _binding(role: str, groups: list[str]) -> JSONObject:
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": _BOOTSTRAP_LABELS, "annotations": _BOOTSTRAP_ANNOTATIONS},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "Group", "name": group} for group in groups],
    }


def _label(role: str) -> str:
    return f"{RBAC_GROUP}/aggregate-to-{role}"


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> JSONObject:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _paths(urls: list[str], verbs: list[str]) -> JSONObject:
    return {"nonResourceURLs": urls, "verbs": verbs}
