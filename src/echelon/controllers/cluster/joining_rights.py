"""What those who join may do on a hub before they are a cluster, and clusters beside what each may in its namespace.

The bearer of a bootstrap token may ask for a certificate and look at what became of the request, and nothing else; one
whose token leaves the name of the cluster open may also ask for a place under a name. Nobody is accepted by that.
"""

from collections.abc import Sequence
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.certificates import GROUP as CERTIFICATES
from echelon.api.cluster import GROUP as CLUSTERS
from echelon.api.kinds import Kind
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.api.rbac import GROUP as RBAC
from echelon.engine.joining import ALL_CLUSTERS, BOOTSTRAPPERS, BOOTSTRAPPERS_OF_ANY

ASKING, REGISTERING, RECOGNISING = "echelon-joining", "echelon-registering", "echelon-root-authority"
PUBLIC = "kube-public"


def joining_rights() -> list[tuple[Kind[Any], JSONObject]]:
    """Return the roles and bindings, in the order in which they are made."""
    asking = [_rule(CERTIFICATES, "certificatesigningrequests", ["create", "get"])]
    registering = [_rule(CLUSTERS, "managedclusters", ["create", "get"])]
    recognising = [{**_rule("", "configmaps", ["get"]), "resourceNames": ["kube-root-ca.crt"]}]
    return [
        (CLUSTER_ROLE, _role(CLUSTER_ROLE, ASKING, asking)),
        (CLUSTER_ROLE_BINDING, _binding(CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ASKING, [BOOTSTRAPPERS, ALL_CLUSTERS])),
        (CLUSTER_ROLE, _role(CLUSTER_ROLE, REGISTERING, registering)),
        (CLUSTER_ROLE_BINDING, _binding(CLUSTER_ROLE_BINDING, CLUSTER_ROLE, REGISTERING, [BOOTSTRAPPERS_OF_ANY])),
        (ROLE, _role(ROLE, RECOGNISING, recognising)),
        (ROLE_BINDING, _binding(ROLE_BINDING, ROLE, RECOGNISING, [ALL_CLUSTERS])),
    ]


def _rule(group: str, resource: str, verbs: list[str]) -> JSONObject:
    return {"apiGroups": [group], "resources": [resource], "verbs": verbs}


def _role(kind: Kind[Any], name: str, rules: Sequence[JSONObject]) -> JSONObject:
    return {**kind.type_meta, "metadata": _meta(kind, name), "rules": list(rules)}


def _binding(kind: Kind[Any], role: Kind[Any], name: str, groups: Sequence[str]) -> JSONObject:
    return {
        **kind.type_meta,
        "metadata": _meta(kind, name),
        "roleRef": {"apiGroup": RBAC, "kind": role.kind, "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups],
    }


def _meta(kind: Kind[Any], name: str) -> JSONObject:
    return {"name": name, "namespace": PUBLIC} if kind.namespaced else {"name": name}
