"""Protobuf bodies of the built-in kinds, read as the JSON that Go would have printed for them.

kubectl's imperative commands and Kubernetes' own controllers send nothing else for these kinds, and try nothing else
when it is refused; answers in JSON they take. Only reading is needed, and only what a JSON client could have said
comes out, so nothing behind this module knows that there is a second format.

Go writes a value even when it is zero and leaves out only pointers, so presence alone does not say what a client has
set. The table beside this module (see tools/protobuf_fields.py) has the fields where a zero means "not set".
"""

import base64
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.times import format_micro_time, format_time
from echelon.kube.errors import BadRequest, UnsupportedMediaType

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
UNKNOWN_FORMAT: Final = (
    "the body of the request was in an unknown format - "
    "accepted media types include: application/json, application/yaml"
)
# As deep as JSON may be; it also keeps the decoder's own recursion far from Python's limit.
MAX_DEPTH: Final = 100
# A body that says something has far fewer; a body of empty messages, two bytes each, would keep the hub busy.
MAX_VALUES: Final = 250_000

OMIT_ZERO: Final = "omit"
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_NUMBERS = {"bool": _VARINT, "int32": _VARINT, "int64": _VARINT, "double": _EIGHT_BYTES}
SCALARS: Final = _NUMBERS | {"string": _BYTES, "bytes": _BYTES, "json": _BYTES}
_FIXED_SIZES = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_EMPTY = memoryview(b"")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Field(msgspec.Struct, frozen=True, array_like=True):
    name: str
    type: str
    rule: str  # "", "list", "map", "inline" or OMIT_ZERO


