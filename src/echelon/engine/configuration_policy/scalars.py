"""When two values of a field are the same.

A definition is written by hand and the object comes from a server, so the same value has several spellings: a number in
quotes, a quantity in another unit, a field that the server leaves out because it is zero. Text decides; where only the
meaning is the same, the answer is a doubt, which the server settles: it knows whether 1.10 is an amount or a version.
"""

import math
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from echelon.api.quantity import QuantityError, parse_quantity

ScalarKey: TypeAlias = str | int | Fraction

_AMOUNTS = frozenset("+-.0123456789")  # how an amount begins
_SHORT = 40  # amounts that are worth to be remembered


class Likeness(Enum):
    """How two values compare."""

    SAME = "same"
    DOUBTFUL = "doubtful"  # the same as far as one can tell without the server
    OTHER = "other"


def is_scalar(value: Any) -> bool:
    """Whether a value has no parts."""
    return not isinstance(value, dict | list)


def is_zero(value: Any) -> bool:
    """Whether a server may leave a field out instead of showing this value."""
    return value is None or value is False or value == 0 or value in ("", {}, [])


def text_of(value: Any) -> str:
    """Return how a scalar is written."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def scalar_key(value: Any) -> ScalarKey:
    """Return what scalars have in common that are the same or may be: an amount, else a text."""
    text = text_of(value)
    if text.isdecimal() and len(text) < 18:
        return int(text)
    if not text or text[0] not in _AMOUNTS:
        return text
    return _short_amount(text) if len(text) <= _SHORT else _amount(text)


def _amount(text: str) -> ScalarKey:
    try:
        amount = parse_quantity(text).exact()
    except QuantityError:
        return text
    return int(amount) if amount.denominator == 1 else amount


_short_amount = lru_cache(maxsize=4096)(_amount)


def likeness(existing: Any, desired: Any) -> Likeness:
    """Compare two scalars; `existing` is None where the field is missing."""
    if existing is None or desired is None:
        if existing is None and desired is None:
            return Likeness.SAME
        return Likeness.DOUBTFUL if is_zero(existing) and is_zero(desired) else Likeness.OTHER
    if text_of(existing) == text_of(desired):
        return Likeness.SAME
    return Likeness.DOUBTFUL if scalar_key(existing) == scalar_key(desired) else Likeness.OTHER
