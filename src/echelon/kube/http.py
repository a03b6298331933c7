"""The client protocol over HTTP.

What a controller must be able to rely on: a request ends, within its deadline and with an `ApiError` if it failed; a
write is sent again only if the server said that it did not look at it; answers go from bytes to the caller's type in
one step. Requests are HTTP/1.1 over kept-alive connections; a watch has a connection of its own.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from echelon import __version__
from echelon.api.kinds import Kind
from echelon.kube import answers, errors, paths, streaming, tls
from echelon.kube.client import (
    ApplyPatch,
    DeleteOptions,
    Event,
    JSONPatch,
    ListOptions,
    MergePatch,
    Page,
    Patch,
    ReadOptions,
    StrategicPatch,
    WatchOptions,
    WriteOptions,
)
from echelon.kube.clock import Clock, SystemClock
from echelon.kube.config import ClusterConfig
from echelon.kube.credentials import Credential, Credentials, CredentialsUnavailable, open_credentials

T = TypeVar("T")

USER_AGENT = f"echelon/{__version__}"

_CONNECT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 30.0  # shorter than servers keep a connection, or requests would meet closed ones
_MOST_RETRIES = 10
_FIRST_PAUSE_SECONDS = 0.05
_JSON = "application/json"
_PATCH_TYPES: dict[type[Patch], str] = {
    MergePatch: "application/merge-patch+json",
    JSONPatch: "application/json-patch+json",
    StrategicPatch: "application/strategic-merge-patch+json",
    ApplyPatch: "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = _JSON

    @property
    def target(self) -> str:
        said = {key: value for key, value in self.query.items() if value}
        return f"{self.path}?{urlencode(said, quote_via=quote)}" if said else self.path


class HttpClient:
    """Talks to one API server as one user. Use it in `async with`, or `close` it."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        field_manager: str = "echelon",
        user_agent: str = USER_AGENT,
        timeout_seconds: float = 30.0,
        random: Random | None = None,
        clock: Clock | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """`credentials` are those of the configuration unless others are given."""
        self._config = config
        self._manager = field_manager
        self._timeout = timeout_seconds
        self._random = random or Random()  # noqa: S311 - jitter is no secret
        self._credentials = credentials or open_credentials(config.user, clock or SystemClock())
        self._headers = _fixed_headers(config, user_agent)
        self._tls: tuple[Credential, ssl.SSLContext] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections, watches included."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        """Return one object."""
        return answers.read_object(kind, await self._exchange(_Request("GET", paths.item(kind, name, namespace))))

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        """Return the objects of a namespace, or of all when it is empty."""
        query = {
            **_selection(options),
            "limit": str(options.get("limit") or ""),
            "continue": options.get("continue_", ""),
            "resourceVersionMatch": options.get("resource_version_match", ""),
        }
        return answers.read_page(kind, await self._exchange(_Request("GET", paths.collection(kind, namespace), query)))

    def watch(
        self, kind: Kind[T], namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[Event[T], None]:
        """Follow changes after a resource version; `aclose` gives the connection up."""
        bookmarks, initial_events = options.get("bookmarks", True), options.get("initial_events", False)
        query = {
            "watch": "true",
            **_selection(options),
            # The end of the initial events is told by a bookmark, so these have to be asked for.
            "allowWatchBookmarks": "true" if bookmarks or initial_events else "",
            "sendInitialEvents": "true" if initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if initial_events else "",
            "timeoutSeconds": str(options.get("timeout_seconds") or ""),
        }
        request = _Request("GET", paths.collection(kind, namespace), query)
        return streaming.follow(partial(self._begin, request), kind, bookmarks=bookmarks)

    async def create(
        self, kind: Kind[T], body: dict[str, Any], namespace: str = "", *, options: WriteOptions | None = None
    ) -> T:
        """Create an object; `body` is the wire form."""
        request = _Request("POST", paths.creation(kind, namespace), self._write_query(options), body)
        return answers.read_object(kind, await self._exchange(request, _warn_of(options)))

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> T:
        """Change the fields that the patch names. A uid or resourceVersion in it is a precondition."""
        path, query = paths.item(kind, name, namespace, subresource), self._write_query(options)
        if isinstance(patch, ApplyPatch):
            query |= {"fieldManager": patch.manager, "force": "true" if patch.force else ""}
        body = list(patch.operations) if isinstance(patch, JSONPatch) else patch.body
        request = _Request("PATCH", path, query, body, _PATCH_TYPES[type(patch)])
        answer = await self._exchange(request, _warn_of(options))
        if subresource == "scale":  # the answer is a Scale, whatever the kind is
            return await self.get(kind, name, namespace)
        return answers.read_object(kind, answer)

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, options: DeleteOptions | None = None
    ) -> None:
        """Ask for the end of an object."""
        body = _deletion(options or DeleteOptions())
        await self._exchange(_Request("DELETE", paths.item(kind, name, namespace), body=body))

    async def document(self, path: str) -> dict[str, Any]:
        """Return what the server answers at a path that is no object's: `/version`, `/apis/apps/v1`."""
        return answers.read_document(path, await self._exchange(_Request("GET", path)))

    def _write_query(self, options: WriteOptions | None) -> dict[str, str]:
        said = options or WriteOptions()
        return {
            "fieldManager": said.field_manager or self._manager,
            "fieldValidation": said.field_validation,
            "dryRun": "All" if said.dry_run else "",
        }

    async def _exchange(self, request: _Request, warn: Callable[[str], None] | None = None) -> bytes:
        """Send a request and return the body of its answer, within the deadline; `warn` hears its warnings."""
        try:
            async with asyncio.timeout(self._timeout) as limit:
                response = await self._answered(request, limit)
                try:
                    body = await response.read()
                finally:
                    response.release()
                if warn is not None:
                    for each in answers.warnings(response.headers.getall("Warning", ())):
                        warn(each)
                return body
        except (TimeoutError, aiohttp.ClientError) as error:
            raise self._lost(request, error) from error

    async def _begin(self, request: _Request) -> aiohttp.ClientResponse:
        """Send a request whose answer has no end; the deadline is for its beginning."""
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await self._answered(request, limit)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise self._lost(request, error) from error

    async def _answered(self, request: _Request, limit: asyncio.Timeout) -> aiohttp.ClientResponse:
        """Send a request until it succeeds or there is no point in sending it again."""
        renewed, retries = False, 0
        while True:
            credential = await _unhurried(limit, self._credentials.current())
            response = await self._send(request, credential)
            if response.status < 300:
                return response
            error = await answers.refusal(response)
            if response.status == 401 and not renewed:
                renewed = True
                if await _unhurried(limit, self._credentials.renew(credential)):
                    continue
            pause = max(error.retry_after, _FIRST_PAUSE_SECONDS * 2**retries) * (1 + self._random.random() / 4)
            if not _may_repeat(request, response) or retries == _MOST_RETRIES or pause >= _left(limit):
                raise error
            retries += 1
            await asyncio.sleep(pause)

    async def _send(self, request: _Request, credential: Credential) -> aiohttp.ClientResponse:
        headers = self._headers.copy()
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        data = None
        if request.body is not None:
            data = msgspec.json.encode(request.body)
            headers["Content-Type"] = request.content_type
        return await self._opened().request(
            request.method,
            URL(f"{self._config.server}{request.target}", encoded=True),
            data=data,
            headers=headers,
            ssl=await self._context(credential),
            server_hostname=self._config.tls_server_name or None,
            proxy=self._config.proxy_url or None,
            allow_redirects=False,  # credentials go to nobody else
            middlewares=() if request.method == "GET" else (_only_once,),
        )

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise errors.Unavailable("the client is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._session

    async def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        """Return how to do TLS; another client certificate means other connections."""
        if not self._config.server.startswith("https:"):
            return True
        if self._tls is None or not _same_tls(self._tls[0], credential):
            authority = credential.authority or self._config.authority
            make = partial(tls.context, authority, credential.pair, insecure=self._config.insecure)
            try:
                made = await asyncio.to_thread(make)  # reading the system's authorities takes its time
            except tls.BadCertificate as error:
                raise CredentialsUnavailable(f"client certificate: {error}") from None
            self._tls = (credential, made)
        return self._tls[1]

    def _lost(self, request: _Request, error: Exception) -> errors.ApiError:
        """Make the error of a request that got no answer. Texts of aiohttp can have a proxy's password in them."""
        about = f"{request.method} {self._config.server}{request.path}"
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ServerTimeoutError):
            return errors.ServerTimeout(f"{about}: no answer within {self._timeout:g} s")
        return errors.Unavailable(f"{about}: {answers.connection_trouble(error)}")


