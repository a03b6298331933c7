"""What a set needs beside its cliques: addresses for its pods, rights for those that wait, and autoscalers.

The account and the role are made for every set, as by Grove. The Secret holds a token that never expires, so it is made
only for a set in which somebody waits. Accounts, roles and the Secret are made once, and are their users' from then on;
Services and autoscalers follow the set, and go when their replica does.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from echelon.api.autoscaling import HORIZONTAL_POD_AUTOSCALER
from echelon.api.base import JSON, JSONObject
from echelon.api.core import SECRET, SERVICE
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET
from echelon.api.json_equality import is_same
from echelon.api.kinds import Kind
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.engine.plan import Create, Delete, Patch, Write
from echelon.engine.pod_clique import names
from echelon.engine.pod_clique.children import managed, owner_of
from echelon.engine.pod_clique.set_spec import AutoScaling, SetSpec
from echelon.engine.pod_clique.shape import Shape
from echelon.engine.work.health_state import part, text

_ONCE = (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET)
_FOLLOWING = (SERVICE, HORIZONTAL_POD_AUTOSCALER)
# What the API server takes for an autoscaler without metrics. It is written out, so that there is nothing to compare.
_BY_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
_QUANTITIES = frozenset(("value", "averageValue"))


class Child(NamedTuple):
    """An object that should exist."""

    kind: Kind[Any]
    body: JSONObject


def infrastructure(set_body: JSONObject, spec: SetSpec, shape: Shape) -> tuple[Child, ...]:
    """Return what a set needs beside its cliques."""
    return (*_rights(set_body, spec), *_services(set_body, spec), *_autoscalers(set_body, shape))


def write_infrastructure(
    set_body: JSONObject, wanted: tuple[Child, ...], existing: Mapping[str, Mapping[str, JSONObject]]
) -> tuple[Write, ...]:
    """Return the writes that bring it about; `existing` has what the set owns by kind (`Service`, …) and name."""
    namespace = text(part(set_body, "metadata"), "namespace")
    writes: list[Write] = []
    for kind, body in wanted:
        found = existing.get(kind.kind, {}).get(text(body["metadata"], "name"))
        if found is None:
            writes.append(Create(kind, body, namespace))
        elif kind in _FOLLOWING and (change := infrastructure_patch(found, body)):
            writes.append(_patch(kind, found, change))
    kept = {(kind.kind, text(body["metadata"], "name")) for kind, body in wanted}
    for kind in _FOLLOWING:
        for name, body in existing.get(kind.kind, {}).items():
            if (kind.kind, name) not in kept and not part(body, "metadata").get("deletionTimestamp"):
                writes.append(Delete(kind, name, namespace, uid=text(part(body, "metadata"), "uid")))
    return tuple(writes)


def infrastructure_patch(existing: JSONObject, wanted: JSONObject) -> JSONObject | None:
    """Return what to merge into a Service or an autoscaler, or None. What the server filled in stays."""
    there = part(existing, "metadata", "labels")
    patch: JSONObject = {}
    if labels := {name: value for name, value in wanted["metadata"]["labels"].items() if there.get(name) != value}:
        patch["metadata"] = {"labels": labels}
    spec = part(existing, "spec")
    change = {name: value for name, value in wanted["spec"].items() if not _is_same_spec(value, spec.get(name))}
    change.pop("clusterIP", None)  # a Service keeps its address for life
    if change:
        patch["spec"] = change
    return patch or None


def _rights(set_body: JSONObject, spec: SetSpec) -> Iterator[Child]:
    metadata = part(set_body, "metadata")
    set_name, namespace = text(metadata, "name"), text(metadata, "namespace")
    account, role = names.service_account_name(set_name), names.role_name(set_name)
    body = _child(SERVICE_ACCOUNT, set_body, account, names.POD_SERVICE_ACCOUNT)
    yield Child(SERVICE_ACCOUNT, {**body, "automountServiceAccountToken": True})
    rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}
    yield Child(ROLE, {**_child(ROLE, set_body, role, names.POD_ROLE), "rules": [rule]})
    body = _child(ROLE_BINDING, set_body, role, names.POD_ROLE_BINDING)
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    reference = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": role}
    yield Child(ROLE_BINDING, {**body, "subjects": subjects, "roleRef": reference})
    if spec.waits:
        body = _child(SECRET, set_body, names.token_secret_name(set_name), names.TOKEN_SECRET)
        body["metadata"]["annotations"] = {"kubernetes.io/service-account.name": account}
        yield Child(SECRET, {**body, "type": "kubernetes.io/service-account-token"})


def _services(set_body: JSONObject, spec: SetSpec) -> Iterator[Child]:
    set_name = text(part(set_body, "metadata"), "name")
    for replica in range(spec.replicas):
        body = _child(SERVICE, set_body, names.service_name(set_name, replica), names.HEADLESS_SERVICE)
        body["metadata"]["labels"][names.REPLICA_INDEX] = str(replica)
        selector = {
            names.MANAGED_BY: names.OPERATOR,
            names.PART_OF: set_name,
            names.REPLICA_INDEX: str(replica),
        }
        published = {"publishNotReadyAddresses": spec.publish_not_ready}
        yield Child(SERVICE, {**body, "spec": {"clusterIP": "None", "selector": selector, **published}})


def _autoscalers(set_body: JSONObject, shape: Shape) -> Iterator[Child]:
    taken = {each.name for each in shape.cliques if each.key.standalone and each.spec.autoscaling is not None}
    for clique in shape.cliques if taken else ():
        if clique.name in taken and clique.spec.autoscaling is not None:
            yield _autoscaler(set_body, POD_CLIQUE, clique.name, clique.name, clique.spec.autoscaling)
    for group in shape.groups:
        if group.spec.autoscaling is not None:
            name = names.autoscaler_name(group.name, POD_CLIQUE_SCALING_GROUP.kind, taken=group.name in taken)
            yield _autoscaler(set_body, POD_CLIQUE_SCALING_GROUP, name, group.name, group.spec.autoscaling)


def _autoscaler(set_body: JSONObject, kind: Kind[Any], name: str, target: str, config: AutoScaling) -> Child:
    body = _child(HORIZONTAL_POD_AUTOSCALER, set_body, name, names.AUTOSCALER)
    spec: JSONObject = {
        "scaleTargetRef": {**kind.type_meta, "name": target},
        "minReplicas": config.min_replicas,
        "maxReplicas": config.max_replicas,
        "metrics": list(config.metrics) or [_BY_CPU],
    }
    return Child(HORIZONTAL_POD_AUTOSCALER, {**body, "spec": spec})


def _child(kind: Kind[Any], set_body: JSONObject, name: str, component: str) -> JSONObject:
    metadata = part(set_body, "metadata")
    return {
        **kind.type_meta,
        "metadata": {
            "name": name,
            "namespace": text(metadata, "namespace"),
            "labels": managed(text(metadata, "name"), name, component),
            "ownerReferences": [owner_of(POD_CLIQUE_SET, set_body)],
        },
    }


def _patch(kind: Kind[Any], existing: JSONObject, body: JSONObject) -> Patch:
    metadata = part(existing, "metadata")
    seen = (text(metadata, field) for field in ("namespace", "uid", "resourceVersion"))
    return Patch(kind, text(metadata, "name"), body, *seen)


def _is_same_spec(wanted: JSON, found: JSON) -> bool:
    """Whether a field is as wanted. Quantities come back from a server in its own spelling, false as nothing."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        names_of = wanted.keys() | found.keys()
        return all(
            _is_same_quantity(wanted.get(name), found.get(name))
            if name in _QUANTITIES
            else _is_same_spec(wanted.get(name), found.get(name))
            for name in names_of
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_is_same_spec, wanted, found))
    return is_same(wanted, found) or (not wanted and found is None) or (wanted is None and not found)


def _is_same_quantity(wanted: JSON, found: JSON) -> bool:
    try:
        return parse_quantity(wanted).exact() == parse_quantity(found).exact()
    except (QuantityError, TypeError):
        return is_same(wanted, found)
