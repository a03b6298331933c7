"""Whether an object obeys its schema, and if not, why, in Kubernetes' words.

Nearly every object is valid, so the question is asked of a compiled validator first, and only an object that failed is
walked a second time, slowly, by rules that follow the API server's own: which check comes before which, what it calls
a field, and which branch of an `anyOf` it complains about. The walk has the last word.

An update may keep what was wrong before: a finding inside a part that did not change is dropped (ratcheting).
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias

import jsonschema_rs

from echelon.api.base import JSON, JSONObject
from echelon.api.formats import CHECKED
from echelon.hub.schema import causes
from echelon.hub.schema.explaining import MISSING, explain
from echelon.hub.schema.metadata import embedded_errors
from echelon.hub.schema.patterns import PatternError, translated
from echelon.kube.errors import MOST_CAUSES, Cause

_BOUNDS = {
    "int32": {"minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"minimum": -(2**63), "maximum": 2**63 - 1},
    "float": {"minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
}
_COPIED = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "uniqueItems",
    "multipleOf",
)

_Uniqueness: TypeAlias = Callable[[JSON, str, list[Cause]], None]


class SchemaError(ValueError):
    """A schema that cannot be compiled; `path` is the node, `detail` what is wrong with it."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}" if path else detail)
        self.path = path
        self.detail = detail


class Validator:
    """A schema, compiled when it is first needed."""

    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._lists = _unique_node(schema)
        self._embedded = tuple(_embedded_paths(schema))

    @cached_property
    def _fast(self) -> jsonschema_rs.Draft7Validator:
        formats = {f"echelon-{name}": check for name, check in CHECKED.items()}
        plain = plain_schema(self._schema)
        try:
            return jsonschema_rs.Draft7Validator(plain, formats=formats, pattern_options=jsonschema_rs.RegexOptions())
        except (ValueError, OverflowError) as error:
            raise SchemaError("", str(error).partition("\n")[0]) from None

    def check_schema(self) -> None:
        """Compile now; raise SchemaError if that cannot be done."""
        _ = self._fast

    def validate(self, obj: JSON, old: JSON = None) -> list[Cause]:
        """Return what is wrong with an object, as an update of `old` if there is one."""
        found: list[Cause] = []
        if not self._fast.is_valid(obj):
            found += explain(self._schema, obj, MISSING if old is None else old)
        for steps in self._embedded:
            for path, each in _reached(obj, steps, ""):
                found += embedded_errors(path, each)
        if self._lists is not None:
            found += self._list_errors(obj, old)
        return found

    def _list_errors(self, obj: JSON, old: JSON) -> list[Cause]:
        found: list[Cause] = []
        if self._lists is not None:
            self._lists(obj, "", found)
            if found and old is not None:
                before: list[Cause] = []
                self._lists(old, "", before)
                if before:
                    return []
        return found


def plain_schema(schema: JSONObject, path: str = "") -> JSONObject:
    """Put a structural schema into plain JSON Schema."""
    plain: dict[str, Any] = {key: schema[key] for key in _COPIED if schema.get(key) is not None}
    if schema.get("x-kubernetes-int-or-string"):
        plain["type"] = ["integer", "string"]
    elif schema.get("type"):
        plain["type"] = [schema["type"]]
    if "type" in plain and schema.get("nullable"):
        plain["type"].append("null")
    if schema.get("enum"):
        plain["enum"] = schema["enum"]
    if schema.get("required"):
        plain["required"] = schema["required"]
    for bound in ("minimum", "maximum"):
        if schema.get(bound) is not None:
            exclusive = f"exclusive{bound.capitalize()}"
            plain[exclusive if schema.get(exclusive) else bound] = schema[bound]
    if schema.get("pattern"):
        try:
            plain["pattern"] = translated(schema["pattern"])
            jsonschema_rs.Draft7Validator({"pattern": plain["pattern"]}, pattern_options=jsonschema_rs.RegexOptions())
        except (PatternError, ValueError) as error:
            why = str(error) if isinstance(error, PatternError) else "it does not compile"
            raise SchemaError(f"{path}.pattern".lstrip("."), f"must be a valid regular expression: {why}") from None
    _add_format(schema, plain)
    _add_parts(schema, plain, path)
    return plain


def _add_format(schema: JSONObject, plain: dict[str, Any]) -> None:
    kind, form = schema.get("type"), schema.get("format") or ""
    if kind in {None, "", "string"} and (name := form.replace("-", "")) in CHECKED:
        plain["format"] = f"echelon-{name}"
    if kind == "integer" or schema.get("x-kubernetes-int-or-string"):
        plain.setdefault("allOf", []).append(_BOUNDS["int32" if form == "int32" else "int64"])
    if kind == "number" and form == "float":
        plain.setdefault("allOf", []).append(_BOUNDS["float"])


