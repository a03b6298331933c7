"""Who a client is, request by request.

Credentials change while a controller runs: tokens and certificates in files are rotated underneath it, programs hand
out tokens that expire. A client asks before every request, and reports a 401, which is often the first sign that
something was rotated; the answer then is whether another try has a chance.
"""

import asyncio
import base64
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from echelon.kube.clock import Clock
from echelon.kube.errors import Unauthorized
from echelon.kube.exec_plugin import ExecPlugin, Issued, PluginFailed, issue
from echelon.kube.tls import KeyPair

_log = logging.getLogger(__name__)

_REREAD_SECONDS = 60.0
_EARLY = timedelta(seconds=60)  # a token is renewed this long before it expires, or in the last tenth of its life
_AGAIN = timedelta(seconds=10)  # a failed renewal is repeated after this, while the old token still works
_SAME_FAILURE_SECONDS = 1.0  # requests that waited for a failed run share its failure


@dataclass(frozen=True)
class User:
    """How to prove who is asking; nothing set means anonymous. What is a Path is read again and again."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    certificate: bytes | Path = field(default=b"", repr=False)
    key: bytes | Path = field(default=b"", repr=False)
    plugin: ExecPlugin | None = None


@dataclass(frozen=True)
class Credential:
    """What one request shows."""

    authorization: str = field(default="", repr=False)
    pair: KeyPair | None = field(default=None, repr=False)
    authority: bytes = field(default=b"", repr=False)  # what the server is recognised by, if not by the configuration's


class CredentialsUnavailable(Unauthorized):
    """A file with credentials cannot be used."""


class Credentials(Protocol):
    """Gives out credentials."""

    async def current(self) -> Credential:
        """Return what to show now."""
        ...

    async def renew(self, rejected: Credential) -> bool:
        """Take note that a credential was rejected; return whether there is another one now."""
        ...


def open_credentials(user: User, clock: Clock) -> Credentials:
    """Return what gives out the credentials of a user."""
    stored = StoredCredentials(user)
    return stored if user.plugin is None else PluginCredentials(user.plugin, stored, clock)


class StoredCredentials:
    """What a configuration holds, or the files that it names. A file that vanishes for a moment does no harm."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._held: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        """Return what to show now."""
        now = asyncio.get_running_loop().time()
        if self._held is None:
            self._held = read_credential(self._user)
        elif now - self._read_at < _REREAD_SECONDS:
            return self._held
        else:
            self._held = self._reread(self._held)
        self._read_at = now
        return self._held

    async def renew(self, rejected: Credential) -> bool:
        """Read the files at once; return whether they hold something else."""
        self._held = self._reread(rejected)
        self._read_at = asyncio.get_running_loop().time()
        return self._held != rejected

    def _reread(self, last: Credential) -> Credential:
        try:
            return read_credential(self._user)
        except CredentialsUnavailable as error:
            _log.warning("keeping the credentials read before: %s", error)
            return last


@dataclass(frozen=True)
class _Held:
    credential: Credential
    renew_at: datetime | None
    expires: datetime | None


class PluginCredentials:
    """What a program hands out, kept until shortly before it expires. The program runs once at a time."""

    def __init__(self, plugin: ExecPlugin, stored: StoredCredentials, clock: Clock) -> None:
        self._plugin = plugin
        self._stored = stored
        self._clock = clock
        self._held: _Held | None = None
        self._lock = asyncio.Lock()
        self._failure: tuple[float, PluginFailed] | None = None

    async def current(self) -> Credential:
        """Return what to show now, running the program if that is due."""
        if (held := self._held) is not None and not self._due(held):
            return held.credential
        async with self._lock:
            held = self._held
            if held is None:
                return (await self._run()).credential
            if self._due(held):
                return await self._replace(held)
            return held.credential

    async def renew(self, rejected: Credential) -> bool:
        """Run the program, unless another request has done so since; return whether there is something new."""
        async with self._lock:
            if self._held is None or self._held.credential == rejected:
                await self._run()
            return self._held is not None and self._held.credential != rejected

    def _due(self, held: _Held) -> bool:
        return held.renew_at is not None and self._clock.now() >= held.renew_at

    async def _replace(self, held: _Held) -> Credential:
        """Renew before the end; a failure matters only after it."""
        try:
            return (await self._run()).credential
        except PluginFailed as error:
            now = self._clock.now()
            if held.expires is None or now >= held.expires:
                raise
            _log.warning("using credentials that expire soon: %s", error)
            self._held = _Held(held.credential, min(held.expires, now + _AGAIN), held.expires)
            return held.credential

    async def _run(self) -> _Held:
        now = asyncio.get_running_loop().time()
        if self._failure is not None and now - self._failure[0] < _SAME_FAILURE_SECONDS:
            raise self._failure[1]
        try:
            issued = await issue(self._plugin)
        except PluginFailed as error:
            self._failure = (asyncio.get_running_loop().time(), error)
            raise
        self._held = self._keep(issued, await self._stored.current())
        return self._held

    def _keep(self, issued: Issued, stored: Credential) -> _Held:
        authorization = bearer(issued.token) if issued.token else stored.authorization
        credential = Credential(authorization, issued.pair or stored.pair)
        if issued.expires is None:
            return _Held(credential, None, None)
        now = self._clock.now()
        return _Held(credential, issued.expires - min(_EARLY, (issued.expires - now) / 10), issued.expires)


def read_credential(user: User) -> Credential:
    """Return what the user's fields and files hold at this moment."""
    token = user.token
    if user.token_file is not None:
        token = _token(user.token_file, token)
    authorization = bearer(token) if token else ""
    if not token and (user.username or user.password):
        pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        authorization = f"Basic {pair}"
    if not user.certificate:
        return Credential(authorization)
    return Credential(authorization, KeyPair(_content(user.certificate), _content(user.key)))


def bearer(token: str) -> str:
    """Return the header that shows a token."""
    if not token.isascii() or not token.isprintable():
        raise CredentialsUnavailable("the token has characters that cannot be sent")
    return f"Bearer {token}"


def _token(file: Path, otherwise: str) -> str:
    """Read a token file; the token beside it in the configuration counts while there is nothing in the file."""
    try:
        token = _content(file).decode("utf-8", "replace").strip()
    except CredentialsUnavailable:
        if not otherwise:
            raise
        return otherwise
    if not token and not otherwise:
        raise CredentialsUnavailable(f"{file}: the token file is empty")
    return token or otherwise


def _content(source: bytes | Path) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        return source.read_bytes()
    except OSError as error:
        raise CredentialsUnavailable(f"{source}: {error.strerror}") from None
