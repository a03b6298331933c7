"""What the hub has for a cluster that it accepted: namespaces, and the rights of its agent in them.

The rights are as few as possible, see `registration`. What an agent may do in its namespaces is the same for all of
them, so it is in two roles that are the hub's and never change: whoever gives these rights needs the right to bind
these two roles, and not the right to give any. What it may do with its own cluster has that cluster's name in it; the
controller has these rights itself, and so may give them.
"""

from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP
from echelon.api.karmada import GROUP as EXECUTION
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import GROUP as POLICY
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING
from echelon.api.rbac import GROUP as RBAC
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.work import GROUP as WORK
from echelon.controllers.cluster.leaving import CLUSTER_LABEL
from echelon.engine.cluster_health import LEASE_NAME
from echelon.engine.workload.names import execution_namespace

ACCOUNT = "echelon-agent"
AGENT_ROLE, WORKLOADS_ROLE = "echelon:agent", "echelon:agent-workloads"
ROLE_LABEL = "echelon.dev/agent-role"


def agent_group(cluster: str) -> str:
    """Return the group that agents of a cluster are in."""
    return f"system:open-cluster-management:{cluster}"


@dataclass(frozen=True)
class DesiredObject:
    """An object that is made for a cluster."""

    kind: Kind[Any]
    name: str
    namespace: str
    body: JSONObject


def desired_objects(name: str) -> list[DesiredObject]:
    """Return everything that an accepted cluster has, in the order in which it is made."""
    everywhere, inside = f"open-cluster-management:managedcluster:{name}", f"open-cluster-management:{name}:agent"
    return [
        _object(name, NAMESPACE, name, "", {}),
        _object(name, SERVICE_ACCOUNT, ACCOUNT, name, {}),
        _object(name, ROLE_BINDING, inside, name, _grant(AGENT_ROLE, name)),
        _object(name, CLUSTER_ROLE, everywhere, "", {"rules": _rules_everywhere(name)}),
        _object(name, CLUSTER_ROLE_BINDING, everywhere, "", _grant(everywhere, name)),
    ]


def fixed_roles() -> list[DesiredObject]:
    """Return the roles of all agents in their namespaces."""
    rules = {AGENT_ROLE: _rules_inside(), WORKLOADS_ROLE: _rules_for_workloads()}
    return [
        DesiredObject(
            CLUSTER_ROLE,
            name,
            "",
            {
                **CLUSTER_ROLE.type_meta,
                "metadata": {"name": name, "labels": {ROLE_LABEL: name.partition(":")[2]}},
                "rules": found,
            },
        )
        for name, found in rules.items()
    ]


def desired_for_workloads(name: str) -> list[DesiredObject]:
    """Return what an accepted cluster has for federated workloads, in the order in which it is made."""
    inside, namespace = f"open-cluster-management:{name}:agent", execution_namespace(name)
    return [
        _object(name, NAMESPACE, namespace, "", {}),
        _object(name, ROLE_BINDING, inside, namespace, _grant(WORKLOADS_ROLE, name)),
    ]


def _object(cluster: str, kind: Kind[Any], name: str, namespace: str, content: JSONObject) -> DesiredObject:
    metadata: JSONObject = {"name": name, "labels": {CLUSTER_LABEL: cluster}}
    if namespace:
        metadata["namespace"] = namespace
    return DesiredObject(kind, name, namespace, {**kind.type_meta, "metadata": metadata, **content})


def _rules_inside() -> list[JSONObject]:
    return [
        _rule(WORK, ["manifestworks"], ["get", "list", "watch", "update", "patch"]),
        _rule(WORK, ["manifestworks/status"], ["get", "update", "patch"]),
        _rule(POLICY, ["policies"], ["get", "list", "watch"]),
        _rule(POLICY, ["policies/status"], ["patch"]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update", "patch"], LEASE_NAME),
        _rule("", ["events"], ["create", "get", "update", "patch"]),
        _rule("events.k8s.io", ["events"], ["create", "get", "update", "patch"]),
    ]


def _rules_for_workloads() -> list[JSONObject]:
    """An agent lets a work go when its object is gone, so it may change works: that takes its finalizer away."""
    return [
        _rule(EXECUTION, ["works"], ["get", "list", "watch", "update", "patch"]),
        _rule(EXECUTION, ["works/status"], ["get", "update", "patch"]),
    ]


def _rules_everywhere(cluster: str) -> list[JSONObject]:
    return [
        _rule(GROUP, ["managedclusters"], ["get", "list", "watch"], cluster),
        _rule(GROUP, ["managedclusters/status"], ["get", "update", "patch"], cluster),
    ]


def _rule(group: str, resources: list[str], verbs: list[str], name: str = "") -> JSONObject:
    rule: JSONObject = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**rule, "resourceNames": [name]} if name else rule


def _grant(role: str, cluster: str) -> JSONObject:
    return {
        "subjects": [
            {"kind": "Group", "apiGroup": RBAC, "name": agent_group(cluster)},
            {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": cluster},
        ],
        "roleRef": {"apiGroup": RBAC, "kind": CLUSTER_ROLE.kind, "name": role},
    }