class _Table(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    messages: dict[str, dict[int, _Field]]


@cache
def _table() -> _Table:
    text = resources.files("echelon.hub.web").joinpath("protobuf_fields.json").read_bytes()
    return msgspec.json.decode(text, type=_Table)


def decode(data: bytes, read_json: Callable[[bytes], JSON]) -> JSONObject:
    """Decode the body of a request. `read_json` reads the JSON inside it, and raises ValueError if it cannot."""
    if not data.startswith(MAGIC):
        raise BadRequest("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    reader = _Reader(read_json)
    try:
        api_version, kind, raw = reader.envelope(memoryview(data)[len(MAGIC) :])
        if not kind or not api_version:
            raise _Malformed(f"Object '{'apiVersion' if kind else 'Kind'}' is missing in a protobuf message")
        known = _table().kinds
        message = known.get(f"{api_version}/{kind}") or known.get(f"*/{kind}")
        if message is None:
            raise UnsupportedMediaType(UNKNOWN_FORMAT)
        return {"apiVersion": api_version, "kind": kind, **reader.message(raw, message, 0)}
    except (ValueError, OverflowError) as error:
        # UnicodeDecodeError prints the whole text that it failed on.
        why = "string field contains invalid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise BadRequest(f"proto: {why}") from None


class _Malformed(ValueError):
    """The bytes are not the message that they should be; says why."""


class _Reader:
    """Reads one body; counts what it reads."""

    def __init__(self, read_json: Callable[[bytes], JSON]) -> None:
        self._read_json = read_json
        self._messages = _table().messages
        self._left = MAX_VALUES

    def envelope(self, data: memoryview) -> tuple[str, str, memoryview]:
        """Return the API version, the kind and the bytes of the object that a body carries."""
        parts = self._parts(data)
        names = self._parts(parts.get(1, _EMPTY))
        return str(names.get(1, _EMPTY), "utf-8"), str(names.get(2, _EMPTY), "utf-8"), parts.get(2, _EMPTY)

    def _parts(self, data: memoryview) -> dict[int, memoryview]:
        return {number: value for number, _, value in self._fields(data) if not isinstance(value, int)}

    def message(self, data: memoryview, kind: str, depth: int) -> JSONObject:
        """Read the fields of a message; those that nobody knows belong to a newer Kubernetes, and are passed over."""
        if depth > MAX_DEPTH:
            raise _Malformed("exceeded max depth")
        known = self._messages[kind]
        result: JSONObject = {}
        for number, wire, value in self._fields(data):
            field = known.get(number)
            if field is None:
                continue
            if field.rule == "list":
                result.setdefault(field.name, []).extend(self._items(wire, value, field, depth + 1))
            elif field.rule == "map":
                key, item = self._entry(_sized(wire, value, field), field, depth + 1)
                result.setdefault(field.name, {})[key] = item
            elif field.rule == "inline":
                result.update(self.message(_sized(wire, value, field), field.type, depth + 1))
            else:
                result[field.name] = self._value(wire, value, field, depth)
                if result[field.name] is None or (field.rule == OMIT_ZERO and not result[field.name]):
                    del result[field.name]
        return result

    def _value(self, wire: int, value: int | memoryview, field: _Field, depth: int) -> JSON:
        kind = field.type
        if wire != SCALARS.get(kind, _BYTES):
            raise _Malformed(f"wrong wireType = {wire} for field {field.name}")
        if isinstance(value, int):
            return _number(value, kind)
        if kind == "string":
            return str(value, "utf-8")
        if kind == "bytes":
            return base64.b64encode(value).decode()
        if kind == "double":
            return _double(value)
        if kind == "json":
            return self._read_json(bytes(value)) if value else None
        read = self.message(value, kind, depth + 1)
        return FORMS[kind](read) if kind in FORMS else read

    def _items(self, wire: int, value: int | memoryview, field: _Field, depth: int) -> Iterator[JSON]:
        packed = wire == _BYTES and SCALARS.get(field.type) == _VARINT
        if not packed or isinstance(value, int):
            yield self._value(wire, value, field, depth)
            return
        at = 0
        while at < len(value):
            self._count()
            number, at = _varint(value, at)
            yield _number(number, field.type)

    def _entry(self, data: memoryview, field: _Field, depth: int) -> tuple[str, JSON]:
        parts = self._parts(data)
        return str(parts.get(1, _EMPTY), "utf-8"), self._value(_BYTES, parts.get(2, _EMPTY), field, depth)

    def _fields(self, data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
        """Yield number, wire type and value of each field."""
        at, end = 0, len(data)
        while at < end:
            self._count()
            tag, at = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                raise _Malformed(f"illegal tag {number} (wire type {wire})")
            if wire in _FIXED_SIZES:
                size = _FIXED_SIZES[wire]
            elif wire in (_VARINT, _BYTES):
                size, at = _varint(data, at)  # of a number, the value itself
            else:
                raise _Malformed(f"illegal wireType {wire}")
            if wire == _VARINT:
                yield number, wire, size
                continue
            if size > end - at:
                raise _Malformed("unexpected EOF")
            yield number, wire, data[at : at + size]
            at += size

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Malformed(f"more than {MAX_VALUES} values")


def _sized(wire: int, value: int | memoryview, field: _Field) -> memoryview:
    if wire != _BYTES or isinstance(value, int):
        raise _Malformed(f"wrong wireType = {wire} for field {field.name}")
    return value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number that starts at a position, and the position after it."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1  # most are that short
    value = shift = 0
    for position in range(at, min(at + 10, len(data))):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, position + 1
        shift += 7
    raise _Malformed("integer overflow" if len(data) - at >= 10 else "unexpected EOF")


def _number(value: int, kind: str) -> int | bool:
    """Make a number of the bits of a varint; negative ones are written with 64 bits whatever their type."""
    if kind == "bool":
        return value != 0
    bits = 32 if kind == "int32" else 64
    value &= 2**bits - 1
    return value - 2**bits if value >= 2 ** (bits - 1) else value


def _double(data: memoryview) -> int | float:
    value: float = struct.unpack("<d", data)[0]
    if not math.isfinite(value):
        raise _Malformed(f"unsupported value: {value}")
    # Go prints 10.0 as 10.
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _time(read: JSONObject, write: Callable[[datetime], str], nanos: int = 0) -> str | None:
    if not read:
        return None  # the zero time of Go
    return write(_EPOCH + timedelta(seconds=read.get("seconds", 0), microseconds=nanos // 1000))


# The messages whose JSON form is not an object with their fields.
FORMS: Final[dict[str, Callable[[JSONObject], JSON]]] = {
    "meta.v1.Time": lambda read: _time(read, format_time),
    "meta.v1.MicroTime": lambda read: _time(read, format_micro_time, read.get("nanos", 0)),
    "meta.v1.FieldsV1": lambda read: read.get("Raw"),
    "pkg.runtime.RawExtension": lambda read: read.get("raw"),
    "util.intstr.IntOrString": lambda read: read.get("strVal", "") if read.get("type") else read.get("intVal", 0),
    "api.resource.Quantity": lambda read: read.get("string") or "0",
    "authentication.v1.ExtraValue": lambda read: read.get("items", []),
    "authorization.v1.ExtraValue": lambda read: read.get("items", []),
    "certificates.v1.ExtraValue": lambda read: read.get("items", []),
    "apiextensions.v1.JSON": lambda read: read.get("raw"),
    "apiextensions.v1.JSONSchemaPropsOrBool": lambda read: read.get("schema", read.get("allows", False)),
    "apiextensions.v1.JSONSchemaPropsOrArray": lambda read: read.get("jSONSchemas") or read.get("schema"),
    "apiextensions.v1.JSONSchemaPropsOrStringArray": lambda read: read.get("property") or read.get("schema"),
}
