"""Strategic merge patch: Kubernetes' own patch format, for the kinds that it serves itself.

It differs from a merge patch in lists. The schema says which field tells the items of a list apart, so a patch can name
one container and leave the others alone. What the schema can't say, a patch says with directives among its fields:
`$patch`, `$deleteFromPrimitiveList/<list>`, `$setElementOrder/<list>` and `$retainKeys`.

kubectl computes these patches against an order that it has seen, so the order of the result matters: items of the patch
are in the patch's order, the others stay where they were among them.
"""

from collections.abc import Callable
from typing import TypeAlias

from echelon.api.base import JSON, JSONObject
from echelon.hub.schema.causes import as_go_prints, step
from echelon.hub.verbs.patch import undecodable
from echelon.kube.errors import BadRequest

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

_Tell: TypeAlias = Callable[[JSON], JSON]


def strategic_merge(obj: JSONObject, patch: JSON, schema: JSONObject) -> JSONObject:
    """Return what the patch makes of the object."""
    if not isinstance(patch, dict):
        raise undecodable(patch, "map[string]interface {}", what="")
    return _merge_map(obj, patch, schema, "")


def _merge_map(live: JSONObject, patch: JSONObject, schema: JSONObject, path: str) -> JSONObject:
    match patch.get(_PATCH):
        case None:
            return _merge_fields(live, patch, schema, path)
        case "merge":
            return _merge_fields(live, {key: value for key, value in patch.items() if key != _PATCH}, schema, path)
        case "replace":
            return _clean_map(patch)
        case "delete":
            return {}
        case other:
            raise _wrong(path, f"unknown patch type: {other} in map: {as_go_prints(patch)}")


def _merge_fields(live: JSONObject, patch: JSONObject, schema: JSONObject, path: str) -> JSONObject:
    result = _retained(live, patch, path)
    orders = {}
    for key, value in patch.items():
        if key.startswith(_ORDER):
            orders[_list_name(key, _ORDER, "invalid patch format of setElementOrder list", path)] = value
        elif key.startswith(_DELETE):
            name = _list_name(key, _DELETE, "invalid patch format of primitive list", path)
            if isinstance(result.get(name), list) and isinstance(value, list):
                tell = _telling_apart({}, f"{path}.{step(name)}")
                gone = set(map(tell, value))
                result[name] = [item for item in result[name] if tell(item) not in gone]
        elif value is None:
            result.pop(key, None)
        elif key != _RETAIN:
            _merge_field(result, key, value, _property(schema, key), f"{path}.{step(key)}")
    for name, order in orders.items():
        items, before = result.get(name), live.get(name)
        at = f"{path}.{step(name)}"
        tell = _telling_apart(_property(schema, name), at)
        places = _places_to_be(order, patch.get(name), tell, at)
        if isinstance(items, list):
            result[name] = _arranged(items, places, before if isinstance(before, list) else [], tell)
    return result


def _merge_field(result: JSONObject, key: str, value: JSON, schema: JSONObject, path: str) -> None:
    """Merge one field of the patch into the result, which is ours to write to."""
    present = result.get(key)
    if isinstance(present, dict) and isinstance(value, dict):
        result[key] = _merge_map(present, value, schema, path)
    elif isinstance(value, dict) and _PATCH in value:
        result.pop(key, None)  # a directive for something that is not there
    elif isinstance(present, list) and isinstance(value, list):
        result[key] = _merge_list(present, value, schema, path)
    else:
        result[key] = _clean(value)


def _merge_list(live: list[JSON], patch: list[JSON], schema: JSONObject, path: str) -> list[JSON]:
    if merge_key := schema.get("x-kubernetes-patch-merge-key"):
        return _merge_items(live, patch, merge_key, schema, path)
    if schema.get("x-kubernetes-list-type") != "set":
        return _clean_list(patch)
    tell = _telling_apart(schema, path)
    order = {tell(item): place for place, item in reversed(list(enumerate(patch)))}
    united = list({tell(item): item for item in [*live, *patch]}.values())
    return _arranged(united, order, live, tell)


def _merge_items(live: list[JSON], patch: list[JSON], merge_key: str, schema: JSONObject, path: str) -> list[JSON]:
    """Merge lists of maps. Items of the live list may share a key, as ports do; a patch means the first of them."""
    tell = _telling_apart(schema, path)
    plain, gone, replaced = _directed(patch, tell, path)
    items = [] if replaced else [item for item in live if tell(item) not in gone]
    first = {tell(item): place for place, item in reversed(list(enumerate(items)))}
    order: dict[JSON, int] = {}
    for item in plain:
        key = tell(item)
        order.setdefault(key, len(order))
        if key in first:
            place = first[key]
            items[place] = _merge_map(
                items[place], item, schema.get("items") or {}, f"{path}[{merge_key}={step(str(key))}]"
            )
        else:
            first[key] = len(items)
            items.append(_clean(item))
    return _arranged(items, order, live, tell)


