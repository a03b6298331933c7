"""Merge patches, as RFC 7396 has them: what leads from one state of an object to another.

A merge patch has no word for null but "remove this", so a field that is null is a field that is not there.
"""

from echelon.api.base import JSON, JSONObject
from echelon.api.json_equality import is_same


def merge_difference(before: JSONObject, after: JSONObject, *, empty_is_absent: bool = False) -> JSONObject:
    """Return what to merge into an object so that it becomes another one; nothing if they are the same.

    With `empty_is_absent` an object or a list without content is not worth a write where there is none.
    """
    patch: JSONObject = {name: None for name in before if after.get(name) is None and before[name] is not None}
    for name, value in after.items():
        old = before.get(name)
        if value is None or is_same(value, old):
            continue
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_difference(old, value, empty_is_absent=empty_is_absent):
                patch[name] = inner
        elif not empty_is_absent or value not in ({}, []) or old:
            patch[name] = value
    return patch


def merged(document: JSONObject, patch: JSONObject) -> JSONObject:
    """Return a document with a patch merged into it."""
    found = dict(document)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), value)
    return found


def _merged(old: JSON, new: JSON) -> JSON:
    return merged(old if isinstance(old, dict) else {}, new) if isinstance(new, dict) else new
