"""Reads the checked form of an expression, in which the compiler of the CEL runtime hands it over.

The runtime parses and checks types, but gives no account of what evaluating costs, and cannot be stopped once it
evaluates. So only its compiler is used: what it made of a text is read here from the wire format of
`cel.expr.CheckedExpr`, as far as an evaluator needs it, and evaluated by our own.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_BOOL, _INT64, _UINT64, _DOUBLE, _STRING, _RAW = 2, 3, 4, 5, 6, 7  # kinds of constants; 1 is null


class UnsupportedExpression(ValueError):
    """The expression uses a part of CEL that is not evaluated here."""


class UnsignedInt(int):
    """An integer of CEL's type uint."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Const:
    """A literal."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of something; with `test`, whether it is there."""

    operand: "Node"
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, a function, or a method of `target`."""

    function: str
    target: "Node | None"
    args: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; items at `optional` positions are left out if they have no value."""

    items: "tuple[Node, ...]"
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map of keys and values; the flag marks entries that are left out if they have no value."""

    entries: "tuple[tuple[Node, Node, bool], ...]"


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What macros become: a loop over `items` that works on one value."""

    variable: str
    items: "Node"
    result_variable: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node: TypeAlias = Const | Ident | Select | Call | ListOf | MapOf | Comprehension
_Fields: TypeAlias = dict[int, list[Any]]

_ANY_VALUE: Final = 2  # google.protobuf.Any
_EXPRESSION: Final = 4  # of CheckedExpr
_SIGN = 1 << 63


def read(message: bytes) -> Node:
    """Read a CheckedExpr that is wrapped in an Any."""
    checked = _fields(_fields(message)[_ANY_VALUE][0])
    return _node(checked[_EXPRESSION][0])


def _fields(message: bytes) -> _Fields:
    found: _Fields = {}
    for number, value in _walk(message):
        found.setdefault(number, []).append(value)
    return found


def _walk(message: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        value: Any
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _FIXED64:
            value, at = message[at : at + 8], at + 8
        elif kind == _FIXED32:
            value, at = message[at : at + 4], at + 4
        else:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        yield tag >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _node(message: bytes) -> Node:
    fields = _fields(message)
    for number, make in ((3, _const), (4, _ident), (5, _select), (6, _call), (7, _list), (8, _map), (9, _loop)):
        if number in fields:
            return make(_fields(fields[number][0]))
    raise UnsupportedExpression("an empty expression")


def _const(fields: _Fields) -> Node:
    for number, (value,) in fields.items():
        if number == _BOOL:
            return Const(bool(value))
        if number == _INT64:
            return Const(value - (1 << 64) if value & _SIGN else value)
        if number == _UINT64:
            return Const(UnsignedInt(value))
        if number == _DOUBLE:
            return Const(struct.unpack("<d", value)[0])
        if number == _STRING:
            return Const(value.decode())
        if number == _RAW:
            return Const(bytes(value))
    return Const(None)


def _ident(fields: _Fields) -> Node:
    return Ident(_text(fields, 1))


def _select(fields: _Fields) -> Node:
    return Select(_node(fields[1][0]), _text(fields, 2), bool(fields.get(3, [0])[0]))


def _call(fields: _Fields) -> Node:
    target = _node(fields[1][0]) if 1 in fields else None
    return Call(_text(fields, 2), target, tuple(map(_node, fields.get(3, ()))))


def _list(fields: _Fields) -> Node:
    optional: set[int] = set()
    for packed in fields.get(2, ()):
        at = 0
        while at < len(packed):
            index, at = _varint(packed, at)
            optional.add(index)
    return ListOf(tuple(map(_node, fields.get(1, ()))), frozenset(optional))


def _map(fields: _Fields) -> Node:
    if 1 in fields:
        raise UnsupportedExpression(f"messages like {_text(fields, 1)} cannot be made here")
    entries = (_fields(entry) for entry in fields.get(2, ()))
    return MapOf(tuple((_node(each[3][0]), _node(each[4][0]), bool(each.get(5, [0])[0])) for each in entries))


def _loop(fields: _Fields) -> Node:
    if 8 in fields:
        raise UnsupportedExpression("macros with two variables are not supported here")
    items, start, condition, step, result = (_node(fields[number][0]) for number in (2, 4, 5, 6, 7))
    return Comprehension(_text(fields, 1), items, _text(fields, 3), start, condition, step, result)


def _text(fields: _Fields, number: int) -> str:
    return bytes(fields[number][0]).decode() if number in fields else ""
