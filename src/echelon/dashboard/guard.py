"""What every request has to pass, and what every answer says, before anything else is looked at.

A browser sends cookies to us on behalf of any page that asks it to. So a request that another site caused is refused,
by what browsers say of its origin and by a token that only our own page can know. Answers forbid whatever the page does
not need: scripts and styles that are not files of ours, frames, markup that a script would insert.
"""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeAlias

import msgspec
from aiohttp import web

from echelon.api.base import JSONObject
from echelon.dashboard.sessions import Session, Sessions, same
from echelon.kube.errors import ApiError
from echelon.rollouts.refusals import Refused

MOST_BYTES = 64 * 1024
CSRF_HEADER = "X-Echelon-Token"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_SAFE = ("GET", "HEAD")
_OURS = ("same-origin", "none")  # none: somebody typed the address

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)


class Guard:
    """Knows the sessions and our own origin."""

    def __init__(self, sessions: Sessions, *, url: str = "", tls: bool = False) -> None:
        """`url` is where browsers find us if that is not where we listen."""
        self._sessions = sessions
        self._origin = url.rstrip("/")
        self.secure = tls or url.startswith("https://")

    def cookie(self, request: web.Request) -> str:
        """Return the name of the cookie. Other servers of this machine get it too, and have their own by the port."""
        if self.secure:
            return "__Host-echelon"
        return f"echelon-{request.url.port}"

    def session(self, request: web.Request) -> Session:
        """Return who asks. Raises an error if nobody is signed in, or if a write lacks the token."""
        session = self._sessions.find(request.cookies.get(self.cookie(request), ""))
        if session is None:
            raise web.HTTPUnauthorized(text="sign in first")
        if request.method not in _SAFE and not same(request.headers.get(CSRF_HEADER, ""), session.csrf):
            raise web.HTTPForbidden(text=f"the request lacks the token of the session in {CSRF_HEADER}")
        return session

    def begin(self, request: web.Request, response: web.StreamResponse, name: str) -> None:
        """Give a browser the id of its session."""
        response.set_cookie(
            self.cookie(request), name, path="/", httponly=True, samesite="Strict", secure=self.secure or None
        )

    def end(self, request: web.Request, response: web.StreamResponse) -> None:
        """Sign a browser out."""
        self._sessions.end(request.cookies.get(self.cookie(request), ""))
        response.del_cookie(self.cookie(request), path="/", secure=self.secure or None)

    def check(self, request: web.Request) -> None:
        """Refuse what another site has caused."""
        site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
        if request.method in _SAFE:
            if site is not None and site not in _OURS and request.path.startswith("/api/"):
                raise web.HTTPForbidden(text="another site has caused this request")
            return
        if request.method != "POST":
            raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD", "POST"))
        ours = self._origin or f"{'https' if self.secure else 'http'}://{request.host}"
        if (
            (origin is None and site is None)
            or (origin is not None and origin != ours)
            or (site or "none") not in _OURS
        ):
            raise web.HTTPForbidden(text="another site has caused this request")
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="the body has to be application/json")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check a request, and answer mistakes in words."""
        try:
            self.check(request)
            return await handler(request)
        except web.HTTPException as error:
            return _told(error.status, error.text or error.reason)
        except ApiError as error:
            return _told(error.status_code, error.message)
        except Refused as error:
            return _told(HTTPStatus.UNPROCESSABLE_ENTITY, error.message)
        except Exception:
            if request.transport is None or request.transport.is_closing():
                raise
            _log.exception("a request to %s failed", request.path)
            return _told(500, "something went wrong in the dashboard; its log says what")


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Say what browsers may do with an answer, whatever it is."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _told(status: int, message: str) -> web.Response:
    return web.Response(body=msgspec.json.encode({"error": message}), status=status, content_type="application/json")


async def body_of(request: web.Request) -> JSONObject:
    """Return what was sent."""
    try:
        found: Any = msgspec.json.decode(await request.read())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise web.HTTPBadRequest(text="the body has to be an object")
    return found
