"""From a Struct to the schema that an API server enforces.

Kubernetes takes *structural* schemas only: every field has its type in the open, nothing hides behind a reference, a
union or an inheritance. The generic JSON Schema of msgspec is none of that, so this walk makes its own, from the types
and from what `echelon.api.base.field` noted beside them.
"""

import inspect
from collections.abc import Sequence
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import inspect as shapes

from echelon.api.base import JSONObject, wire_rule
from echelon.api.meta import ObjectMeta

INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
VALIDATIONS = "x-kubernetes-validations"

_SCALARS: dict[type[shapes.Type], JSONObject] = {
    shapes.AnyType: {PRESERVE_UNKNOWN: True},
    shapes.RawType: {PRESERVE_UNKNOWN: True},
    shapes.StrType: {"type": "string"},
    shapes.BoolType: {"type": "boolean"},
    shapes.IntType: {"type": "integer", "format": "int32"},
    shapes.FloatType: {"type": "number"},
    shapes.DateTimeType: {"type": "string", "format": "date-time"},
    shapes.BytesType: {"type": "string", "format": "byte"},
}


_made: dict[tuple[type, str], JSONObject] = {}  # classes don't change, and the larger ones take milliseconds


def schema_of(type_: type, *, metadata: Literal["plain", "full"] = "plain") -> JSONObject:
    """Return the structural schema of a Struct class. It is shared between callers: don't modify it.

    An API server brings its own schema for the metadata of a whole object and rejects a CRD that describes it, so
    `plain` says only that it is an object. With `full` it is described like everything else.
    """
    if (type_, metadata) not in _made:
        _made[type_, metadata] = _whole(type_, plain_metadata=metadata == "plain")
    return _made[type_, metadata]


def _whole(type_: type, *, plain_metadata: bool) -> JSONObject:
    if not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)):
        raise TypeError(f"{type_!r} is not a Struct, so it has no schema")
    schema = _schema(shapes.type_info(type_), ())
    if plain_metadata and "metadata" in schema.get("properties", {}) and _is_object_meta(type_):
        schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _is_object_meta(type_: type[msgspec.Struct]) -> bool:
    """Tell whether `metadata` of the class is the metadata of a Kubernetes object and not a field of that name."""
    declared = next(field.type for field in msgspec.structs.fields(type_) if field.encode_name == "metadata")
    shape = shapes.type_info(declared)
    while isinstance(shape, shapes.Metadata):
        shape = shape.type
    return isinstance(shape, shapes.StructType) and shape.cls is ObjectMeta


def _schema(shape: shapes.Type, inside: tuple[type, ...]) -> JSONObject:
    """Return the schema of a type; `inside` are the classes around it, to end a recursion with a clear error."""
    match shape:
        case shapes.Metadata():
            return _annotated(shape, inside)
        case shapes.StructType():
            return _struct(shape, inside)
        case shapes.UnionType():
            return _union(shape.types, inside)
        case shapes.DictType():
            return _dict(shape, inside)
        case shapes.ListType() | shapes.VarTupleType():
            return {"type": "array", "items": _schema(shape.item_type, inside)}
        case shapes.LiteralType():
            return _choices(shape.values)
        case shapes.EnumType():
            return _choices([member.value for member in shape.cls])
    if type(shape) not in _SCALARS:
        where = f" in {inside[-1].__name__}" if inside else ""
        raise TypeError(f"a structural schema has no word for {shape}{where}")
    return dict(_SCALARS[type(shape)])


def _annotated(shape: shapes.Metadata, inside: tuple[type, ...]) -> JSONObject:
    """Lay what a field says of itself over the schema of its type."""
    schema = _schema(shape.type, inside)
    said: JSONObject = (shape.extra or {}).get("schema", {})
    description = (shape.extra_json_schema or {}).get("description")
    # Rules of the class and rules of the field that holds it are both meant.
    rules = schema.get(VALIDATIONS, []) + said.get(VALIDATIONS, [])
    schema = {**schema, **said}
    if rules:
        schema[VALIDATIONS] = rules
    if schema.get(INT_OR_STRING):
        schema.pop("type", None)
        if "format" not in said:
            schema.pop("format", None)
    if schema.get(EMBEDDED):
        schema["type"] = "object"
    return _described(schema, description)


def _described(schema: JSONObject, description: str | None) -> JSONObject:
    """Put the description first, where a reader of the YAML looks for it."""
    text = description or schema.get("description")
    rest = {key: value for key, value in schema.items() if key != "description"}
    return {"description": text, **rest} if text else rest


def _struct(shape: shapes.StructType, inside: tuple[type, ...]) -> JSONObject:
    cls: Any = shape.cls
    if "schema_override" in vars(cls):
        return dict(cls.schema_override())
    if cls in inside:
        raise TypeError(f"{cls.__name__} contains itself; give it a schema_override, because a schema cannot recur")
    hints = get_type_hints(cls, include_extras=True)
    properties = {
        field.encode_name: _schema(_merged(field.type, hints[field.name]), (*inside, cls)) for field in shape.fields
    }
    for name, type_ in vars(cls).get("unread", {}).items():
        properties[name] = _schema(shapes.type_info(type_), (*inside, cls))
    required = [field.encode_name for field in shape.fields if field.required]
    schema: JSONObject = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    extra = dict(getattr(cls, "schema_extra", {}))
    if VALIDATIONS in extra:
        extra[VALIDATIONS] = [wire_rule(rule) for rule in extra[VALIDATIONS]]
    return _described({**schema, **extra}, extra.get("description") or _docstring(cls))


def _merged(shape: shapes.Type, hint: Any) -> shapes.Type:
    """Put together what several annotations say of one field.

    `Annotated[Quantity, field("What is asked for.")]` has two, if Quantity is itself annotated; msgspec keeps the last.
    """
    said = [meta.extra["schema"] for meta in getattr(hint, "__metadata__", ()) if getattr(meta, "extra", None)]
    if not isinstance(shape, shapes.Metadata) or len(said) < 2:
        return shape
    together = {word: value for part in said for word, value in part.items()}
    return shapes.Metadata(shape.type, shape.extra_json_schema, {"schema": together})


def _docstring(cls: type) -> str:
    return inspect.cleandoc(vars(cls).get("__doc__") or "")


def _union(types: Sequence[shapes.Type], inside: tuple[type, ...]) -> JSONObject:
    present = [shape for shape in types if not isinstance(shape, shapes.NoneType)]
    if len(present) == 1:
        return _schema(present[0], inside)
    if {type(shape) for shape in present} == {shapes.IntType, shapes.StrType}:
        return {INT_OR_STRING: True}
    where = f" in {inside[-1].__name__}" if inside else ""
    raise TypeError(f"a structural schema has one type a field, not {present}{where}")


def _dict(shape: shapes.DictType, inside: tuple[type, ...]) -> JSONObject:
    if isinstance(shape.value_type, shapes.AnyType | shapes.RawType):
        return {"type": "object", PRESERVE_UNKNOWN: True}
    return {"type": "object", "additionalProperties": _schema(shape.value_type, inside)}


def _choices(values: Sequence[Any]) -> JSONObject:
    """Return the schema of a closed set of values, which all have the type of the first."""
    kind = "string" if isinstance(values[0], str) else "integer"
    return {"type": kind, "enum": list(values)}
