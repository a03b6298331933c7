"""One alarm clock for a whole fleet.

A thousand members have thousands of pods that start, and each start is a moment in the future. They wait in one heap,
and the loop knows only of the earliest: a member in which nothing is to happen costs nothing.
"""

import asyncio
import contextvars
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count


@dataclass
class Timers:
    """Calls somebody at a moment, in order of time and then of asking. Times are those of the running loop."""

    _heap: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)
    _alarm: asyncio.Handle | None = None  # not always a timer: a loop may take what is due for a call

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Call at a moment; at once, but not before this returns, if it is past."""
        entry = (moment, next(self._numbers), call)
        heapq.heappush(self._heap, entry)
        if self._alarm is None or self._heap[0] is entry:
            self._set()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call after some time."""
        self.at(asyncio.get_running_loop().time() + seconds, call)

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def __len__(self) -> int:
        return len(self._heap)

    def _set(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        loop = asyncio.get_running_loop()
        # Whoever asks may be one of many processes of a simulation; the clock belongs to none of them.
        self._alarm = loop.call_at(self._heap[0][0], self._ring, context=contextvars.Context())

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        self._alarm = None
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
        if self._heap and self._alarm is None:
            self._set()
