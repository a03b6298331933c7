"""Manifests with holes: written once, they become plain objects for given values, or the templates of a Helm chart.

Two copies of a manifest drift apart, and a chart that is the only copy cannot be used without Helm. So a manifest is a
tree of plain data in which a few places stand for settings. `resolve` fills them in; `echelon.install.helm` writes the
same tree as a template. What these few kinds of places cannot say, no manifest of ours says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Values: TypeAlias = Mapping[str, Any]
# A manifest: what YAML has, and the places below. It cannot be written as a recursive type that mypy can follow.
Node: TypeAlias = Any


@dataclass(frozen=True)
class Value:
    """A setting, whatever it is: a text, a number, a list or a map."""

    path: str


@dataclass(frozen=True)
class Namespace:
    """The namespace into which everything is installed."""


@dataclass(frozen=True)
class Joined:
    """A text that is put together from texts, settings and conditional parts."""

    parts: tuple["str | Value | Namespace | When | Joined", ...]


@dataclass(frozen=True)
class Each:
    """In a list: the items of a setting that is a list."""

    path: str


@dataclass(frozen=True)
class AnyOf:
    """Whether one of some conditions holds."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class AllOf:
    """Whether all of some conditions hold."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True)
class Not:
    """Whether a condition does not hold."""

    condition: "Condition"


# The path of a setting holds if it is neither false nor empty nor zero, as in Go's templates.
Condition: TypeAlias = "str | AnyOf | AllOf | Not"
_NOTHING: Final = object()


@dataclass(frozen=True)
class When:
    """Something that is there only under a condition: a document, an entry of a map or a list, a part of a text."""

    condition: Condition
    then: Node
    otherwise: Node = _NOTHING

    @property
    def has_otherwise(self) -> bool:
        """Whether there is something instead."""
        return self.otherwise is not _NOTHING


NAMESPACE: Final = Namespace()


def joined(*parts: "str | Value | Namespace | When | Joined") -> Joined:
    """Return a text of parts."""
    return Joined(parts)


def look_up(values: Values, path: str) -> Any:
    """Return a setting."""
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return found


def holds(condition: Condition, values: Values) -> bool:
    """Whether a condition holds."""
    match condition:
        case AnyOf(conditions):
            return any(holds(each, values) for each in conditions)
        case AllOf(conditions):
            return all(holds(each, values) for each in conditions)
        case Not(inner):
            return not holds(inner, values)
        case _:
            return bool(look_up(values, condition))


def resolve(node: Node, values: Values, namespace: str) -> list[Any]:
    """Return what stands at a place: one object, or none if a condition does not hold, or the items of a list."""
    match node:
        case When():
            if holds(node.condition, values):
                return resolve(node.then, values, namespace)
            return resolve(node.otherwise, values, namespace) if node.has_otherwise else []
        case Value(path):
            return [look_up(values, path)]
        case Each(path):
            return list(look_up(values, path))
        case Namespace():
            return [namespace]
        case Joined(parts):
            return ["".join(_text(each, values, namespace) for each in parts)]
        case Mapping():
            return [dict(_entries(node, values, namespace))]
        case str():
            return [node]
        case Sequence():
            return [[item for each in node for item in resolve(each, values, namespace)]]
        case _:
            return [node]


def _entries(node: Mapping[str, Node], values: Values, namespace: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        for found in resolve(value, values, namespace):
            yield key, found


def _text(part: Node, values: Values, namespace: str) -> str:
    found = resolve(part, values, namespace)
    return "".join(str(each) for each in found)
