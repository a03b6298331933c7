"""The HTTP surface: who asks, may they, what do they ask, and the answer in the form that they take.

One handler serves every address of every logical cluster. aiohttp's router is not used: addresses are decided by the
catalogue, which changes at run time, and the facts that are read off an address are those that it is authorised by.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import msgspec
from aiohttp import web

from echelon.hub.access import audit
from echelon.hub.access.identity import MASTERS, Authenticator, User
from echelon.hub.access.impersonation import impersonation
from echelon.hub.access.rbac import Attributes, Decision, refusal
from echelon.hub.cluster import LogicalCluster
from echelon.hub.schema.causes import quoted
from echelon.hub.verbs.breaks import to_the_end
from echelon.hub.web import codec
from echelon.hub.web.health import ENDPOINTS
from echelon.hub.web.limits import Limits
from echelon.hub.web.metrics import HubMetrics
from echelon.hub.web.request import RequestInfo, parse
from echelon.kube import errors

_log = logging.getLogger(__name__)

T = TypeVar("T")

_UNKNOWN = User("")
# Clients give up on headers that are too long, or too many.
_MOST_WARNINGS = 50
_WARNING_CHARACTERS = 4096
_LONGEST_WARNING = 256


@dataclass(frozen=True)
class Served:
    """A logical cluster with the one who knows its users."""

    cluster: LogicalCluster
    authenticator: Authenticator


@dataclass(frozen=True)
class Call:
    """A request that has been authenticated and authorised."""

    http: web.BaseRequest
    info: RequestInfo
    served: Served
    user: User
    share: str  # whose requests this one is counted with: of who asks, whoever they act as
    limits: Limits
    warnings: list[str] = field(default_factory=list)  # for the answer's headers, whether it is good or bad
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log


Endpoint = Callable[[Call], Awaitable[web.StreamResponse]]


class Gate:
    """Lets requests in: authenticates, authorises, records, and turns errors into Status answers."""

    def __init__(
        self,
        find: Callable[[str], Served | None],
        resources: Endpoint,
        others: Endpoint,
        *,
        audit_log: audit.AuditLog | None,
        limits: Limits,
        metrics: HubMetrics,
    ) -> None:
        self._find = find
        self._resources = resources
        self._others = others
        self._audit = audit_log
        self._limits = limits
        self._metrics = metrics

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        received, about = time.time(), str(uuid.uuid4()) if self._audit is not None else ""
        info = parse(http.method, http.path, http.query)
        asker, user, decision = _UNKNOWN, _UNKNOWN, Decision(False)
        response: web.StreamResponse | None = None
        warnings: list[str] = []
        annotations: dict[str, str] = {}
        served: Served | None = None
        if info.lasting:
            self._metrics.watches.inc()
        try:
            served = self._find(info.cluster)
            if served is None:
                raise errors.NotFound(f'logical cluster "{info.cluster}" not found')
            asker = user = self._who(http, served)
            if self._audit is not None:
                self._audit.begin(_entry(http, info, asker, user, decision, code=0, received=received, about=about))
            user = _acting_as(http, served, asker)
            decision = _allow(served, info, user)
            endpoint = self._resources if info.is_resource else self._others
            share = f"{info.cluster}/{asker.name}"
            call = Call(http, info, served, user, share, self._limits, warnings, annotations)
            async with self._place(info, asker, share):
                response = await endpoint(call)
                await send(call, response)
        except errors.ApiError as error:
            response = failure(error)
            warn(response, warnings)
        except asyncio.CancelledError:
            raise  # the client went away; a write that was under way completes without it
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - whatever a request meets, the server goes on
            _log.exception("%s %s failed", http.method, http.path)
            response = failure(errors.ApiError("an error on the server has prevented the request from succeeding"))
        finally:
            code = response.status if response is not None else 499
            if info.lasting:
                self._metrics.watches.dec()
            known = served is not None and served.cluster.catalogue.serves(info.group, info.version, info.resource)
            self._metrics.answered(info, code, time.time() - received, known=known)
            if self._audit is not None:
                entry = _entry(http, info, asker, user, decision, code=code, received=received, about=about)
                self._audit.record(msgspec.structs.replace(entry, annotations=annotations) if annotations else entry)
        return response

    def _place(self, info: RequestInfo, asker: User, share: str) -> AbstractAsyncContextManager[None]:
        """Return the place that a request takes. Administrators and probes always have one, as in Kubernetes."""
        if MASTERS in asker.groups or (not info.is_resource and info.path.strip("/").partition("/")[0] in ENDPOINTS):
            return nullcontext()
        shares = self._limits.watches if info.lasting else self._limits.requests
        return shares.place(share)

    @staticmethod
    def _who(http: web.BaseRequest, served: Served) -> User:
        tls = http.transport.get_extra_info("ssl_object") if http.transport else None
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        return served.authenticator.authenticate(
            authorization=http.headers.get("Authorization"), certificate=certificate
        )


def _acting_as(http: web.BaseRequest, served: Served, asker: User) -> User:
    wanted = impersonation(asker, http.headers.items())
    if wanted is None:
        return asker
    for check in wanted.checks:
        decision = served.cluster.authorizer.authorize(check)
        if not decision.allowed:
            raise refusal(check, decision)
    return wanted.user


def _allow(served: Served, info: RequestInfo, user: User) -> Decision:
    asked = Attributes(
        user=user,
        verb=info.verb,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        path=info.path,
        is_resource=info.is_resource,
    )
    decision = served.cluster.authorizer.authorize(asked)
    if not decision.allowed:
        raise refusal(asked, decision)
    return decision


def _entry(
    http: web.BaseRequest,
    info: RequestInfo,
    asker: User,
    user: User,
    decision: Decision,
    *,
    code: int,
    received: float,
    about: str,
) -> audit.Entry:
    return audit.Entry(
        verb=info.verb,
        uri=http.path_qs,
        user=asker,
        impersonated=user if user is not asker else None,
        code=code,
        received=received,
        completed=time.time(),
        source=http.remote or "",
        agent=http.headers.get("User-Agent", ""),
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
        allowed=decision.allowed,
        reason=decision.reason,
        cluster=info.cluster,
        audit_id=about,
    )


def failure(error: errors.ApiError) -> web.Response:
    """Return the answer that a refused request gets."""
    headers = {}
    if error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    if error.status_code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="echelon"'
    return document(error.status(), status=error.status_code, headers=headers)


def document(body: object, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a JSON answer."""
    return web.Response(body=codec.encode(body), status=status, content_type="application/json", headers=headers)


async def beside(call: Call, work: Callable[[], T]) -> T:
    """Do something that takes long beside the event loop, when it is the user's turn."""
    async with call.limits.large.place(call.share):
        return await to_the_end(work)


async def send(call: Call, response: web.StreamResponse) -> None:
    """Send an answer while its place is taken, and not for ever: a client need not read what it asked for."""
    async with in_time(call, call.limits.request_seconds):
        await response.prepare(call.http)
        await response.write_eof()


@asynccontextmanager
async def in_time(call: Call, seconds: float) -> AsyncIterator[None]:
    """Send something, or end the connection."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        if call.http.transport is not None:
            call.http.transport.abort()
        raise ConnectionAbortedError("the client does not read its answer") from None


def warn(response: web.StreamResponse, warnings: Iterable[str]) -> None:
    """Tell the client what it should know although its request was understood."""
    room = _WARNING_CHARACTERS
    for warning in islice(warnings, _MOST_WARNINGS):
        text = quoted(warning[:_LONGEST_WARNING])  # names of fields are the client's: they must not end the header
        room -= len(text)
        if room < 0:
            return
        response.headers.add("Warning", f"299 - {text}")
