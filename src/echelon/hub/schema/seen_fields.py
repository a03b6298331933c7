"""Which fields of its value a rule looks at.

To be evaluated, a value is converted for the runtime, all of it; and most rules at the root of a kind are about one or
two fields of an object that has hundreds. So what a rule names is looked up in its text, and the rest is not shown to
it. Nothing is parsed: a text is searched for `self`, and wherever that is followed by anything but plain names, the
rule is taken to look at everything.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from echelon.api.base import JSON, JSONObject

# What is looked at in each field, by its name as rules spell it; None is all of it.
Fields: TypeAlias = dict[str, Any]

_SELF = re.compile(r"\bself\b((?:\.[A-Za-z_][A-Za-z0-9_]*)*)(\s*\()?")
_ABSENT = object()
_COMMENT = "//"  # may stand between a name and the parenthesis that makes it a function


def fields_seen(texts: Iterable[str]) -> Fields | None:
    """Return the fields of `self` that some expressions look at, or more; None if that may be all."""
    seen: Fields = {}
    for text in texts:
        if _COMMENT in text:
            return None
        for found in _SELF.finditer(text):
            names = found[1].split(".")[1:]
            if found[2]:
                names = names[:-1]  # the last one is a function
            if not names:
                return None
            _add(seen, names)
    return seen


def _add(seen: Fields, names: list[str]) -> None:
    *above, last = names
    for name in above:
        inner = seen.setdefault(name, {})
        if inner is None:
            return
        seen = inner
    seen[last] = None


class View:
    """What is shown of a value: these fields and nothing else."""

    def __init__(self, seen: Fields, schema: JSON, spelled: Callable[[str], str | None]) -> None:
        """`spelled` is how rules spell the name of a property."""
        known: JSONObject = schema if isinstance(schema, dict) else {}
        properties: JSONObject = known.get("properties") or {}
        names = {spelling: name for name in properties if (spelling := spelled(name)) is not None}
        self._parts: dict[str, View | None] = {
            (name := names.get(spelling, spelling)): None
            if inner is None
            else View(inner, properties.get(name, known.get("additionalProperties")), spelled)
            for spelling, inner in seen.items()
        }

    def of(self, value: JSON) -> JSON:
        """Return what is shown of a value."""
        if value.__class__ is not dict:
            return value
        return {
            name: value[name] if inner is None else inner.of(value[name])
            for name, inner in self._parts.items()
            if name in value
        }

    def is_same(self, one: JSON, other: JSON) -> bool:
        """Whether two values have the very same there, and not just equal ones."""
        if one.__class__ is not dict or other.__class__ is not dict:
            return one is other
        return all(
            one.get(name, _ABSENT) is other.get(name, _ABSENT)
            if inner is None
            else inner.is_same(one.get(name, _ABSENT), other.get(name, _ABSENT))
            for name, inner in self._parts.items()
        )
