"""Dividing a number of pods among clusters by highest averages, with odd divisors (Webster, Sainte-Lague).

The rule is house monotone: with more to divide nobody gets less. So a partition that is lowered step by step never
takes back what was promised, and a budget that grows never moves a unit from one running cluster to another. Dividing
by largest remainders does not have this property.

What is divided may be thousands of pods, so units are not handed out one by one: an average is found at which almost
all are gone, and only the rest is handed out singly.
"""

import heapq
from collections.abc import Sequence

_TRIES = 24


def apportion(
    total: int, weights: Sequence[int], lower: Sequence[int], upper: Sequence[int], offsets: Sequence[int] | None = None
) -> list[int]:
    """Return a share for each cluster, between its bounds, that add up to the total as far as these allow.

    `offsets` are units of another kind that a cluster has already, and that count in its average. Of equal averages,
    the first in order is served first.
    """
    before = offsets or [0] * len(weights)
    tops = [max(low, high) if weight > 0 else low for weight, low, high in zip(weights, lower, upper, strict=True)]
    shares = list(lower)
    rest = total - sum(shares)
    if rest <= 0:
        return shares
    if sum(tops) <= total:
        return tops
    rows = list(zip(weights, lower, tops, before, strict=True))
    shares = _in_bulk(rows, total, shares)
    rest = total - sum(shares)
    heap = [
        (-weight / (2 * (share + offset) + 1), place)
        for place, (share, (weight, _, top, offset)) in enumerate(zip(shares, rows, strict=True))
        if share < top
    ]
    heapq.heapify(heap)
    while rest and heap:
        _, place = heap[0]
        shares[place] += 1
        rest -= 1
        weight, _, top, offset = rows[place]
        if shares[place] < top:
            heapq.heapreplace(heap, (-weight / (2 * (shares[place] + offset) + 1), place))
        else:
            heapq.heappop(heap)
    return shares


def _in_bulk(rows: list[tuple[int, int, int, int]], total: int, shares: list[int]) -> list[int]:
    """Return shares in which all averages down to some value are served, and no more than the total."""
    few = len(rows)
    high = float(max(row[0] for row in rows)) + 1.0  # nobody has such an average
    low = 0.0
    guess = max(sum(row[0] for row in rows) / (2.0 * max(1, total)), 1e-9)
    for _ in range(_TRIES):
        tried = [_served(row, guess) for row in rows]
        given = sum(tried)
        if given <= total:
            shares, high = tried, guess
            if total - given <= few:
                break
        else:
            low = guess
        # Shares go with the inverse of the average, but for those that are at a bound.
        near = guess * (given + few / 2) / total
        guess = near if low < near < high else (low + high) / 2.0
    return shares


def _served(row: tuple[int, int, int, int], average: float) -> int:
    """Return the share at which everything above an average is served: 2 (share + offset) - 1 < weight / average."""
    weight, low, top, offset = row
    share = int((weight / average + 1.0) / 2.0) - offset
    # An average that is met exactly is left to be handed out singly, where the order counts.
    if weight <= average * (2 * (share + offset) - 1):
        share -= 1
    return low if share < low else min(share, top)
