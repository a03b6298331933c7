"""Field errors in the words of Kubernetes.

People and programs search for these texts, so they are rendered to the letter: strings as Go quotes them, numbers as Go
prints them, everything else as compact JSON.
"""

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from echelon.api.base import JSON
from echelon.kube.errors import Cause

_GO_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}

# Go switches to an exponent from here on.
_EXPONENT_LOW, _EXPONENT_HIGH = -4, 6

# Longer than any name that an object, a label or an annotation may have.
_LONGEST_STEP = 512

_canonical = msgspec.json.Encoder(order="sorted")


def quoted(text: str) -> str:
    """Quote a string as Go's %q does."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if (known := _GO_ESCAPES.get(char)) is not None:
        return known
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def step(name: str) -> str:
    """Return a name as it stands in a path. One that nobody would read is cut: all that is below it repeats it."""
    return name if len(name) <= _LONGEST_STEP else f"{name[:_LONGEST_STEP]}..."


def number(value: float) -> str:
    """Print a number as Go's %v does."""
    if isinstance(value, int):
        return str(value)
    exact = Decimal(repr(value))
    if not exact.is_finite():
        return {"Infinity": "+Inf", "-Infinity": "-Inf"}.get(str(exact), "NaN")
    exponent = exact.adjusted()
    if exact and not _EXPONENT_LOW <= exponent < _EXPONENT_HIGH:
        digits = f"{exact.normalize().scaleb(-exponent):f}"
        return f"{digits}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    plain = f"{exact:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def shown(value: JSON) -> str:
    """Show a value as it appears after "Invalid value: "."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number(value)
    return compact(value)


def as_go_prints(value: JSON) -> str:
    """Return a value as error texts of Kubernetes show it: `map[name:x ports:[1 2]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{as_go_prints(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(as_go_prints, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def compact(value: JSON) -> str:
    """Encode as JSON with sorted keys; equal values have equal texts."""
    return _canonical.encode(value).decode("utf-8", "replace")


def invalid(path: str, value: JSON, detail: str) -> Cause:
    """Say that a value breaks a rule."""
    return Cause(path, f"Invalid value: {shown(value)}: {detail}")


def type_invalid(path: str, value: JSON, detail: str) -> Cause:
    """Say that a value has the wrong type."""
    return Cause(path, f"Invalid value: {shown(value)}: {detail}", "FieldValueTypeInvalid")


def required(path: str, detail: str = "") -> Cause:
    """Say that a value is missing."""
    return Cause(path, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def forbidden(path: str, detail: str) -> Cause:
    """Say that a value may not be there."""
    return Cause(path, f"Forbidden: {detail}", "FieldValueForbidden")


def duplicate(path: str, value: JSON) -> Cause:
    """Say that a value is there twice."""
    return Cause(path, f"Duplicate value: {shown(value)}", "FieldValueDuplicate")


def not_supported(path: str, value: JSON, supported: Iterable[JSON]) -> Cause:
    """Say that a value is none of those that are allowed."""
    listed = ", ".join(quoted(each if isinstance(each, str) else compact(each)) for each in supported)
    return Cause(path, f"Unsupported value: {shown(value)}: supported values: {listed}", "FieldValueNotSupported")


def too_long(path: str, limit: int) -> Cause:
    """Say that a text is too long; the text itself is left out."""
    return Cause(path, f"Too long: may not be more than {limit} byte{'' if limit == 1 else 's'}", "FieldValueTooLong")


def too_many(path: str, count: int, limit: int) -> Cause:
    """Say that there are too many items."""
    detail = f"Too many: {count}: must have at most {limit} item{'' if limit == 1 else 's'}"
    return Cause(path, detail, "FieldValueTooMany")
