"""Operators, conversions and the functions of CEL's standard, and those for optional values and base64.

All of them take the meter first, and pay for what they go through or make before they do.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeAlias

from echelon.engine.cel.checked import UnsignedInt
from echelon.engine.cel.metering import CHARACTERS, Meter
from echelon.engine.cel.patterns import matches
from echelon.engine.cel.times import Duration, Timestamp, duration, timestamp
from echelon.engine.cel.values import (
    INT_MAX,
    INT_MIN,
    KINDS,
    MISSING,
    UINT_MAX,
    Maybe,
    ValueProblem,
    equal,
    has_value,
    integer,
    key_of,
    less,
    no_key,
    no_overload,
    type_of,
    unsigned,
)

Implementation: TypeAlias = Callable[..., Any]
Table: TypeAlias = dict[str, dict[tuple[str, ...], Implementation]]

_DIGITS = re.compile(r"[+-]?[0-9]{1,20}")
_FLOAT = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE
)
_LONGEST_NUMBER = 400
_TIME_COST = 6
_TRUE, _FALSE = (
    frozenset({"1", "t", "T", "true", "TRUE", "True"}),
    frozenset({"0", "f", "F", "false", "FALSE", "False"}),
)


def _joined(meter: Meter, one: Any, other: Any) -> Any:
    meter.pay((len(one) + len(other)) // CHARACTERS)
    return one + other


def _divided(one: int, other: int) -> int:
    if other == 0:
        raise ValueProblem("division by zero")
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _modulus(one: int, other: int) -> int:
    if other == 0:
        raise ValueProblem("modulus by zero")
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def _quotient(one: float, other: float) -> float:
    if other == 0:
        return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1.0, other)
    return one / other


def _float(make: Callable[[], float]) -> float:
    try:
        return make()
    except OverflowError:
        return math.inf


def _contains(meter: Meter, item: Any, items: list[Any]) -> bool:
    meter.pay(len(items))
    return any(equal(meter, item, each) for each in items)


def index(_: Meter, holder: Any, key: Any) -> Any:
    """Return an item of a list or of a map."""
    if holder.__class__ is list:
        if key.__class__ is bool or not isinstance(key, int | float) or key != key // 1:
            raise no_overload()
        if not 0 <= key < len(holder):
            raise ValueProblem(f"index out of bounds: {int(key)}")
        return holder[int(key)]
    if holder.__class__ is dict:
        stored = key if key.__class__ is str else key_of(key)
        if stored not in holder:
            raise no_key(stored)
        return holder[stored]
    if holder.__class__ is Maybe:
        return maybe_index(_, holder, key)
    raise no_overload()


def maybe_index(_: Meter, holder: Any, key: Any) -> Maybe:
    """Return an item as an optional."""
    if holder.__class__ is Maybe:
        if not has_value(holder):
            return MISSING
        holder = holder.value
    if holder.__class__ not in (list, dict):
        raise no_overload()
    try:
        return Maybe(index(_, holder, key))
    except ValueProblem:
        return MISSING


def _maybe_unless_zero(_: Meter, value: Any) -> Maybe:
    zero = value is None or value in (False, 0, "", b"") or (isinstance(value, list | dict) and not value)
    return MISSING if zero else Maybe(value)


def _value(_: Meter, maybe: Maybe) -> Any:
    if not has_value(maybe):
        raise ValueProblem("optional.none() dereference")
    return maybe.value


def _to_int(_: Meter, value: Any) -> int:
    if isinstance(value, str):
        if _DIGITS.fullmatch(value) is None:
            raise ValueProblem("cannot convert value to int")
        return integer(int(value))
    if isinstance(value, float):
        if not math.isfinite(value) or not INT_MIN < value < INT_MAX:
            raise ValueProblem("integer overflow")
        return int(value)
    if isinstance(value, Timestamp):
        return value.nanoseconds // 10**9
    return integer(int(value))


def _to_uint(_: Meter, value: Any) -> UnsignedInt:
    if isinstance(value, str):
        if _DIGITS.fullmatch(value) is None:
            raise ValueProblem("cannot convert value to uint")
        return unsigned(int(value))
    if isinstance(value, float):
        if not math.isfinite(value) or not 0 <= value < UINT_MAX:
            raise ValueProblem("unsigned integer overflow")
        return UnsignedInt(int(value))
    return unsigned(int(value))


def _to_double(_: Meter, value: Any) -> float:
    if isinstance(value, str) and (len(value) > _LONGEST_NUMBER or _FLOAT.fullmatch(value) is None):
        raise ValueProblem("cannot convert value to double")
    return float(value)


def number_text(value: float) -> str:
    """Write a double as Go does: the shortest text that reads back as the same number."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        sign = "-" if exponent.startswith("-") else "+"
        return f"{mantissa.removesuffix('.0')}e{sign}{exponent.lstrip('+-').zfill(2)}"
    return text.removesuffix(".0")


