"""What every API object is made of.

Objects are frozen msgspec Structs. They exist for reading: unknown fields are dropped when an object is decoded, so
a decoded object is never written back whole (see the client protocol). `gc=False` is safe because API objects are
trees, and it matters: the garbage collector, not the parser, is what a large cache costs.

The same classes carry everything that a CRD schema says. What JSON Schema has a word for (lengths, bounds, patterns,
descriptions) is a `msgspec.Meta`; what only Kubernetes has a word for (defaults, list-map keys, CEL rules) rides
along in `Meta.extra`, under the key `"schema"`, and is copied into the structural schema as it is.
"""

from typing import Any, TypeAlias

import msgspec

# Free-form JSON, kept as it is: embedded manifests, pod templates of foreign kinds, raw status.
JSON: TypeAlias = Any  # the one place where an object's shape is the user's business
JSONObject: TypeAlias = dict[str, Any]

# Integer or percentage, as `maxUnavailable` has it.
IntOrString: TypeAlias = int | str


class APIStruct(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel", omit_defaults=True):
    """A part of an API object. Subclasses repeat `frozen=True, gc=False, kw_only=True`: msgspec inherits the rest.

    A field with a default is optional on the wire and left out when it has that default. A field without one is
    required by the schema. Set the class variable `schema_extra` for rules about the object as a whole, and `unread`
    for fields (name on the wire, type) that belong to the schema and are not kept when an object is read.
    """


class Rule(msgspec.Struct, frozen=True):
    """A CEL validation rule, `x-kubernetes-validations` on the wire."""

    rule: str
    message: str
    field_path: str = ""
    reason: str = ""


def field(
    description: str,
    *,
    default: JSON = msgspec.UNSET,
    pattern: str | None = None,
    enum: tuple[str, ...] = (),
    minimum: int | None = None,
    maximum: int | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    min_items: int | None = None,
    max_items: int | None = None,
    max_properties: int | None = None,
    format: str = "",  # noqa: A002 - JSON Schema's own word
    list_map_keys: tuple[str, ...] = (),
    list_set: bool = False,
    atomic: bool = False,
    map_atomic: bool = False,
    patch_merge_key: str = "",
    patch_strategy: str = "",
    preserve_unknown: bool = False,
    embedded: bool = False,
    nullable: bool = False,
    int_or_string: bool = False,
    rules: tuple[Rule, ...] = (),
) -> msgspec.Meta:
    """Describe a field: `name: Annotated[str, field("What it is called.", max_length=63)]`.

    These constraints end in the CRD schema. They are not msgspec constraints on purpose: what an API server has
    stored must stay readable, even if it was stored under an older and looser schema.
    """
    schema: JSONObject = {
        "default": default,
        "pattern": pattern,
        "enum": list(enum) or None,
        "minimum": minimum,
        "maximum": maximum,
        "minLength": min_length,
        "maxLength": max_length,
        "minItems": min_items,
        "maxItems": max_items,
        "maxProperties": max_properties,
        "format": format or None,
        "nullable": nullable or None,
        "x-kubernetes-list-type": "map" if list_map_keys else "set" if list_set else "atomic" if atomic else None,
        "x-kubernetes-list-map-keys": list(list_map_keys) or None,
        "x-kubernetes-map-type": "atomic" if map_atomic else None,
        "x-kubernetes-patch-merge-key": patch_merge_key or None,
        "x-kubernetes-patch-strategy": patch_strategy or ("merge" if patch_merge_key else None),
        "x-kubernetes-preserve-unknown-fields": preserve_unknown or None,
        "x-kubernetes-embedded-resource": embedded or None,
        "x-kubernetes-int-or-string": int_or_string or None,
        "x-kubernetes-validations": [wire_rule(rule) for rule in rules] or None,
    }
    said = {key: value for key, value in schema.items() if value is not None and value is not msgspec.UNSET}
    return msgspec.Meta(description=description, extra={"schema": said})


def wire_rule(rule: Rule) -> JSONObject:
    """Return a rule as CRDs have it."""
    wire = {"rule": rule.rule, "message": rule.message, "fieldPath": rule.field_path, "reason": rule.reason}
    return {key: value for key, value in wire.items() if value}
