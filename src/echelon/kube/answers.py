"""What a server's answer means: an object, a page, or an error.

Between a client and an API server there may be proxies and load balancers with pages of their own, so an error is
whatever the HTTP code says, and a Status only if it is one. What they say is kept, up to a length.
"""

import os
import re
import ssl
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, cast, get_origin

import aiohttp
import msgspec

from echelon.api.kinds import Kind
from echelon.kube import errors
from echelon.kube.client import Page
from echelon.kube.misfits import Misfit, misfit
from echelon.kube.nesting import NestedTooDeep, shortened
from echelon.kube.streaming import decoder

T = TypeVar("T")

_LONGEST_STATUS = 1024 * 1024
_LONGEST_TEXT = 1024
_MOST_WARNINGS = 20
_WARNING = re.compile(r'[0-9]{3} \S+ "((?:[^"\\]|\\.)*)"')  # code, who warns, a quoted text
_ESCAPED = re.compile(r"\\(.)")


class AnswerLost(aiohttp.ClientError):
    """The connection of a write broke: nobody knows whether it happened."""


class _ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[T], frozen=True, gc=False):
    items: list[T] | None = None
    metadata: _ListMeta = _ListMeta()


def read_object(kind: Kind[T], body: bytes) -> T:
    """Return the object that a body holds."""
    found: T = _decoded(kind, kind.type, body)
    return found


def read_page(kind: Kind[T], body: bytes) -> Page[T]:
    """Return the page that a body holds."""
    unreadable: list[Misfit] = []
    try:
        page: _List[T] = decoder(cast("Hashable", _List[kind.type])).decode(body)  # type: ignore[name-defined]
        items, meta = page.items or [], page.metadata
    except msgspec.DecodeError:
        # One of the objects does not fit, or the whole is no list.
        pieces: _List[msgspec.Raw] = _decoded(kind, _List[msgspec.Raw], body)
        items, unreadable = _one_by_one(kind, pieces.items or [])
        meta = pieces.metadata
    except RecursionError:
        short, word = shortened(body)
        pieces = _decoded(kind, _List[msgspec.Raw], short)
        items, unreadable = _one_by_one(kind, pieces.items or [], word)
        meta = pieces.metadata
    if get_origin(kind.type) is dict or kind.type is dict:
        for item in items:
            _name_kind(kind, item)
    return Page(items, meta.resource_version, meta.continue_, meta.remaining_item_count or 0, unreadable)


def _one_by_one(kind: Kind[T], pieces: Sequence[msgspec.Raw], cut: bytes | None = None) -> tuple[list[T], list[Misfit]]:
    """Tell the objects that can be read from those that cannot; those that were cut have a word in them."""
    decode = decoder(cast("Hashable", kind.type)).decode
    items, unreadable = list[T](), list[Misfit]()
    for piece in pieces:
        if cut is not None and cut in bytes(piece):
            unreadable.append(misfit(kind, piece, NestedTooDeep()))
            continue
        try:
            items.append(decode(piece))
        except msgspec.ValidationError as error:
            unreadable.append(misfit(kind, piece, error))
    return items, unreadable


def read_document(path: str, body: bytes) -> dict[str, Any]:
    """Return what a server says of itself at a path."""
    try:
        found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.Unreadable(f"the server's answer at {path} is no document: {error}") from error
    return found


async def refusal(response: aiohttp.ClientResponse) -> errors.ApiError:
    """Return the error that an answer stands for, and give its connection back."""
    body = b""
    while len(body) < _LONGEST_STATUS and (chunk := await response.content.read(_LONGEST_STATUS)):
        body += chunk
    response.release()
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        text = body[: 4 * _LONGEST_TEXT].decode("utf-8", "replace").strip()[:_LONGEST_TEXT]
        status = {"message": text or f"HTTP {response.status} {response.reason or ''}".strip()}
    details = status.get("details")
    details = dict(details) if isinstance(details, dict) else {}
    if not isinstance(details.get("retryAfterSeconds", 0), int):
        del details["retryAfterSeconds"]
    after = response.headers.get("Retry-After", "")
    if after.isdecimal():
        details.setdefault("retryAfterSeconds", int(after))
    return errors.from_status({**status, "details": details, "code": response.status})


def warnings(headers: Iterable[str]) -> list[str]:
    """Return what a server warns of, from the `Warning` headers of its answer."""
    found = (text for header in headers for text in _WARNING.findall(header[:_LONGEST_STATUS]))
    return [_ESCAPED.sub(r"\1", each)[:_LONGEST_TEXT] for each in islice(found, _MOST_WARNINGS)]


def connection_trouble(error: Exception) -> str:
    """Say why there was no answer, without the texts of libraries that quote URLs."""
    if isinstance(error, AnswerLost):
        return str(error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the server's certificate is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer is incomplete"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {cause.reason or type(cause).__name__}"
    if isinstance(cause, ConnectionError) and cause.errno:
        return os.strerror(cause.errno)  # asyncio would say "Connect call failed ('127.0.0.1', 6443)"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(error).__name__


def _decoded(kind: Kind[Any], type_: Any, body: bytes) -> Any:
    try:
        return decoder(type_).decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise errors.Unreadable(f"{kind.resource}: the answer cannot be read: {error}") from None


def _name_kind(kind: Kind[Any], item: Any) -> None:
    """Lists of the kinds that Kubernetes serves itself leave out what the list says already."""
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.kind)
