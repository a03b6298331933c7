"""The functions that Kubernetes adds to CEL and that rules of CRDs use.

CEL's runtime knows no types of ours, so a quantity, an address or a version is a map with one entry: its exact value in
a canonical text. Equal values are equal maps, and everything else goes through the functions here. This module knows no
CEL library: it lists functions with the names of their parameter types, for the compiler and for the evaluator. Those
that take lists are metered, because what is in a list may be larger than the list.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from echelon.api.formats import is_cidr, is_ip, is_uri
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.engine.cel.metering import CHARACTERS, Meter
from echelon.engine.cel.operators import FUNCTIONS as FUNCTIONS_OF_CEL
from echelon.engine.cel.operators import fitting, kinds_of
from echelon.engine.cel.patterns import find, find_all
from echelon.engine.cel.values import equal, less, no_overload

Value = dict[str, str]
_ADDRESS = 25  # what reading an address costs

_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


@dataclass(frozen=True)
class Function:
    """A function or method of the library. Types are words: string, int, bool, double, dyn, list, value."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    run: Callable[..., Any]
    member: bool = True
    metered: bool = False  # it takes the meter first, and pays for itself
    cost: int = 5  # besides what going through its arguments costs

    def implementation(self) -> Callable[..., Any]:
        """Return what the evaluator calls, with the meter first."""
        run, cost = self.run, self.cost
        if self.metered:
            return run

        def paid(meter: Meter, *values: Any) -> Any:
            meter.pay(cost)
            for value in values:
                if value.__class__ is str:
                    meter.pay(len(value) // CHARACTERS)
            try:
                return run(*values)
            except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
                # A map that is no address, a version that is no quantity.
                raise no_overload() from error

        return paid


def _quantity(text: str) -> Value:
    if text != text.strip():  # only JSON may have blanks around it
        raise QuantityError(f"unable to parse quantity {text!r}")
    found = parse_quantity(text)
    return {"quantity": _exact(Decimal(f"{found.mantissa}e{found.exponent}"))}


def _exact(value: Decimal) -> str:
    return f"{value.normalize():f}" if value else "0"


def _is(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _number(value: Value) -> Decimal:
    if "quantity" not in value:
        raise ValueError("no such overload")
    return Decimal(value["quantity"])


def _operand(value: Value | int) -> Decimal:
    return Decimal(value) if isinstance(value, int) else _number(value)


def _semver(text: str) -> Value:
    if _SEMVER.fullmatch(text) is None:
        raise ValueError(f"invalid semantic version {text!r}")
    return {"semver": text.partition("+")[0]}


def _precedence(text: str) -> tuple[Any, ...]:
    """Order versions as semver does: a pre-release comes before its release, numbers before words."""
    core, _, pre = text.partition("-")
    parts = [(0, int(each), "") if each.isdecimal() else (1, 0, each) for each in pre.split(".")] if pre else []
    return (*map(int, core.split(".")), not pre, parts)


def _compare(one: Value, other: Value) -> int:
    left: Any
    right: Any
    if "semver" in one and "semver" in other:
        left, right = _precedence(one["semver"]), _precedence(other["semver"])
    else:
        left, right = _number(one), _number(other)
    return int(left > right) - int(left < right)


def _version_part(index: int) -> Callable[[Value], int]:
    return lambda value: int(value["semver"].partition("-")[0].split(".")[index])


def _as_integer(value: Value) -> int:
    number = _number(value)
    if number != number.to_integral_value() or not -(2**63) <= number < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(number)


def _is_integer(value: Value) -> bool:
    return _is(lambda _text: _as_integer(value))("")


def _arithmetic(sign: int) -> Callable[[Value, Value | int], Value]:
    return lambda one, other: {"quantity": _exact(_number(one) + sign * _operand(other))}


def _url(text: str) -> Value:
    if not is_uri(text):
        raise ValueError(f"URL parse error during conversion from string: {text!r}")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(f"URL parse error during conversion from string: {text!r}") from None
    return {"url": text}


def _url_part(take: Callable[[Any], Any]) -> Callable[[Value], Any]:
    return lambda value: take(urlsplit(value["url"]))


def _host(parts: Any) -> str:
    return str(parts.netloc.rpartition("@")[2])


def _hostname(parts: Any) -> str:
    host = _host(parts)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _ip(text: str) -> Value:
    if not is_ip(text, 4) and not is_ip(text, 6):
        raise ValueError(f"IP Address {text!r} parse error during conversion from string: unable to parse IP")
    return {"ip": str(ipaddress.ip_address(text))}


def _cidr(text: str) -> Value:
    if not is_cidr(text):
        raise ValueError(f"network address parse error during conversion from string: invalid CIDR {text!r}")
    return {"cidr": str(ipaddress.ip_interface(text))}


def _network(value: Value | str) -> Any:
    return ipaddress.ip_network(value if isinstance(value, str) else value["cidr"], strict=False)


def _address(value: Value | str) -> Any:
    return ipaddress.ip_address(value if isinstance(value, str) else value["ip"])


def _contains_address(value: Value, other: Value | str) -> bool:
    return _address(_ip(other) if isinstance(other, str) else other) in _network(value)


def _contains_network(value: Value, other: Value | str) -> bool:
    outer, inner = _network(value), _network(_cidr(other) if isinstance(other, str) else other)
    return outer.version == inner.version and bool(inner.subnet_of(outer))


def _ip_test(name: str) -> Callable[[Value], bool]:
    return lambda value: bool(getattr(_address(value), name))


def _is_sorted(meter: Meter, items: list[Any]) -> bool:
    meter.traverse(items)
    return not any(less(meter, other, one) for one, other in pairwise(items))


def _sum(meter: Meter, items: list[Any]) -> Any:
    meter.pay(len(items))
    if not items:
        return 0
    add = FUNCTIONS_OF_CEL["_+_"]
    total = items[0]
    for each in items[1:]:
        run = fitting(add, kinds_of((total, each)))
        if run is None or isinstance(each, str | bytes | list):
            raise no_overload()
        total = run(meter, total, each)
    return total


def _extreme(name: str, *, largest: bool) -> Callable[[Meter, list[Any]], Any]:
    def run(meter: Meter, items: list[Any]) -> Any:
        meter.traverse(items)
        if not items:
            raise ValueError(f"{name} called on empty list")
        best = items[0]
        for each in items[1:]:
            if less(meter, best, each) if largest else less(meter, each, best):
                best = each
        return best

    return run


def _index_of(meter: Meter, items: list[Any], item: object) -> int:
    meter.pay(len(items))
    return next((index for index, each in enumerate(items) if equal(meter, each, item)), -1)


def _last_index_of(meter: Meter, items: list[Any], item: object) -> int:
    meter.pay(len(items))
    return next((index for index in reversed(range(len(items))) if equal(meter, items[index], item)), -1)


def _contains_all(meter: Meter, items: list[Any], others: list[Any]) -> bool:
    meter.pay(len(items) * len(others))
    return all(any(equal(meter, item, other) for item in items) for other in others)


def _equivalent(meter: Meter, one: list[Any], other: list[Any]) -> bool:
    return _contains_all(meter, one, other) and _contains_all(meter, other, one)


def _intersects(meter: Meter, one: list[Any], other: list[Any]) -> bool:
    meter.pay(len(one) * len(other))
    return any(equal(meter, item, each) for item in one for each in other)


def _methods(
    names: str,
    parameters: Sequence[str],
    returns: str,
    run: Callable[..., Any],
    *,
    metered: bool = False,
    cost: int = 5,
) -> list[Function]:
    return [Function(name, tuple(parameters), returns, run, metered=metered, cost=cost) for name in names.split()]


def _functions(
    names: str,
    parameters: Sequence[str],
    returns: str,
    run: Callable[..., Any],
    *,
    metered: bool = False,
    cost: int = 5,
) -> list[Function]:
    return [
        Function(name, tuple(parameters), returns, run, member=False, metered=metered, cost=cost)
        for name in names.split()
    ]


FUNCTIONS: list[Function] = [
    *_functions("quantity", ["string"], "value", _quantity),
    *_functions("isQuantity", ["string"], "bool", _is(_quantity)),
    *_methods("isLessThan", ["value", "value"], "bool", lambda one, other: _compare(one, other) < 0),
    *_methods("isGreaterThan", ["value", "value"], "bool", lambda one, other: _compare(one, other) > 0),
    *_methods("compareTo", ["value", "value"], "int", _compare),
    *_methods("sign", ["value"], "int", lambda value: (_number(value) > 0) - (_number(value) < 0)),
    *_methods("add", ["value", "value"], "value", _arithmetic(1)),
    *_methods("add", ["value", "int"], "value", _arithmetic(1)),
    *_methods("sub", ["value", "value"], "value", _arithmetic(-1)),
    *_methods("sub", ["value", "int"], "value", _arithmetic(-1)),
    *_methods("isInteger", ["value"], "bool", _is_integer),
    *_methods("asInteger", ["value"], "int", _as_integer),
    *_methods("asApproximateFloat", ["value"], "double", lambda value: float(_number(value))),
    *_functions("semver", ["string"], "value", _semver),
    *_functions("isSemver", ["string"], "bool", _is(_semver)),
    *_methods("major", ["value"], "int", _version_part(0)),
    *_methods("minor", ["value"], "int", _version_part(1)),
    *_methods("patch", ["value"], "int", _version_part(2)),
    *_functions("url", ["string"], "value", _url),
    *_functions("isURL", ["string"], "bool", _is(_url)),
    *_methods("getScheme", ["value"], "string", _url_part(lambda parts: parts.scheme)),
    *_methods("getHost", ["value"], "string", _url_part(_host)),
    *_methods("getHostname", ["value"], "string", _url_part(_hostname)),
    *_methods("getPort", ["value"], "string", _url_part(lambda parts: str(parts.port or ""))),
    *_methods(
        "getEscapedPath", ["value"], "string", _url_part(lambda parts: quote(parts.path, safe="/%:@!$&'()*+,;=~"))
    ),
    *_methods("getQuery", ["value"], "dyn", _url_part(lambda parts: parse_qs(parts.query, keep_blank_values=True))),
    *_functions("ip", ["string"], "value", _ip, cost=_ADDRESS),
    *_functions("isIP", ["string"], "bool", _is(_ip), cost=_ADDRESS),
    *_functions("ip.isCanonical", ["string"], "bool", lambda text: _ip(text)["ip"] == text, cost=_ADDRESS),
    *_methods("family", ["value"], "int", lambda value: _address(value).version, cost=_ADDRESS),
    *_methods("isLoopback", ["value"], "bool", _ip_test("is_loopback"), cost=_ADDRESS),
    *_methods("isUnspecified", ["value"], "bool", _ip_test("is_unspecified"), cost=_ADDRESS),
    *_methods("isLinkLocalUnicast", ["value"], "bool", _ip_test("is_link_local"), cost=_ADDRESS),
    *_functions("cidr", ["string"], "value", _cidr, cost=_ADDRESS),
    *_functions("isCIDR", ["string"], "bool", _is(_cidr), cost=_ADDRESS),
    *_methods("containsIP", ["value", "string"], "bool", _contains_address, cost=_ADDRESS),
    *_methods("containsIP", ["value", "value"], "bool", _contains_address, cost=_ADDRESS),
    *_methods(
        "containsCIDR",
        ["value", "string"],
        "bool",
        lambda net, other: _contains_network(net, _cidr(other)),
        cost=_ADDRESS,
    ),
    *_methods("containsCIDR", ["value", "value"], "bool", _contains_network, cost=_ADDRESS),
    *_methods("ip", ["value"], "value", lambda net: {"ip": net["cidr"].partition("/")[0]}, cost=_ADDRESS),
    *_methods("prefixLength", ["value"], "int", lambda net: _network(net).prefixlen, cost=_ADDRESS),
    *_methods("masked", ["value"], "value", lambda net: {"cidr": str(_network(net))}, cost=_ADDRESS),
    *_methods("find", ["string", "string"], "string", find, metered=True),
    *_methods("findAll", ["string", "string"], "list", find_all, metered=True),
    *_methods("findAll", ["string", "string", "int"], "list", find_all, metered=True),
    *_methods("isSorted", ["list"], "bool", _is_sorted, metered=True),
    *_methods("sum", ["list"], "dyn", _sum, metered=True),
    *_methods("min", ["list"], "dyn", _extreme("min", largest=False), metered=True),
    *_methods("max", ["list"], "dyn", _extreme("max", largest=True), metered=True),
    *_methods("indexOf", ["list", "dyn"], "int", _index_of, metered=True),
    *_methods("lastIndexOf", ["list", "dyn"], "int", _last_index_of, metered=True),
    *_functions("sets.contains", ["list", "list"], "bool", _contains_all, metered=True),
    *_functions("sets.equivalent", ["list", "list"], "bool", _equivalent, metered=True),
    *_functions("sets.intersects", ["list", "list"], "bool", _intersects, metered=True),
]