def _warn_of(options: WriteOptions | None) -> Callable[[str], None] | None:
    return options.warn if options is not None else None


def _same_tls(one: Credential, other: Credential) -> bool:
    return one.pair == other.pair and one.authority == other.authority


async def _unhurried(limit: asyncio.Timeout, work: Awaitable[T]) -> T:
    """Wait for credentials with the clock of the request stopped: a person may have to type something."""
    left = _left(limit)
    limit.reschedule(None)
    try:
        return await work
    finally:
        limit.reschedule(asyncio.get_running_loop().time() + left)


def _left(limit: asyncio.Timeout) -> float:
    when = limit.when()
    return when - asyncio.get_running_loop().time() if when is not None else 0.0


async def _only_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a DELETE again after a break: the second could hit a successor of the same name."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise answers.AnswerLost(answers.connection_trouble(error)) from error


def _may_repeat(request: _Request, response: aiohttp.ClientResponse) -> bool:
    """A 429 was not looked at, whatever it is; after a 5xx only a read is safe, and only if the server says when."""
    if response.status == 429:
        return True
    return response.status >= 500 and request.method == "GET" and "Retry-After" in response.headers


def _selection(options: ReadOptions) -> dict[str, str]:
    return {
        "labelSelector": options.get("labels", ""),
        "fieldSelector": options.get("fields", ""),
        "resourceVersion": options.get("resource_version", ""),
    }


def _fixed_headers(config: ClusterConfig, user_agent: str) -> CIMultiDict[str]:
    headers = CIMultiDict({"Accept": _JSON, "User-Agent": user_agent})
    headers["Accept-Encoding"] = "gzip" if config.compression else "identity"
    who = config.impersonation
    if who.user:
        headers["Impersonate-User"] = who.user
    if who.uid:
        headers["Impersonate-Uid"] = who.uid
    for group in who.groups:
        headers.add("Impersonate-Group", group)
    for key, values in who.extra.items():
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key, safe='')}", value)
    return headers


def _deletion(options: DeleteOptions) -> dict[str, Any]:
    wanted = options.preconditions
    conditions = {"uid": wanted.uid, "resourceVersion": wanted.resource_version}
    said = {
        "preconditions": {key: value for key, value in conditions.items() if value} or None,
        "propagationPolicy": options.propagation or None,
        "gracePeriodSeconds": options.grace_period_seconds,
        "dryRun": ["All"] if options.dry_run else None,
    }
    fields = {key: value for key, value in said.items() if value is not None}
    return {"kind": "DeleteOptions", "apiVersion": "v1", **fields}