def _add_parts(schema: JSONObject, plain: dict[str, Any], path: str) -> None:
    if schema.get("properties"):
        plain["properties"] = {
            name: plain_schema(part, f"{path}.properties[{name}]") for name, part in schema["properties"].items()
        }
    if isinstance(schema.get("items"), dict):
        plain["items"] = plain_schema(schema["items"], f"{path}.items")
    if isinstance(schema.get("additionalProperties"), dict):
        plain["additionalProperties"] = plain_schema(schema["additionalProperties"], f"{path}.additionalProperties")
    elif schema.get("additionalProperties") is False:
        plain["additionalProperties"] = False
    for word in ("allOf", "anyOf", "oneOf"):
        if schema.get(word):
            parts = [plain_schema(part, f"{path}.{word}[{index}]") for index, part in enumerate(schema[word])]
            plain[word] = plain.get(word, []) + parts
    if schema.get("not"):
        plain["not"] = plain_schema(schema["not"], f"{path}.not")


def _unique_node(schema: JSONObject | None) -> _Uniqueness | None:
    """Compile the checks of sets and list-maps below a node; None where there are none."""
    if not isinstance(schema, dict):
        return None
    parts = schema.get("properties") or {}
    below = {name: deeper for name, part in parts.items() if (deeper := _unique_node(part)) is not None}
    others = _unique_node(schema.get("additionalProperties"))
    items = _unique_node(schema.get("items"))
    kind = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    if not below and others is None and items is None and kind not in {"set", "map"}:
        return None

    def check(value: JSON, path: str, found: list[Cause]) -> None:
        if value.__class__ is dict:
            for name, deeper in below.items():
                if name in value:
                    deeper(value[name], f"{path}.{name}" if path else name, found)
            if others is not None:
                for name, each in value.items():
                    if name not in parts:
                        others(each, f"{path}[{causes.step(name)}]", found)
        elif value.__class__ is list:
            if kind == "set" and len(value) > 1:
                found += islice(_repeated(value, path), MOST_CAUSES + 1)
            elif kind == "map":
                found += islice(_repeated_keys(value, keys, path), MOST_CAUSES + 1)
            if items is not None:
                for index, each in enumerate(value):
                    items(each, f"{path}[{index}]", found)

    return check


def _repeated(value: list[JSON], path: str, shown: list[JSON] | None = None) -> Iterator[Cause]:
    """Find the first repetition of every value that is there more than once."""
    if all(each.__class__ is str for each in value) and len(set(value)) == len(value):
        return
    times: dict[str, int] = {}
    for index, each in enumerate(value):
        text = causes.compact(each)
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            yield causes.duplicate(f"{path}[{index}]", (shown or value)[index])


def _repeated_keys(value: list[JSON], keys: list[str], path: str) -> Iterator[Cause]:
    for index, each in enumerate(value):
        if each is not None and each.__class__ is not dict:
            yield causes.invalid(f"{path}[{index}]", each, "must be an object for an array of list-type map")
            return
    if len(value) > 1:
        named = [{key: each[key] for key in keys if key in each} if each is not None else {} for each in value]
        if len(keys) == 1 and all(each.get(keys[0]).__class__ is str for each in named):
            yield from _repeated([each[keys[0]] for each in named], path, named)
        else:
            yield from _repeated(named, path)


def _embedded_paths(schema: JSONObject | None) -> Iterator[tuple[str, ...]]:
    """Name the nodes that hold whole objects: steps are property names, `*` for any key and `#` for any item."""
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-embedded-resource"):
        yield ()
    for name, part in (schema.get("properties") or {}).items():
        for steps in _embedded_paths(part):
            yield (f".{name}", *steps)
    for steps in _embedded_paths(schema.get("additionalProperties")):
        yield ("*", *steps)
    for steps in _embedded_paths(schema.get("items")):
        yield ("#", *steps)


def _reached(value: JSON, steps: tuple[str, ...], path: str) -> Iterator[tuple[str, JSON]]:
    if not steps:
        yield path, value
        return
    step, *rest = steps
    if step == "#" and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _reached(each, tuple(rest), f"{path}[{index}]")
    elif step == "*" and isinstance(value, dict):
        for name, each in value.items():
            yield from _reached(each, tuple(rest), f"{path}[{causes.step(name)}]")
    elif step[0] == "." and isinstance(value, dict) and step[1:] in value:
        yield from _reached(value[step[1:]], tuple(rest), f"{path}{step}" if path else step[1:])