def to_string(meter: Meter, value: Any) -> str:
    """Convert a value to a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, bytes):
        meter.pay(len(value) // CHARACTERS)
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueProblem("invalid UTF-8 in bytes, cannot convert to string") from None
    return str(value)


def _to_bytes(meter: Meter, value: str) -> bytes:
    meter.pay(len(value) // CHARACTERS)
    return value.encode("utf-8", "surrogatepass")


def _to_bool(_: Meter, value: str) -> bool:
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise ValueProblem("cannot convert value to bool")


def _encoded(meter: Meter, value: bytes) -> str:
    meter.pay(len(value) // CHARACTERS)
    return base64.b64encode(value).decode()


def _decoded(meter: Meter, value: str) -> bytes:
    meter.pay(len(value) // CHARACTERS)
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueProblem("invalid base64 data") from None


def _timed(meter: Meter, read: Callable[[str], Any], text: str) -> Any:
    meter.pay(_TIME_COST + len(text) // CHARACTERS)
    return read(text)


def _at(take: Callable[[datetime], int]) -> Table:
    return {
        "": {
            ("timestamp",): lambda meter, when: take(_timed(meter, when.at, "UTC")),
            ("timestamp", "string"): lambda meter, when, zone: take(_timed(meter, when.at, zone)),
        }
    }


def _clock(take: Callable[[datetime], int], unit: int, wraps: int = 0) -> dict[tuple[str, ...], Implementation]:
    def of_duration(_: Meter, length: Duration) -> int:
        whole = _divided(length.nanoseconds, unit)
        return _modulus(whole, wraps) if wraps else whole

    return {**_at(take)[""], ("duration",): of_duration}


def _size(_: Meter, value: Any) -> int:
    return len(value)


def _search(meter: Meter, text: str, part: str) -> bool:
    meter.pay((len(text) // CHARACTERS + 1) * (len(part) // CHARACTERS + 1))
    return part in text


def _begins(meter: Meter, text: str, part: str) -> bool:
    meter.pay(len(part) // CHARACTERS)
    return text.startswith(part)


def _ends(meter: Meter, text: str, part: str) -> bool:
    meter.pay(len(part) // CHARACTERS)
    return text.endswith(part)


def _at_most(meter: Meter, one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one <= other  # neither of which is true of what is not a number
    return not less(meter, other, one)


_ANY_TWO = ("dyn", "dyn")
_NUMBERS = ("int", "uint", "double")
_SIZED: dict[tuple[str, ...], Implementation] = {(kind,): _size for kind in ("string", "bytes", "list", "map")}
_HOURS = _clock(lambda when: when.hour, 3600 * 10**9)
_MINUTES = _clock(lambda when: when.minute, 60 * 10**9)
_SECONDS = _clock(lambda when: when.second, 10**9)
_MILLISECONDS = _clock(lambda when: when.microsecond // 1000, 10**6, 1000)


FUNCTIONS: Final[Table] = {
    "_==_": {_ANY_TWO: equal},
    "_!=_": {_ANY_TWO: lambda meter, one, other: not equal(meter, one, other)},
    "_<_": {_ANY_TWO: less},
    "_>_": {_ANY_TWO: lambda meter, one, other: less(meter, other, one)},
    "_<=_": {_ANY_TWO: _at_most},
    "_>=_": {_ANY_TWO: lambda meter, one, other: _at_most(meter, other, one)},
    "_+_": {
        ("int", "int"): lambda _, one, other: integer(one + other),
        ("uint", "uint"): lambda _, one, other: unsigned(one + other),
        ("double", "double"): lambda _, one, other: one + other,
        ("string", "string"): _joined,
        ("bytes", "bytes"): _joined,
        ("list", "list"): _joined,
        ("timestamp", "duration"): lambda _, one, other: Timestamp(one.nanoseconds + other.nanoseconds),
        ("duration", "timestamp"): lambda _, one, other: Timestamp(one.nanoseconds + other.nanoseconds),
        ("duration", "duration"): lambda _, one, other: Duration(one.nanoseconds + other.nanoseconds),
    },
    "_-_": {
        ("int", "int"): lambda _, one, other: integer(one - other),
        ("uint", "uint"): lambda _, one, other: unsigned(one - other),
        ("double", "double"): lambda _, one, other: one - other,
        ("timestamp", "timestamp"): lambda _, one, other: Duration(one.nanoseconds - other.nanoseconds),
        ("timestamp", "duration"): lambda _, one, other: Timestamp(one.nanoseconds - other.nanoseconds),
        ("duration", "duration"): lambda _, one, other: Duration(one.nanoseconds - other.nanoseconds),
    },
    "_*_": {
        ("int", "int"): lambda _, one, other: integer(one * other),
        ("uint", "uint"): lambda _, one, other: unsigned(one * other),
        ("double", "double"): lambda _, one, other: _float(lambda: one * other),
    },
    "_/_": {
        ("int", "int"): lambda _, one, other: integer(_divided(one, other)),
        ("uint", "uint"): lambda _, one, other: unsigned(_divided(one, other)),
        ("double", "double"): lambda _, one, other: _quotient(one, other),
    },
    "_%_": {
        ("int", "int"): lambda _, one, other: _modulus(one, other),
        ("uint", "uint"): lambda _, one, other: unsigned(_modulus(one, other)),
    },
    "-_": {("int",): lambda _, value: integer(-value), ("double",): lambda _, value: -value},
    "!_": {("bool",): lambda _, value: not value},
    "@in": {
        ("dyn", "list"): _contains,
        ("dyn", "map"): lambda _, key, holder: (key if key.__class__ is str else key_of(key)) in holder,
    },
    "_[_]": {_ANY_TWO: index},
    "_[?_]": {_ANY_TWO: maybe_index},
    "size": _SIZED,
    "type": {("dyn",): lambda _, value: type_of(value)},
    "dyn": {("dyn",): lambda _, value: value},
    "int": {(kind,): _to_int for kind in (*_NUMBERS, "string", "timestamp")},
    "uint": {(kind,): _to_uint for kind in (*_NUMBERS, "string")},
    "double": {(kind,): _to_double for kind in (*_NUMBERS, "string")},
    "string": {(kind,): to_string for kind in (*_NUMBERS, "string", "bytes", "bool", "timestamp", "duration")},
    "bytes": {("string",): _to_bytes, ("bytes",): lambda _, value: value},
    "bool": {("string",): _to_bool, ("bool",): lambda _, value: value},
    "timestamp": {
        ("string",): lambda meter, text: _timed(meter, timestamp, text),
        ("int",): lambda _, seconds: Timestamp(seconds * 10**9),
        ("timestamp",): lambda _, value: value,
    },
    "duration": {
        ("string",): lambda meter, text: _timed(meter, duration, text),
        ("int",): lambda _, seconds: Duration(seconds * 10**9),
        ("duration",): lambda _, value: value,
    },
    "optional.of": {("dyn",): lambda _, value: Maybe(value)},
    "optional.none": {(): lambda _: MISSING},
    "optional.ofNonZeroValue": {("dyn",): _maybe_unless_zero},
    "base64.encode": {("bytes",): _encoded},
    "base64.decode": {("string",): _decoded},
    "matches": {("string", "string"): matches},
}

METHODS: Final[Table] = {
    "size": _SIZED,
    "matches": {("string", "string"): matches},
    "contains": {("string", "string"): _search},
    "startsWith": {("string", "string"): _begins},
    "endsWith": {("string", "string"): _ends},
    "hasValue": {("optional",): lambda _, maybe: has_value(maybe)},
    "value": {("optional",): _value},
    "getFullYear": _at(lambda when: when.year)[""],
    "getMonth": _at(lambda when: when.month - 1)[""],
    "getDayOfYear": _at(lambda when: when.timetuple().tm_yday - 1)[""],
    "getDayOfMonth": _at(lambda when: when.day - 1)[""],
    "getDate": _at(lambda when: when.day)[""],
    "getDayOfWeek": _at(lambda when: when.isoweekday() % 7)[""],
    "getHours": _HOURS,
    "getMinutes": _MINUTES,
    "getSeconds": _SECONDS,
    "getMilliseconds": _MILLISECONDS,
}


def fitting(overloads: dict[tuple[str, ...], Implementation], kinds: tuple[str, ...]) -> Implementation | None:
    """Return the implementation for arguments of these kinds."""
    for wanted, run in overloads.items():
        if len(wanted) == len(kinds) and all(want in ("dyn", kind) for want, kind in zip(wanted, kinds, strict=True)):
            return run
    return None


def kinds_of(values: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the kinds of values."""
    try:
        return tuple(KINDS[value.__class__] for value in values)
    except KeyError:
        raise no_overload() from None
