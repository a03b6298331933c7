"""May they: role-based access control over the stored Role, ClusterRole and binding objects.

This is asked before every request, and a fleet has a namespace, a role and a binding for every cluster. So nothing is
searched: bindings are indexed by namespace and subject when they change, and a question looks only at the grants of the
one who asks, in the namespace that is asked about. Rules only ever allow; without one that does, the answer is no.

The meaning of rules and the texts are those of Kubernetes.
"""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.hub.access.identity import ACCOUNT_PREFIX, MASTERS, User
from echelon.kube.errors import Forbidden, forbidden

RBAC_GROUP = "rbac.authorization.k8s.io"
ALL = "*"


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as far as it matters for whether it is allowed.

    `name` is that of the object in the path. A create has none (the body may name anything, and rules that are limited
    to names must not let it through); a list or watch has one if its field selector asks for one `metadata.name`. A
    request for a path that is no resource has `is_resource=False` and only `verb` and `path`.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True


class Decision(msgspec.Struct, frozen=True):
    """The answer, and what it rests on."""

    allowed: bool
    reason: str = ""


_UNLIMITED = Decision(True)


class Rule(msgspec.Struct, frozen=True):
    """A policy rule, prepared for asking; `wire` is how it was written."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: tuple[str, ...]
    wire: JSONObject

    def allows_resource(self, verb: str, group: str, resources: Iterable[str], name: str) -> bool:
        """Say whether the rule has the verb, the group, one of the spellings of the resource, and the name."""
        return (
            (verb in self.verbs or ALL in self.verbs)
            and (group in self.groups or ALL in self.groups)
            and not self.resources.isdisjoint(resources)
            and (not self.names or name in self.names)
        )

    def allows_path(self, verb: str, path: str) -> bool:
        """Say whether the rule has the verb and the path."""
        return (verb in self.verbs or ALL in self.verbs) and any(url_covers(url, path) for url in self.urls)


class _Grant(msgspec.Struct, frozen=True):
    role: tuple[str, str, str]  # kind, namespace, name
    reason: str


class _Scope(msgspec.Struct):
    """The grants of one namespace, or of the whole cluster: subject to binding to grant."""

    users: dict[str, dict[str, _Grant]]
    groups: dict[str, dict[str, _Grant]]


class Authorizer:
    """Answers from the RBAC objects of one logical cluster, which it is told about as they change."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str, str], tuple[Rule, ...]] = {}
        self._scopes: dict[str, _Scope] = {}
        # What a binding put into the index, so that it can be taken out: (is a user, subject).
        self._indexed: dict[tuple[str, str], dict[tuple[bool, str], None]] = {}

    def changed(self, kind: str, namespace: str, name: str, obj: JSONObject | None) -> None:
        """Take note of an RBAC object that was written, or with None deleted. Other kinds are none of our business."""
        if kind in {"Role", "ClusterRole"}:
            key = (kind, namespace, name)
            if obj is None:
                self._rules.pop(key, None)
            else:
                self._rules[key] = parse_rules(obj.get("rules"))
        elif kind in {"RoleBinding", "ClusterRoleBinding"}:
            self._unbind(namespace, name)
            if obj is not None:
                self._bind(kind, namespace, name, obj)

    def authorize(self, asked: Attributes) -> Decision:
        """Say whether the request is allowed."""
        if MASTERS in asked.user.groups:
            return _UNLIMITED
        missing: list[str] = []
        if asked.is_resource:
            spellings = _spellings(asked.resource, asked.subresource)
            for grant, rules in self._granted(asked.user, asked.namespace, missing):
                for rule in rules:
                    if rule.allows_resource(asked.verb, asked.group, spellings, asked.name):
                        return Decision(True, grant.reason)
        else:
            for grant, rules in self._granted(asked.user, asked.namespace, missing):
                for rule in rules:
                    if rule.allows_path(asked.verb, asked.path):
                        return Decision(True, grant.reason)
        return Decision(False, f"RBAC: {_listed(missing)}" if missing else "")

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], str]:
        """Return all rules that the user has in the namespace, and what is wrong with their bindings, if anything."""
        missing: list[str] = []
        found = [rule for _, rules in self._granted(user, namespace, missing) for rule in rules]
        return found, _listed(missing)

    def role_rules(self, role_ref: JSONObject, namespace: str) -> tuple[Rule, ...] | None:
        """Return the rules that a binding in the namespace ("" for the cluster) refers to; None if there is no role."""
        return self._rules.get(_role_key(role_ref, namespace))

    def _granted(self, user: User, namespace: str, missing: list[str]) -> Iterator[tuple[_Grant, tuple[Rule, ...]]]:
        for where in ("", namespace) if namespace else ("",):
            scope = self._scopes.get(where)
            if scope is None:
                continue
            found = [scope.users.get(user.name), *map(scope.groups.get, user.groups)]
            for grants in found:
                for grant in grants.values() if grants else ():
                    rules = self._rules.get(grant.role)
                    if rules is None:
                        missing.append(_missing(grant.role))
                    else:
                        yield grant, rules

    def _bind(self, kind: str, namespace: str, name: str, binding: JSONObject) -> None:
        scope = self._scopes.setdefault(namespace, _Scope({}, {}))
        reference = binding.get("roleRef") or {}
        role = _role_key(reference, namespace)
        title = f"{name}/{namespace}" if namespace else name
        indexed: dict[tuple[bool, str], None] = {}  # as an ordered set
        for subject in binding.get("subjects") or ():
            entry = _subject(subject, namespace)
            if entry is None or entry in indexed:
                continue
            is_user, key = entry
            what = f"{kind} {quoted(title)} of {role[0]} {quoted(role[2])} to {_described(subject, namespace)}"
            index = scope.users if is_user else scope.groups
            index.setdefault(key, {})[name] = _Grant(role, f"RBAC: allowed by {what}")
            indexed[entry] = None
        self._indexed[namespace, name] = indexed

    def _unbind(self, namespace: str, name: str) -> None:
        scope = self._scopes.get(namespace)
        if scope is None:
            return
        for is_user, key in self._indexed.pop((namespace, name), ()):
            index = scope.users if is_user else scope.groups
            del index[key][name]
            if not index[key]:
                del index[key]
        if not scope.users and not scope.groups:
            del self._scopes[namespace]


