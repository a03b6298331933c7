"""Bytes of a request to JSON values, and back.

Whatever a client sends must end as a value or as an error that says why, at a cost that the size of the body bounds:
nesting is counted before it is parsed, YAML aliases are counted before they are expanded. Integers follow Kubernetes:
what does not fit into 64 bits becomes a float.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.hub.web import protobuf, yaml_body
from echelon.hub.web.repeated import Repeated
from echelon.hub.web.yaml_body import MAX_DEPTH, YamlError
from echelon.kube.errors import BadRequest, TooLarge, UnsupportedMediaType

MAX_BODY_BYTES: Final = 3 * 1024 * 1024

_JSON_TYPES = frozenset({"application/json", "application/json-patch+json", "application/merge-patch+json"})
_JSON_TYPES |= {"application/strategic-merge-patch+json", "application/apply-patch+json", "*/*", ""}
_YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml", "application/x-yaml", "text/yaml"})

_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)
# Strings and brackets of a JSON text; with the strings passed over, what is left are brackets that nest. A string may
# end with the text, and what it has taken it does not give back: no byte is looked at twice.
_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]+|[\]}]+', re.DOTALL)
# Looking for a long row of digits is fastest in a text of nothing but zeros and blanks.
_DIGITS = bytes(ord("0") if 0x30 <= code <= 0x39 else ord(" ") for code in range(256))
_BIG_DIGITS = b"0" * 19

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def encode(obj: JSON) -> bytes:
    """Encode as JSON. Headers and addresses may have bytes that are no text, and answers repeat some of them."""
    try:
        return _encoder.encode(obj)
    except UnicodeEncodeError:
        return _encoder.encode(_as_text(obj))


def _as_text(value: JSON) -> JSON:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_as_text(key): _as_text(each) for key, each in value.items()}
    return [_as_text(each) for each in value] if isinstance(value, list | tuple) else value


class Body(NamedTuple):
    """What a request said, and the paths of keys that it has twice in one object, if anybody asked for them."""

    value: JSONObject | list[JSON]
    repeated: Sequence[str] = ()
    size: int = 0  # of the bytes that were sent

    @property
    def object(self) -> JSONObject:
        """The value, which must be an object."""
        if not isinstance(self.value, dict):
            raise BadRequest("the object provided is unrecognized: expected an object")
        return self.value


def decode_body(data: bytes, content_type: str = "application/json", kind: str = "") -> JSONObject | list[JSON]:
    """Decode the body of a request: an object, or the list of a JSON patch. Errors name the `kind` that was wanted."""
    return read(data, content_type, kind, look_for_repeated=False).value


def read(
    data: bytes, content_type: str = "application/json", kind: str = "", *, look_for_repeated: bool = True
) -> Body:
    """Decode the body of a request, and say which keys it repeats."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in _JSON_TYPES and media not in _YAML_TYPES and media != protobuf.MEDIA_TYPE:
        raise UnsupportedMediaType(protobuf.UNKNOWN_FORMAT)
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
    if media == protobuf.MEDIA_TYPE:
        return Body(protobuf.decode(data, _decode_json), size=len(data))
    try:
        value, repeated = _decode_yaml(data) if media in _YAML_TYPES else (_decode_json(data), None)
        if not isinstance(value, dict) and not (isinstance(value, list) and media == "application/json-patch+json"):
            raise _not_an_object(value)
    except _Unreadable as error:
        if not kind:
            raise BadRequest(str(error)) from None
        shown = _summary(data)
        raise BadRequest(f"the object provided is unrecognized (must be of type {kind}): {error} ({shown})") from None
    if repeated is None:  # it was JSON
        repeated = _repeated(data, value) if look_for_repeated else ()
    return Body(value, repeated, len(data))


