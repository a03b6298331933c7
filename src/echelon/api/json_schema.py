"""The words of a schema in a CRD, and what type each of them has.

A schema that a user applies is itself free-form JSON until somebody has looked at it. Reading it into this class first
means that everything behind it can trust `properties` to be an object and `required` to be a list of strings.
"""

from typing import Any

import msgspec

from echelon.api.base import JSONObject


class ValidationRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A CEL rule."""

    rule: str | None = None
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None
    field_path: str | None = None
    optional_old_self: bool | None = None


class SchemaProps(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A schema. None stands for a word that is not said, as null does on the wire."""

    id: str | None = None
    schema: str | None = msgspec.field(default=None, name="$schema")
    ref: str | None = msgspec.field(default=None, name="$ref")
    description: str | None = None
    type: str | None = None
    format: str | None = None
    title: str | None = None
    default: Any = None
    maximum: int | float | None = None
    exclusive_maximum: bool | None = None
    max_length: int | None = None
    minimum: int | float | None = None
    exclusive_minimum: bool | None = None
    min_length: int | None = None
    pattern: str | None = None
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool | None = None
    multiple_of: int | float | None = None
    enum: list[Any] | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    required: list[str] | None = None
    items: "SchemaProps | list[SchemaProps] | None" = None
    all_of: "list[SchemaProps] | None" = None
    one_of: "list[SchemaProps] | None" = None
    any_of: "list[SchemaProps] | None" = None
    not_: "SchemaProps | None" = msgspec.field(default=None, name="not")
    properties: "dict[str, SchemaProps] | None" = None
    additional_properties: "bool | SchemaProps | None" = None
    pattern_properties: "dict[str, SchemaProps] | None" = None
    dependencies: dict[str, Any] | None = None
    additional_items: "bool | SchemaProps | None" = None
    definitions: "dict[str, SchemaProps] | None" = None
    external_docs: dict[str, Any] | None = None
    example: Any = None
    nullable: bool | None = None
    preserve_unknown_fields: bool | None = msgspec.field(default=None, name="x-kubernetes-preserve-unknown-fields")
    embedded_resource: bool | None = msgspec.field(default=None, name="x-kubernetes-embedded-resource")
    int_or_string: bool | None = msgspec.field(default=None, name="x-kubernetes-int-or-string")
    list_map_keys: list[str] | None = msgspec.field(default=None, name="x-kubernetes-list-map-keys")
    list_type: str | None = msgspec.field(default=None, name="x-kubernetes-list-type")
    map_type: str | None = msgspec.field(default=None, name="x-kubernetes-map-type")
    validations: list[ValidationRule] | None = msgspec.field(default=None, name="x-kubernetes-validations")


def read_schema(schema: Any) -> JSONObject:
    """Return a schema with the words that Kubernetes knows, without those that are null.

    Raises `msgspec.ValidationError` where a word has a value of the wrong type.
    """
    read: JSONObject = msgspec.to_builtins(msgspec.convert(schema, SchemaProps))
    return read
