"""Long work: in the event loop, with breaks in which others get their turn, or in a thread beside it."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_TURN_SECONDS: Final = 0.01


class Breaks:
    """Tells when it is time for a break. Under virtual time it never is, so that replays are exact."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + _TURN_SECONDS

    async def maybe(self) -> None:
        """Give way, if the present turn has lasted long enough."""
        if self._loop.time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._loop.time() + _TURN_SECONDS


async def to_the_end(work: Callable[[], T]) -> T:
    """Do something in a thread. It cannot be stopped, so who does not wait for it keeps the place until it is done."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(running, return_exceptions=True)
        raise
