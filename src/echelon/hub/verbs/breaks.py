"""Long work in the event loop, with breaks in which others get their turn."""

import asyncio
from typing import Final

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
