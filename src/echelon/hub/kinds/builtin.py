"""The habits of the kinds that Kubernetes serves itself, besides workloads and CRDs."""

import base64
import binascii
import ipaddress

from echelon.api.base import JSONObject
from echelon.hub.access.escalation import check_binding, check_role
from echelon.hub.access.identity import User
from echelon.hub.access.rbac import RBAC_GROUP, Attributes
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.kinds import certificates, crds, everyday, policies, workloads
from echelon.hub.kinds.strategy import CUSTOM, Strategy, immutable, no_finalizers
from echelon.hub.schema import causes
from echelon.kube import errors
from echelon.kube.errors import Cause

_UNDELETABLE = ("default", "kube-system", "kube-public")
_MAX_VOLUME = 1 << 20  # of what a config map or a secret holds
_SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
_NODE_PORTS = range(30000, 32768)


def strategy_of(resource: Resource) -> Strategy:
    """Return how a resource behaves."""
    return _BUILTIN.get(resource.stored_as, _PLAIN) if resource.kind.builtin else CUSTOM


def _create_namespace(_cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}
    _label_namespace(obj)


def _update_namespace(_cluster: LogicalCluster, obj: JSONObject, old: JSONObject, _user: User) -> None:
    obj["spec"] = old.get("spec", {})  # only the finalize subresource changes it
    _label_namespace(obj)


def _label_namespace(obj: JSONObject) -> None:
    meta = obj["metadata"]
    meta["labels"] = {**meta.get("labels", {}), "kubernetes.io/metadata.name": meta["name"]}


def _check_namespace_delete(obj: JSONObject) -> None:
    name = obj["metadata"]["name"]
    if name in _UNDELETABLE:
        raise errors.forbidden("namespaces", "", name, "this namespace may not be deleted")


def _terminate_namespace(obj: JSONObject) -> None:
    obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}


def _namespace_may_go(obj: JSONObject) -> bool:
    return no_finalizers(obj) and not (obj.get("spec") or {}).get("finalizers")


