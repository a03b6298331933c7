"""From objects to field sets: what an object has, and how two objects differ.

There are two answers to what an object has, and Kubernetes needs both. What *appeared* counts every map on the way,
because its existence is a change too. What a configuration *states* counts only what the schema can't know: a named
field with fields of its own says nothing that they don't say.

`appeared` runs on every create, so it is one direct walk that writes FieldsV1, in order, as it goes.
"""

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply.fields import SELF, FieldSet, Node, in_order
from echelon.hub.apply.shape import Shape, Unit, shape_of

_encode = msgspec.json.encode

# Who the object is, and what the server says of it, belongs to nobody.
_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
UNOWNED = FieldSet.of(
    *((f"f:{name}",) for name in sorted(_UNOWNED)),
    ("f:metadata",),
    *(("f:metadata", f"f:{name}") for name in sorted(_UNOWNED_METADATA)),
)


def field_set_of(obj: JSONObject, schema: JSONObject) -> FieldSet:
    """Return the fields that an object states: what somebody who applies it owns."""
    return stated(obj, shape_of(schema)) - UNOWNED


def changed(old: JSONObject, new: JSONObject, schema: JSONObject) -> tuple[FieldSet, FieldSet]:
    """Return the fields that were added or modified, and those that were removed."""
    changes, removals = compare(old, new, shape_of(schema))
    return changes - UNOWNED, removals - UNOWNED


def appeared(obj: JSONObject, shape: Shape) -> Node:
    """Return FieldsV1 of a new object."""
    root: Node = {}
    for name in sorted(obj):
        if name == "metadata":
            about, within = obj[name], shape.of_field(name)
            owned = {
                f"f:{key}": _new(about[key], within.of_field(key))
                for key in sorted(about)
                if key not in _UNOWNED_METADATA
            }
            if owned:
                root["f:metadata"] = owned
        elif name not in _UNOWNED:
            root[f"f:{name}"] = _new(obj[name], shape.of_field(name))
    return root


def stated(obj: JSONObject, shape: Shape) -> FieldSet:
    """Return all that an object states, the fields that nobody owns included."""
    return FieldSet(_stated(obj, shape))


def compare(old: JSONObject, new: JSONObject, shape: Shape) -> tuple[FieldSet, FieldSet]:
    """Return all fields that were added or modified, and those that were removed."""
    changes, removals = _compare(old, new, shape)
    return FieldSet(changes), FieldSet(removals)


def same(a: JSON, b: JSON) -> bool:
    """Compare as JSON does. Python's own comparison is fast and takes `True` for 1, so its yes is looked at again."""
    if a is b:
        return True
    if a != b:
        return False
    kind = type(a)
    if kind is str:
        return True
    if kind is dict or kind is list:
        return _encode(a) == _encode(b) or _exactly(a, b)
    return (kind is bool) == (type(b) is bool)


