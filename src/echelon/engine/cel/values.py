"""The values of CEL as Python has them, and what is equal, smaller, or of a type.

JSON is used as it is: nothing is converted before an expression looks at it. What Python holds equal and CEL does not
(true and 1) is told apart here.
"""

from dataclasses import dataclass
from typing import Any, Final

from echelon.engine.cel.checked import UnsignedInt
from echelon.engine.cel.metering import CHARACTERS, Meter
from echelon.engine.cel.times import Duration, Timestamp

NO_OVERLOAD: Final = "no such overload"
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_SHOWN = 200  # characters of a key that an error repeats


class ValueProblem(ValueError):
    """An expression has no value; the message says why."""


def no_overload() -> ValueProblem:
    """Return the error of an operator that does not know such operands."""
    return ValueProblem(NO_OVERLOAD)


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type, as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A key of a map that is a boolean: in Python, true would be the same key as 1."""

    value: bool


class Maybe:
    """An optional; `MISSING` is the one without a value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


_NOTHING = object()
MISSING: Final = Maybe(_NOTHING)


def has_value(maybe: Maybe) -> bool:
    """Tell whether an optional has a value."""
    return maybe.value is not _NOTHING


KINDS: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UnsignedInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    dict: "map",
    Timestamp: "timestamp",
    Duration: "duration",
    TypeName: "type",
    Maybe: "optional",
}
_TYPE_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "optional": "optional_type",
}
TYPES: Final = {name: TypeName(name) for kind in KINDS.values() for name in [_TYPE_NAMES.get(kind, kind)]}
_NUMBERS: Final = frozenset({int, float, UnsignedInt})
_ORDERED: Final = frozenset({bool, str, bytes, Timestamp, Duration})


def type_of(value: Any) -> TypeName:
    """Return the type of a value."""
    kind = KINDS[value.__class__]
    return TYPES[_TYPE_NAMES.get(kind, kind)]


def integer(value: int) -> int:
    """Return a result if it is an int of CEL."""
    if not INT_MIN <= value <= INT_MAX:
        raise ValueProblem("integer overflow")
    return value


def unsigned(value: int) -> UnsignedInt:
    """Return a result if it is an uint of CEL."""
    if not 0 <= value <= UINT_MAX:
        raise ValueProblem("unsigned integer overflow")
    return UnsignedInt(value)


def key_of(value: Any) -> Any:
    """Return how a map stores a key."""
    kind = value.__class__
    if kind is str:
        return value
    if kind is bool:
        return BoolKey(value)
    if kind in _NUMBERS:
        return int(value) if value == value // 1 else value
    raise ValueProblem("unsupported key type")


def plain_key(key: Any) -> Any:
    """Return the key that a map stores, as it was written."""
    return key.value if key.__class__ is BoolKey else key


def no_key(key: Any) -> ValueProblem:
    """Return the error of a map that has no such key."""
    return ValueProblem(f"no such key: {str(plain_key(key))[:_SHOWN]}")


def equal(meter: Meter, one: Any, other: Any) -> bool:
    """Tell whether two values are equal; numbers of different types may be."""
    left, right = one.__class__, other.__class__
    if left in _NUMBERS and right in _NUMBERS:
        return bool(one == other)
    if left is not right:
        return False
    if left is str or left is bytes:
        meter.pay(min(len(one), len(other)) // CHARACTERS)
        return bool(one == other)
    if left is list:
        meter.pay(min(len(one), len(other)))
        return len(one) == len(other) and all(equal(meter, a, b) for a, b in zip(one, other, strict=True))
    if left is dict:
        meter.pay(min(len(one), len(other)))
        return len(one) == len(other) and all(
            key in other and equal(meter, value, other[key]) for key, value in one.items()
        )
    if left is Maybe:
        if has_value(one) and has_value(other):
            return equal(meter, one.value, other.value)
        return has_value(one) == has_value(other)
    return bool(one == other)


def less(meter: Meter, one: Any, other: Any) -> bool:
    """Tell whether a value comes before another."""
    left, right = one.__class__, other.__class__
    if (left in _NUMBERS and right in _NUMBERS) or (left is right and left in _ORDERED):
        if left is str or left is bytes:
            meter.pay(min(len(one), len(other)) // CHARACTERS)
        return bool(one < other)
    raise no_overload()
