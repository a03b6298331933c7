"""The dashboard as a web server: pages from the package, sign-in, the feed, and verbs with their previews."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from ipaddress import ip_address
from typing import Any, Final

import msgspec
from aiohttp import web

from echelon.api.base import JSON, JSONObject
from echelon.dashboard import details
from echelon.dashboard.credentials import Identity, identify, read_credential, without_credentials
from echelon.dashboard.feeds import Feeds, Open, TooMany
from echelon.dashboard.guard import MOST_BYTES, Guard, add_headers, body_of
from echelon.dashboard.sessions import Session, Sessions
from echelon.dashboard.tables import EVENTS
from echelon.kube.config import ClusterConfig, User
from echelon.kube.errors import Unauthorized
from echelon.rollouts.kinds import find
from echelon.rollouts.previewing import preview
from echelon.rollouts.refusals import Refused
from echelon.rollouts.steering import VERBS, Wish, change_for, steer

_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_SIGNING_IN = 8  # at once: each is a connection to the hub
_PING_SECONDS = 15.0
_MOST_NAMES = 200


class InTheClear(Exception):
    """Tokens would go over a network that others can listen to."""


@dataclass(frozen=True)
class Settings:
    """Where to listen, and where browsers find that."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    url: str = ""

    def check(self) -> None:
        """Refuse to take tokens in clear from other machines. Raises `InTheClear`."""
        if self.tls is None and not self.url.startswith("https://") and not _is_loopback(self.host):
            raise InTheClear(
                f"whoever listens on the network would read the tokens that are sent to {self.host or 'all addresses'}:"
                " give a certificate (--tls-cert, --tls-key), the https address of the proxy before it (--url), or"
                " listen on 127.0.0.1"
            )