def _not_an_object(value: JSON) -> "_Unreadable":
    if value is None:
        return _Unreadable("Object 'Kind' is missing in 'null'")
    kind = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return _bad_json(
        f"json: cannot unmarshal {kind} into Go value of type struct "
        '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    )


def _summary(data: bytes, limit: int = 30) -> str:
    more = " ..." if len(data) > limit else ""
    if data.startswith(b"{"):
        return data[:limit].decode("utf-8", "replace") + more
    return data[:limit].hex() + more if data else "<empty>"


def _repeated(data: bytes, value: JSON) -> Sequence[str]:
    """Look for repeated keys in a JSON text that has more quotes than its content needs: it is an expensive look."""
    if data.count(b'"') == encode(value).count(b'"'):
        return ()
    found = Repeated()
    _find_repeated(json.loads(data, object_pairs_hook=_Pairs), found)
    return found.paths


class _Unreadable(ValueError):
    """The body is not a document; says why."""


def _bad_json(why: str) -> _Unreadable:
    return _Unreadable(f"couldn't get version/kind; json parse error: {why}")


def _decode_json(data: bytes) -> JSON:
    if not data.strip():
        raise _bad_json("unexpected end of JSON input")
    _check_depth(data)
    try:
        value = _decoder.decode(data)
    except UnicodeDecodeError:
        raise _bad_json("invalid UTF-8 in string") from None
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise _bad_json(_json_mistake(error, data)) from None
    return _narrowed(value) if _BIG_DIGITS in data.translate(_DIGITS) else value


def _decode_yaml(data: bytes) -> tuple[JSON, Sequence[str] | None]:
    """Return a value and its repeated keys; for JSON nobody has looked for these yet."""
    if _looks_like_json(data):
        # Many clients send JSON here: it is read faster as what it is, and YAML knows no surrogate pairs.
        try:
            return _decode_json(data), None
        except _Unreadable:
            pass
    document = _read_yaml(data)
    if document is None:
        raise _Unreadable("Object 'Kind' is missing in ''")
    return document.value, document.duplicates


def _looks_like_json(data: bytes) -> bool:
    return data[:64].lstrip().startswith(b"{")


def _read_yaml(data: bytes) -> yaml_body.Document | None:
    try:
        return yaml_body.read(data)
    except YamlError as error:
        raise _Unreadable(str(error)) from None


def _json_mistake(error: Exception, data: bytes) -> str:
    text = str(error)
    if "truncated" in text:
        return "unexpected end of JSON input"
    if found := re.search(r"byte (\d+)", text):
        at = int(found[1])
        char = data[at : at + 1].decode("utf-8", "replace")
        if "trailing characters" in text:
            return f"invalid character '{data[at - 1 : at].decode('utf-8', 'replace')}' after top-level value"
        what = "object key string" if "object" in text else "value"
        return f"invalid character '{char}' looking for beginning of {what}"
    return text


def _check_depth(data: bytes) -> None:
    """Count brackets in one pass, before a parser would recurse into them."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for found in _BRACKETS.finditer(data):
        run = found[0]
        if run[0] in b"[{":
            depth += len(run)
            if depth > MAX_DEPTH:
                raise _bad_json(f"invalid character '{chr(run[0])}' exceeded max depth")
        elif run[0] in b"]}":
            depth -= len(run)


def _narrowed(value: JSON) -> JSON:
    """Turn integers beyond 64 bits into floats, as Kubernetes stores them."""
    if isinstance(value, dict):
        return {key: _narrowed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_narrowed(each) for each in value]
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        try:
            return float(value)
        except OverflowError:
            raise _bad_json("a number is out of range") from None
    return value


class _Pairs(list[tuple[str, Any]]):
    """The members of an object in the order of the text."""


def _find_repeated(value: JSON, found: Repeated) -> None:
    seen: set[str] = set()
    for key, each in value if isinstance(value, _Pairs) else enumerate(value):
        if isinstance(key, str):
            if key in seen:
                found.add(key)
            seen.add(key)
        if isinstance(each, list):
            found.enter(key)
            _find_repeated(each, found)
            found.leave()
