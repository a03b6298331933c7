"""What a schema says about who can own which part of an object.

Only a few words of a schema matter for ownership: is this map one thing or many, are the items of this list told apart
by keys, by value or not at all. They are looked up for every field of every write, so a schema is boiled down to
shapes once. Where a schema says nothing (unknown fields that are preserved, fields that are not declared) maps are
many things and lists are one.
"""

from enum import Enum
from typing import Any

from echelon.api.base import JSON, JSONObject
from echelon.api.meta import ObjectMeta
from echelon.api.schema import schema_of
from echelon.hub.apply.fields import key_step, value_step


class Unit(Enum):
    """How a container is owned."""

    NONE = 0  # not a container at all
    WHOLE = 1  # as one thing
    PARTS = 2  # field by field, or set items by value
    KEYED = 3  # list items by their keys


class Scalar(Enum):
    """Which single values a place takes."""

    NONE = 0
    ANY = 1
    STRING = 2
    NUMBER = 3
    BOOLEAN = 4


class Shape:
    """The ownership side of a schema node. A place whose type is open has several sides at once."""

    __slots__ = ("defaults", "fields", "item", "keys", "list", "map", "rest", "scalar")

    def __init__(self) -> None:
        self.map = Unit.NONE
        self.fields: dict[str, Shape] = {}
        self.rest: Shape | None = None  # of fields that are not named; None where there are none
        self.list = Unit.NONE
        self.item: Shape = self
        self.keys: tuple[str, ...] = ()
        self.defaults: JSONObject = {}  # of keys that an item may leave out
        self.scalar = Scalar.NONE

    def of_field(self, name: str) -> "Shape":
        """Return the shape of a field, named or not."""
        return self.fields.get(name) or self.rest or UNKNOWN

    def below(self, step: str) -> "Shape":
        """Return the shape that a step of a field set leads to."""
        return self.of_field(step[2:]) if step[0] == "f" else self.item

    def item_step(self, item: JSON) -> str:
        """Return the step to an item of this list; ValueError if the item can't be told from others."""
        if self.list is Unit.PARTS:
            if isinstance(item, dict):
                raise ValueError("associative list without keys has an element that's a map type")
            if isinstance(item, list):
                raise ValueError("not supported: associative list with lists as elements")
            if item is None:
                raise ValueError("associative list without keys has an element that's an explicit null")
            return value_step(item)
        if item is None:
            raise ValueError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise ValueError("associative list with keys may not have non-map elements")
        keys = {name: item[name] for name in self.keys if name in item}
        if len(keys) < len(self.keys):
            keys = {**self.defaults, **keys}
        if not keys:
            quoted = " ".join(f'"{name}"' for name in self.keys)
            raise ValueError(
                f"associative list with keys has an element that omits all key fields [{quoted}]"
                " (and doesn't have default values for any key fields)"
            )
        return key_step(keys)


def _unknown() -> Shape:
    shape = Shape()
    shape.map, shape.rest = Unit.PARTS, shape
    shape.list = Unit.WHOLE
    shape.scalar = Scalar.ANY
    return shape


UNKNOWN = _unknown()

_SCALARS = {
    "string": Scalar.STRING,
    "integer": Scalar.NUMBER,
    "number": Scalar.NUMBER,
    "boolean": Scalar.BOOLEAN,
}

# A schema is a dict, so it can't be a key; its id can, while a reference keeps the id from being used again.
_known: dict[int, tuple[JSONObject, Shape]] = {}
_KNOWN_LIMIT = 1024


def shape_of(schema: JSONObject) -> Shape:
    """Return the shape of a whole object. The schema must not change afterwards."""
    if (found := _known.get(id(schema))) is not None:
        return found[1]
    shape = _resource(schema, preserved=False)
    if len(_known) >= _KNOWN_LIMIT:  # schemas of CRDs that are long gone
        _known.clear()
    _known[id(schema)] = schema, shape
    return shape


def _resource(schema: JSONObject, *, preserved: bool) -> Shape:
    """Return the shape of something that has an apiVersion, a kind and metadata, whether or not the schema says so."""
    shape = _map_side(Shape(), schema, preserved=preserved)
    for name in ("apiVersion", "kind"):
        shape.fields.setdefault(name, _node({"type": "string"}, preserved=False))
    described = (schema.get("properties") or {}).get("metadata") or {}
    if not described.get("properties"):
        shape.fields["metadata"] = _node(schema_of(ObjectMeta), preserved=False)
    metadata = shape.fields["metadata"]
    for name in ("selfLink", "clusterName"):  # nobody sets them any more, and nobody owns them
        metadata.fields.setdefault(name, UNKNOWN)
    return shape


def _node(schema: JSONObject, *, preserved: bool) -> Shape:
    if schema.get("x-kubernetes-embedded-resource") is True:
        return _resource(schema, preserved=preserved)
    shape = Shape()
    match schema.get("type", ""):
        case "object":
            _map_side(shape, schema, preserved=preserved)
        case "array":
            _list_side(shape, schema, preserved=preserved)
        case "":
            _map_side(shape, schema, preserved=preserved)
            _list_side(shape, schema, preserved=preserved)
            shape.scalar = Scalar.ANY
        case name:
            shape.scalar = _SCALARS.get(name, Scalar.ANY)
            if name == "string" and schema.get("format", "") not in ("", "byte"):
                shape.scalar = Scalar.ANY
    return shape


def _map_side(shape: Shape, schema: JSONObject, *, preserved: bool) -> Shape:
    # Below a place that preserves unknown fields, everything does.
    preserved = preserved or schema.get("x-kubernetes-preserve-unknown-fields") is True
    shape.map = Unit.WHOLE if schema.get("x-kubernetes-map-type") == "atomic" else Unit.PARTS
    properties: dict[str, Any] = schema.get("properties") or {}
    shape.fields = {name: _node(part, preserved=preserved) for name, part in properties.items()}
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        shape.rest = _node(more, preserved=preserved)
    elif more is True or (more is None and (preserved or not properties)):
        shape.rest = UNKNOWN
    return shape


def _list_side(shape: Shape, schema: JSONObject, *, preserved: bool) -> None:
    items = schema.get("items") or {}
    shape.item = _node(items, preserved=preserved) if items else UNKNOWN
    kind, merge_key = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-patch-merge-key")
    keys = schema.get("x-kubernetes-list-map-keys") or ([merge_key] if kind is None and merge_key else [])
    if kind == "map" or (kind is None and keys):
        shape.list = Unit.KEYED
        shape.keys = tuple(sorted(keys))
        properties = items.get("properties") or {}
        found = {name: (properties.get(name) or {}).get("default") for name in shape.keys}
        shape.defaults = {name: value for name, value in found.items() if value is not None}
    else:
        shape.list = Unit.PARTS if kind == "set" else Unit.WHOLE
