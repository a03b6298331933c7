"""Keeps what is in secrets out of what is told about them.

A server that refuses a secret may quote it, and its words go into the status of a work, which more people read than
secrets.
"""

from base64 import b64decode, b64encode
from binascii import Error
from typing import Any

from echelon.api.base import JSONObject

HIDDEN = "<hidden>"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # where kubectl keeps all of what it applied
_SHORT = 4  # what is shorter would be found in any text, and is looked for in quotes only


def redact_secrets(text: str, manifest: JSONObject) -> str:
    """Return a text without the values of a manifest, if that is a secret."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Secret"):
        return text
    for value in sorted(_values(manifest), key=len, reverse=True):
        text = text.replace(f'"{value}"', HIDDEN)
        if len(value) >= _SHORT:
            text = text.replace(value, HIDDEN)
    return text


def without_values(obj: JSONObject) -> JSONObject:
    """Return an object without its values, if it is a secret; which keys there are may be told."""
    if (obj.get("apiVersion"), obj.get("kind")) != ("v1", "Secret"):
        return obj
    kept: JSONObject = {name: dict.fromkeys(obj.get(name) or {}, "") for name in ("data", "stringData") if name in obj}
    metadata = obj.get("metadata") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != _LAST_APPLIED}
    return {**obj, **kept, "metadata": {**metadata, "annotations": annotations}}


def _values(manifest: JSONObject) -> set[str]:
    """Return what a secret holds, in the forms in which it may be quoted."""
    found: set[str] = set()
    for field in ("data", "stringData"):
        for value in _texts(manifest.get(field)):
            found |= {value, b64encode(value.encode()).decode(), _decoded(value)}
    return found - {""}


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [str(value)] if isinstance(value, str | int | float) else []


def _decoded(value: str) -> str:
    try:
        return b64decode(value, validate=True).decode()
    except (Error, ValueError):
        return ""
