"""What a structural schema does to an object before anybody looks at it: prune, default.

Every write passes here, so a schema is compiled once into closures that build the new tree as they walk. Paths are not
known on the way down: an unknown field is reported by its name and each level that it passes on the way up prepends
its own part, so that objects without unknown fields pay nothing.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TypeAlias

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from echelon.hub.schema.causes import step
from echelon.hub.schema.validation import Validator

# Builds a copy without unknown fields; paths of what was left out are appended to the list.
_Prune: TypeAlias = Callable[[JSON, list[str]], JSON]
# Fills defaults into a tree in place.
_Fill: TypeAlias = Callable[[JSON], None]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_CONTAINERS = frozenset({dict, list})
_MOST_UNKNOWN = 100  # as many as Kubernetes tells about


class Structural:
    """A compiled structural schema. `builtin` gives nulls the meaning that they have for kinds of Kubernetes itself."""

    def __init__(self, schema: JSONObject, *, builtin: bool = False) -> None:
        self._prune = _Pruning(builtin).node({**schema, "x-kubernetes-embedded-resource": True})
        self._fill = _fill_node(schema)
        self.validate = Validator(schema).validate

    def prune(self, obj: JSON) -> tuple[JSON, list[str]]:
        """Return a new tree without unknown fields, and the paths of those."""
        unknown: list[str] = []
        pruned = self._prune(obj, unknown)
        unknown.sort()
        return pruned, unknown

    def default(self, obj: JSON) -> JSON:
        """Fill in defaults, in place, and drop nulls that the schema does not allow."""
        if self._fill is not None:
            self._fill(obj)
        return obj


def copied(value: JSON, _unknown: list[str] | None = None) -> JSON:
    """Copy a JSON tree."""
    if value.__class__ is dict:
        return {key: copied(each) if each.__class__ in _CONTAINERS else each for key, each in value.items()}
    if value.__class__ is list:
        return [copied(each) if each.__class__ in _CONTAINERS else each for each in value]
    return value


class _Pruning:
    """Compiles schema nodes into pruning functions; what kind of nulls it makes is decided once for a tree."""

    def __init__(self, builtin: bool) -> None:
        self._builtin = builtin

    def node(self, schema: JSONObject | None) -> _Prune:
        if schema is None:
            return _emptied
        properties = {name: self.node(part) for name, part in (schema.get("properties") or {}).items()}
        more = schema.get("additionalProperties")
        others = self._others(more)
        items = self.node(schema.get("items"))
        embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        preserve = bool(schema.get(_PRESERVE))
        if self._builtin and not properties and others is None and not embedded:
            preserve = True  # raw extensions and field sets: an object about which the schema says nothing
        if preserve:
            if not properties and others is None and not embedded and "items" not in schema:
                return copied
            items = self.node({**schema["items"], _PRESERVE: True}) if schema.get("items") else copied
        if embedded:
            properties = {**properties, "apiVersion": copied, "kind": copied, "metadata": _metadata}
        if self._builtin:
            default = "" if isinstance(more, dict) and more.get("type") == "string" else None
            return _without_nulls(_prune_tree(properties, others, items, preserve), frozenset(properties), default)
        return _prune_tree(properties, others, items, preserve)

    def _others(self, more: JSONObject | bool | None) -> _Prune | None:
        if isinstance(more, dict):
            return self.node(more)
        if not more:
            return None
        # `additionalProperties: true` keeps any name, but says nothing about what may be inside.
        return copied if self._builtin else _emptied


def _prune_tree(properties: Mapping[str, _Prune], others: _Prune | None, items: _Prune, preserve: bool) -> _Prune:
    find = properties.get

    def prune(value: JSON, unknown: list[str]) -> JSON:
        if value.__class__ is dict:
            kept = {}
            for key, each in value.items():
                part = find(key) or others
                if part is None:
                    if preserve:
                        kept[key] = copied(each)
                    elif len(unknown) < _MOST_UNKNOWN:
                        unknown.append(step(key))
                elif each.__class__ in _CONTAINERS:
                    before = len(unknown)
                    kept[key] = part(each, unknown)
                    if len(unknown) != before:
                        _prefix(unknown, before, step(key))
                else:
                    kept[key] = each
            return kept
        if value.__class__ is list:
            return _pruned_items(value, items, unknown)
        return value

    return prune


def _pruned_items(value: list[JSON], items: _Prune, unknown: list[str]) -> list[JSON]:
    kept = []
    for index, each in enumerate(value):
        if each.__class__ in _CONTAINERS:
            before = len(unknown)
            kept.append(items(each, unknown))
            if len(unknown) != before:
                _prefix(unknown, before, f"[{index}]")
        else:
            kept.append(each)
    return kept


def _prefix(unknown: list[str], start: int, part: str) -> None:
    for index in range(start, len(unknown)):
        below = unknown[index]
        unknown[index] = f"{part}{below}" if below.startswith("[") else f"{part}.{below}"


def _emptied(value: JSON, unknown: list[str]) -> JSON:
    """Prune below a node that the schema does not describe: nothing in it is known."""
    if value.__class__ is dict:
        unknown.extend(map(step, islice(value, max(0, _MOST_UNKNOWN - len(unknown)))))
        return {}
    if value.__class__ is list:
        return _pruned_items(value, _emptied, unknown)
    return value


def _without_nulls(prune: _Prune, named: frozenset[str], default: JSON) -> _Prune:
    """Drop null fields, as decoding into a Go struct does; a null in a map of strings becomes an empty one."""

    def pruned(value: JSON, unknown: list[str]) -> JSON:
        kept = prune(value, unknown)
        if kept.__class__ is dict and None in kept.values():
            return {
                key: default if each is None else each
                for key, each in kept.items()
                if each is not None or (default is not None and key not in named)
            }
        return kept

    return pruned


def _wire_names(struct: type[msgspec.Struct]) -> dict[str, _Prune]:
    return {field.encode_name: copied for field in msgspec.structs.fields(struct)}


def _items_of(names: Mapping[str, _Prune]) -> _Prune:
    return _prune_tree({}, None, _without_nulls(_prune_tree(names, None, _emptied, False), frozenset(), None), False)


# Metadata of custom resources is decoded like that of any other kind: unknown fields and nulls go.
_metadata = _without_nulls(
    _prune_tree(
        {
            **_wire_names(ObjectMeta),
            **dict.fromkeys(("labels", "annotations"), _without_nulls(copied, frozenset(), "")),
            "selfLink": copied,
            "ownerReferences": _items_of(_wire_names(OwnerReference)),
            "managedFields": _items_of(_wire_names(ManagedFieldsEntry)),
        },
        None,
        _emptied,
        False,
    ),
    frozenset(),
    None,
)


def _fill_node(schema: JSONObject | None) -> _Fill | None:
    """Compile what is to be filled in below a node; None where defaulting can never change anything."""
    if not schema:
        return None
    properties: JSONObject = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    missing = [
        (name, part["default"], bool(part.get("nullable")))
        for name, part in properties.items()
        if part.get("default") is not None
    ]
    below = {name: deeper for name, part in properties.items() if (deeper := _fill_node(part)) is not None}
    strict = {name for name, part in properties.items() if not part.get("nullable") and part.get("default") is None}
    others = more if isinstance(more, dict) else None
    fill_others = _fill_node(others)
    fill_items = _fill_items(schema.get("items"))
    if not properties and others is None and fill_items is None:
        return None

    def fill(value: JSON) -> None:
        if value.__class__ is dict:
            if None in value.values():
                _settle_nulls(value, properties, strict, others)
            for name, default, nullable in missing:
                if name not in value or (value[name] is None and not nullable):
                    value[name] = copied(default)
            for name, deeper in below.items():
                if name in value:
                    deeper(value[name])
            if fill_others is not None:
                for name, each in value.items():
                    if name not in properties:
                        fill_others(each)
        elif value.__class__ is list and fill_items is not None:
            fill_items(value)

    return fill


def _settle_nulls(value: JSONObject, properties: JSONObject, strict: set[str], others: JSONObject | None) -> None:
    """Drop nulls that are neither allowed nor have a default; give those of a map their default."""
    for name in [name for name, each in value.items() if each is None]:
        if name in strict:
            del value[name]
        elif name not in properties and others is not None and not others.get("nullable"):
            if others.get("default") is None:
                del value[name]
            else:
                value[name] = copied(others["default"])


def _fill_items(items: JSONObject | None) -> _Fill | None:
    if not isinstance(items, dict):
        return None
    fill = _fill_node(items)
    default = None if items.get("nullable") else items.get("default")

    def fill_list(value: JSON) -> None:
        for index, each in enumerate(value):
            if each is None and default is not None:
                value[index] = copied(default)
            if fill is not None:
                fill(value[index])

    return fill_list
