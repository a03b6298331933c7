"""Settings of an installation: each is declared once, and defaults, schema, comments and checks follow from that."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from echelon.api.base import JSONObject
from echelon.install.template import Values

TEXT: JSONObject = {"type": "string"}
NAME: JSONObject = {"type": "string", "minLength": 1, "maxLength": 253}
FLAG: JSONObject = {"type": "boolean"}
MAP: JSONObject = {"type": "object"}
TEXTS: JSONObject = {"type": "object", "additionalProperties": {"type": "string"}}
OBJECTS: JSONObject = {"type": "array", "items": {"type": "object"}}
ARGUMENTS: JSONObject = {"type": "array", "items": {"type": "string"}}


class BadSettings(ValueError):
    """Settings that there are not, or with a value that does not fit."""


@dataclass(frozen=True)
class Setting:
    """One setting: where it is, what it is if nobody says otherwise, what it may be and what it means."""

    path: str
    default: Any
    schema: JSONObject
    what: str


def defaults(settings: Iterable[Setting]) -> dict[str, Any]:
    """Return all settings as they are if nobody says otherwise."""
    found: dict[str, Any] = {}
    for each in settings:
        *parents, last = each.path.split(".")
        place = found
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = json.loads(json.dumps(each.default))
    return found


def schema(settings: Iterable[Setting]) -> JSONObject:
    """Return the schema that refuses every setting that there is not; `global` is what parents hand to all charts."""
    root: JSONObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {"global": {"type": "object"}},
    }
    for each in settings:
        *parents, last = each.path.split(".")
        place = root
        for part in parents:
            inner = {"type": "object", "additionalProperties": False, "properties": {}}
            place = place["properties"].setdefault(part, inner)
        place["properties"][last] = {**each.schema, "description": each.what, "default": each.default}
    return root


def written(settings: Sequence[Setting], heading: str) -> str:
    """Return the defaults as a file of values, with what each means above it."""
    lines = [f"# {heading}"]
    open_parts: list[str] = []
    for each in settings:
        *parents, last = each.path.split(".")
        same = _common(open_parts, parents)
        for depth, part in enumerate(parents[same:], same):
            lines += [*([""] if depth == 0 else []), f"{'  ' * depth}{part}:"]
        indent = "  " * len(parents)
        lines += [""] if not parents else []
        lines += [f"{indent}# {line}" for line in each.what.split("\n")]
        text = yaml.safe_dump({last: each.default}, sort_keys=False, default_flow_style=False, width=110)
        lines += [f"{indent}{line}" for line in text.rstrip("\n").split("\n")]
        open_parts = parents
    return "\n".join(lines) + "\n"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def with_defaults(settings: Sequence[Setting], given: Mapping[str, Any]) -> Values:
    """Return all settings, some of them as given; raises `BadSettings` if one does not exist or does not fit."""
    import jsonschema_rs  # noqa: PLC0415 - only who installs needs it

    values = merged(defaults(settings), given)
    errors = jsonschema_rs.Draft7Validator(schema(settings)).iter_errors(values)
    if wrong := [f"{'.'.join(map(str, each.instance_path)) or 'settings'}: {each.message}" for each in errors]:
        raise BadSettings("; ".join(wrong))
    return values


def merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with others on top, as Helm does: maps are merged, lists are not, and null takes an entry away."""
    found = dict(base)
    for key, value in given.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found


def assigned(texts: Iterable[str]) -> dict[str, Any]:
    """Read settings that were given as `path=value`; a value is what YAML says it is."""
    found: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not all(path.split(".")):
            raise BadSettings(f"{text!r} is not PATH=VALUE, for example replicas=3")
        try:
            read: Any = yaml.safe_load(value) if value else ""
        except yaml.YAMLError as error:
            raise BadSettings(f"{text!r}: {value!r} is no YAML") from error
        for part in reversed(path.split(".")):
            read = {part: read}
        found = merged(found, read)
    return found