def parse_rules(rules: list[JSONObject] | None) -> tuple[Rule, ...]:
    """Prepare the rules of a role."""
    return _parsed(msgspec.json.encode(rules or ()))


@lru_cache(maxsize=1024)  # all clusters of a process have the same roles
def _parsed(rules: bytes) -> tuple[Rule, ...]:
    return tuple(_parse_rule(rule) for rule in msgspec.json.decode(rules))


def url_covers(pattern: str, path: str) -> bool:
    """Say whether a non-resource URL of a rule, which may end in `*`, stands for the path."""
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def refusal(asked: Attributes, decision: Decision) -> Forbidden:
    """Return the error for a request that is not allowed."""
    who = f"User {quoted(asked.user.name)} cannot {asked.verb}"
    suffix = f": {decision.reason}" if decision.reason else ""
    if not asked.is_resource:
        return Forbidden(f"forbidden: {who} path {quoted(asked.path)}{suffix}")
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
    why = f"{who} resource {quoted(resource)} in API group {quoted(asked.group)} {where}{suffix}"
    return forbidden(asked.resource, asked.group, asked.name, why)


def quoted(text: str) -> str:
    """Quote as Kubernetes' messages do."""
    return json.dumps(text, ensure_ascii=False)


def _parse_rule(rule: JSONObject) -> Rule:
    def values(field: str) -> list[str]:
        found: Any = rule.get(field)
        return list(found) if found else []

    return Rule(
        verbs=frozenset(values("verbs")),
        groups=frozenset(values("apiGroups")),
        resources=frozenset(values("resources")),
        names=frozenset(values("resourceNames")),
        urls=tuple(values("nonResourceURLs")),
        wire=rule,
    )


def _spellings(resource: str, subresource: str) -> tuple[str, ...]:
    """Return what a rule may call the resource. `pods` does not stand for `pods/log`, only `*` does for both."""
    if subresource:
        return (ALL, f"{resource}/{subresource}", f"*/{subresource}")
    return (ALL, resource)


def _role_key(reference: JSONObject, namespace: str) -> tuple[str, str, str]:
    # A cluster-wide binding to a Role finds nothing: Roles live in namespaces.
    kind = reference.get("kind") or ""
    return (kind, "" if kind == "ClusterRole" else namespace, reference.get("name") or "")


def _missing(role: tuple[str, str, str]) -> str:
    kind, _, name = role
    if kind not in {"Role", "ClusterRole"}:
        return f"unsupported role reference kind: {quoted(kind)}"
    return f"{kind.lower()}.{RBAC_GROUP} {quoted(name)} not found"


def _listed(problems: list[str]) -> str:
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def _subject(subject: JSONObject, namespace: str) -> tuple[bool, str] | None:
    name = subject.get("name") or ""
    match subject.get("kind"):
        case "User":
            return True, name
        case "Group":
            return False, name
        case "ServiceAccount":
            where = subject.get("namespace") or namespace
            return (True, f"{ACCOUNT_PREFIX}{where}:{name}") if where else None
        case _:
            return None


def _described(subject: JSONObject, namespace: str) -> str:
    name = subject.get("name") or ""
    if subject.get("kind") == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f"{subject.get('kind')} {quoted(name)}"
