"""What a controller has to look at.

Something that cannot be done now, whatever the reason, must not keep the rest from being done: it waits, longer after
each failure, and is tried again. That it fails is said once, and again when it fails in another way (texts can differ
from one time to the next); that it came to an end after all is said as well.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from echelon.kube.errors import ApiError

_log = logging.getLogger(__name__)

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 300.0

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class _Failure:
    how: tuple[type[Exception], int]
    tries: int
    due: float  # by the clock of the event loop


class Todo(Generic[K]):
    """The keys that are due, and those that failed and wait. `what` is being done, in the words of the log."""

    def __init__(self, what: str, settle: Callable[[K], Awaitable[None]]) -> None:
        self._what = what
        self._settle = settle
        self._due: dict[K, None] = {}  # a dict as an ordered set: replays are exact
        self._failed: dict[K, _Failure] = {}
        self._next = math.inf  # nothing that failed is due before

    def add(self, key: K) -> None:
        """Look at something now: it has changed, so what failed before may work."""
        self._due[key] = None

    def remind(self, key: K) -> None:
        """Look at something now, unless it has to wait after a failure."""
        if key not in self._failed:
            self._due[key] = None

    def discard(self, key: K) -> None:
        """Forget something that is gone."""
        self._due.pop(key, None)
        self._failed.pop(key, None)

    @property
    def delay(self) -> float | None:
        """How many seconds there is nothing to do; None while nothing waits."""
        if self._due:
            return 0.0
        return max(0.0, self._next - _now()) if self._failed else None

    async def work(self) -> None:
        """Do what is due, giving way to others after each."""
        if self._next <= (now := _now()):
            self._due |= {key: None for key, failure in self._failed.items() if failure.due <= now}
            self._next = min((failure.due for failure in self._failed.values() if failure.due > now), default=math.inf)
        while self._due:
            key = next(iter(self._due))
            try:
                await self._settle(key)
            except Exception as error:  # noqa: BLE001 - a mistake about one object is no reason to leave the others
                self._note_failure(key, error)
            else:
                if (failure := self._failed.pop(key, None)) is not None:
                    _log.info("%s %s: done after %d failures", self._what, _shown(key), failure.tries)
            self._due.pop(key, None)
            await asyncio.sleep(0)

    def _note_failure(self, key: K, error: Exception) -> None:
        before = self._failed.get(key)
        tries = before.tries + 1 if before is not None else 1
        due = _now() + min(FIRST_DELAY * 2.0 ** min(tries - 1, 32), LONGEST_DELAY)
        code = error.status_code if isinstance(error, ApiError) else 0
        self._failed[key] = _Failure((type(error), code), tries, due)
        self._next = min(self._next, due)
        if before is None or before.how != self._failed[key].how:
            # What is no answer of the API is a mistake of ours, and whoever looks for it needs to know where.
            _log.warning("%s %s: will try again: %s", self._what, _shown(key), error, exc_info=None if code else error)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _shown(key: Hashable) -> str:
    return "/".join(filter(None, map(str, key))) if isinstance(key, tuple) else str(key)
