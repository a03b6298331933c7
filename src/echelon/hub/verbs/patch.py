"""The two patch formats that the JSON world has standards for: JSON patch (RFC 6902) and merge patch (RFC 7396).

A patch comes from the outside and may be hostile: ten thousand operations that each copy the whole document into
itself must not cost more than the request that carries them. Objects that are patched may be in the store and in
other requests at the same time, so nothing that was passed in is ever modified: a container is copied the first time
that an operation writes to it.

Kubernetes is more lenient than the RFC in two places that clients rely on, and so is this: `replace` sets a member
that is missing, and `test` takes a missing member for null.
"""

from typing import Any

import msgspec

from echelon.api.base import JSON
from echelon.kube.errors import BadRequest, Invalid, TooLarge

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
# Of ten thousand operations at the front of a list of ten thousand items.
MAX_SHIFTED_ITEMS = 100_000_000
MAX_DEPTH = 100

_MISSING: Any = object()
_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def json_patch(obj: JSON, operations: JSON) -> JSON:
    """Return what the operations make of the object; all of them or none."""
    if not isinstance(operations, list):
        raise undecodable(operations, "[]handlers.jsonPatchOp")
    if len(operations) > MAX_OPERATIONS:
        why = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise TooLarge(f"Request entity too large: {why}")
    document = _Document(obj)
    try:
        for operation in operations:
            document.run(operation)
        if not isinstance(document.root, dict) or _deeper_than(document.root, MAX_DEPTH):
            raise rejected()
    except RecursionError:
        raise rejected() from None
    return document.root


def merge_patch(obj: JSON, patch: JSON) -> JSON:
    """Return the object with the patch's members set, and those that are null in the patch removed."""
    if not isinstance(patch, dict):
        if patch is None:
            raise BadRequest("Invalid JSON Patch")
        raise undecodable(patch, "map[string]interface {}")
    return _merged(obj, patch)


def rejected() -> Invalid:
    """Say that a patch does not fit the object, in the words that Kubernetes has for it."""
    return Invalid("the server rejected our request due to an error in our request")


def undecodable(value: JSON, wanted: str, what: str = "error decoding patch: ") -> BadRequest:
    """Say that a patch has another type than it must have."""
    name = _JSON_NAMES.get(type(value), "null")
    return BadRequest(f"{what}json: cannot unmarshal {name} into Go value of type {wanted}")


def _merged(target: JSON, patch: JSON) -> JSON:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = value
    return result


class _Document:
    """A document while operations run on it."""

    def __init__(self, root: JSON) -> None:
        self.root = root
        self._ours: dict[int, JSON] = {}  # containers made here; the reference keeps each id from being used again
        self._copied = 0
        self._shifted = 0

    def run(self, operation: JSON) -> None:
        if not isinstance(operation, dict):
            raise undecodable(operation, "handlers.jsonPatchOp")
        for field in ("op", "path", "from"):
            if not isinstance(operation.get(field, ""), str):
                raise undecodable(operation[field], "string")
        if "path" not in operation:
            raise rejected()
        path = _pointer(operation["path"])
        match operation.get("op"):
            case "add":
                self._add(path, _value(operation))
            case "replace":
                self._replace(path, _value(operation))
            case "remove":
                self._remove(path)
            case "move":
                source = _source(operation)
                if len(source) < len(path) and path[: len(source)] == source:
                    raise rejected()  # nothing can become its own descendant
                self._add(path, self._remove(source))
            case "copy":
                self._add(path, self._duplicate(self._get(_source(operation))))
            case "test":
                self._test(path, operation.get("value"))
            case _:
                raise rejected()

    def _get(self, path: list[str]) -> JSON:
        node = self.root
        for token in path:
            if isinstance(node, dict):
                node = node.get(token, _MISSING)
            elif isinstance(node, list):
                node = node[_index(token, len(node) - 1)]
            else:
                node = _MISSING
            if node is _MISSING:
                raise rejected()
        return node

    def _own(self, container: JSON) -> JSON:
        """Return the container if it was made here, else a copy of it."""
        if id(container) in self._ours:
            return container
        if not isinstance(container, dict | list):
            raise rejected()
        copy = container.copy()
        self._ours[id(copy)] = copy
        return copy

    def _parent(self, path: list[str]) -> JSON:
        """Return the container that holds the end of the path, ready to be written to."""
        node = self.root = self._own(self.root)
        for token in path[:-1]:
            if isinstance(node, dict):
                if token not in node:
                    raise rejected()
                node[token] = child = self._own(node[token])
            else:
                index = _index(token, len(node) - 1)
                node[index] = child = self._own(node[index])
            node = child
        return node

    def _add(self, path: list[str], value: JSON) -> None:
        if not path:
            self.root = value
            return
        parent = self._parent(path)
        if isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            index = len(parent) if path[-1] == "-" else _index(path[-1], len(parent))
            self._shift(len(parent) - index)
            parent.insert(index, value)

    def _replace(self, path: list[str], value: JSON) -> None:
        if not path:
            self.root = value
            return
        parent = self._parent(path)
        if isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            parent[_index(path[-1], len(parent) - 1)] = value

    def _remove(self, path: list[str]) -> JSON:
        if not path:
            raise rejected()
        parent = self._parent(path)
        if isinstance(parent, dict):
            if path[-1] not in parent:
                raise rejected()
            return parent.pop(path[-1])
        index = _index(path[-1], len(parent) - 1)
        self._shift(len(parent) - index)
        return parent.pop(index)

    def _shift(self, items: int) -> None:
        """Count the items that make room or close ranks."""
        self._shifted += items
        if self._shifted > MAX_SHIFTED_ITEMS:
            raise rejected()

    def _duplicate(self, value: JSON) -> JSON:
        encoded = msgspec.json.encode(value)
        self._copied += len(encoded)
        if self._copied > MAX_COPIED_BYTES:
            raise rejected()
        return msgspec.json.decode(encoded)  # a real copy: the same container twice would be written to twice

    def _test(self, path: list[str], expected: JSON) -> None:
        parent = self._get(path[:-1]) if path else None
        actual = parent.get(path[-1]) if isinstance(parent, dict) else self._get(path)
        if not _equal(actual, expected):
            raise rejected()


def _pointer(path: str) -> list[str]:
    """Return the tokens of an RFC 6901 pointer."""
    if not path:
        return []
    if not path.startswith("/"):
        raise rejected()
    tokens = path[1:].split("/")
    if len(tokens) > MAX_DEPTH:
        raise rejected()
    return [token.replace("~1", "/").replace("~0", "~") if "~" in token else token for token in tokens]


def _source(operation: dict[str, JSON]) -> list[str]:
    if "from" not in operation:
        raise rejected()
    return _pointer(operation["from"])


def _value(operation: dict[str, JSON]) -> JSON:
    if "value" not in operation:
        raise rejected()
    return operation["value"]


def _index(token: str, last: int) -> int:
    """Return the list index that a token stands for, which has no sign and no leading zeros."""
    if not (token.isascii() and token.isdigit()) or (token[0] == "0" and len(token) > 1) or len(token) > 9:
        raise rejected()
    index = int(token)
    if index > last:
        raise rejected()
    return index


def _equal(a: JSON, b: JSON) -> bool:
    """Compare as JSON does: 1 is 1.0, but not true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def _deeper_than(value: JSON, limit: int) -> bool:
    if isinstance(value, dict):
        return limit == 0 or any(_deeper_than(item, limit - 1) for item in value.values())
    if isinstance(value, list):
        return limit == 0 or any(_deeper_than(item, limit - 1) for item in value)
    return False
