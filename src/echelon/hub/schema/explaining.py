"""Why an object breaks its schema, in the order and with the words that the API server would use.

This runs only for objects that are known to be wrong, so it is written for fidelity, not for speed. A check counts how
much of a branch matched, because of several alternatives that all failed the best one is what people are told about.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs

from echelon.api.base import JSON, JSONObject
from echelon.api.formats import CHECKED
from echelon.hub.schema import causes
from echelon.hub.schema.patterns import translated
from echelon.kube.errors import MOST_CAUSES, Cause

# No old value to compare with; None is a value.
MISSING: Final[Any] = object()

_KINDS = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
_FORMATS = {int: "int64", float: "float64"}
_RANGES = {"int32": 2**31, "int64": 2**63}
_LARGEST_FLOAT = 3.4028234663852886e38
_SAFE = 2**53


@dataclass
class _Findings:
    """What was wrong, by the text that tells findings apart, and how many checks passed."""

    causes: dict[str, Cause] = field(default_factory=dict)
    matches: int = 0

    @property
    def full(self) -> bool:
        """Whether there are more findings than will be told."""
        return len(self.causes) > MOST_CAUSES

    def add(self, text: str, cause: Cause) -> None:
        if not self.full:
            self.causes.setdefault(text, cause)

    def merge(self, other: "_Findings") -> None:
        for text, cause in other.causes.items():
            self.add(text, cause)
        self.matches += other.matches


def explain(schema: JSONObject, value: JSON, old: JSON = MISSING, path: str = "") -> list[Cause]:
    """Return the field errors of a value; with `old`, without those in parts that did not change."""
    return list(_check(schema, value, path, old).causes.values())


def _check(schema: JSONObject, value: JSON, path: str, old: JSON) -> _Findings:
    found = _Findings()
    if value is None:
        _check_type(schema, value, path, found)
        _check_enum(schema, value, path, found)
    else:
        _check_value(schema, value, path, old, found)
    if found.causes and old is not MISSING and unchanged(schema, value, old):
        return _Findings(matches=found.matches)
    return found


def _check_value(schema: JSONObject, value: JSON, path: str, old: JSON, found: _Findings) -> None:
    if schema.get("type") or schema.get("x-kubernetes-int-or-string"):
        _check_type(schema, value, path, found)
        found.matches += 1
    _check_alternatives(schema, value, path, old, found)
    found.matches += 2  # the alternatives themselves, and the enum below
    if isinstance(value, str):
        found.matches += 1
        _check_string(schema, value, path, found)
        _check_format(schema, value, path, found)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        found.matches += 2
        _check_number(schema, value, path, found)
    elif isinstance(value, list):
        found.matches += 2
        _check_list(schema, value, path, old, found)
    _check_enum(schema, value, path, found)
    if isinstance(value, dict):
        found.matches += 1
        _check_object(schema, value, path, old, found)
    found.matches += 1


def _types(schema: JSONObject) -> list[str]:
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [schema["type"]] if schema.get("type") else []


def _check_type(schema: JSONObject, value: JSON, path: str, found: _Findings) -> None:
    types = _types(schema)
    if value is None:
        if types and not schema.get("nullable"):
            _wrong_type(path, ",".join(types), "null", found)
        else:
            found.matches += 1
        return
    kind = _KINDS[type(value)]
    fits = (
        kind in types
        or (kind == "integer" and "number" in types)
        or (kind == "number" and "integer" in types and value.is_integer() and abs(value) <= _SAFE)
    )
    if fits:
        found.matches += 1
    elif kept_format(schema) and kind not in {"string", "array"}:
        _wrong_type(path, kept_format(schema), _FORMATS.get(type(value), ""), found)
    else:
        _wrong_type(path, ",".join(types), kind, found)


def kept_format(schema: JSONObject) -> str:
    """Return the format if it is one that is checked for values of this type."""
    form = str(schema.get("format") or "")
    kind = schema.get("type") or ""
    if kind in {"", "string"}:
        return form if form.replace("-", "") in CHECKED or form == "password" else ""
    known = {"integer": {"int32", "int64"}, "number": {"float", "double"}}.get(kind, set())
    return form if form in known else ""


def _wrong_type(path: str, expected: str, actual: str, found: _Findings) -> None:
    text = f"{path} in body must be of type {expected}: {causes.quoted(actual)}"
    found.add(text, causes.type_invalid(_field(path), actual, text))


def _field(path: str) -> str:
    return path.removeprefix(".") or "<nil>"


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_alternatives(schema: JSONObject, value: JSON, path: str, old: JSON, found: _Findings) -> None:
    if schema.get("anyOf"):
        valid, _, first, best = _branches(schema["anyOf"], value, path, old, stop=True)
        if not valid:
            _broken(path, "must validate at least one schema (anyOf)", found)
        found.merge(first or best or _Findings())
    if schema.get("oneOf"):
        valid, _, first, best = _branches(schema["oneOf"], value, path, old)
        if valid != 1:
            how = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            _broken(path, f"must validate one and only one schema (oneOf). {how}", found)
            if not valid:
                found.merge(best or _Findings())
        elif first is not None:
            found.merge(first)
    if schema.get("allOf"):
        valid, results, _, _ = _branches(schema["allOf"], value, path, old)
        for result in results:
            found.merge(result)
        if valid != len(schema["allOf"]):
            how = "" if valid else ". None validated"
            _broken(path, f"must validate all the schemas (allOf){how}", found)
    if schema.get("not") and not _check(schema["not"], value, path, MISSING).causes:
        _broken(path, "must not validate the schema (not)", found)


def _branches(
    schemas: list[JSONObject], value: JSON, path: str, old: JSON, *, stop: bool = False
) -> tuple[int, list[_Findings], _Findings | None, _Findings | None]:
    """Return how many alternatives hold, and the findings: all, of the first that holds, of the best that fails."""
    results: list[_Findings] = []
    for schema in schemas:
        found = _Findings()
        if value is None:
            found = _check(schema, value, path, MISSING)
        else:
            _check_value(schema, value, path, old, found)
        results.append(found)
        if stop and not found.causes:
            break
    held = [each for each in results if not each.causes]
    failed = [each for each in results if each.causes]
    best = max(failed, key=lambda each: each.matches) if failed else None
    return len(held), results, held[0] if held else None, best


def _broken(path: str, rule: str, found: _Findings) -> None:
    # The server knows these by their text only, hence no field.
    text = f"{causes.quoted(path)} {rule}"
    found.add(text, causes.invalid("<nil>", "", text))


def _check_string(schema: JSONObject, value: str, path: str, found: _Findings) -> None:
    longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        found.add(f"{path} in body should be at most {longest} chars long", causes.too_long(_field(path), longest))
    elif shortest is not None and len(value) < shortest:
        _wrong(path, value, f"should be at least {shortest} chars long", found)
    elif pattern and not _pattern(pattern).is_valid(value):
        _wrong(path, value, f"should match '{pattern}'", found)


def _check_format(schema: JSONObject, value: str, path: str, found: _Findings) -> None:
    form = kept_format(schema)
    check = CHECKED.get(form.replace("-", ""))
    if check is not None and schema.get("type") in {None, "", "string"}:
        found.matches += 1
        if not check(value):
            _wrong_type(path, form, value, found)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator({"pattern": translated(pattern)}, pattern_options=jsonschema_rs.RegexOptions())


def _wrong(path: str, value: JSON, rule: str, found: _Findings) -> None:
    text = f"{path} in body {rule}"
    found.add(text, causes.invalid(_field(path), value, text))


def _check_number(schema: JSONObject, value: float, path: str, found: _Findings) -> None:
    kind, form = schema.get("type") or "", kept_format(schema)
    if kind == "integer":
        limit = _RANGES.get(form, 2**63)
        within = -limit <= value < limit and value == int(value)
    else:
        within = form != "float" or abs(value) <= _LARGEST_FLOAT
    if not within:
        named = f"with format {form}" if form else "(default format)"
        text = f"Checked value must be of type {kind} {named} in {path}"
        found.add(text, causes.invalid("<nil>", "", text))
    factor, low, high = schema.get("multipleOf"), schema.get("minimum"), schema.get("maximum")
    if factor is not None and not jsonschema_rs.is_valid({"multipleOf": factor}, value):
        _wrong(path, value, f"should be a multiple of {causes.number(_as_kind(value, factor))}", found)
    if low is not None:
        exclusive = bool(schema.get("exclusiveMinimum"))
        if value < low or (exclusive and value <= low):
            words = "should be greater than" if exclusive else "should be greater than or equal to"
            _wrong(path, value, f"{words} {causes.number(_as_kind(value, low))}", found)
    if high is not None:
        exclusive = bool(schema.get("exclusiveMaximum"))
        if value > high or (exclusive and value >= high):
            words = "should be less than" if exclusive else "should be less than or equal to"
            _wrong(path, value, f"{words} {causes.number(_as_kind(value, high))}", found)


def _as_kind(value: float, limit: float) -> float:
    return int(limit) if isinstance(value, int) else float(limit)


def _check_list(schema: JSONObject, value: list[JSON], path: str, old: JSON, found: _Findings) -> None:
    items = schema.get("items")
    if isinstance(items, dict):
        previous = correlated(schema, old)
        for index, each in enumerate(value):
            found.merge(_check(items, each, f"{path}[{index}]", previous(each)))
            if found.full:
                break
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    if fewest is not None and len(value) < fewest:
        _wrong(path, len(value), f"should have at least {fewest} items", found)
    if most is not None and len(value) > most:
        found.add(f"{path} in body should have at most {most} items", causes.too_many(_field(path), len(value), most))
    if schema.get("uniqueItems") and len({causes.compact(each) for each in value}) != len(value):
        text = f"{path} in body shouldn't contain duplicates"
        found.add(text, causes.invalid(_field(path), "", text))


def _check_enum(schema: JSONObject, value: JSON, path: str, found: _Findings) -> None:
    if schema.get("enum") and not any(_same(value, each) for each in schema["enum"]):
        text = f"{path} in body should be one of {schema['enum']}"
        found.add(text, causes.not_supported(_field(path), value, schema["enum"]))


def _check_object(schema: JSONObject, value: JSONObject, path: str, old: JSON, found: _Findings) -> None:
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is not None and len(value) < fewest:
        _wrong(path, len(value), f"should have at least {fewest} properties", found)
    if most is not None and len(value) > most:
        text = f"{path} in body should have at most {most} properties"
        found.add(text, causes.too_many(_field(path), len(value), most))
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, each in value.items():
        if name in properties:
            continue
        if more is False:
            text = f"{path}.{causes.step(name)} in body is a forbidden property"
            found.add(text, causes.invalid(_field(path), causes.step(name), text))
        elif isinstance(more, dict):
            found.merge(_check(more, each, f"{path}.{causes.step(name)}", _old_field(old, path, name)))
        if found.full:
            break
    for name, part in properties.items():
        if name in value:
            found.merge(_check(part, value[name], _child(path, name), _old_field(old, path, name)))
    for name in schema.get("required") or ():
        if name not in value:
            found.add(f"{path}.{name} in body is required", causes.required(_field(f"{path}.{name}")))


def _old_field(old: JSON, path: str, name: str) -> JSON:
    if not isinstance(old, dict) or (not path and name in {"apiVersion", "kind"}):
        return MISSING
    return old.get(name, MISSING)


class correlated:  # noqa: N801 - a function with a memory
    """Finds the old item that a new item of a list came from; only items with keys can be told apart."""

    def __init__(self, schema: JSONObject, old: JSON) -> None:
        self._keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
        self._items: dict[str, JSON] = {}
        if schema.get("x-kubernetes-list-type") == "map" and isinstance(old, list):
            for each in reversed(old):
                if isinstance(each, dict):
                    self._items[self._key(each)] = each

    def __call__(self, item: JSON) -> JSON:
        """Return the old item, or MISSING."""
        return self._items.get(self._key(item), MISSING) if self._items and isinstance(item, dict) else MISSING

    def _key(self, item: JSONObject) -> str:
        return causes.compact([item.get(key) for key in self._keys])


def unchanged(schema: JSONObject | None, new: JSON, old: JSON) -> bool:
    """Tell whether two values are the same; list-maps are compared by key, not by position."""
    if isinstance(new, list) and isinstance(old, list) and (schema or {}).get("x-kubernetes-list-type") == "map":
        find = correlated(schema or {}, old)
        items = (schema or {}).get("items")
        return len(new) == len(old) and all(
            (was := find(each)) is not MISSING and unchanged(items, each, was) for each in new
        )
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(
            unchanged(part, new[name], old[name]) for name, part in _parts(schema, new)
        )
    return _same(new, old)


def _parts(schema: JSONObject | None, value: JSONObject) -> Iterator[tuple[str, JSONObject | None]]:
    properties, more = (schema or {}).get("properties") or {}, (schema or {}).get("additionalProperties")
    for name in value:
        part = properties.get(name, more)
        yield name, part if isinstance(part, dict) else None


def _same(one: JSON, other: JSON) -> bool:
    """Compare as JSON does: true is not 1."""
    if one.__class__ is other.__class__ and one.__class__ not in {dict, list}:
        return bool(one == other)
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        return bool(one == other)
    return causes.compact(one) == causes.compact(other)
