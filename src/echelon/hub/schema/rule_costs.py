"""What the rules of a schema could cost at most, before there is any object.

A definition whose rules could cost too much is refused, as Kubernetes refuses it: its author is there to hear of it,
and whoever writes the first large object is not to blame. The estimate goes through an expression once and takes every
list, map and text to be as long as the schema allows, or as long as fits into a request where it does not say. Where
Kubernetes reckons in a way of its own (keys of maps have no length), this does the same.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from echelon.api.base import JSON, JSONObject
from echelon.engine.cel.checked import Call, Comprehension, Const, Ident, ListOf, MapOf, Node, Select
from echelon.engine.cel.metering import LIST_COST, MAP_COST

PER_RULE: Final = 10_000_000
PER_SCHEMA: Final = 100_000_000
_REQUEST: Final = 3 * 1024 * 1024  # bytes
_LARGEST: Final = 2**64 - 1
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_TEXT, _PATTERN = 0.1, 0.25  # what a character of a text, or of a pattern, costs
_FORMATS = {"date": 12, "date-time": 36, "duration": 20}  # the longest of them, in quotes
_MORE_THAN_A_HUNDRED, _A_LITTLE = 100.0, 1.5


@dataclass(frozen=True)
class _Shape:
    """What is known of a value: its schema, or only how large it can be."""

    schema: JSON = None
    size: int = 1
    items: "_Shape | None" = None

    @property
    def is_sized(self) -> bool:
        return (
            self.size > 1 or self.items is not None or (self.schema or {}).get("type") in ("string", "array", "object")
        )


_SOMETHING = _Shape()


def excess(cost: int, limit: int, what: str) -> str:
    """Say by how much an estimate is over its limit, as Kubernetes does."""
    factor = cost / limit
    shown = f"{factor:.1f}x"
    if factor > _MORE_THAN_A_HUNDRED:
        shown = "more than 100x"
    elif factor < _A_LITTLE:
        shown = f"{factor:f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


def estimate(node: Node, schema: JSONObject, variables: Mapping[str, JSONObject] | None = None) -> int:
    """Return what an expression about values of a schema costs at most."""
    known = {"self": _shape(schema), "oldSelf": _shape(schema), "previous": _Shape(None, 1, _shape(schema))}
    known |= {name: _shape(each) for name, each in (variables or {}).items()}
    return min(_LARGEST, _visit(node, known)[0])


def below(schema: JSONObject, word: str, times: int | None) -> int | None:
    """Return how often the parts of an array or map can be there; None where only a request is a limit."""
    limit = schema.get("maxItems" if word == "items" else "maxProperties")
    return None if times is None or not isinstance(limit, int) else times * limit


def repeated(cost: int, schema: JSONObject, times: int | None) -> int:
    """Return what a rule costs that is evaluated for each of the values at its place."""
    return min(_LARGEST, cost * (times if times is not None else _REQUEST // (_smallest(schema) + 1)))


def _smallest(schema: JSON) -> int:
    """Return how many bytes a value has at least."""
    if not isinstance(schema, dict):
        return 1
    match schema.get("type"):
        case "boolean":
            return 4
        case "string" | "array":
            return 2
        case "object":
            parts = schema.get("properties") or {}
            needed = [name for name in schema.get("required") or () if name in parts]
            return 2 + sum(len(name) + 4 + _smallest(parts[name]) for name in needed)
        case _:
            return 1


def _shape(schema: JSON) -> _Shape:
    if not isinstance(schema, dict):
        return _SOMETHING
    match schema.get("type"):
        case "string":
            return _Shape(schema, _longest(schema))
        case "array":
            items = schema.get("items")
            limit = schema.get("maxItems")
            return _Shape(schema, limit if isinstance(limit, int) else _REQUEST // (_smallest(items) + 1), None)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            limit, part = schema.get("maxProperties"), schema["additionalProperties"]
            return _Shape(schema, limit if isinstance(limit, int) else _REQUEST // (_smallest(part) + 6))
        case _:
            return _Shape(schema)


def _longest(schema: JSONObject) -> int:
    if isinstance(limit := schema.get("maxLength"), int):
        return limit * 4  # bytes of a character
    if enum := schema.get("enum"):
        return max(len(str(each)) for each in enum)
    return _FORMATS.get(schema.get("format") or "", _REQUEST - 2)


def _part(shape: _Shape, field: str) -> _Shape:
    schema = shape.schema if isinstance(shape.schema, dict) else {}
    properties = schema.get("properties") or {}
    if field in properties:
        return _shape(properties[field])
    return _shape(schema.get("additionalProperties"))


def _each(shape: _Shape) -> _Shape:
    """Return what the items of a list, or the keys of a map, look like."""
    if shape.items is not None:
        return shape.items
    schema = shape.schema if isinstance(shape.schema, dict) else {}
    if schema.get("type") == "array":
        return _shape(schema.get("items"))
    return _Shape({"type": "string"}, 0) if schema.get("type") == "object" else _SOMETHING


def _chars(size: float, factor: float = _TEXT) -> int:
    return math.ceil(size * factor)


def _visit(node: Node, known: Mapping[str, _Shape]) -> tuple[int, _Shape]:
    if isinstance(node, Const):
        return 0, _Shape(None, len(node.value) if isinstance(node.value, str | bytes) else 1)
    if isinstance(node, Ident):
        return 1, known.get(node.name, _SOMETHING)
    if isinstance(node, Select):
        cost, shape = _visit(node.operand, known)
        return (cost, _SOMETHING) if node.test else (cost + 1, _part(shape, node.field))
    if isinstance(node, ListOf):
        found = [_visit(each, known) for each in node.items]
        largest = max((shape for _, shape in found), key=lambda shape: shape.size, default=_SOMETHING)
        return LIST_COST + sum(cost for cost, _ in found), _Shape(None, len(found), largest)
    if isinstance(node, MapOf):
        cost = sum(_visit(part, known)[0] for key, value, _ in node.entries for part in (key, value))
        return MAP_COST + cost, _Shape(None, len(node.entries))
    if isinstance(node, Comprehension):
        return _loop(node, known)
    return _call(node, known)


def _loop(node: Comprehension, known: Mapping[str, _Shape]) -> tuple[int, _Shape]:
    cost, walked = _visit(node.items, known)
    start_cost, start = _visit(node.start, known)
    inner = {**known, node.variable: _each(walked), node.result_variable: start}
    if isinstance(node.items, ListOf) and not node.items.items:  # cel.bind
        result_cost, result = _visit(node.result, inner)
        return cost + start_cost + result_cost, result
    step_cost, step = _visit(node.step, inner)
    once = _visit(node.condition, inner)[0] + step_cost
    result_cost, _ = _visit(node.result, inner)
    result = _Shape(None, walked.size, step.items) if isinstance(node.start, ListOf) else _SOMETHING
    return cost + start_cost + walked.size * once + result_cost, result


def _call(node: Call, known: Mapping[str, _Shape]) -> tuple[int, _Shape]:
    operands = (*((node.target,) if node.target is not None else ()), *node.args)
    found = [_visit(each, known) for each in operands]
    shapes = [shape for _, shape in found] + [_SOMETHING] * 2
    first, second = shapes[0], shapes[1]
    paid = sum(cost for cost, _ in found)
    if node.function == "_?_:_":
        return found[0][0] + max(found[1][0], found[2][0]), max(shapes[1:3], key=lambda each: each.size)
    if node.function == "_?._":
        field = node.args[1].value if isinstance(node.args[1], Const) else ""
        return paid + 1, _part(first, str(field))
    cost, shape = _function(node.function, first, second)
    return paid + cost, shape


def _function(name: str, first: _Shape, second: _Shape) -> tuple[int, _Shape]:
    """Return what calling a function costs, besides its arguments, and what comes of it."""
    match name:
        case "_&&_" | "_||_":
            return 0, _SOMETHING
        case "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_":
            return max(1, _chars(min(first.size, second.size))), _SOMETHING
        case "_+_":
            size = first.size + second.size if first.is_sized or second.is_sized else 1
            return max(1, _chars(size) if first.is_sized else 1), _Shape(None, size, first.items or second.items)
        case "@in":
            return (second.size if _is_list(second) else 1), _SOMETHING
        case "_[_]" | "_[?_]":
            return 1, _indexed(first)
        case "startsWith" | "endsWith":
            return max(1, _chars(second.size)), _SOMETHING
        case "contains" | "indexOf" | "lastIndexOf":
            return max(1, _chars(first.size) * _chars(second.size)), _SOMETHING
        case "matches" | "find" | "findAll":
            cost = _chars(first.size + 1) * _chars(second.size, _PATTERN)
            return max(1, cost), first if name == "find" else _SOMETHING
        case _:
            return _other_function(name, first, second)


def _other_function(name: str, first: _Shape, second: _Shape) -> tuple[int, _Shape]:
    match name:
        case "lowerAscii" | "upperAscii" | "trim" | "substring" | "replace" | "string" | "bytes" | "format":
            return max(1, _chars(first.size)), _Shape(None, first.size)
        case "split":
            return max(1, _chars(first.size)), _Shape(None, first.size, _Shape(None, first.size))
        case "isSorted" | "sum" | "min" | "max":
            return first.size, _each(first)
        case "sets.contains" | "sets.equivalent" | "sets.intersects":
            return first.size * second.size, _SOMETHING
        case "quantity" | "isQuantity" | "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR":
            return max(1, _chars(first.size)), _SOMETHING
        case "value" | "orValue" | "or" | "optional.of" | "dyn":
            return 1, first
        case _:
            return 1, _SOMETHING


def _is_list(shape: _Shape) -> bool:
    return shape.items is not None or (isinstance(shape.schema, dict) and shape.schema.get("type") == "array")


def _indexed(shape: _Shape) -> _Shape:
    schema: Any = shape.schema if isinstance(shape.schema, dict) else {}
    return _shape(schema.get("additionalProperties")) if schema.get("type") == "object" else _each(shape)


def worst(costs: Iterator[tuple[str, int]]) -> list[tuple[str, str]]:
    """Return which places are refused, and why: each rule for itself, and then all of them together."""
    found: list[tuple[str, str]] = []
    total = 0
    for path, cost in costs:
        total = min(_LARGEST, total + cost)
        if cost > PER_RULE:
            found.append((path, excess(cost, PER_RULE, "estimated rule cost")))
    if total > PER_SCHEMA:
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(("", excess(total, PER_SCHEMA, what)))
    return found
