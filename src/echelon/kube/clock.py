"""Wall time, as something that is given.

Only what people read (timestamps in objects) is wall time. Intervals are measured by the event loop, whose time a
simulation governs.
"""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present moment, with its zone."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the present moment, in UTC."""
        return datetime.now(UTC)
