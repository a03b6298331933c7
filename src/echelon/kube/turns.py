"""Turns: how many of those who have something to do begin in each round of the event loop.

A process may run a thousand agents beside the hub that they talk to. If all of them have work at once, and most of it
runs without a pause, a round of the event loop takes seconds; and the hub, its controllers and whoever asks over the
network get one turn in each. So those who share a process queue up here, and only a few of them begin in a round.
Nothing is held: whoever has begun may take as long as it needs, and keeps nobody waiting.
"""

import asyncio
from collections import deque

AT_ONCE = 16  # some milliseconds each


class Turns:
    """Lets those in who come first, a few in each round."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._left = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._announced = False

    async def take(self) -> None:
        """Wait for a turn."""
        self._announce()
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._announced = False
        self._left = self._at_once
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # nobody waits for one that was cancelled
                turn.set_result(None)
                self._left -= 1
        if self._waiting:
            self._announce()
