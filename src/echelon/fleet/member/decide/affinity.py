"""Which nodes a pod may use, and which it would rather use: its node selector and its node affinity.

Both are read once into a `NodeChoice`, because one place is held against many nodes.
"""

from collections.abc import Mapping, Sequence

import msgspec

from echelon.api.base import JSONObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NAME = "metadata.name"


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on a label, or on the name."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, value: str | None) -> bool:
        """Tell whether a value meets it; None for a label that is not there. An unknown operator is never met."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                number, limit = _integer(value), _integer(self.values[0] if len(self.values) == 1 else None)
                if number is None or limit is None:
                    return False
                return number > limit if self.operator == "Gt" else number < limit
        return False


class Term(msgspec.Struct, frozen=True, gc=False):
    """Conditions that have to hold together; none at all hold nowhere."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a node meets all of them."""
        if not self.labels and not self.fields:
            return False
        return all(each.key == _NAME and each.holds(name) for each in self.fields) and all(
            each.holds(labels.get(each.key)) for each in self.labels
        )


class NodeChoice(msgspec.Struct, frozen=True, gc=False):
    """Where a pod may go: to nodes with these labels that meet one of the terms; None for no terms."""

    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()

    def allows(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether a node is one of them."""
        if any(labels.get(key) != value for key, value in self.labels):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)

    def preference(self, name: str, labels: Mapping[str, str]) -> int:
        """Return how much a node is preferred."""
        return sum(weight for weight, term in self.preferred if term.matches(name, labels))

    @property
    def names(self) -> tuple[str, ...] | None:
        """The only nodes that come into question, by name; None if names do not limit them."""
        found: dict[str, None] = {}
        for term in self.terms or ():
            named = [each for each in term.fields if each.key == _NAME and each.operator == "In"]
            if not named:
                return None
            found.update(dict.fromkeys(named[0].values))
        return tuple(found) if self.terms else None


ANYWHERE = NodeChoice()


def place_of(pod_spec: JSONObject) -> NodeChoice:
    """Read where a pod may go."""
    selector = pod_spec.get("nodeSelector") or {}
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    if not selector and not affinity:
        return ANYWHERE
    required, terms = affinity.get(_REQUIRED), None
    if required is not None:
        terms = tuple(_term(each) for each in required.get("nodeSelectorTerms") or ())
    preferred = [
        (each.get("weight") or 0, _term(each.get("preference") or {})) for each in affinity.get(_PREFERRED) or ()
    ]
    return NodeChoice(tuple(selector.items()), terms, tuple(preferred))


def pinned_node(pod_spec: JSONObject) -> str:
    """Return the one node that a pod is for, as a DaemonSet says it; empty for any other pod."""
    names = place_of(pod_spec).names
    return names[0] if names else ""


def _term(term: JSONObject) -> Term:
    return Term(_requirements(term.get("matchExpressions") or ()), _requirements(term.get("matchFields") or ()))


def _requirements(given: Sequence[JSONObject]) -> tuple[Requirement, ...]:
    return tuple(Requirement(each["key"], each["operator"], tuple(each.get("values") or ())) for each in given)


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
