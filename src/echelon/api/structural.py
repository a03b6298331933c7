"""Which schemas a Kubernetes API server takes in a CRD.

Pruning, defaulting and server-side apply need to know the type of every field by looking at one place, so Kubernetes
accepts only *structural* schemas. It says so when a CRD is applied, which is too late for a CRD that ships with a
product, and exactly the right time for one that a user applies to the embedded hub. The texts are those of Kubernetes.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.json_schema import read_schema

TYPES = ("array", "boolean", "integer", "number", "object", "string")
JUNCTIONS = ("allOf", "anyOf", "oneOf")
META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
RULE_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
# What must not be said inside of allOf, anyOf, oneOf and not, and what it must be instead.
_FORBIDDEN_INSIDE = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    "externalDocs": "undefined",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}


def check_structural(schema: JSONObject, path: str = "spec.validation.openAPIV3Schema") -> list[str]:
    """Return why an API server would reject a schema in a CRD, in its words; nothing if it would not.

    Not checked: CEL rules are not compiled and their cost is not estimated.
    """
    try:
        schema = read_schema(schema)
    except msgspec.ValidationError as error:
        return [f"{path}: Invalid value: {error}"]
    found = sorted({*_node(schema, path, "at the root"), *_missing(schema, schema, path, path)})
    # A default can be judged only by a schema that makes sense.
    return found or sorted(set(_defaults(schema, path, root=True)))


def _node(schema: JSONObject, path: str, level: str, *, meta: str = "") -> Iterator[str]:
    """Check one place of the schema and everything below it.

    `meta` is not empty inside an object's own apiVersion, kind and metadata: what Kubernetes says about defaults there.
    """
    root = level == "at the root"
    yield from _anywhere(schema, path, meta=meta)
    yield from _typed(schema, path, level)
    yield from _resource(schema, path, root=root)
    yield from _junctions(schema, path, top=True, meta=meta)
    for name, part in schema.get("properties", {}).items():
        where, inner = f"{path}.properties[{name}]", meta
        if name in META_FIELDS and (root or schema.get("x-kubernetes-embedded-resource")):
            inner = f"in top-level {name}" if root else meta or "embedded"
        yield from _node(part, where, "for specified object fields", meta=inner)
    if isinstance(items := schema.get("items"), dict):
        yield from _node(items, f"{path}.items", "for specified array items", meta=meta)
    if isinstance(values := schema.get("additionalProperties"), dict):
        inner = "inside additionalProperties applying to object metadata" if meta else ""
        yield from _node(values, f"{path}.additionalProperties", "for specified object fields", meta=inner)


def _anywhere(schema: JSONObject, path: str, *, meta: str) -> Iterator[str]:
    """Check what holds for every schema, also for one inside of a junction."""
    yield from _words(schema, path)
    yield from _extensions(schema, path)
    yield from _list(schema, path)
    yield from _rules(schema, path)
    if meta and schema.get("x-kubernetes-embedded-resource"):
        yield f"{path}.x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta"
    if meta and meta != "embedded" and schema.get("default") is not None:
        yield f"{path}.default: Forbidden: must not be set {meta}"


def _words(schema: JSONObject, path: str) -> Iterator[str]:
    kind = schema.get("type", "")
    if kind == "null":
        yield f"{path}.type: Forbidden: type cannot be set to null, use nullable as an alternative"
    if kind and kind not in TYPES:
        yield f"{path}.type: Unsupported value: {json.dumps(kind)}: supported values: {_quoted(TYPES)}"
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield f"{path}.{word}: Forbidden: {word} is not supported"
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield f"{path}.uniqueItems: Forbidden: {why}"
    if isinstance(schema.get("items"), list):
        yield f"{path}.items: Forbidden: items must be a schema object and not an array"
    if schema.get("properties") and schema.get("additionalProperties", True) is not True:
        why = "additionalProperties and properties are mutual exclusive"
        yield f"{path}.additionalProperties: Forbidden: {why}"
    if pattern := schema.get("pattern"):
        try:
            # The same family of expressions as Go's: no look-around, no back-references.
            jsonschema_rs.Draft4Validator({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
        except (ValueError, jsonschema_rs.ValidationError):
            why = "must be a valid regular expression, but isn't"
            yield f"{path}.pattern: Invalid value: {json.dumps(pattern)}: {why}"


def _typed(schema: JSONObject, path: str, level: str) -> Iterator[str]:
    kind = schema.get("type", "")
    if kind == "array" and "items" not in schema:
        yield f"{path}.items: Required value: must be specified"
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _must_be("object", schema, path, "x-kubernetes-embedded-resource is true")
    elif not kind and not _free(schema):
        yield f"{path}.type: Required value: must not be empty {level}"
    if schema.get("x-kubernetes-int-or-string"):
        for word in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(word):
                yield f"{path}.{word}: Invalid value: true: must be false if x-kubernetes-int-or-string is true"


def _free(schema: JSONObject) -> bool:
    """Tell whether a schema may do without a type."""
    return bool(schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"))


def _must_be(kind: str, schema: JSONObject, path: str, condition: str) -> Iterator[str]:
    actual = schema.get("type", "")
    if actual != kind:
        prefix = f"Invalid value: {json.dumps(actual)}" if actual else "Required value"
        yield f"{path}.type: {prefix}: must be {kind} if {condition}"


def _resource(schema: JSONObject, path: str, *, root: bool) -> Iterator[str]:
    """Check what holds for whole objects, at the root and where one is embedded in another."""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    properties = schema.get("properties", {})
    kind = schema.get("type", "")
    if root and kind and kind != "object":
        yield f"{path}.type: Invalid value: {json.dumps(kind)}: must be object at the root"
    if root and schema.get("nullable"):
        yield f"{path}.nullable: Forbidden: nullable cannot be true at the root"
    if root and "additionalProperties" in schema:
        yield f"{path}.additionalProperties: Forbidden: must not be used at the root"
    if embedded and "additionalProperties" in schema:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        yield f"{path}.additionalProperties: Forbidden: {why}"
    if embedded and not properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield f"{path}.properties: Required value: {why}"
    if root or embedded:
        for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
            actual = properties.get(name, {}).get("type", "")
            if name in properties and actual != wanted:
                yield f"{path}.properties[{name}].type: Invalid value: {json.dumps(actual)}: must be {wanted}"
    if root and not _only_restricts_names(properties.get("metadata", {})):
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield f"{path}.properties[metadata]: Forbidden: {why}"


def _only_restricts_names(metadata: JSONObject) -> bool:
    said = metadata.keys() - {"type", "default"}
    return not said or (said == {"properties"} and metadata["properties"].keys() <= {"name", "generateName"})


def _extensions(schema: JSONObject, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield f"{path}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"
    if map_type := schema.get("x-kubernetes-map-type"):
        yield from _must_be("object", schema, path, "x-kubernetes-map-type is specified")
        if map_type not in ("atomic", "granular"):
            why = f"supported values: {_quoted(('atomic', 'granular'))}"
            yield f"{path}.x-kubernetes-map-type: Unsupported value: {json.dumps(map_type)}: {why}"


def _list(schema: JSONObject, path: str) -> Iterator[str]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", [])
    items = schema["items"] if isinstance(schema.get("items"), dict) else {}
    where = f"{path}.x-kubernetes-list-type"
    if keys and list_type != "map":
        prefix = f"Invalid value: {json.dumps(list_type)}" if list_type else "Required value"
        yield f"{where}: {prefix}: must be map if x-kubernetes-list-map-keys is non-empty"
    if not list_type:
        return
    yield from _must_be("array", schema, path, "x-kubernetes-list-type is specified")
    if list_type not in ("atomic", "set", "map"):
        supported = _quoted(("atomic", "set", "map"))
        yield f"{where}: Unsupported value: {json.dumps(list_type)}: supported values: {supported}"
    if list_type in ("set", "map") and items.get("nullable"):
        yield f"{path}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is {list_type}"
    if list_type == "set":
        why = "must be atomic as item of a list with x-kubernetes-list-type=set"
        if items.get("type") == "array" and items.get("x-kubernetes-list-type", "atomic") != "atomic":
            yield f"{path}.items.x-kubernetes-list-type: Invalid value: {json.dumps(list_type)}: {why}"
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            actual = json.dumps(items.get("x-kubernetes-map-type"))
            yield f"{path}.items.x-kubernetes-map-type: Invalid value: {actual}: {why}"
    if list_type == "map":
        yield from _list_map(keys, items, path)


def _list_map(keys: Sequence[str], items: JSONObject, path: str) -> Iterator[str]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield f"{where}: Required value: must not be empty if x-kubernetes-list-type is map"
    if not items:
        yield f"{path}.items: Required value: must have a schema if x-kubernetes-list-type is map"
        return
    if (kind := items.get("type", "")) != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield f"{path}.items.type: Invalid value: {json.dumps(kind)}: {why}"
        return
    if len(set(keys)) < len(keys):
        yield f"{where}: Invalid value: {json.dumps(keys)}: must not contain duplicate entries"
    for key in keys:
        part = items.get("properties", {}).get(key)
        if part is None:
            yield f"{where}: Invalid value: {json.dumps(keys)}: entries must all be names of item properties"
            continue
        at = f"{path}.items.properties[{key}]"
        if part.get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield f"{at}.type: Invalid value: {json.dumps(part['type'])}: {why}"
        why = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in items.get("required", []) and part.get("default") is None:
            yield f"{at}.default: Required value: {why} must have a default or be a required property"
        if part.get("nullable"):
            yield f"{at}.nullable: Forbidden: {why} cannot be nullable"


def _rules(schema: JSONObject, path: str) -> Iterator[str]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", [])):
        at = f"{path}.x-kubernetes-validations[{index}]"
        text, message, reason = rule.get("rule", "").strip(), rule.get("message", ""), rule.get("reason")
        if not text:
            yield f"{at}.rule: Required value: rule is not specified"
        elif message and not message.strip():
            yield f"{at}.message: Invalid value: {json.dumps(message)}: must be non-empty if specified"
        elif _broken(message.strip()):
            yield f"{at}.message: Invalid value: {json.dumps(message)}: must not contain line breaks"
        elif _broken(text) and not message:
            yield f"{at}.message: Required value: message must be specified if rule contains line breaks"
        if reason is not None and reason not in RULE_REASONS:
            yield f"{at}.reason: Unsupported value: {json.dumps(reason)}: supported values: {_quoted(RULE_REASONS)}"


def _broken(text: str) -> bool:
    return "\n" in text or "\r" in text


def _junctions(part: JSONObject, path: str, *, top: bool, meta: str, skip_any_of: bool = False) -> Iterator[str]:
    """Check the parts under allOf, anyOf, oneOf and not: they may narrow values down, never say what a field is."""
    first_all_of: JSONObject = next(iter(part.get("allOf", [])), {})
    exempt = top and first_all_of.get("anyOf") == _INT_OR_STRING
    for word in JUNCTIONS:
        if word == "anyOf" and (skip_any_of or (top and part.get(word) == _INT_OR_STRING)):
            continue
        for index, inner in enumerate(part.get(word, [])):
            skip = exempt and word == "allOf" and index == 0
            yield from _inside(inner, f"{path}.{word}[{index}]", meta=meta, skip_any_of=skip)
    if "not" in part:
        yield from _inside(part["not"], f"{path}.not", meta=meta)


def _inside(part: JSONObject, path: str, *, meta: str, skip_any_of: bool = False) -> Iterator[str]:
    yield from _anywhere(part, path, meta=meta)
    for word, instead in _FORBIDDEN_INSIDE.items():
        if part.get(word) or (part.get(word) is not None and instead == "undefined"):
            yield f"{path}.{word}: Forbidden: must be {instead} to be structural"
    yield from _junctions(part, path, top=False, meta=meta, skip_any_of=skip_any_of)
    properties = part.get("properties", {})
    if "metadata" in properties:
        yield f"{path}.properties[metadata]: Forbidden: must not be specified in a nested context"
    for name, inner in properties.items():
        yield from _inside(inner, f"{path}.properties[{name}]", meta=meta)
    if isinstance(items := part.get("items"), dict):
        yield from _inside(items, f"{path}.items", meta=meta)


def _missing(part: JSONObject, schema: JSONObject | None, schema_path: str, path: str) -> Iterator[str]:
    """Name what a junction at the root talks about although nobody said what it is."""
    for word in JUNCTIONS:
        for index, inner in enumerate(part.get(word, [])):
            yield from _missing_inside(inner, schema, schema_path, f"{path}.{word}[{index}]")
    if "not" in part:
        yield from _missing_inside(part["not"], schema, schema_path, f"{path}.not")


def _missing_inside(part: JSONObject, schema: JSONObject | None, schema_path: str, path: str) -> Iterator[str]:
    if schema is None:
        yield f"{schema_path}: Required value: because it is defined in {path}"
        return
    yield from _missing(part, schema, schema_path, path)
    if isinstance(items := part.get("items"), dict):
        yield from _missing_inside(items, schema.get("items"), f"{schema_path}.items", f"{path}.items")
    for name, inner in part.get("properties", {}).items():
        at = f"properties[{name}]"
        yield from _missing_inside(inner, schema.get("properties", {}).get(name), f"{schema_path}.{at}", f"{path}.{at}")


def _defaults(schema: JSONObject, path: str, *, root: bool = False) -> Iterator[str]:
    """Check that defaults have no unknown fields and obey the schema that they are in."""
    default = schema.get("default")
    if default is not None:
        shown = f"{path}.default: Invalid value: {json.dumps(default)}"
        if _has_unknown(default, schema):
            yield f"{shown}: must not have unknown fields"
        else:
            for error in jsonschema_rs.Draft4Validator(_plain(schema)).iter_errors(default):
                yield f"{shown}: {error.message}"
    if isinstance(default, dict) and (root or schema.get("x-kubernetes-embedded-resource")):
        for name in ("apiVersion", "kind"):
            if not default.get(name):
                yield f"{path}.default.{name}: Required value"
    for name, part in schema.get("properties", {}).items():
        yield from _defaults(part, f"{path}.properties[{name}]")
    if isinstance(items := schema.get("items"), dict):
        yield from _defaults(items, f"{path}.items")


def _has_unknown(value: JSON, schema: JSONObject) -> bool:
    if isinstance(value, list):
        return any(_has_unknown(item, schema.get("items", {})) for item in value)
    if not isinstance(value, dict):
        return False
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    known = META_FIELDS if schema.get("x-kubernetes-embedded-resource") else frozenset[str]()
    for name, inner in value.items():
        part: JSON = properties.get(name, others)
        if isinstance(part, dict):
            if _has_unknown(inner, part):
                return True
        elif not part and name not in known and not schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
    return False


def _plain(schema: JSONObject) -> JSONObject:
    """Return the same schema in words that a JSON Schema validator knows."""
    plain: JSONObject = {word: value for word, value in schema.items() if word not in ("properties", "nullable")}
    if "properties" in schema:
        plain["properties"] = {name: _plain(part) for name, part in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            plain[word] = _plain(schema[word])
    if schema.get("x-kubernetes-int-or-string") and "type" not in schema:
        plain["type"] = ["integer", "string"]
    return {"anyOf": [{"type": "null"}, plain]} if schema.get("nullable") else plain


def _quoted(values: Sequence[Any]) -> str:
    return ", ".join(json.dumps(value) for value in values)
