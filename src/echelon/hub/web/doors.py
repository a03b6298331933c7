"""Connections that never ask anything are closed: they would hold memory, and a number of which there are few."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Doors(web.Server):
    """Knows the connections that have not asked anything yet. What happens after the first answer is aiohttp's part.

    A connection counts from the end of its handshake, which has a limit of its own, to its first request or its end:
    whoever comes and goes leaves nothing behind.
    """

    def __init__(self, handle: Handle, seconds: float, **options: Any) -> None:
        super().__init__(self._asked, **options)
        self._handle = handle
        self._seconds = seconds
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    @property
    def silent(self) -> int:
        """How many connections have not asked anything."""
        return len(self._silent)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(handler, transport)
        self._silent[handler] = asyncio.get_running_loop().call_later(self._seconds, transport.abort)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        self._forget(handler)
        super().connection_lost(handler, exc)

    async def _asked(self, http: web.BaseRequest) -> web.StreamResponse:
        """Serve a request of a connection that is not silent any more."""
        self._forget(http.protocol)
        return await self._handle(http)

    def _forget(self, handler: web.RequestHandler) -> None:
        if (timer := self._silent.pop(handler, None)) is not None:
            timer.cancel()
