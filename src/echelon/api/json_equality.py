"""Whether two values are the same in JSON, where true is not 1, as it is in Python.

Somebody who writes `true` where `1` was has changed something, and would wait for ever for whoever does not see it.
"""

from typing import Any


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same in JSON. Those that Python finds different are; the rest is looked at."""
    return bool(one == other) and _is_same(one, other)


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if isinstance(one, dict):
        return all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return all(map(_is_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool)
