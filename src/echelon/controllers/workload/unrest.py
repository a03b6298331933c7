"""When something last changed that placements look at, so that they may be about to decide anew."""

from datetime import datetime, timedelta
from typing import Any

from echelon.kube.clock import Clock
from echelon.kube.informer import Delta

# A placement collects changes for a second at most, and then begins to write its decisions.
DECIDING = timedelta(seconds=1.5)


class Unrest:
    """How long ago clusters, sets or placements changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: datetime | None = None

    def follow(self, delta: Delta[Any]) -> None:
        """Note a change; what was there from the beginning is none."""
        if not delta.initial:
            self._last = self._clock.now()

    def left(self, now: datetime) -> timedelta | None:
        """Return how long a placement may still be about to decide on what changed just now."""
        if self._last is None or now - self._last >= DECIDING:
            return None
        return self._last + DECIDING - now