class Dashboard:
    """Answers requests."""

    def __init__(self, hub: ClusterConfig, settings: Settings) -> None:
        self._hub = without_credentials(hub)
        self.sessions = Sessions(asyncio.get_running_loop().time)
        self.guard = Guard(self.sessions, url=settings.url, tls=settings.tls is not None)
        self.feeds = Feeds(self._hub, self.sessions.end_of)
        self._signing_in = asyncio.Semaphore(_SIGNING_IN)
        self._files = _files()

    def application(self) -> web.Application:
        """Return what serves requests."""
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[self.guard.middleware])
        app.on_response_prepare.append(add_headers)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/static/{name}", self._static),
                web.get("/healthz", self._well),
                web.get("/readyz", self._well),
                web.post("/api/login", self._login),
                web.post("/api/logout", self._logout),
                web.get("/api/session", self._who),
                web.post("/api/namespaces", self._see),
                web.get("/api/feed", self._follow),
                web.get("/api/rollout", self._rollout),
                web.get("/api/rollout/cluster", self._rollout_cluster),
                web.get("/api/cluster", self._cluster),
                web.get("/api/explain", self._explain),
                web.post("/api/preview", self._preview),
                web.post("/api/act", self._act),
            ]
        )
        return app

    async def link(self, user: User) -> str:
        """Return a code with which somebody can sign in once."""
        return self.sessions.link(await identify(self._hub, user))

    async def _page(self, _: web.Request) -> web.Response:
        return self._file("index.html")

    async def _static(self, request: web.Request) -> web.Response:
        return self._file(request.match_info["name"])

    def _file(self, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound(text="there is no such file")
        kind, content = self._files[name]
        return web.Response(body=content, content_type=kind, charset="utf-8", headers={"Cache-Control": "no-cache"})

    async def _well(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _login(self, request: web.Request) -> web.Response:
        given = await body_of(request)
        namespaces = _names_in(given.get("namespaces"))
        identity = await self._identity(given)
        name, session = self.sessions.begin(identity, namespaces)
        response = _answer(_told(session))
        self.guard.begin(request, response, name)
        return response

    async def _identity(self, given: JSONObject) -> Identity:
        if code := str(given.get("code") or ""):
            found = self.sessions.redeem(code)
            if found is None:
                raise web.HTTPUnauthorized(text="the link was used before, or is too old: sign in with a token")
            return found
        user = read_credential(given)
        if self._signing_in.locked():
            raise web.HTTPServiceUnavailable(text="too many people sign in at once; try again in a moment")
        async with self._signing_in:
            try:
                return await identify(self._hub, user)
            except Unauthorized as error:
                raise web.HTTPUnauthorized(text="the hub does not know this credential") from error

    async def _logout(self, request: web.Request) -> web.Response:
        self.guard.session(request)
        response = _answer({})
        self.guard.end(request, response)
        return response

    async def _who(self, request: web.Request) -> web.Response:
        return _answer(_told(self.guard.session(request)))

    async def _see(self, request: web.Request) -> web.Response:
        session = self.guard.session(request)
        session.namespaces = _names_in((await body_of(request)).get("namespaces"))
        self._open(session)
        return _answer(_told(session))

    def _open(self, session: Session) -> Open:
        try:
            found = self.feeds.of(session.identity)
        except TooMany as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from error
        found.feed.see((session.identity.namespace, *session.namespaces))
        return found

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        session = self.guard.session(request)
        feed = self._open(session).feed
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        session.watching += 1
        try:
            async with feed.page() as queue:
                while self.sessions.goes_on(session):
                    try:
                        async with asyncio.timeout(_PING_SECONDS):
                            message = await queue.get()
                    except TimeoutError:
                        message = b": nothing new\n\n"
                    if not message:
                        break
                    await response.write(message)
                await response.write(b"event: over\ndata: {}\n\n")
        except ConnectionError:
            pass
        finally:
            session.watching -= 1
        return response

    async def _rollout(self, request: web.Request) -> web.Response:
        feed = self._open(self.guard.session(request)).feed
        drawing = await feed.drawings.details(*_named(request))
        waves, events = feed.drawings.watch(drawing), [feed.row(EVENTS, key) for key in feed.keys(EVENTS)]
        return _answer(details.rollout_details(drawing, waves, request.query.get("after", ""), events))

    async def _rollout_cluster(self, request: web.Request) -> web.Response:
        feed = self._open(self.guard.session(request)).feed
        drawing = await feed.drawings.details(*_named(request))
        return _answer(details.cluster_in_rollout(drawing, request.query.get("cluster", "")))

    async def _cluster(self, request: web.Request) -> web.Response:
        feed = self._open(self.guard.session(request)).feed
        return _answer(await details.cluster_details(feed.reader, request.query.get("name", "")))

    async def _explain(self, request: web.Request) -> web.Response:
        reader, query = self._open(self.guard.session(request)).feed.reader, request.query
        asked = query.get("namespace", ""), query.get("name", ""), query.get("cluster", "")
        return _answer(await details.explained(reader, *asked))

    async def _preview(self, request: web.Request) -> web.Response:
        client, given = self._open(self.guard.session(request)).client, await body_of(request)
        wish, named, namespace = _wish(given)
        entry, found = await find(client, named, namespace)
        now = datetime.now(UTC)
        told = preview(wish, found, change_for(wish, found, entry, now), now)
        # Whether the person may is for the hub to say, and better before the confirmation than after it.
        await steer(client, named, namespace, wish, dry_run=True)
        return _answer({**msgspec.to_builtins(told), "revision": found.subject.revision, "title": found.title})

    async def _act(self, request: web.Request) -> web.Response:
        client, given = self._open(self.guard.session(request)).client, await body_of(request)
        wish, named, namespace = _wish(given)
        found, change = await asyncio.shield(steer(client, named, namespace, wish))  # though the page may be closed
        return _answer({"done": f"{found.title} {change.done}", "notes": list(change.notes)})


@asynccontextmanager
async def serving(hub: ClusterConfig, settings: Settings) -> AsyncIterator[tuple[Dashboard, str]]:
    """Serve for as long as it is needed. Return the dashboard and where browsers find it."""
    settings.check()
    dashboard = Dashboard(hub, settings)
    # A page that is closed is noticed at once, and no longer written for.
    runner = web.AppRunner(dashboard.application(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    try:
        await runner.setup()
        await web.TCPSite(runner, settings.host, settings.port, ssl_context=settings.tls).start()
        bound = runner.addresses[0]
        host = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        yield dashboard, settings.url or f"{'https' if settings.tls else 'http'}://{host}:{bound[1]}"
    finally:
        await dashboard.feeds.close()
        await runner.cleanup()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _files() -> dict[str, tuple[str, bytes]]:
    """Return the files of the page: these are served, and whatever a request says, nothing else is opened."""
    found: dict[str, tuple[str, bytes]] = {}
    for each in resources.files("echelon.dashboard").joinpath("static").iterdir():
        ending = each.name[each.name.rfind(".") :]
        if ending in _TYPES:
            found[each.name] = _TYPES[ending], each.read_bytes()
    return found


def _answer(value: JSON) -> web.Response:
    return web.Response(body=details.encoded(value), content_type="application/json")


def _told(session: Session) -> JSONObject:
    identity = session.identity
    return {
        "user": identity.name,
        "groups": list(identity.groups),
        "csrf": session.csrf,
        "namespaces": list(session.namespaces),
    }


def _named(request: web.Request) -> tuple[str, str, str]:
    query = request.query
    return query.get("kind", ""), query.get("namespace", ""), query.get("name", "")


def _wish(given: JSONObject) -> tuple[Wish, str, str]:
    """Read what somebody wants, of which rollout, in which namespace."""
    verb = given.get("verb")
    if verb not in VERBS:
        raise Refused(f"verb: there is no {verb!r}; there are {', '.join(VERBS)}")
    number: Any = given.get("toRevision")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise Refused(f"toRevision: {number!r} is no number")
    wish = Wish(
        str(verb),
        _names_in(given.get("groups")),
        removal=given.get("removal") is True,
        to_revision=number,
        revision=str(given.get("revision") or ""),
    )
    return wish, f"{given.get('kind') or ''}/{given.get('name') or ''}", str(given.get("namespace") or "")


def _names_in(value: JSON) -> tuple[str, ...]:
    """Read a list of names."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _MOST_NAMES or not all(isinstance(each, str) for each in value):
        raise Refused(f"a list of at most {_MOST_NAMES} names is expected")
    return tuple(str(each).strip() for each in value if str(each).strip())
