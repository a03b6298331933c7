"""CEL's extension for mathematics."""

import math
from collections.abc import Callable
from typing import Any, Final

from echelon.engine.cel.checked import UnsignedInt
from echelon.engine.cel.metering import Meter
from echelon.engine.cel.operators import Implementation, Table
from echelon.engine.cel.values import UINT_MAX, ValueProblem, integer, no_overload, unsigned

_ANY_TWO = ("dyn", "dyn")
_NUMBERS = ("int", "uint", "double")


def _extreme(name: str, *, largest: bool) -> Implementation:
    def run(meter: Meter, items: Any) -> Any:
        found = items if isinstance(items, list) else [items]
        meter.pay(len(found))
        if not found:
            raise ValueProblem(f"{name}() called with empty list")
        best = found[0]
        for each in found:
            if each.__class__ is bool or not isinstance(each, int | float):
                raise no_overload()
            if (each > best) if largest else (each < best):
                best = each
        return best

    return run


def _two(name: str, *, largest: bool) -> Implementation:
    pick = _extreme(name, largest=largest)
    return lambda meter, one, other: pick(meter, [one, other])


def _round(value: float) -> float:
    return value if not math.isfinite(value) else math.copysign(math.floor(abs(value) + 0.5), value)


def _whole(rounding: Callable[[float], int]) -> Implementation:
    return lambda _, value: float(rounding(value)) if math.isfinite(value) else value


def _shifted(by: int) -> Implementation:
    def run(_: Meter, value: int, places: int) -> int:
        if places < 0:
            raise ValueProblem("math.bitShift() negative offset")
        width = 64
        bits = value & UINT_MAX
        moved = 0 if places >= width else (bits << places) & UINT_MAX if by > 0 else bits >> places
        return UnsignedInt(moved) if isinstance(value, UnsignedInt) else moved - (1 << 64) if moved >> 63 else moved

    return run


def _bits(combine: Callable[[int, int], int]) -> dict[tuple[str, ...], Implementation]:
    return {
        ("int", "int"): lambda _, one, other: combine(one, other),
        ("uint", "uint"): lambda _, one, other: UnsignedInt(combine(one, other)),
    }


def _math(on_int: Callable[[int], Any], on_double: Callable[[float], Any]) -> dict[tuple[str, ...], Implementation]:
    return {
        ("int",): lambda _, value: on_int(value),
        ("uint",): lambda _, value: unsigned(on_int(value)),
        ("double",): lambda _, value: on_double(value),
    }


def _sign(value: float) -> float:
    return value if math.isnan(value) or value == 0 else math.copysign(1.0, value)


def _root(_: Meter, value: float) -> float:
    return math.nan if value < 0 else math.sqrt(value)


FUNCTIONS: Final[Table] = {
    "math.@max": {("list",): _extreme("math.@max", largest=True), ("dyn",): _extreme("math.@max", largest=True)}
    | {_ANY_TWO: _two("math.@max", largest=True)},
    "math.@min": {("list",): _extreme("math.@min", largest=False), ("dyn",): _extreme("math.@min", largest=False)}
    | {_ANY_TWO: _two("math.@min", largest=False)},
    "math.ceil": {("double",): _whole(math.ceil)},
    "math.floor": {("double",): _whole(math.floor)},
    "math.trunc": {("double",): _whole(math.trunc)},
    "math.round": {("double",): lambda _, value: _round(value)},
    "math.abs": _math(lambda value: integer(abs(value)), abs),
    "math.sign": _math(lambda value: (value > 0) - (value < 0), _sign),
    "math.isNaN": {("double",): lambda _, value: math.isnan(value)},
    "math.isInf": {("double",): lambda _, value: math.isinf(value)},
    "math.isFinite": {("double",): lambda _, value: math.isfinite(value)},
    "math.sqrt": {(kind,): _root for kind in _NUMBERS},
    "math.bitAnd": _bits(lambda one, other: one & other),
    "math.bitOr": _bits(lambda one, other: one | other),
    "math.bitXor": _bits(lambda one, other: one ^ other),
    "math.bitNot": {("int",): lambda _, value: ~value, ("uint",): lambda _, value: UnsignedInt(UINT_MAX ^ value)},
    "math.bitShiftLeft": {(kind, "int"): _shifted(1) for kind in ("int", "uint")},
    "math.bitShiftRight": {(kind, "int"): _shifted(-1) for kind in ("int", "uint")},
}
