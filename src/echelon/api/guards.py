"""Who may bind a cluster set, join one, and accept a cluster; and what only the whole of an object's metadata shows.

A namespace to which a set is bound can put work on every cluster of that set, so the right to write a binding, a label
or `hubAcceptsClient` is not enough: whoever does needs the right to bind, join or accept as well. Open Cluster
Management asks the same, of the same resources, in webhooks. Here they are admission policies, which need no server of
their own: an API server that knows nothing of Echelon enforces them.

Namespace and name of a policy become the value of a label, on every replica of it. That they fit can be told only from
both, and the rules of a CRD see no namespace. Replicas have names that are made so, and are not asked.

A check of rights is expensive in the server's estimate of an expression, and three in one are refused: no expression
here has more than one.
"""

from dataclasses import dataclass
from typing import Any, Final

from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET_BINDING, SET_LABEL
from echelon.api.crd import LABELS
from echelon.api.kinds import Kind
from echelon.api.name_patterns import LABEL
from echelon.api.policy import POLICY, ROOT_LABEL

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

# A label's value has 63 characters, and one of them is the dot between the two.
MAX_POLICY_NAME: Final = 62
_LENGTH: Final = "size(request.namespace) + size(object.metadata.name)"
_NAME: JSONObject = {
    "matchConditions": [
        {"name": "is-no-replica", "expression": f"!('{ROOT_LABEL}' in object.metadata.?labels.orValue({{}}))"}
    ],
    "validations": [
        {
            "expression": f"{_LENGTH} <= {MAX_POLICY_NAME}",
            "messageExpression": f"'namespace and name of a policy must be no more than {MAX_POLICY_NAME} characters"
            f" together, and have ' + string({_LENGTH}) + ': ' + request.namespace + ' and ' + object.metadata.name",
            "message": f"namespace and name of a policy must be no more than {MAX_POLICY_NAME} characters together",
            "reason": "Invalid",
        }
    ],
}


# A cluster's works are in the namespace that has its name.
_CLUSTER_NAME: JSONObject = {
    "validations": [
        {
            "expression": f"object.metadata.name.matches('^{LABEL}$') && size(object.metadata.name) <= 63",
            "message": "the name of a cluster must be a DNS label: lower-case letters, digits and '-', at most 63, "
            "with a letter or digit at both ends",
            "reason": "Invalid",
        }
    ],
}


@dataclass(frozen=True)
class _Guard:
    """An admission policy about one kind."""

    name: str
    kind: Kind[Any]
    content: JSONObject
    operations: tuple[str, ...] = ("CREATE", "UPDATE")


_GUARDS: tuple[_Guard, ...] = (
    _Guard("echelon-bind-cluster-set", MANAGED_CLUSTER_SET_BINDING, _BIND),
    _Guard("echelon-join-cluster-set", MANAGED_CLUSTER, _JOIN),
    _Guard("echelon-accept-cluster", MANAGED_CLUSTER, _ACCEPT),
    _Guard("echelon-cluster-name", MANAGED_CLUSTER, _CLUSTER_NAME, ("CREATE",)),
    # Names do not change, and what was stored without this guard must stay changeable.
    _Guard("echelon-policy-name", POLICY, _NAME, ("CREATE",)),
)
NAMES: Final = tuple(each.name for each in _GUARDS)
GUARDED: Final = tuple(dict.fromkeys(each.kind.resource for each in _GUARDS))


def guards(*guarded: str) -> list[JSONObject]:
    """Return the policies about some resources (`plural.group`), and then their bindings."""
    chosen = [each for each in _GUARDS if each.kind.resource in guarded]
    return [_policy(each) for each in chosen] + [_binding(each.name) for each in chosen]


def _policy(guard: _Guard) -> JSONObject:
    rule = {
        "apiGroups": [guard.kind.group],
        "apiVersions": ["*"],
        "operations": list(guard.operations),
        "resources": [guard.kind.plural],
        "scope": "*",
    }
    # With what a server adds: this field is one's own as a whole or not at all, and so whoever applies the same again
    # would be told of a conflict.
    matches = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": [rule]}
    return {
        **VALIDATING_ADMISSION_POLICY.type_meta,
        "metadata": {"name": guard.name, "labels": dict(LABELS)},
        "spec": {"failurePolicy": "Fail", "matchConstraints": matches, **guard.content},
    }


def _binding(name: str) -> JSONObject:
    return {
        **VALIDATING_ADMISSION_POLICY_BINDING.type_meta,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
