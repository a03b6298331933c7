"""The work queue between those who notice changes and those who act on them.

A key that changes a thousand times while it waits is worked on once, and never by two workers at the same time. After
a restart every object of a fleet is due at once; a change that a user makes then must not wait behind all of them, so
keys have priorities. A key can wait in three ways: ready, for a worker; later, for a time; and collecting, for the
changes that concern it to come to an end. Whoever takes a key to work has seen to all of them: the work sees every
change that came before, and says itself when to look again.
"""

import asyncio
import math
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from echelon.kube.metrics import QueueStats
from echelon.kube.timetable import Timetable

K = TypeVar("K")

FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 120.0
# What is no longer true stays in line until its turn comes; beyond this much it is cleared away at once.
_GARBAGE = 1024


@dataclass(frozen=True)
class Debounce:
    """How long changes of one key are collected before it is worked on.

    Until nothing came for `quiet` seconds, but at most for the `longest` ones; after the key was written, at least for
    the seconds of `after_write`, for our own writes come back as changes, too.
    """

    quiet: float
    longest: float
    after_write: float = 0.0


class Closed(Exception):
    """The queue has been closed: there is no more work."""


class WorkQueue(Generic[K]):
    """Keys to work on: `get` one, work, and call `done`, whatever came of it. Only `get` waits."""

    def __init__(
        self, random: Random, *, first_retry: float = FIRST_RETRY_SECONDS, last_retry: float = LAST_RETRY_SECONDS
    ) -> None:
        self.stats = QueueStats(self.__len__, self.oldest_age)
        self._random = random
        self._retry_limits = (first_retry, last_retry)
        self._order = 0
        self._ready: dict[K, tuple[int, int, float]] = {}  # priority, order, and since when
        self._lanes: dict[int, deque[tuple[int, K]]] = {}  # by priority, the best first
        self._queued = 0  # in all lanes, also what is no longer true
        self._later: Timetable[K] = Timetable(self._make_ready)
        self._collecting: Timetable[K] = Timetable(self._collected)
        self._since: dict[K, float] = {}  # when the first of the changes came that are being collected
        self._working: dict[K, tuple[float, int]] = {}  # since when, and with which priority it was taken
        self._again: dict[K, int] = {}  # became ready while being worked on, and its priority
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Return how many keys wait for a worker."""
        return len(self._ready)

    @property
    def later(self) -> int:
        """How many keys wait for a time, or for quiet."""
        return len(self._later) + len(self._collecting)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready and nothing is being worked on."""
        return not self._ready and not self._working

    def oldest_age(self) -> float:
        """Return how long the key has waited that waits longest for a worker."""
        if not self._ready:
            return 0.0
        return asyncio.get_running_loop().time() - min(since for _, _, since in self._ready.values())

    def failures(self, key: K) -> int:
        """Return how often a key was retried since it was last forgotten."""
        return self._failures.get(key, 0)

    def add(self, key: K, priority: int = 0, after: float = 0.0) -> None:
        """Ask for a key to be worked on, now or in `after` seconds; a lower priority number goes first.

        A key that waits already keeps the better priority and the earlier time.
        """
        if self._closed:
            return
        self.stats.adds += 1
        if after > 0:
            self._put_off(key, priority, asyncio.get_running_loop().time() + after)
        else:
            self._make_ready(key, priority)

    def collect(self, key: K, debounce: Debounce, priority: int = 0, *, not_before: float = -math.inf) -> None:
        """Ask for a key to be worked on when the changes that concern it have come to an end, or go on for too long.

        In no case is that before a time of the loop.
        """
        if self._closed:
            return
        self.stats.adds += 1
        now = asyncio.get_running_loop().time()
        since = self._since.setdefault(key, now)
        collecting = self._collecting.get(key)
        if collecting is not None:
            priority = min(priority, collecting[1])
        self._collecting.set(key, max(min(now + debounce.quiet, since + debounce.longest), not_before), priority)

    def retry(self, key: K, *, at_least: float = 0.0, at_most: float = LAST_RETRY_SECONDS) -> float:
        """Ask for a key that failed to be worked on again, later each time. Return in how many seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        first, last = self._retry_limits
        delay = min(first * 2.0 ** min(failures, 32), last, at_most)
        delay = max(delay * self._random.uniform(0.5, 1.0), at_least)
        self.stats.retries += 1
        # What was not urgent at first does not become so by failing.
        self.add(key, self._working.get(key, (0.0, 0))[1], delay)
        return delay

    def forget(self, key: K) -> None:
        """Let the next retry of a key begin with the shortest delay."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Take the key that is first in turn, waiting for one if need be. Raises `Closed`."""
        await self.wait()
        return self._take()

    async def wait(self) -> None:
        """Return when there is a key to take. Raises `Closed`."""
        while not self._ready:
            if self._closed:
                raise Closed("the work queue is closed")
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                with suppress(ValueError):
                    self._getters.remove(getter)
                # Whoever was woken for a key and cannot take it any more passes the word on.
                if self._ready and not getter.cancelled():
                    self._wake()
                raise

    def done(self, key: K) -> None:
        """Say that the work on a key has ended."""
        began, _ = self._working.pop(key)
        self.stats.worked.add(asyncio.get_running_loop().time() - began)
        if self._again and (priority := self._again.pop(key, None)) is not None and not self._closed:
            self._make_ready(key, priority)

    def close(self) -> None:
        """Forget all keys that wait and end every `get`."""
        self._closed = True
        self._ready.clear()
        self._lanes.clear()
        self._later.clear()
        self._collecting.clear()
        self._since.clear()
        while self._getters:
            self._wake()

    def _make_ready(self, key: K, priority: int) -> None:
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        waiting = self._ready.get(key)
        if waiting is not None and waiting[0] <= priority:
            return
        self._order += 1
        since = asyncio.get_running_loop().time() if waiting is None else waiting[2]
        self._ready[key] = (priority, self._order, since)
        self._line_up(key, priority, self._order)
        if waiting is None:
            self._wake()
        elif self._queued > 2 * len(self._ready) + _GARBAGE:
            self._lanes.clear()
            self._queued = 0
            for other, (its_priority, order, _) in sorted(self._ready.items(), key=lambda item: item[1][1]):
                self._line_up(other, its_priority, order)

    def _line_up(self, key: K, priority: int, order: int) -> None:
        lane = self._lanes.get(priority)
        if lane is None:
            self._lanes[priority] = lane = deque()
            self._lanes = dict(sorted(self._lanes.items()))
        lane.append((order, key))
        self._queued += 1

    def _take(self) -> K:
        for lane in self._lanes.values():
            while lane:
                order, key = lane.popleft()
                self._queued -= 1
                waiting = self._ready.get(key)
                if waiting is not None and waiting[1] == order:
                    return self._hand_over(key, waiting)
        raise LookupError("nothing is ready")

    def _hand_over(self, key: K, waiting: tuple[int, int, float]) -> K:
        del self._ready[key]
        self._later.discard(key)
        if self._since.pop(key, None) is not None:
            self._collecting.discard(key)
        now = asyncio.get_running_loop().time()
        self._working[key] = (now, waiting[0])
        self.stats.waited.add(now - waiting[2])
        return key

    def _put_off(self, key: K, priority: int, when: float) -> None:
        waiting = self._later.get(key)
        if waiting is not None:
            if waiting[0] <= when and waiting[1] <= priority:
                return
            when, priority = min(when, waiting[0]), min(priority, waiting[1])
        self._later.set(key, when, priority)

    def _collected(self, key: K, priority: int) -> None:
        del self._since[key]
        self._make_ready(key, priority)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
