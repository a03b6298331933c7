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
    known = {_same(taint): taint.time_added for taint in before}
    now = None if seen is None else format_time(seen)
    return tuple(
        taint
        if taint.time_added
        else msgspec.structs.replace(taint, time_added=known.get(_same(taint)) or now or taint.time_added)
        for taint in taints
    )


def _same(taint: Taint) -> tuple[str, str, str]:
    return taint.key, taint.value, taint.effect