def _exactly(a: JSON, b: JSON) -> bool:
    """Tell whether equal values are so to the last boolean; another order of keys brings us here."""
    if isinstance(a, dict):
        return all(_exactly(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return all(map(_exactly, a, b))
    return isinstance(a, bool) == isinstance(b, bool)


def _new(value: JSON, shape: Shape) -> Node:
    """Return the node of a value that was not there before."""
    kind = type(value)
    if kind is dict:
        if not value or shape.map is not Unit.PARTS:
            return {}
        node: Node = {SELF: {}}
        fields, rest = shape.fields, shape.rest
        for name in sorted(value):
            child = value[name]
            kind = type(child)
            if kind is dict or kind is list:
                node[f"f:{name}"] = _new(child, fields.get(name) or rest or shape.of_field(name))
            else:
                node[f"f:{name}"] = {}
        return node
    if kind is list and value and (shape.list is Unit.PARTS or shape.list is Unit.KEYED):
        return _new_items(value, shape)
    return {}


def _new_items(items: list[JSON], shape: Shape) -> Node:
    found = by_step(items, shape)
    if found is None:
        return {}
    node: Node = {SELF: {}}
    for step in in_order(found):
        twins = found[step]
        node[step] = _new(twins[0], shape.item) if len(twins) == 1 else {}
    return node


def by_step(items: list[JSON], shape: Shape) -> dict[str, list[JSON]] | None:
    """Return the items under the steps that lead to them; None if there are some that no step leads to.

    Stored lists may have twins, items with the same keys: a schema can become stricter than what it finds.
    """
    found: dict[str, list[JSON]] = {}
    try:
        for item in items:
            found.setdefault(shape.item_step(item), []).append(item)
    except ValueError:
        return None
    return found


def _stated(value: JSON, shape: Shape) -> Node | None:
    """Return the node of a value in a configuration; None if it states nothing."""
    if isinstance(value, dict) and shape.map is Unit.PARTS:
        node: Node = {}
        for name, child in value.items():
            known = shape.fields.get(name)
            if child is None or child == {}:
                node[f"f:{name}"] = {}
                continue
            below = _stated(child, known or shape.of_field(name))
            if known is None:
                below = {SELF: {}, **below} if below else {}
            if below is not None:
                node[f"f:{name}"] = below
        return node or None
    if isinstance(value, list) and shape.list in (Unit.PARTS, Unit.KEYED):
        found = by_step(value, shape)
        if found is None:
            return {}
        items: Node = {}
        for step, twins in found.items():
            below = _stated(twins[0], shape.item) if len(twins) == 1 else None
            items[step] = {SELF: {}, **below} if below else {}
        return items or None
    return {}


def _compare(old: JSON, new: JSON, shape: Shape) -> tuple[Node | None, Node | None]:
    """Return the nodes of what changed and of what was removed; None for nothing."""
    if old is new:
        return None, None
    if old is None or new is None:  # null against many parts is an empty container against them
        known = new if old is None else old
        if known and _has_parts(known, shape):
            old, new = (type(known)(), new) if old is None else (old, type(known)())
    if (old or new) and type(old) is type(new) and _has_parts(new, shape):
        if same(old, new):
            return None, None
        return _compare_maps(old, new, shape) if isinstance(new, dict) else _compare_lists(old, new, shape)
    if same(old, new):
        return None, None
    # One thing became another. Should it have had parts before, they are gone.
    gone = {step: node for step, node in _new(old, shape).items() if step != SELF}
    return _new(new, shape), gone or None


def _has_parts(value: JSON, shape: Shape) -> bool:
    if isinstance(value, dict):
        return shape.map is Unit.PARTS
    return isinstance(value, list) and shape.list in (Unit.PARTS, Unit.KEYED)


def _compare_maps(old: JSONObject, new: JSONObject, shape: Shape) -> tuple[Node | None, Node | None]:
    changes: Node = {}
    removals: Node = {}
    for name, value in new.items():
        if name not in old:
            changes[f"f:{name}"] = _new(value, shape.of_field(name))
            continue
        if (before := old[name]) is value:  # a patch shares with the old object what it does not touch
            continue
        change, removal = _compare(before, value, shape.of_field(name))
        if change is not None:
            changes[f"f:{name}"] = change
        if removal is not None:
            removals[f"f:{name}"] = removal
    for name, value in old.items():
        if name not in new:
            removals[f"f:{name}"] = _new(value, shape.of_field(name))
    return changes or None, removals or None


def _compare_lists(old: list[JSON], new: list[JSON], shape: Shape) -> tuple[Node | None, Node | None]:
    before, after = by_step(old, shape), by_step(new, shape)
    if before is None or after is None:
        return {}, None
    changes: Node = {}
    removals: Node = {}
    for step in {**before, **after}:
        change, removal = _compare_items(before.get(step, []), after.get(step, []), shape.item)
        if change is not None:
            changes[step] = change
        if removal is not None:
            removals[step] = removal
    return changes or None, removals or None


def _compare_items(old: list[JSON], new: list[JSON], shape: Shape) -> tuple[Node | None, Node | None]:
    """Compare the items under one step: one on each side, or none, or twins, which are one thing together."""
    if len(old) == 1 and len(new) == 1:
        return _compare(old[0], new[0], shape)
    if len(old) > 1 and len(new) > 1:
        return (None, None) if same(old, new) else ({}, None)
    return _new_or_twins(new, shape), _new_or_twins(old, shape)


def _new_or_twins(items: list[JSON], shape: Shape) -> Node | None:
    if not items:
        return None
    return _new(items[0], shape) if len(items) == 1 else {}
