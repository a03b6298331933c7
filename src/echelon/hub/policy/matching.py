"""Which requests a policy, or one of its bindings, is about.

Most of this depends on the resource alone and is settled once for each. What is left for a request is its operation,
its name and its labels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.labels import Selector, from_label_selector
from echelon.hub.catalogue.resources import Resource

ALL = "*"


@dataclass(frozen=True)
class Rule:
    """A rule of `resourceRules` or `excludeResourceRules`."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    scope: str

    def covers(self, kind: Kind[Any], subresource: str) -> bool:
        """Tell whether the rule is about a resource, or a subresource of it."""
        return (
            _has(self.groups, kind.group)
            and _has(self.versions, kind.version)
            and not self.resources.isdisjoint(_spellings(kind.plural, subresource))
            and self.scope in (ALL, "Namespaced" if kind.namespaced else "Cluster")
        )

    def allows(self, operation: str, name: str) -> bool:
        """Tell whether the rule is about what is done, and to whom."""
        return _has(self.operations, operation) and (not self.names or name in self.names)


def _has(values: frozenset[str], value: str) -> bool:
    return value in values or ALL in values


def _spellings(plural: str, subresource: str) -> tuple[str, ...]:
    return (f"{plural}/{subresource}", f"{ALL}/{subresource}") if subresource else (plural, ALL)


@dataclass(frozen=True)
class Choice:
    """Matched so far: each rule that can be about a resource, with the version in which it wants to see the object."""

    rules: tuple[tuple[Rule, Resource], ...]
    excluded: tuple[tuple[Rule, Resource], ...]
    namespaces: Selector
    objects: Selector

    def version(self, operation: str, name: str) -> Resource | None:
        """Return in which version a request is meant; None if it is not."""
        if any(rule.allows(operation, name) for rule, _ in self.excluded):
            return None
        return next((resource for rule, resource in self.rules if rule.allows(operation, name)), None)

    def selects(self, namespace: JSONObject | None, *states: JSONObject | None) -> bool:
        """Tell whether the labels of the namespace fit, and those of one of the object's states."""
        if namespace is not None and not self.namespaces.matches(_labels(namespace)):
            return False
        return any(self.objects.matches(_labels(state)) for state in states if state is not None)


def _labels(obj: JSONObject) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


@dataclass(frozen=True)
class Constraints:
    """`matchConstraints` of a policy or `matchResources` of a binding."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...]
    namespaces: Selector
    objects: Selector
    exact: bool
    everything: bool  # a binding without rules narrows nothing down

    def about(self, resource: Resource, subresource: str, equivalent: Iterable[Resource]) -> Choice | None:
        """Return what is left to be asked of requests for a resource; None if they are never meant.

        `equivalent` are other versions of the same resource.
        """
        versions = (resource,) if self.exact else (resource, *equivalent)
        rules = _covering(self.rules, versions, subresource)
        if self.everything:
            rules = ((_EVERYTHING, resource),)
        if not rules:
            return None
        return Choice(rules, _covering(self.excluded, versions, subresource), self.namespaces, self.objects)


_ANY = frozenset({ALL})
_EVERYTHING = Rule(_ANY, _ANY, _ANY, _ANY, frozenset(), ALL)


def _covering(
    rules: Sequence[Rule], versions: Sequence[Resource], subresource: str
) -> tuple[tuple[Rule, Resource], ...]:
    """Return rules with the versions that they cover; the version of the request comes before all others."""
    return tuple((rule, each) for each in versions for rule in rules if rule.covers(each.kind, subresource))


def constraints_of(wire: JSONObject | None, *, binding: bool = False) -> Constraints:
    """Read constraints that have been checked."""
    spec = wire or {}
    rules = tuple(_rule(each) for each in spec.get("resourceRules") or ())
    return Constraints(
        rules,
        tuple(_rule(each) for each in spec.get("excludeResourceRules") or ()),
        from_label_selector(spec.get("namespaceSelector") or {}),
        from_label_selector(spec.get("objectSelector") or {}),
        exact=spec.get("matchPolicy") == "Exact",
        everything=binding and not rules,
    )


def _rule(wire: JSONObject) -> Rule:
    def values(name: str) -> frozenset[str]:
        return frozenset(wire.get(name) or ())

    return Rule(
        values("operations"),
        values("apiGroups"),
        values("apiVersions"),
        values("resources"),
        values("resourceNames"),
        wire.get("scope") or ALL,
    )
