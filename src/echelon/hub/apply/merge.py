"""Merging a configuration into an object by its schema, and taking fields out of an object."""

from typing import Any

from echelon.api.base import JSON, JSONObject
from echelon.hub.apply.contents import by_step
from echelon.hub.apply.fields import SELF, FieldSet, Node, is_member
from echelon.hub.apply.shape import Shape, Unit

_GONE: Any = object()


def merged(live: JSONObject, config: JSONObject, shape: Shape) -> JSONObject:
    """Return the live object with everything that the configuration states."""
    result = _merged(live, config, shape)
    return result if isinstance(result, dict) else config


def removed(obj: JSONObject, fields: FieldSet, shape: Shape) -> JSONObject:
    """Return the object without the fields. A container that is not among them stays, even if it is empty then."""
    if fields.is_empty:
        return obj
    result: JSONObject = _removed(obj, fields.root, shape)
    return result


def with_named_parents(fields: FieldSet, shape: Shape) -> FieldSet:
    """Add the fields that a schema names, where something below them is in the set.

    Such a field has no owner of its own: it is there as long as something is in it.
    """
    return FieldSet(_with_parents(fields.root, shape))


def _merged(live: JSON, config: JSON, shape: Shape) -> JSON:
    if shape.map is Unit.PARTS and isinstance(live, dict) and (config is None or isinstance(config, dict)):
        if not config:
            return live or config
        result = dict(live)
        for name, value in config.items():
            result[name] = _merged(live[name], value, shape.of_field(name)) if name in live else value
        return result
    if (
        shape.list in (Unit.PARTS, Unit.KEYED)
        and isinstance(live, list)
        and (config is None or isinstance(config, list))
    ):
        if not config:
            return live or config
        return _merged_list(live, config, shape)
    return config


def _merged_list(live: list[JSON], config: list[JSON], shape: Shape) -> list[JSON]:
    """Merge lists whose items can be told apart.

    The configuration's order wins among its items. What only the live list has stays in front of the item that it was
    in front of; new items come right before the next item that both have.
    """
    wanted = by_step(config, shape)
    present = by_step(live, shape)
    if wanted is None or present is None:
        return config
    steps = [shape.item_step(item) for item in live]
    result: list[JSON] = []
    waiting: list[JSON] = []
    place = 0
    for step, items in wanted.items():
        if step not in present:
            waiting.append(items[0])
            continue
        while place < len(live) and steps[place] != step:
            if steps[place] not in wanted:
                result.append(live[place])
            place += 1
        place += 1
        twins = present[step]
        result += waiting
        result.append(_merged(twins[0], items[0], shape.item) if len(twins) == 1 else items[0])
        waiting = []
    result += [live[index] for index in range(place, len(live)) if steps[index] not in wanted]
    return result + waiting


def _removed(value: JSON, fields: Node, shape: Shape) -> JSON:
    if isinstance(value, dict) and shape.map is Unit.PARTS:
        kept: JSONObject = {}
        for name, child in value.items():
            left = _left_of(child, fields.get(f"f:{name}"), shape.of_field(name))
            if left is not _GONE:
                kept[name] = left
        return kept
    if isinstance(value, list) and shape.list in (Unit.PARTS, Unit.KEYED):
        items = []
        for item in value:
            left = _left_of(item, fields.get(shape.item_step(item)), shape.item)
            if left is not _GONE:
                items.append(left)
        return items
    return value


def _left_of(value: JSON, node: Node | None, shape: Shape) -> JSON:
    if node is None:
        return value
    return _GONE if is_member(node) else _removed(value, node, shape)


def _with_parents(node: Node, shape: Shape) -> Node:
    result: Node = {}
    for step, child in node.items():
        if not child:
            result[step] = child
            continue
        below = _with_parents(child, shape.below(step))
        named = step[0] == "f" and step[2:] in shape.fields
        result[step] = {SELF: {}, **below} if named and SELF not in below else below
    return result
