"""What a process knows of its own health, in the form in which Kubernetes' own programs tell it.

Alive means that the event loop turns: whatever else is wrong, an end and a new start would not help. Ready means that
what a process does rests on caches that are full. Whoever stands by for another leader is ready too, and says so.
"""

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics

BEAT_SECONDS = 0.25
# How late the event loop may be. What is done in one step takes milliseconds.
LAG_LIMIT_SECONDS = 5.0
# For how long it is remembered that it was late: those who ask come by every few seconds.
REMEMBERED_SECONDS = 10.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what is wrong with it, if anything is."""

    name: str
    failure: str = ""
    note: str = ""


class Heartbeat:
    """Measures how much later than asked the event loop comes back, for as long as it runs."""

    def __init__(self, metrics: Metrics, *, limit: float = LAG_LIMIT_SECONDS) -> None:
        self._metrics = metrics
        self._limit = limit
        self._due = asyncio.get_running_loop().time() + BEAT_SECONDS
        self._worst = (0.0, -math.inf)  # the longest lag of late, and until when it is remembered

    @property
    def lag(self) -> float:
        """How late the loop was of late, or already is with the next beat."""
        now = asyncio.get_running_loop().time()
        worst, until = self._worst
        return max(worst if now < until else 0.0, now - self._due)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._due = loop.time() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            now = loop.time()
            lag = max(0.0, now - self._due)
            self._metrics.loop_lag.observe(lag)
            if now >= self._worst[1] or lag >= self._worst[0]:
                self._worst = (lag, now + REMEMBERED_SECONDS)

    def check(self) -> Check:
        """Tell whether the event loop keeps up."""
        lag = max(self.lag, 0.0)
        late = f"{lag:.3f} s late"
        if lag <= self._limit:
            return Check("event-loop", note=late)
        return Check("event-loop", f"{late}, which is more than {self._limit:g} s")


def check_caches(informers: Iterable[Informer[Any]]) -> Check:
    """Tell whether all caches have been full once."""
    informers = list(informers)
    missing = [each.kind.resource for each in informers if not each.synced]
    if missing:
        return Check("caches", f"not full yet: {', '.join(missing)}")
    return Check("caches", note=f"{len(informers)} full")


def report(name: str, checks: Iterable[Check], *, verbose: bool) -> tuple[bool, str]:
    """Return whether all is well, and what to say: what is wrong is always said."""
    checks = list(checks)
    well = not any(check.failure for check in checks)
    if well and not verbose:
        return True, "ok"
    lines = [
        f"[-]{check.name} failed: {check.failure}"
        if check.failure
        else f"[+]{check.name} ok" + (f": {check.note}" if check.note else "")
        for check in checks
    ]
    return well, "\n".join([*lines, f"{name} check {'passed' if well else 'failed'}", ""])
