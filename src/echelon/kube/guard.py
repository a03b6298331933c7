"""Read your writes: keeps a controller from deciding on a cache that does not have its own last writes yet.

A cache follows the server with a delay. A controller that plans again too early sees the world as it was before it
acted, and acts again. So after each write the guard remembers which version it led to, and holds the key back until
the cache that will show the object has come that far. A cache that never does (its stream is broken, or somebody else's
rule keeps the object out of it) must not stop the controller for ever: after a time limit the key goes on, and that is
counted. A cache that hears of other things meanwhile is behind, not broken, and gets more time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echelon.api.keys import Key
from echelon.kube.act import Written
from echelon.kube.cache import identity_of
from echelon.kube.freshness import shows
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics

GUARD_SECONDS = 10.0
_BEHIND = 6  # times as long for a cache that is behind

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Entry:
    """An object in the cache of an informer."""

    informer: Informer[Any]
    key: Key


@dataclass(frozen=True)
class _Expected:
    """What a cache is to show, and until when it is waited for."""

    written: Written
    deadline: float


class Guard:
    """The writes of one controller that its caches have not shown yet."""

    def __init__(
        self, controller: str, wake: Callable[[Key], None], metrics: Metrics, *, seconds: float = GUARD_SECONDS
    ) -> None:
        self._controller = controller
        self._wake = wake
        self._seconds = seconds
        self._waits = metrics.guard_waits.labels(controller)
        self._timeouts = metrics.guard_timeouts.labels(controller)
        self._informers: list[Informer[Any]] = []
        self._expected: dict[Key, dict[_Entry, _Expected]] = {}
        self._writers: dict[_Entry, dict[Key, None]] = {}  # ordered sets: keys wake in the same order in every replay
        self._held: set[Key] = set()
        self._heard: dict[Informer[Any], float] = {}

    def follow(self, informer: Informer[Any]) -> None:
        """Know of a cache that the controller reads."""
        if informer not in self._informers:
            self._informers.append(informer)

    def wrote(self, key: Key, written: Written) -> None:
        """Remember a write that was made for a key."""
        deadline = asyncio.get_running_loop().time() + self._seconds
        for informer in self._informers:
            at = Key(written.namespace, written.name)
            if not informer.selects(written.kind, at, written.labels):
                continue
            entry = _Entry(informer, at)
            if not _shown(entry, written):
                self._expected.setdefault(key, {})[entry] = _Expected(written, deadline)
                self._writers.setdefault(entry, {})[key] = None

    def hold(self, key: Key) -> float:
        """Return for how many seconds a key has to wait at most; 0 when it may be planned now.

        A key that has to wait is handed to `wake` as soon as the caches have everything.
        """
        self._held.discard(key)
        expected = self._expected.get(key)
        if not expected:
            return 0.0
        now = asyncio.get_running_loop().time()
        for entry, awaited in list(expected.items()):
            if _shown(entry, awaited.written):
                self._settle(key, entry)
            elif now >= self._deadline(entry, awaited):
                self._timeouts.inc()
                self._settle(key, entry)
                extra = {"controller": self._controller, "key": str(key)}
                _log.warning(
                    "the cache of %s does not show %s in time", entry.informer.kind.plural, entry.key, extra=extra
                )
        if not expected:
            return 0.0
        self._held.add(key)
        self._waits.inc()
        return max(self._deadline(entry, awaited) for entry, awaited in expected.items()) - now

    def _deadline(self, entry: _Entry, awaited: _Expected) -> float:
        heard = self._heard.get(entry.informer, 0.0) + self._seconds
        return max(awaited.deadline, min(heard, awaited.deadline + (_BEHIND - 1) * self._seconds))

    def heard(self, informer: Informer[Any], delta: Delta[Any]) -> None:
        """Learn of a change in a cache."""
        if not self._writers:
            return
        self._heard[informer] = asyncio.get_running_loop().time()
        entry = _Entry(informer, identity_of(delta.object).key)
        for key in tuple(self._writers.get(entry, ())):
            if _shown(entry, self._expected[key][entry].written):
                self._settle(key, entry)
                if key in self._held and key not in self._expected:
                    self._held.discard(key)
                    self._wake(key)

    def _settle(self, key: Key, entry: _Entry) -> None:
        expected, writers = self._expected.get(key), self._writers.get(entry)
        if expected is not None:
            expected.pop(entry, None)
            if not expected:
                del self._expected[key]
        if writers is not None:
            writers.pop(key, None)
            if not writers:
                del self._writers[entry]


def _shown(entry: _Entry, written: Written) -> bool:
    return shows(entry.informer, entry.key, version=written.resource_version, uid=written.uid)
