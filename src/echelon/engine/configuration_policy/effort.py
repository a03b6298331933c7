"""How much a comparison may cost.

Definitions and live objects are somebody else's. Two lists of many alike items can be compared in so many ways that an
agent would do nothing else for minutes, and an object may be nested deeper than a program can follow. Both end here,
in an error that says so, and never in a hang.

A step is what a comparison does with one value: some microseconds. Objects that people write have a few thousand
values; what meets the limit is a definition of a hundred thousand, or a list of thousands of items without names that
have nearly everything in common. The most expensive megabyte costs about half a second, be it of long texts, of
amounts, or of lists in lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_STEPS = 100_000
DEEPEST = 100


class TooMuchEffort(Exception):
    """A comparison that would cost more than it may."""


@dataclass(slots=True)
class Effort:
    """What is left for the comparison of one object with one definition."""

    steps: int = MOST_STEPS
    # Lists that were put in order, by id, with what tells their items apart; they are held, or ids would be given anew.
    orders: dict[int, tuple[list[Any], Sequence[tuple[bytes, int]]]] = field(default_factory=dict)

    def spend(self, depth: int, steps: int = 1) -> None:
        """Count steps at a depth."""
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchEffort("the lists of the object and of the definition have too many similar items to compare")
        if depth > DEEPEST:
            raise TooMuchEffort(f"the definition is nested deeper than {DEEPEST} levels")
