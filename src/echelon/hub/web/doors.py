"""Connections that never ask anything are closed: they would hold memory, and a number of which there are few."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Doors:
    """Knows the connections that have not asked anything yet. What happens after the first answer is aiohttp's part."""

    def __init__(self, handle: Handle, seconds: float) -> None:
        self._handle = handle
        self._seconds = seconds
        self._silent: dict[asyncio.Protocol, asyncio.TimerHandle] = {}

    def around(self, server: web.Server) -> Callable[[], asyncio.Protocol]:
        """Return what makes the server's connections."""

        def connect() -> asyncio.Protocol:
            made = server()
            self._silent[made] = asyncio.get_running_loop().call_later(self._seconds, self._close, made)
            return made

        return connect

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Serve a request of a connection that is not silent any more."""
        if (timer := self._silent.pop(http.protocol, None)) is not None:
            timer.cancel()
        return await self._handle(http)

    def _close(self, silent: web.RequestHandler) -> None:
        del self._silent[silent]
        if silent.transport is not None:
            silent.transport.abort()
