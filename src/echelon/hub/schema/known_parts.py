"""Parts of objects that a resource has admitted before.

A policy for a thousand clusters is created a thousand times, and each time it says the same in its spec. What admission
makes of a spec, and whether rules about it hold in a new object, depends on nothing but what is in there. So it is
decided once, and recognised by its content after that.
"""

from typing import Final

import msgspec

from echelon.api.base import JSON, JSONObject

# Who an object is says something else in each of them, and a new one has no status.
_NEVER: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_CONTAINERS: Final = frozenset({dict, list})
_MOST_PARTS: Final = 64
_LONGEST: Final = 8 * 1024  # bytes; what is longer takes more memory than it saves time


class KnownParts:
    """What a resource knows of top-level fields. Whatever is in here is shared by many objects, and never changed."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, bytes], JSON] = {}  # as they were admitted, by the content that was sent
        self._unproven: set[int] = set()  # the ids of those that no rule has looked at yet
        self._sound: set[int] = set()  # of those about which no rule complains in a new object

    def recognise(self, body: JSONObject) -> JSONObject:
        """Return the fields of a body that are known, as they were admitted."""
        if not self._parts:
            return {}
        found = ((name, self._parts.get((name, content))) for name, content in _contents(body))
        return {name: part for name, part in found if part is not None}

    def admitted(self, body: JSONObject, obj: JSONObject) -> None:
        """Remember what became of the fields of a body in which nothing was unknown."""
        for name, content in _contents(body):
            if len(content) > _LONGEST or name not in obj or (name, content) in self._parts:
                continue
            if len(self._parts) >= _MOST_PARTS:
                for each in (self._parts, self._unproven, self._sound):
                    each.clear()
            self._parts[name, content] = obj[name]
            self._unproven.add(id(obj[name]))

    def accepted(self, obj: JSONObject) -> None:
        """Note that no rule complained about a new object."""
        if self._unproven:
            proven = self._unproven.intersection(map(id, obj.values()))
            self._unproven -= proven
            self._sound |= proven

    def sound(self, obj: JSONObject) -> frozenset[str]:
        """Return the fields of a new object about which no rule complains, whatever the others say."""
        return frozenset(name for name, part in obj.items() if id(part) in self._sound)


def _contents(body: JSONObject) -> list[tuple[str, bytes]]:
    """Return the fields that may be known, with their contents; none of a body that is no JSON."""
    try:
        return [
            (name, msgspec.json.encode(value))
            for name, value in body.items()
            if value.__class__ in _CONTAINERS and name not in _NEVER
        ]
    except (TypeError, ValueError, OverflowError, RecursionError):
        return []
