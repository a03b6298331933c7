"""Keys that wait for a time, of which each has one.

Most of them are put off again and again before their time comes, and nothing must be done for that but to note it. So
the loop has one timer for the first of all keys, and a key that comes up too early goes back to where it belongs.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

K = TypeVar("K")

# Entries that are no longer true stay until their time comes; beyond this many they are cleared away at once.
_GARBAGE = 1024


# For which time, with which priority, as which of those that began to wait; and the time of its entry in the
# heap, never later than the key's own.
_Waiting: TypeAlias = tuple[float, int, int, float]


class Timetable(Generic[K]):
    """Calls `due` with each key and its priority when its time has come."""

    def __init__(self, due: Callable[[K, int], None]) -> None:
        self._due = due
        self._waiting: dict[K, _Waiting] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = 0
        # With the time for which it is set: not every event loop's timers know theirs.
        self._timer: tuple[float, asyncio.Handle] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, key: K) -> _Waiting | None:
        """Return for which time a key waits, and with which priority, if it does; the rest is of no interest."""
        return self._waiting.get(key)

    def set(self, key: K, when: float, priority: int) -> None:
        """Let a key wait for a time of the loop, be it earlier or later than before."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._order += 1
            order = self._order
        else:
            _, _, order, entered = waiting
            if entered <= when:
                self._waiting[key] = (when, priority, order, entered)
                return
        self._waiting[key] = (when, priority, order, when)
        heapq.heappush(self._heap, (when, order, key))
        if len(self._heap) > 2 * len(self._waiting) + _GARBAGE:
            self._heap = [(entered, order, key) for key, (_, _, order, entered) in self._waiting.items()]
            heapq.heapify(self._heap)
        if self._timer is None or when < self._timer[0]:
            self._set_timer()

    def discard(self, key: K) -> None:
        """Let a key wait no longer."""
        if self._waiting:
            self._waiting.pop(key, None)

    def clear(self) -> None:
        """Let no key wait."""
        self._waiting.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """Have the loop come back when the first key may be due."""
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        while self._heap and not self._is_true(*self._heap[0]):
            heapq.heappop(self._heap)
        if self._heap:
            first = self._heap[0][0]
            self._timer = (first, asyncio.get_running_loop().call_at(first, self._release, first))

    def _release(self, now: float) -> None:
        """Hand over what is due. `now` is the time that was asked for, of which the loop may be short by a tick."""
        self._timer = None
        while self._heap and self._heap[0][0] <= now:
            entered, order, key = heapq.heappop(self._heap)
            if not self._is_true(entered, order, key):
                continue
            when, priority, _, _ = self._waiting[key]
            if when > now:
                self._waiting[key] = (when, priority, order, when)
                heapq.heappush(self._heap, (when, order, key))
                continue
            del self._waiting[key]
            self._due(key, priority)
        self._set_timer()

    def _is_true(self, entered: float, order: int, key: K) -> bool:
        waiting = self._waiting.get(key)
        return waiting is not None and waiting[2] == order and waiting[3] == entered
