"""Nobody can give away rights that they do not have.

Whoever may write roles or bindings could otherwise write themselves any role. So the rules of a role, or of the role
that a binding refers to, must be covered by rules that the writer holds, unless they were given the verb `escalate`
(for roles) or `bind` (for bindings) on purpose. An aggregated role collects whatever carries a label, now or later,
so only somebody who holds everything can make one.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from echelon.api.base import JSONObject
from echelon.hub.access.coverage import uncovered
from echelon.hub.access.identity import MASTERS, User
from echelon.hub.access.rbac import ALL, RBAC_GROUP, Attributes, Authorizer, Rule, parse_rules, quoted
from echelon.kube.errors import forbidden, not_found

_EVERYTHING = parse_rules(
    [
        {"apiGroups": [ALL], "resources": [ALL], "verbs": [ALL]},
        {"nonResourceURLs": [ALL], "verbs": [ALL]},
    ]
)
_MOST_TOLD = 1000  # rights that a refusal names
# Fields that the garbage collector writes; it holds no rights and must still be able to finish a deletion.
_COLLECTOR_FIELDS = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion"})


def check_role(authorizer: Authorizer, asked: Attributes, role: JSONObject, old: JSONObject | None = None) -> None:
    """Raise Forbidden if writing the Role or ClusterRole would give rights away. `asked` is the write request."""
    if MASTERS in asked.user.groups or (old is not None and _only_collected(role, old)):
        return
    if authorizer.authorize(_as(asked, "escalate", asked.resource, asked.name)).allowed:
        return
    name = _name(role)
    if why := escalation_error(authorizer, asked.user, asked.namespace, parse_rules(role.get("rules"))):
        raise forbidden(asked.resource, RBAC_GROUP, name, why)
    aggregates = role.get("aggregationRule") is not None or (old or {}).get("aggregationRule") is not None
    if aggregates and escalation_error(authorizer, asked.user, asked.namespace, _EVERYTHING):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(asked.resource, RBAC_GROUP, name, why)


def check_binding(
    authorizer: Authorizer, asked: Attributes, binding: JSONObject, old: JSONObject | None = None
) -> None:
    """Raise Forbidden if the RoleBinding or ClusterRoleBinding would give rights away. `asked` is the write request."""
    if MASTERS in asked.user.groups or (old is not None and _only_collected(binding, old)):
        return
    reference = binding.get("roleRef") or {}
    kind, role = str(reference.get("kind") or ""), str(reference.get("name") or "")
    plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
    if plural and authorizer.authorize(_as(asked, "bind", plural, role)).allowed:
        return
    rules = authorizer.role_rules(reference, asked.namespace)
    if rules is None:
        raise not_found(kind.lower(), RBAC_GROUP, role)
    if why := escalation_error(authorizer, asked.user, asked.namespace, rules):
        raise forbidden(asked.resource, RBAC_GROUP, _name(binding), why)


def escalation_error(authorizer: Authorizer, user: User, namespace: str, rules: Iterable[Rule]) -> str:
    """Say which of the rules the user does not hold in the namespace; nothing if all are held."""
    held, problems = authorizer.rules_for(user, namespace)
    lacking = list(islice(uncovered(held, rules), _MOST_TOLD + 1))
    if not lacking:
        return ""
    described = sorted({_compact(rule) for rule in _merged(lacking[:_MOST_TOLD])})
    text = (
        f"user {quoted(user.name)} (groups={_quoted_list(user.groups)}) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(described) + ("\nand more" if len(lacking) > _MOST_TOLD else "")
    )
    return f"{text}; resolution errors: [{problems}]" if problems else text


def _merged(parts: Iterable[JSONObject]) -> Iterator[JSONObject]:
    """Put the verbs of parts that are about the same resource together, for people to read."""
    simple: dict[tuple[str, str], JSONObject] = {}
    for part in parts:
        if "resourceNames" in part or "nonResourceURLs" in part:
            yield part
            continue
        key = (part["apiGroups"][0], part["resources"][0])
        merged = simple.setdefault(key, {**part, "verbs": []})
        merged["verbs"] += [verb for verb in part["verbs"] if verb not in merged["verbs"]]
    yield from simple.values()


def _compact(rule: JSONObject) -> str:
    titles = {
        "apiGroups": "APIGroups",
        "resources": "Resources",
        "nonResourceURLs": "NonResourceURLs",
        "resourceNames": "ResourceNames",
        "verbs": "Verbs",
    }
    return "{" + ", ".join(f"{title}:{_quoted_list(rule[key])}" for key, title in titles.items() if key in rule) + "}"


def _quoted_list(values: Iterable[str]) -> str:
    return "[" + " ".join(quoted(value) for value in values) + "]"


def _as(asked: Attributes, verb: str, resource: str, name: str) -> Attributes:
    return Attributes(
        user=asked.user, verb=verb, group=RBAC_GROUP, resource=resource, namespace=asked.namespace, name=name
    )


def _name(obj: JSONObject) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def _only_collected(new: JSONObject, old: JSONObject) -> bool:
    return _without_collected(new) == _without_collected(old)


def _without_collected(obj: JSONObject) -> JSONObject:
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key not in _COLLECTOR_FIELDS}}
