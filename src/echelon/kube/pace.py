"""How many writes of bursts may be under way at once.

A burst that a server refuses, or cannot bear, should cost one request at a time and not dozens; one that it takes
should keep it busy. So a burst that asks for it begins with one, and the number doubles with every round that was
taken, as in the bursts of Kubernetes' own controllers. Each burst has a pace of its own: the trouble of one object must
not slow down the others.
"""

import asyncio
from collections import deque

# As many as keep a server busy; more only wait there, and time out there.
AT_ONCE = 32


class Pace:
    """An asynchronous context manager around each write of a burst. It lets in those that came first."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def quicken(self) -> None:
        """Hear that a write was taken."""
        self.allowed = min(self.allowed + 1, AT_ONCE)

    async def __aenter__(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was let in, and does not come
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._running < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self._running += 1
                turn.set_result(None)
