"""Differences between two states of an object, for people: short, and without the data of Secrets.

A diff goes into a status that more people read than the object itself, and that has to stay small. It leaves out what
a server keeps for itself: versions, times, managers, the status.
"""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.comparison import LAST_APPLIED
from echelon.engine.work.redaction import HIDDEN

MOST_LINES = 50
MOST_BYTES = 4096

CHANGED = "<hidden, changed>"
_SECRET_FIELDS = ("data", "stringData")
_SERVERS_METADATA = frozenset(
    {
        "managedFields",
        "resourceVersion",
        "generation",
        "uid",
        "creationTimestamp",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
_CONTEXT = 3
# Comparing lines costs the square of their number at worst. No more than these are compared, after what both states
# have in common at the beginning and at the end; of a longer change the end is cut off anyway.
_MOST_COMPARED = 400
_WIDEST = 200  # what is deeper inside is not shown
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_HEADER = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def diff(kind: Kind[Any], before: JSONObject | None, after: JSONObject | None) -> str:
    """Return how an object changes, as a unified diff of YAML; empty if nothing that counts does."""
    old, new = list(_lines(_shown(kind, before, None))), list(_lines(_shown(kind, after, before)))
    return _cut(_compare(old, new))


def _shown(kind: Kind[Any], obj: JSONObject | None, before: JSONObject | None) -> JSONObject:
    """Return what of an object is shown; `before` is what a Secret is compared with."""
    if obj is None:
        return {}
    # Servers leave the kind out of the items of lists.
    shown = {**{key: value for key, value in obj.items() if key != "status"}, **kind.type_meta}
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVERS_METADATA}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    metadata.pop("annotations", None)
    shown["metadata"] = {**metadata, "annotations": annotations} if annotations else metadata
    if (kind.group, kind.kind) == ("", "Secret"):
        for field in _SECRET_FIELDS:
            if field in shown:
                shown[field] = _hidden(shown[field], (before or {}).get(field))
    return shown


def _hidden(data: Any, before: Any) -> Any:
    if not isinstance(data, dict):
        return HIDDEN
    known = before if isinstance(before, dict) else {}
    return {key: CHANGED if key in known and known[key] != value else HIDDEN for key, value in data.items()}


def _compare(old: list[str], new: list[str]) -> list[str]:
    start, end = _common(old, new), 0
    end = _common(old[start:][::-1], new[start:][::-1])
    if start == len(old) == len(new):
        return []
    first = max(start - _CONTEXT, 0)
    last = max(end - _CONTEXT, 0)
    compared = (old[first : len(old) - last][:_MOST_COMPARED], new[first : len(new) - last][:_MOST_COMPARED])
    lines = list(unified_diff(*compared, n=_CONTEXT, lineterm=""))[2:]
    return [_shifted(line, first) if line.startswith("@@") else line for line in lines]


def _common(one: list[str], other: list[str]) -> int:
    """Return how many lines two texts have in common at the beginning."""
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _shifted(header: str, by: int) -> str:
    found = _HEADER.fullmatch(header)
    if found is None or not by:
        return header
    return f"@@ -{int(found[1]) + by}{found[2] or ''} +{int(found[3]) + by}{found[4] or ''} @@"


def _cut(lines: list[str]) -> str:
    kept: list[str] = []
    size = 0
    for line in lines:
        more = f"... {len(lines) - len(kept)} more lines"
        size += len(line.encode()) + 1
        if size + len(more) > MOST_BYTES or (len(kept) == MOST_LINES - 1 and len(lines) > MOST_LINES):
            kept.append(more)
            break
        kept.append(line)
    return "\n".join(kept)


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """Write a value as YAML, keys sorted."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _entry(f"{indent}{_scalar(key)}:", value[key], f"{indent}  ")
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list) and item and len(indent) <= _WIDEST:
                first, *rest = _lines(item, f"{indent}  ")
                yield f"{indent}- {first[len(indent) + 2 :]}"
                yield from rest
            else:
                yield from _entry(f"{indent}-", item, f"{indent}  ")


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if len(indent) > _WIDEST and isinstance(value, dict | list):
        yield f"{head} ..."
    elif isinstance(value, dict | list) and value:
        yield head
        yield from _lines(value, indent)
    elif isinstance(value, str) and "\n" in value.rstrip("\n") and "\r" not in value:
        yield f"{head} |{'' if value.endswith(chr(10)) else '-'}"
        yield from (f"{indent}{line}" for line in value.removesuffix("\n").split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
