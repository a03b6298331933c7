"""Since when clusters have their taints: a toleration that ends by itself counts from there.

Whoever adds a taint seldom says when, and whoever applies the same file again takes the time away that it had by then.
Neither may end a toleration at once, or make it last for ever.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from echelon.api.cluster import Taint
from echelon.api.times import format_time


def with_times(taints: Sequence[Taint], before: Sequence[Taint], seen: datetime | None) -> tuple[Taint, ...]:
    """Give a time to taints that have none: that of the same taint before, else the one at which it is first seen."""
    if all(taint.time_added for taint in taints):
        return tuple(taints)
    known: dict[tuple[str, str, str], list[str | None]] = {}
    for taint in before:
        known.setdefault(_same(taint), []).append(taint.time_added)
    now = None if seen is None else format_time(seen)
    timed = []
    for taint in taints:
        # Nobody forbids the same taint twice; each has its own time, so that the same taints keep theirs.
        times = known.get(_same(taint), [])
        earlier = times[0] if len(times) == 1 else times.pop(0) if times else None
        since = taint.time_added or earlier or now
        timed.append(taint if taint.time_added else msgspec.structs.replace(taint, time_added=since))
    return tuple(timed)


def _same(taint: Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect
