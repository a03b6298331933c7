"""Roles for people: whoever has `view`, `edit` or `admin` in a namespace sees, steers and owns the rollouts there.

Kubernetes' own roles gather these by their labels, so nobody has to be given anything. None of them reaches further
than the namespace for which somebody has it. Work sets and policies may have Secrets in them, and `view` is for those
who may not see Secrets: who is to see rollouts as well is given that role by name. Who lets clusters in and decides who
may use them is an administrator of the fleet, which nobody becomes by a role of a namespace.
"""

from collections.abc import Sequence

from echelon.api.base import JSONObject
from echelon.install.labels import labels_of
from echelon.install.template import Condition, Node, When

_LOOK = ("get", "list", "watch")
_CHANGE = ("create", "update", "patch", "delete")
_ALWAYS, _POLICIES, _WORKLOADS = "", "capabilities.policies", "capabilities.workloads"
_CLUSTERS, _WORKS = "cluster.open-cluster-management.io", "work.open-cluster-management.io"
_POLICY, _KARMADA, _KARMADA_WORK = "policy.open-cluster-management.io", "policy.karmada.io", "work.karmada.io"

# What people write in their namespaces, of that what may have Secrets in it, and what they only read there, by
# capability.
_PLAIN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (_ALWAYS, _CLUSTERS, ("placements",)),
    (_POLICIES, _POLICY, ("placementbindings", "policysets")),
    (_WORKLOADS, _KARMADA, ("propagationpolicies",)),
    (_WORKLOADS, _KARMADA_WORK, ("resourcebindings",)),
)
_WITH_SECRETS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (_ALWAYS, _WORKS, ("manifestworkreplicasets",)),
    (_POLICIES, _POLICY, ("policies",)),
    (_WORKLOADS, _KARMADA, ("overridepolicies",)),
)
_READ: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (_ALWAYS, _CLUSTERS, ("placementdecisions", "managedclustersetbindings", "addonplacementscores")),
    (_ALWAYS, "events.k8s.io", ("events",)),
    (_WORKLOADS, "echelon.dev", ("rolloutledgers",)),
)


def roles_of_people(condition: Condition) -> list[Node]:
    """Return the roles, if they are wanted."""
    view = _rules((*_PLAIN, *_READ), _LOOK)
    contents = _rules(_WITH_SECRETS, _LOOK)
    edit = _rules((*_PLAIN, *_WITH_SECRETS), _CHANGE)
    # A binding makes a cluster set usable in the namespace; that the set may be bound is asked at admission.
    admin = [_rule(_CLUSTERS, ("managedclustersetbindings",), _CHANGE)]
    roles = [
        _role("echelon-view", view, ("view", "edit", "admin")),
        _role("echelon-rollout-view", contents, ("edit", "admin")),
        _role("echelon-edit", edit, ("edit", "admin")),
        _role("echelon-admin", admin, ("admin",)),
        _role("echelon-fleet-admin", _fleet(), ()),
    ]
    return [When(condition, each) for each in roles]


def _fleet() -> list[Node]:
    sets = ("managedclusters", "managedclustersets", "managedclustersetbindings")
    return [
        _rule(_CLUSTERS, sets, (*_LOOK, *_CHANGE)),
        _rule(_CLUSTERS, ("managedclustersets/bind", "managedclustersets/join"), ("create",)),
        _rule("register.open-cluster-management.io", ("managedclusters/accept",), ("update",)),
        When(
            _WORKLOADS, _rule(_KARMADA, ("clusterpropagationpolicies", "clusteroverridepolicies"), (*_LOOK, *_CHANGE))
        ),
        # Works say what a cluster has, whole manifests included; they are in the namespaces of clusters.
        _rule(_WORKS, ("manifestworks",), _LOOK),
    ]


def _rules(entries: Sequence[tuple[str, str, tuple[str, ...]]], verbs: Sequence[str]) -> list[Node]:
    found: list[Node] = []
    for capability, group, resources in entries:
        rule = _rule(group, resources, verbs)
        found.append(When(capability, rule) if capability else rule)
    return found


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> JSONObject:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _role(name: str, rules: list[Node], gathered_by: Sequence[str]) -> JSONObject:
    gathered = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in gathered_by}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**labels_of("people"), **gathered}},
        "rules": rules,
    }
