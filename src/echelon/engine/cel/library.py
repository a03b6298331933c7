"""The functions that Kubernetes adds to CEL and that rules of CRDs use.

CEL's runtime knows no types of ours, so a quantity, an address or a version is a map with one entry: its exact value in
a canonical text. Equal values are equal maps, and everything else goes through the functions here. This module knows no
CEL library: it lists functions with the names of their parameter types, and the evaluator registers them.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from echelon.api.formats import is_cidr, is_ip, is_uri
from echelon.api.quantity import QuantityError, parse_quantity

Value = dict[str, str]

MAX_SUBJECT = 16 * 1024  # characters that a pattern may search in
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


def _contains_network(value: Value, other: Value | str) -> bool:
    outer, inner = _network(value), _network(other)
    return outer.version == inner.version and bool(inner.subnet_of(outer))


def _ip_test(name: str) -> Callable[[Value], bool]:
    return lambda value: bool(getattr(_address(value), name))


@lru_cache(maxsize=256)
def _searchable(pattern: str) -> re.Pattern[str]:
    """Compile for a backtracking engine; refuse what could take exponential time there."""
    if re.search(r"\((?:[^()\\]|\\.)*[*+|}](?:[^()\\]|\\.)*\)(?:[*+]|\{[0-9]+,)", pattern):
        raise ValueError(f"pattern {pattern!r} repeats a group that repeats or branches, which is not supported here")
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise ValueError(f"illegal regex: {error}") from None


def _subject(text: str) -> str:
    if len(text) > MAX_SUBJECT:
        raise ValueError(f"text of more than {MAX_SUBJECT} characters cannot be searched")
    return text


def _find(text: str, pattern: str) -> str:
    found = _searchable(pattern).search(_subject(text))
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [each[0] for each in _searchable(pattern).finditer(_subject(text))]
    return found if limit < 0 else found[:limit]


def _is_sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in pairwise(items))


def _extreme(pick: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def run(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return pick(items)

    return run


def _index_of(items: list[Any], item: object) -> int:
    return next((index for index, each in enumerate(items) if each == item), -1)


def _last_index_of(items: list[Any], item: object) -> int:
    return next((index for index in reversed(range(len(items))) if items[index] == item), -1)


def _contains_all(items: list[Any], others: list[Any]) -> bool:
    return all(other in items for other in others)


def _methods(names: str, parameters: Sequence[str], returns: str, run: Callable[..., Any]) -> list[Function]:
    return [Function(name, tuple(parameters), returns, run) for name in names.split()]


def _functions(names: str, parameters: Sequence[str], returns: str, run: Callable[..., Any]) -> list[Function]:
    return [Function(name, tuple(parameters), returns, run, member=False) for name in names.split()]


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
    *_functions("ip", ["string"], "value", _ip),
    *_functions("isIP", ["string"], "bool", _is(_ip)),
    *_functions("ip.isCanonical", ["string"], "bool", lambda text: _ip(text)["ip"] == text),
    *_methods("family", ["value"], "int", lambda value: _address(value).version),
    *_methods("isLoopback", ["value"], "bool", _ip_test("is_loopback")),
    *_methods("isUnspecified", ["value"], "bool", _ip_test("is_unspecified")),
    *_methods("isLinkLocalUnicast", ["value"], "bool", _ip_test("is_link_local")),
    *_functions("cidr", ["string"], "value", _cidr),
    *_functions("isCIDR", ["string"], "bool", _is(_cidr)),
    *_methods("containsIP", ["value", "string"], "bool", lambda net, ip: _address(_ip(ip)) in _network(net)),
    *_methods("containsIP", ["value", "value"], "bool", lambda net, ip: _address(ip) in _network(net)),
    *_methods("containsCIDR", ["value", "string"], "bool", lambda net, other: _contains_network(net, _cidr(other))),
    *_methods("containsCIDR", ["value", "value"], "bool", _contains_network),
    *_methods("ip", ["value"], "value", lambda net: {"ip": net["cidr"].partition("/")[0]}),
    *_methods("prefixLength", ["value"], "int", lambda net: _network(net).prefixlen),
    *_methods("masked", ["value"], "value", lambda net: {"cidr": str(_network(net))}),
    *_methods("find", ["string", "string"], "string", _find),
    *_methods("findAll", ["string", "string"], "list", _find_all),
    *_methods("findAll", ["string", "string", "int"], "list", _find_all),
    *_methods("isSorted", ["list"], "bool", _is_sorted),
    *_methods("sum", ["list"], "dyn", sum),
    *_methods("min", ["list"], "dyn", _extreme(min, "min")),
    *_methods("max", ["list"], "dyn", _extreme(max, "max")),
    *_methods("indexOf", ["list", "dyn"], "int", _index_of),
    *_methods("lastIndexOf", ["list", "dyn"], "int", _last_index_of),
    *_functions("sets.contains", ["list", "list"], "bool", _contains_all),
    *_functions("sets.equivalent", ["list", "list"], "bool", lambda a, b: _contains_all(a, b) and _contains_all(b, a)),
    *_functions("sets.intersects", ["list", "list"], "bool", lambda a, b: any(each in b for each in a)),
]
