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


def showing(seen: Fields, schema: JSON, spelled: Callable[[str], str | None]) -> Callable[[JSON], JSON]:
    """Make a function that leaves nothing but these fields; `spelled` is how rules spell the name of a property."""
    known: JSONObject = schema if isinstance(schema, dict) else {}
    properties: JSONObject = known.get("properties") or {}
    names = {spelling: name for name in properties if (spelling := spelled(name)) is not None}
    wanted = {
        (name := names.get(spelling, spelling)): None
        if inner is None
        else showing(inner, properties.get(name, known.get("additionalProperties")), spelled)
        for spelling, inner in seen.items()
    }

    def shown(value: JSON) -> JSON:
        if value.__class__ is not dict:
            return value
        return {
            name: value[name] if inner is None else inner(value[name])
            for name, inner in wanted.items()
            if name in value
        }

    return shown