def _directed(patch: list[JSON], tell: _Tell, path: str) -> tuple[list[JSONObject], set[JSON], bool]:
    """Return the items of a patch that are no directives, the keys to delete, and whether the list is replaced."""
    plain, gone, replaced = [], set(), False
    for item in patch:
        if not isinstance(item, dict):
            raise _wrong(path, "list element types are not identical")
        match item.get(_PATCH):
            case None:
                plain.append(item)
            case "delete":
                gone.add(tell(item))
            case "replace":
                replaced = True
            case "merge":
                raise _wrong(path, "merging lists cannot yet be specified in the patch")
            case other:
                raise _wrong(path, f"unknown patch type: {other} in map: {as_go_prints(item)}")
    return plain, gone, replaced


def _places_to_be(order: JSON, patch: JSON, tell: _Tell, path: str) -> dict[JSON, int]:
    """Read `$setElementOrder`: it must name every item of the patch."""
    if not isinstance(order, list):
        raise _wrong(path, "invalid patch format of setElementOrder list")
    places = {tell(item): place for place, item in enumerate(order)}
    for item in patch if isinstance(patch, list) else []:
        if not (isinstance(item, dict) and _PATCH in item) and tell(item) not in places:
            raise _wrong(path, f"The order in patch list doesn't match {_ORDER} list")
    return places


def _arranged(items: list[JSON], order: dict[JSON, int], live: list[JSON], tell: _Tell) -> list[JSON]:
    """Put items into an order; each that the order does not name stays before the next one that was after it."""
    ordered = sorted((item for item in items if tell(item) in order), key=lambda item: order[tell(item)])
    before = {tell(item): place for place, item in reversed(list(enumerate(live)))}
    result = []
    taken = 0
    for item in items:
        if tell(item) in order:
            continue
        while taken < len(ordered) and before.get(tell(ordered[taken]), -1) <= before.get(tell(item), -1):
            result.append(ordered[taken])
            taken += 1
        result.append(item)
    return result + ordered[taken:]


def _retained(live: JSONObject, patch: JSONObject, path: str) -> JSONObject:
    """Return a copy of the live map, without what `$retainKeys` leaves out."""
    if _RETAIN not in patch:
        return dict(live)
    given = patch[_RETAIN]
    keys = {name for name in given if isinstance(name, str)} if isinstance(given, list) else set()
    directives = (_RETAIN, _DELETE, _ORDER)
    fields = {name for name, value in patch.items() if value is not None and not name.startswith(directives)}
    if not isinstance(given, list) or not fields <= keys:
        raise _wrong(path, "invalid patch format of retainKeys")
    return {name: value for name, value in live.items() if name in keys}


def _clean(value: JSON) -> JSON:
    """Return a new value as it is to be stored: nulls and directives are for the patch, not for the object."""
    if isinstance(value, dict):
        return _clean_map(value)
    return _clean_list(value) if isinstance(value, list) else value


def _clean_map(value: JSONObject) -> JSONObject:
    return {
        key: _clean(item)
        for key, item in value.items()
        if item is not None
        and not key.startswith((_PATCH, _RETAIN, _DELETE, _ORDER))
        and not (isinstance(item, dict) and _PATCH in item)
    }


def _clean_list(items: list[JSON]) -> list[JSON]:
    return [_clean(item) for item in items if not (isinstance(item, dict) and _PATCH in item)]


def _property(schema: JSONObject, name: str) -> JSONObject:
    found = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def _telling_apart(schema: JSONObject, path: str) -> _Tell:
    """Return what tells the items of a list apart: a field of each, or the item itself."""
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    if not merge_key:
        return lambda item: _scalar(item, path)

    def key(item: JSON) -> JSON:
        if not isinstance(item, dict) or item.get(merge_key) is None:
            raise _wrong(path, f"map: {as_go_prints(item)} does not contain declared merge key: {merge_key}")
        return _scalar(item[merge_key], path)

    return key


def _scalar(value: JSON, path: str) -> JSON:
    if isinstance(value, list):
        raise _wrong(path, "lists of lists are not supported")
    if isinstance(value, dict):
        raise _wrong(path, "cannot merge lists without merge key")
    return value


def _list_name(directive: str, prefix: str, why: str, path: str) -> str:
    start, _, name = directive.partition("/")
    if start != prefix or not name:
        raise _wrong(path, why)
    return name


def _wrong(path: str, why: str) -> BadRequest:
    return BadRequest(f"{path.lstrip('.')}: {why}" if path else why)
