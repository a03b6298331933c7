"""CEL's extension for strings. What a function is about to make is paid for first, by its length."""

from typing import Any, Final

from echelon.engine.cel.checked import UnsignedInt
from echelon.engine.cel.metering import CHARACTERS, Meter
from echelon.engine.cel.operators import Table, number_text, to_string
from echelon.engine.cel.values import KINDS, TypeName, ValueProblem, no_overload, plain_key

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {"\\": "\\\\", '"': '\\"'}
_MAX_PRECISION = 100


def _through(meter: Meter, text: str) -> str:
    meter.pay(len(text) // CHARACTERS)
    return text


def _char_at(_: Meter, text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise ValueProblem(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(meter: Meter, text: str, part: str, at: int = 0) -> int:
    _search(meter, text, part)
    if at < 0 or at > len(text):
        raise ValueProblem(f"index out of range: {at}")
    return text.find(part, at)


def _last_index_of(meter: Meter, text: str, part: str, at: int | None = None) -> int:
    _search(meter, text, part)
    if at is None:
        return text.rfind(part)
    if at < 0 or at > len(text):
        raise ValueProblem(f"index out of range: {at}")
    return text.rfind(part, 0, at + len(part))


def _search(meter: Meter, text: str, part: str) -> None:
    meter.pay((len(text) // CHARACTERS + 1) * (len(part) // CHARACTERS + 1))


def _join(meter: Meter, items: list[Any], between: str = "") -> str:
    meter.pay(len(items) * (1 + len(between) // CHARACTERS))
    total = 0
    for item in items:
        if item.__class__ is not str:
            raise no_overload()
        total += len(item)
    meter.pay((total + len(items) * len(between)) // CHARACTERS)
    return between.join(items)


def _replace(meter: Meter, text: str, old: str, new: str, limit: int = -1) -> str:
    _search(meter, text, old)
    found = text.count(old) if limit < 0 else min(limit, text.count(old))
    meter.pay((len(text) + found * (len(new) + 1)) // CHARACTERS)
    return text.replace(old, new, limit)


def _split(meter: Meter, text: str, between: str, limit: int = -1) -> list[str]:
    _search(meter, text, between)
    if limit == 0:
        return []
    if not between:
        pieces = list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
        meter.pay(len(pieces))
        return pieces
    meter.pay(1 + min(text.count(between), limit if limit > 0 else len(text)))
    return text.split(between, limit - 1 if limit > 0 else -1)


def _substring(meter: Meter, text: str, begin: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= begin <= len(text) or not 0 <= last <= len(text):
        raise ValueProblem(f"index out of range: {begin if not 0 <= begin <= len(text) else last}")
    if begin > last:
        raise ValueProblem(f"invalid substring range. start: {begin}, end: {last}")
    meter.pay((last - begin) // CHARACTERS)
    return text[begin:last]


def _quote(meter: Meter, text: str) -> str:
    meter.pay(len(text))  # character by character
    return f'"{"".join(_ESCAPES.get(char, char) for char in text)}"'


def _lower(meter: Meter, text: str) -> str:
    return _through(meter, text).translate(_LOWER)


def _upper(meter: Meter, text: str) -> str:
    return _through(meter, text).translate(_UPPER)


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def _format(meter: Meter, text: str, values: list[Any]) -> str:
    """Fill in values: `%s`, `%d`, `%f`, `%e`, `%b`, `%o`, `%x`, `%X`, with a precision for the middle two."""
    meter.pay(len(text))
    parts: list[str] = []
    taken = at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "%":
            parts.append(char)
            continue
        if text[at : at + 1] == "%":
            parts.append("%")
            at += 1
            continue
        begin = at
        while at < len(text) and text[at] in ".0123456789" and at - begin < len(".100"):
            at += 1
        precision = text[begin:at].removeprefix(".")
        if (precision and not text.startswith(".", begin)) or int(precision or "0") > _MAX_PRECISION:
            raise ValueProblem("could not parse formatting clause: bad precision")
        if at >= len(text):
            raise ValueProblem("unexpected end of format string")
        if taken >= len(values):
            raise ValueProblem(f"index {taken} out of range")
        parts.append(_clause(meter, text[at], values[taken], int(precision or "6")))
        taken += 1
        at += 1
    return "".join(parts)


def _clause(meter: Meter, verb: str, value: Any, precision: int) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if verb == "s":
        return _shown(meter, value)
    if verb == "d" and whole:
        return str(int(value))
    if verb in "fe" and (whole or isinstance(value, float)):
        return format(float(value), f".{precision}{verb}")
    if verb == "b" and isinstance(value, int):
        return format(int(value), "b")
    if verb in "oxX" and whole:
        return format(int(value), verb)
    if verb in "xX" and isinstance(value, str | bytes):
        meter.pay(len(value))
        raw = value.encode() if isinstance(value, str) else value
        return raw.hex() if verb == "x" else raw.hex().upper()
    if verb not in "sdfeboxX":
        raise ValueProblem(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    raise ValueProblem(
        f"error during formatting: {KINDS.get(value.__class__, 'value')} cannot be formatted with %{verb}"
    )


def _shown(meter: Meter, value: Any) -> str:
    meter.pay(1)
    if isinstance(value, str):
        return _through(meter, value)
    if value is None:
        return "null"
    if isinstance(value, TypeName):
        return value.name
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, list):
        return f"[{', '.join([_shown(meter, each) for each in value])}]"
    if isinstance(value, dict):
        entries = sorted((_shown(meter, plain_key(key)), each) for key, each in value.items())
        return f"{{{', '.join([f'{key}: {_shown(meter, each)}' for key, each in entries])}}}"
    if isinstance(value, bool | int | UnsignedInt | bytes) or KINDS.get(value.__class__) in ("timestamp", "duration"):
        return to_string(meter, value)
    raise no_overload()


METHODS: Final[Table] = {
    "charAt": {("string", "int"): _char_at},
    "indexOf": {("string", "string"): _index_of, ("string", "string", "int"): _index_of},
    "lastIndexOf": {("string", "string"): _last_index_of, ("string", "string", "int"): _last_index_of},
    "join": {("list",): _join, ("list", "string"): _join},
    "lowerAscii": {("string",): _lower},
    "upperAscii": {("string",): _upper},
    "replace": {("string", "string", "string"): _replace, ("string", "string", "string", "int"): _replace},
    "split": {("string", "string"): _split, ("string", "string", "int"): _split},
    "substring": {("string", "int"): _substring, ("string", "int", "int"): _substring},
    "trim": {("string",): lambda meter, text: _through(meter, text).strip()},
    "reverse": {("string",): lambda meter, text: _through(meter, text)[::-1]},
    "format": {("string", "list"): _format},
}
FUNCTIONS: Final[Table] = {"strings.quote": {("string",): _quote}}