def _fill_secret(obj: JSONObject) -> None:
    plain = obj.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _check_secret(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    if _volume(new, "data") > _MAX_VOLUME:
        return [causes.too_long("data", _MAX_VOLUME)]
    found = immutable(new, old, "type") + _check_frozen(new, old, ("data",)) + _check_keys(new, "data")
    for key, value in (new.get("data") or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            found.append(Cause(f"data[{key}]", "Invalid value: must be base64", "FieldValueTypeInvalid"))
    return found


def _volume(obj: JSONObject, *names: str) -> int:
    return sum(len(value) for name in names for value in (obj.get(name) or {}).values())


def _check_config_map(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    if _volume(new, "data", "binaryData") > _MAX_VOLUME:
        return [causes.too_long("[]", _MAX_VOLUME)]
    both = (new.get("data") or {}).keys() & (new.get("binaryData") or {}).keys()
    found = [Cause(f"data[{key}]", "Invalid value: duplicate of key present in binaryData") for key in sorted(both)]
    return found + _check_frozen(new, old, ("data", "binaryData")) + _check_keys(new, "data", "binaryData")


def _check_frozen(new: JSONObject, old: JSONObject | None, names: tuple[str, ...]) -> list[Cause]:
    if not old or not old.get("immutable"):
        return []
    why = "Forbidden: field is immutable when `immutable` is set"
    changed = [name for name in (*names, "immutable") if new.get(name) != old.get(name)]
    return [Cause(name, why, "FieldValueForbidden") for name in changed]


def _check_keys(obj: JSONObject, *names: str) -> list[Cause]:
    """Find keys that could not be file names."""
    allowed = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    why = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
        "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    )
    return [
        Cause(f"{name}[{key}]", f'Invalid value: "{key}": {why}')
        for name in names
        for key in obj.get(name) or ()
        if not key or not allowed.issuperset(key) or key in (".", "..") or len(key) > 253
    ]


def _create_service(cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    spec = obj.setdefault("spec", {})
    _fill_ports(cluster, spec, {})
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        # Nothing routes to it here; it only has to look like an address that no other service has.
        size = _SERVICE_NETWORK.num_addresses - 2
        spec["clusterIP"] = str(_SERVICE_NETWORK[1 + cluster.random.randrange(size)])
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")


def _update_service(cluster: LogicalCluster, obj: JSONObject, old: JSONObject, _user: User) -> None:
    spec, before = obj.setdefault("spec", {}), old.get("spec") or {}
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
        if name in before:
            spec.setdefault(name, before[name])
    _fill_ports(cluster, spec, {port.get("port"): port for port in before.get("ports") or ()})


def _fill_ports(cluster: LogicalCluster, spec: JSONObject, before: dict[int, JSONObject]) -> None:
    for port in spec.get("ports") or ():
        if not port.get("targetPort"):  # Go clients send 0 for one that is not set
            port["targetPort"] = port.get("port")
        if spec.get("type") in ("NodePort", "LoadBalancer") and not port.get("nodePort"):
            kept = before.get(port.get("port"), {}).get("nodePort")
            port["nodePort"] = kept or _NODE_PORTS[cluster.random.randrange(len(_NODE_PORTS))]


def _check_service(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    spec = new.get("spec") or {}
    if spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None" and not spec.get("ports"):
        return [Cause("spec.ports", "Required value", "FieldValueRequired")]
    return immutable(new, old, "spec", "clusterIP")


def _create_role(cluster: LogicalCluster, obj: JSONObject, user: User) -> None:
    check_role(cluster.authorizer, _asked(obj, user, "create"), obj)


def _update_role(cluster: LogicalCluster, obj: JSONObject, old: JSONObject, user: User) -> None:
    check_role(cluster.authorizer, _asked(obj, user, "update"), obj, old)


def _create_binding(cluster: LogicalCluster, obj: JSONObject, user: User) -> None:
    _fill_binding(obj)
    check_binding(cluster.authorizer, _asked(obj, user, "create"), obj)


def _update_binding(cluster: LogicalCluster, obj: JSONObject, old: JSONObject, user: User) -> None:
    _fill_binding(obj)
    check_binding(cluster.authorizer, _asked(obj, user, "update"), obj, old)


def _fill_binding(obj: JSONObject) -> None:
    reference = obj.get("roleRef")
    if isinstance(reference, dict):
        reference.setdefault("apiGroup", RBAC_GROUP)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", RBAC_GROUP)


def _asked(obj: JSONObject, user: User, verb: str) -> Attributes:
    meta = obj["metadata"]
    return Attributes(
        user=user,
        verb=verb,
        group=RBAC_GROUP,
        resource=obj["kind"].lower() + "s",
        namespace=meta.get("namespace", ""),
        name=meta["name"],
    )


def _check_role(new: JSONObject, _old: JSONObject | None) -> list[Cause]:
    found = []
    for i, rule in enumerate(new.get("rules") or ()):
        if not rule.get("verbs"):
            found.append(
                Cause(
                    f"rules[{i}].verbs", "Required value: verbs must contain at least one value", "FieldValueRequired"
                )
            )
        if rule.get("nonResourceURLs") and new["kind"] == "Role":
            why = "Invalid value: namespaced rules cannot apply to non-resource URLs"
            found.append(Cause(f"rules[{i}].nonResourceURLs", why))
        elif not rule.get("nonResourceURLs"):
            for name in ("apiGroups", "resources"):
                if not rule.get(name):
                    why = "Required value: resource rules must supply at least one " + (
                        "api group" if name == "apiGroups" else "resource"
                    )
                    found.append(Cause(f"rules[{i}].{name}", why, "FieldValueRequired"))
    return found


def _check_binding(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    if old is not None and new.get("roleRef") != old.get("roleRef"):
        return [Cause("roleRef", "Invalid value: cannot change roleRef")]
    return []


def _check_revision(new: JSONObject, old: JSONObject | None) -> list[Cause]:
    return immutable(new, old, "data")


def _create_claim(_cluster: LogicalCluster, obj: JSONObject, _user: User) -> None:
    obj["status"] = {"phase": "Pending"}


_ROLE = Strategy(
    name_style="path-segment", prepare_create=_create_role, prepare_update=_update_role, validate=_check_role
)
_BINDING = Strategy(
    name_style="path-segment", prepare_create=_create_binding, prepare_update=_update_binding, validate=_check_binding
)
_PLAIN = Strategy()

_BUILTIN: dict[str, Strategy] = {
    "namespaces": Strategy(
        name_style="label",
        prepare_create=_create_namespace,
        prepare_update=_update_namespace,
        check_delete=_check_namespace_delete,
        prepare_delete=_terminate_namespace,
        may_go=_namespace_may_go,
    ),
    "secrets": Strategy(
        prepare_create=lambda _cluster, obj, _user: _fill_secret(obj),
        prepare_update=lambda _cluster, obj, _old, _user: _fill_secret(obj),
        validate=_check_secret,
    ),
    "configmaps": Strategy(validate=_check_config_map),
    "services": Strategy(
        name_style="dns1035",
        first_status={"loadBalancer": {}},
        prepare_create=_create_service,
        prepare_update=_update_service,
        validate=_check_service,
    ),
    "persistentvolumeclaims": Strategy(prepare_create=_create_claim),
    "controllerrevisions.apps": Strategy(validate=_check_revision),
    "leases.coordination.k8s.io": Strategy(unconditional_update=False),
    "roles.rbac.authorization.k8s.io": _ROLE,
    "clusterroles.rbac.authorization.k8s.io": _ROLE,
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "customresourcedefinitions.apiextensions.k8s.io": crds.STRATEGY,
    **certificates.STRATEGIES,
    **everyday.STRATEGIES,
    **policies.STRATEGIES,
    **workloads.STRATEGIES,
}
