"""What Kubernetes demands of an object's metadata, whatever its kind.

Names end up in URLs, DNS and file names, labels in indexes, finalizers in other people's controllers; all of it is
checked on every write, with the texts that `kubectl` users know. Keys repeat endlessly across a fleet, so what was
found out about a key is remembered.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal

import jsonschema_rs
import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.formats import is_date_time
from echelon.api.labels import label_value_errors, qualified_name_errors, subdomain_errors
from echelon.api.name_patterns import LABEL
from echelon.hub.schema import causes
from echelon.hub.schema.explaining import explain
from echelon.kube.errors import MOST_CAUSES, BadRequest, Cause

NameStyle = Literal["subdomain", "label", "dns1035", "path-segment"]

MAX_ANNOTATION_BYTES = 256 * 1024
MAX_MANAGER_LENGTH = 128
MAX_SUBRESOURCE_LENGTH = 256
FORGET_OWNERS: list[JSONObject] = [{}]  # `managedFields` that ask the server to keep none
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
)
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035}')"
)
_is_label = re.compile(LABEL).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch

_STRING = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_INTEGER = {"type": "integer"}
_BOOLEAN = {"type": "boolean"}
_STRINGS = {"type": "object", "additionalProperties": _STRING}
_SHAPE: JSONObject = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"), _STRING),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INTEGER),
        **dict.fromkeys(("labels", "annotations"), _STRINGS),
        "finalizers": {"type": "array", "items": _STRING},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _STRING),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), _BOOLEAN),
                },
            },
        },
        "managedFields": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **dict.fromkeys(("manager", "operation", "apiVersion", "fieldsType", "subresource"), _STRING),
                    "time": _TIME,
                    "fieldsV1": {"type": "object"},
                },
            },
        },
    },
}
_has_shape = jsonschema_rs.Draft7Validator(_SHAPE, formats={"date-time": is_date_time}, validate_formats=True).is_valid


_WIRE_KINDS = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
_GO_TYPES = {
    "string": "string",
    "integer": "int64",
    "boolean": "bool",
    "array": "[]string",
    "object": "map[string]string",
}


def check_shape(obj: JSONObject) -> None:
    """Refuse metadata that does not even decode; everything else here relies on its types."""
    metadata = obj.get("metadata")
    if metadata is None or _has_shape(metadata):
        return
    kind, version = obj.get("kind"), str(obj.get("apiVersion")).rpartition("/")[2]
    raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {_misfit(_SHAPE, metadata, "")}')


def _misfit(schema: JSONObject, value: JSON, path: str) -> str:
    """Describe the first value that has the wrong type."""
    if isinstance(value, dict) and schema["type"] == "object":
        for name, each in value.items():
            part = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            at = path if "additionalProperties" in schema else f"{path}.{name}"
            if part and (found := _misfit(part, each, at)):
                return found
        return ""
    if isinstance(value, list) and schema["type"] == "array":
        return next((found for each in value if (found := _misfit(schema["items"], each, path))), "")
    if isinstance(value, str) and schema.get("format") == "date-time":
        text = causes.quoted(value)
        return "" if is_date_time(value) else f'parsing time {text} as "2006-01-02T15:04:05Z07:00": cannot parse it'
    if jsonschema_rs.is_valid({"type": schema["type"]}, value):
        return ""
    wire = _WIRE_KINDS.get(type(value), "null")
    return f"json: cannot unmarshal {wire} into Go struct field ObjectMeta{path} of type {_GO_TYPES[schema['type']]}"


def name_errors(name: str, style: NameStyle = "subdomain", *, prefix: bool = False) -> list[str]:
    """Say what is wrong with a name, or with the beginning of one that the server completes."""
    if style == "path-segment":
        if name in {".", ".."} and not prefix:
            return [f"may not be '{name}'"]
        return [f"may not contain '{char}'" for char in "/%" if char in name]
    if prefix and len(name) > 1 and name.endswith("-"):
        name = name[:-2] + "a"
    if style == "subdomain":
        # Of an object's name Kubernetes counts "characters", of a label's prefix "bytes"; both mean bytes.
        return [error.replace("bytes", "characters") for error in subdomain_errors(name)]
    errors = ["must be no more than 63 characters"] if len(name.encode()) > 63 else []
    if style == "dns1035":
        return errors if _is_label_1035(name) else [*errors, _LABEL_1035_RULE]
    if not _is_label(name):
        dotted = all(_is_label(part) for part in name.split("."))
        errors.append("must not contain dots" if dotted else _LABEL_RULE)
    return errors


def validate_metadata(
    obj: JSONObject,
    *,
    namespaced: bool,
    style: NameStyle = "subdomain",
    path: str = "metadata",
) -> list[Cause]:
    """Check the metadata of a new object whose name has been generated."""
    metadata: JSON = obj.get("metadata")
    if metadata is None:
        metadata = {}
    if found := _shape_errors(metadata, path):
        return found
    prefix = metadata.get("generateName") or ""
    found += [causes.invalid(f"{path}.generateName", prefix, why) for why in _prefix_errors(prefix, style)]
    name = metadata.get("name") or ""
    if not name:
        found.append(causes.required(f"{path}.name", "name or generateName is required"))
    else:
        found += [causes.invalid(f"{path}.name", name, why) for why in name_errors(name, style)]
    found += _namespace_errors(metadata.get("namespace") or "", namespaced, path)
    if (metadata.get("generation") or 0) < 0:
        found.append(causes.invalid(f"{path}.generation", metadata["generation"], "must be greater than or equal to 0"))
    found += _common_errors(metadata, path)
    found += _first(_finalizer_errors(metadata.get("finalizers") or [], f"{path}.finalizers"))
    return found


def validate_metadata_update(new: JSONObject, old: JSONObject) -> list[Cause]:
    """Check the metadata of an object against what it was."""
    metadata: JSON = new.get("metadata") or {}
    before: JSONObject = old.get("metadata") or {}
    # What is still the very same value was checked when it came; managed fields alone are half of the metadata.
    touched = {name: value for name, value in metadata.items() if value is not before.get(name)}
    found = _shape_errors(touched, "metadata")
    if found:
        return found
    finalizers: list[str] = metadata.get("finalizers") or []
    if before.get("deletionTimestamp"):
        extra = sorted(set(finalizers) - set(before.get("finalizers") or []))
        if extra:
            listed = ", ".join(causes.quoted(each) for each in extra)
            why = "no new finalizers can be added if the object is being deleted, found new finalizers "
            found.append(causes.forbidden("metadata.finalizers", f"{why}[]string{{{listed}}}"))
    if (metadata.get("generation") or 0) < (before.get("generation") or 0):
        found.append(causes.invalid("metadata.generation", metadata.get("generation") or 0, "must not be decremented"))
    for name in ("name", "namespace", "uid"):
        if (metadata.get(name) or "") != (before.get(name) or ""):
            found.append(causes.invalid(f"metadata.{name}", metadata.get(name) or "", "field is immutable"))
    for name in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(name) != before.get(name):
            found.append(causes.invalid(f"metadata.{name}", metadata.get(name), "field is immutable"))
    found += _common_errors(touched, "metadata")
    if finalizers != (before.get("finalizers") or []):
        found += _first(_finalizer_errors(finalizers, "metadata.finalizers"))
    return found


def embedded_errors(path: str, value: JSON) -> Iterator[Cause]:
    """Check an object inside an object: it needs a type, and its metadata must be in order."""
    if not isinstance(value, dict):
        return
    for name in ("apiVersion", "kind"):
        at = f"{path}.{name}" if path else name
        text = value.get(name)
        if name not in value:
            yield causes.required(at)
        elif not isinstance(text, str):
            yield causes.invalid(at, text, "must be a string")
        elif not text:
            yield causes.invalid(at, text, "must not be empty")
        elif name == "apiVersion" and text.count("/") > 1:
            yield causes.invalid(at, text, f"unexpected GroupVersion string: {text}")
        elif name == "kind" and (errors := name_errors(text.lower(), "dns1035")):
            yield causes.invalid(at, text, f"may have mixed case, but should otherwise match: {','.join(errors)}")
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        named = {**metadata, "name": metadata.get("name") or "fakename"}
        at = f"{path}.metadata" if path else "metadata"
        namespaced = bool(metadata.get("namespace"))
        yield from validate_metadata({"metadata": named}, namespaced=namespaced, style="path-segment", path=at)
    elif "metadata" in value:
        yield from _shape_errors(metadata, f"{path}.metadata" if path else "metadata")


def _shape_errors(metadata: JSON, path: str) -> list[Cause]:
    return [] if _has_shape(metadata) else explain(_SHAPE, metadata, path=path)


def _prefix_errors(prefix: str, style: NameStyle) -> list[str]:
    return name_errors(prefix, style, prefix=True) if prefix else []


def _namespace_errors(namespace: str, namespaced: bool, path: str) -> Iterator[Cause]:
    if not namespaced:
        if namespace:
            yield causes.forbidden(f"{path}.namespace", "not allowed on this type")
    elif not namespace:
        yield causes.required(f"{path}.namespace")
    else:
        for why in name_errors(namespace, "label"):
            yield causes.invalid(f"{path}.namespace", namespace, why)


@lru_cache(maxsize=65536)
def _key_errors(key: str) -> tuple[str, ...]:
    return tuple(qualified_name_errors(key))


@lru_cache(maxsize=65536)
def _value_errors(value: str) -> tuple[str, ...]:
    return tuple(label_value_errors(value))


def _common_errors(metadata: JSONObject, path: str) -> list[Cause]:
    return _first(
        _label_errors(metadata.get("labels") or {}, f"{path}.labels"),
        _annotation_errors(metadata.get("annotations") or {}, f"{path}.annotations"),
        _owner_errors(metadata.get("ownerReferences") or [], f"{path}.ownerReferences"),
        _managed_errors(metadata.get("managedFields") or [], f"{path}.managedFields"),
    )


def _first(*parts: Iterator[Cause]) -> list[Cause]:
    """Return as many findings as are told, and one more; looking for the others would only cost."""
    return list(islice(chain.from_iterable(parts), MOST_CAUSES + 1))


def _label_errors(labels: dict[str, str], path: str) -> Iterator[Cause]:
    for key, value in labels.items():
        for why in _key_errors(key):
            yield causes.invalid(path, key, why)
        for why in _value_errors(value):
            yield causes.invalid(path, value, why)


def _managed_errors(managed: list[JSONObject], path: str) -> Iterator[Cause]:
    for index, entry in enumerate(managed if managed != FORGET_OWNERS else ()):
        yield from _manager_errors(entry, f"{path}[{index}]")


def _annotation_errors(annotations: dict[str, str], path: str) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        for why in _key_errors(key.lower()):
            yield causes.invalid(path, key, why)
        size += len(key) + len(value)
    # Characters are a lower bound of bytes: only large sets are worth an exact count.
    if size * 4 > MAX_ANNOTATION_BYTES:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > MAX_ANNOTATION_BYTES:
            yield causes.too_long(path, MAX_ANNOTATION_BYTES)


def _owner_errors(owners: list[JSONObject], path: str) -> Iterator[Cause]:
    controller = ""
    for owner in owners:
        version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
        if not version.rpartition("/")[2] or version.count("/") > 1:
            yield causes.invalid(f"{path}.apiVersion", version, "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                yield causes.invalid(f"{path}.{name}", "", "must not be empty")
        if (version, kind) == ("v1", "Event"):
            yield Cause(path, f"Invalid value: {_owner(owner)}: /v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            named = f"{kind}/{owner.get('name') or ''}"
            if controller:
                why = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                yield Cause(path, f"Invalid value: [{','.join(map(_owner, owners))}]: {why}")
                return  # all owners are listed with each further one
            controller = named


def _owner(owner: JSONObject) -> str:
    ordered = {name: owner.get(name) or "" for name in ("apiVersion", "kind", "name", "uid")}
    flags = {name: owner[name] for name in ("controller", "blockOwnerDeletion") if owner.get(name) is not None}
    return msgspec.json.encode({**ordered, **flags}).decode()


def _finalizer_errors(finalizers: list[str], path: str) -> Iterator[Cause]:
    for finalizer in finalizers:
        for why in _key_errors(finalizer):
            yield causes.invalid(path, finalizer, why)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        yield causes.invalid(path, finalizers, why)


def finalizer_style_errors(obj: JSONObject) -> Iterator[Cause]:
    """Find finalizers without a domain, which only Kubernetes itself may use; custom resources are free to."""
    for index, name in enumerate(obj["metadata"].get("finalizers") or ()):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            yield causes.invalid(f"metadata.finalizers[{index}]", name, why)


def _manager_errors(entry: dict[str, Any], path: str) -> Iterator[Cause]:
    operation, kind, manager = (str(entry.get(name) or "") for name in ("operation", "fieldsType", "manager"))
    if operation not in {"Apply", "Update"}:
        yield causes.invalid(f"{path}.operation", operation, "must be `Apply` or `Update`")
    if kind and kind != "FieldsV1":
        yield causes.invalid(f"{path}.fieldsType", kind, "must be `FieldsV1`")
    yield from manager_errors(manager, f"{path}.manager")
    if len(entry.get("subresource") or "") > MAX_SUBRESOURCE_LENGTH:
        yield causes.too_long(f"{path}.subresource", MAX_SUBRESOURCE_LENGTH)


def manager_errors(manager: str, path: str = "fieldManager") -> Iterator[Cause]:
    """Check the name of a field manager."""
    if len(manager.encode()) > MAX_MANAGER_LENGTH:
        yield causes.too_long(path, MAX_MANAGER_LENGTH)
    position = 0
    for char in manager:
        if not char.isprintable():
            yield causes.invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {position})")
        position += len(char.encode())
