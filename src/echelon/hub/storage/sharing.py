"""Equal parts of objects, held once.

A fleet is the same thing over and over: a thousand works of one template, a thousand pods that say that they are ready,
and who owns which fields of all that. Decoded, each of them takes ten times the memory of its text, so whoever holds
decoded objects looks here first whether somebody holds a part like that already. What was shared is never modified.
"""

import msgspec

from echelon.api.base import JSON, JSONObject

_CONTAINERS = frozenset({dict, list})
_MOST_PARTS = 32_768
_LONGEST = 2048  # bytes; what is longer is hardly ever the same twice, and made of parts that may be
_DEEPEST = 10  # levels, for each of them is encoded anew

# By content, to the order of its fields: whatever is in here is shared by all who use it, and never changed.
_known: dict[bytes, JSON] = {}
_familiar: set[int] = set()  # the ids of what is in there, so that a look is enough to tell
_encode = msgspec.json.encode
_NOTHING: JSONObject = {"metadata": {}}


def with_shared_parts(obj: JSONObject, before: JSONObject | None) -> JSONObject:
    """Let an object have parts that others have as well; `before` is its former version, if it had one.

    The maps of the object and of its metadata have to be its own, for they are changed. Returns the object.
    """
    known: JSONObject = before or _NOTHING
    _share(obj, known)
    _share(obj["metadata"], known["metadata"])
    return obj


def _share(obj: JSONObject, before: JSONObject) -> None:
    for name, part in obj.items():
        if part.__class__ in _CONTAINERS and part is not before.get(name):
            if name == "managedFields":
                obj[name] = _with_shared(part, 1)  # a list of moments, like no other
            elif name != "metadata":
                obj[name] = shared(part)


def shared(part: JSON, level: int = 0) -> JSON:
    """Return a map or list that is equal to the given one, and the same for everybody who has an equal one."""
    if id(part) in _familiar or level == _DEEPEST:
        return part
    content = _encode(part)
    found = _known.get(content)
    if found is not None:
        return found
    made = _with_shared(part, level + 1)
    if len(content) <= _LONGEST:
        if len(_known) >= _MOST_PARTS:
            _known.clear()
            _familiar.clear()
        _known[content] = made
        _familiar.add(id(made))
    return made


def _with_shared(part: JSON, level: int) -> JSON:
    """Return a part that is made of shared ones; the given one, if it is that already."""
    other = {
        name: made
        for name, each in (part.items() if part.__class__ is dict else enumerate(part))
        if each.__class__ in _CONTAINERS and (made := shared(each, level)) is not each
    }
    if not other:
        return part
    if part.__class__ is dict:
        return part | other
    return [other.get(index, each) for index, each in enumerate(part)]
