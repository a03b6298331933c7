"""Bytes of a request to JSON values, and back.

Whatever a client sends must end as a value or as an error that says why, at a cost that the size of the body bounds:
nesting is counted before it is parsed, YAML aliases are counted before they are expanded. Integers follow Kubernetes:
what does not fit into 64 bits becomes a float.
"""

import json
import re
from typing import Any, Final

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.hub import yaml_body
from echelon.hub.yaml_body import MAX_DEPTH, YamlError
from echelon.kube.errors import ApiError, BadRequest, TooLarge, UnsupportedMediaType

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
MAX_OBJECT_BYTES: Final = 1_572_864

_JSON_TYPES = frozenset({"application/json", "application/json-patch+json", "application/merge-patch+json"})
_JSON_TYPES |= {"application/strategic-merge-patch+json", "application/apply-patch+json", "*/*", ""}
_YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml", "application/x-yaml", "text/yaml"})

_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)
# Strings and brackets of a JSON text; with the strings passed over, what is left are brackets that nest.
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]+|[\]}]+', re.DOTALL)
_BIG_DIGITS = re.compile(rb"[0-9]{19}")

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()


def encode(obj: JSON) -> bytes:
    """Encode as JSON."""
    return _encoder.encode(obj)


def decode_body(data: bytes, content_type: str = "application/json") -> JSONObject | list[JSON]:
    """Decode the body of a request: an object, or the list of a JSON patch."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in _JSON_TYPES and media not in _YAML_TYPES:
        raise UnsupportedMediaType(
            "the body of the request was in an unknown format - "
            "accepted media types include: application/json, application/yaml"
        )
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
    value = _decode_yaml(data) if media in _YAML_TYPES else _decode_json(data)
    if isinstance(value, dict) or (isinstance(value, list) and media == "application/json-patch+json"):
        return value
    kind = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}.get(type(value), "null")
    if value is None:
        raise _unreadable("Object 'Kind' is missing in 'null'")
    raise _unreadable(
        f"json parse error: json: cannot unmarshal {kind} into Go value of type struct "
        '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    )


def check_object_size(size: int) -> None:
    """Refuse an object that etcd would not have stored."""
    if size > MAX_OBJECT_BYTES:
        raise ApiError("etcdserver: request is too large", code=500, reason="Unknown")


def duplicates(data: bytes, content_type: str = "application/json") -> list[str]:
    """Return the paths of the keys that a valid body repeats in one object."""
    media = content_type.partition(";")[0].strip().lower()
    if media in _YAML_TYPES:
        document = _read_yaml(data)
        return document.duplicates if document is not None else []
    found: list[str] = []
    _repeated_pairs(json.loads(data, object_pairs_hook=_Pairs), "", found)
    return list(dict.fromkeys(found))


def _unreadable(why: str) -> BadRequest:
    return BadRequest(f"couldn't get version/kind; {why}" if why.startswith("json") else why)


def _decode_json(data: bytes) -> JSON:
    if not data.strip():
        raise _unreadable("json parse error: unexpected end of JSON input")
    _check_depth(data)
    try:
        value = _decoder.decode(data)
    except UnicodeDecodeError:
        raise _unreadable("json parse error: invalid UTF-8 in string") from None
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise _unreadable(f"json parse error: {_json_mistake(error, data)}") from None
    return _narrowed(value) if _BIG_DIGITS.search(data) else value


def _decode_yaml(data: bytes) -> JSON:
    document = _read_yaml(data)
    if document is None:
        raise _unreadable("json parse error: unexpected end of JSON input")
    return document.value


def _read_yaml(data: bytes) -> yaml_body.Document | None:
    try:
        return yaml_body.read(data)
    except YamlError as error:
        raise _unreadable(f"json parse error: error converting YAML to JSON: {error}") from None


def _json_mistake(error: Exception, data: bytes) -> str:
    text = str(error)
    if "truncated" in text:
        return "unexpected end of JSON input"
    if found := re.search(r"byte (\d+)", text):
        at = int(found[1])
        char = data[at : at + 1].decode("utf-8", "replace")
        if "trailing characters" in text:
            return f"invalid character '{data[at - 1 : at].decode('utf-8', 'replace')}' after top-level value"
        return f"invalid character '{char}' looking for beginning of value"
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
                raise _too_deep()
        elif run[0] in b"]}":
            depth -= len(run)


def _too_deep() -> BadRequest:
    return _unreadable(f"json parse error: exceeded max depth: values may be nested {MAX_DEPTH} levels deep")


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
            raise _unreadable("json parse error: a number is out of range") from None
    return value


class _Pairs(list[tuple[str, Any]]):
    """The members of an object in the order of the text."""


def _repeated_pairs(value: JSON, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for key, each in value:
            at = f"{path}.{key}" if path else key
            if key in seen:
                found.append(at)
            seen.add(key)
            _repeated_pairs(each, at, found)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _repeated_pairs(each, f"{path}[{index}]", found)
