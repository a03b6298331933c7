"""Who may bind a cluster set, join one, and accept a cluster.

A namespace to which a set is bound can put work on every cluster of that set, so the right to write a binding, a label
or `hubAcceptsClient` is not enough: whoever does needs the right to bind, join or accept as well. Open Cluster
Management asks the same, of the same resources, in webhooks. Here they are admission policies, which need no server of
their own: an API server that knows nothing of Echelon enforces them.

A check of rights is expensive in the server's estimate of an expression, and three in one are refused: no expression
here has more than one.
"""

from typing import Any, Final

from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING, SET_LABEL
from echelon.api.crd import LABELS
from echelon.api.kinds import Kind

REGISTER_GROUP: Final = "register.open-cluster-management.io"


def _may(verb: str, group: str, resource: str, subresource: str, name: str) -> str:
    """Return an expression that asks whether the one who writes may do something."""
    return (
        f"authorizer.group('{group}').resource('{resource}').subresource('{subresource}')"
        f".name({name}).check('{verb}').allowed()"
    )


def _label(state: str) -> str:
    return f"{state}.metadata.?labels[?'{SET_LABEL}'].orValue('')"


def _accepted(state: str) -> str:
    return f"{state}.?spec.?hubAcceptsClient.orValue(false)"


def _needs(what: str, name: str, right: str) -> str:
    """Return an expression that says what was refused, and which right it needs."""
    return (
        f"'user ' + request.userInfo.username + ' may not {what} ' + {name} + ': that needs the verb {right} ' + {name}"
    )


_BIND: JSONObject = {
    "validations": [
        {
            "expression": "(oldObject != null && oldObject.spec.clusterSet == object.spec.clusterSet) || "
            + _may("create", GROUP, "managedclustersets", "bind", "object.spec.clusterSet"),
            "messageExpression": _needs(
                "bind the cluster set", "object.spec.clusterSet", f"create on managedclustersets/bind.{GROUP} named"
            ),
            "message": f"binding a cluster set needs the verb create on managedclustersets/bind.{GROUP}",
            "reason": "Forbidden",
        }
    ]
}

_JOIN: JSONObject = {
    "variables": [
        {"name": "before", "expression": f"oldObject == null ? '' : {_label('oldObject')}"},
        {"name": "after", "expression": _label("object")},
    ],
    "validations": [
        {
            "expression": f"variables.before == variables.after || variables.{side} == '' || "
            + _may("create", GROUP, "managedclustersets", "join", f"variables.{side}"),
            "messageExpression": _needs(
                what, f"string(variables.{side})", f"create on managedclustersets/join.{GROUP} named"
            ),
            "message": f"changing a cluster's set needs the verb create on managedclustersets/join.{GROUP}",
            "reason": "Forbidden",
        }
        for side, what in (
            ("before", "take a cluster out of the cluster set"),
            ("after", "put a cluster into the cluster set"),
        )
    ],
}

_ACCEPT: JSONObject = {
    "validations": [
        {
            "expression": f"!{_accepted('object')} || (oldObject != null && {_accepted('oldObject')}) || "
            + _may("update", REGISTER_GROUP, "managedclusters", "accept", "object.metadata.name"),
            "messageExpression": _needs(
                "accept the cluster",
                "object.metadata.name",
                f"update on managedclusters/accept.{REGISTER_GROUP} named",
            ),
            "message": f"accepting a cluster needs the verb update on managedclusters/accept.{REGISTER_GROUP}",
            "reason": "Forbidden",
        }
    ]
}

_GUARDS: tuple[tuple[str, Kind[Any], JSONObject], ...] = (
    ("echelon-bind-cluster-set", MANAGED_CLUSTER_SET_BINDING, _BIND),
    ("echelon-join-cluster-set", MANAGED_CLUSTER, _JOIN),
    ("echelon-accept-cluster", MANAGED_CLUSTER, _ACCEPT),
)
NAMES: Final = tuple(name for name, _, _ in _GUARDS)
GUARDED: Final = tuple(dict.fromkeys(kind.resource for _, kind, _ in _GUARDS))


def guards(*guarded: str) -> list[JSONObject]:
    """Return the policies about some resources (`plural.group`), and then their bindings."""
    chosen = [each for each in _GUARDS if each[1].resource in guarded]
    return [_policy(*each) for each in chosen] + [_binding(name) for name, _, _ in chosen]


def _policy(name: str, kind: Kind[Any], content: JSONObject) -> JSONObject:
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.plural],
    }
    return {
        **VALIDATING_ADMISSION_POLICY.type_meta,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, **content},
    }


def _binding(name: str) -> JSONObject:
    return {
        **VALIDATING_ADMISSION_POLICY_BINDING.type_meta,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
