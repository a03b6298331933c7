"""What evaluating an expression costs, and how much it may.

The unit is that of Kubernetes: looking up a name or calling a function costs 1, going through ten characters costs 1, a
list that is made costs 10 and a map 30. Whatever is made or gone through is paid for before that happens, so an
expression that would make gigabytes ends before it has them. Nothing here looks at a clock: the same expression on the
same values costs the same, everywhere. One unit takes well under a microsecond.
"""

from typing import Any, Final

PER_CALL: Final = 1_000_000  # for one evaluation of one expression
PER_OBJECT: Final = 10_000_000  # for all expressions about one object

LIST_COST: Final = 10
MAP_COST: Final = 30
CHARACTERS: Final = 10  # that are gone through for 1


class Overrun(Exception):
    """More was spent than there was."""


class Meter:
    """Counts down what one evaluation may still cost."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def pay(self, cost: int) -> None:
        """Pay for what is done next; raise Overrun if there is not enough left."""
        self.left -= cost
        if self.left < 0:
            raise Overrun

    def traverse(self, value: Any) -> None:
        """Pay for going through a value once, with everything inside. What is in it twice is gone through twice."""
        waiting = [value]
        while waiting:
            value = waiting.pop()
            kind = value.__class__
            if kind is str or kind is bytes:
                self.pay(1 + len(value) // CHARACTERS)
            elif kind is list:
                self.pay(1 + len(value))
                waiting.extend(value)
            elif kind is dict:
                self.pay(1 + 2 * len(value))
                waiting.extend(value)
                waiting.extend(value.values())
            else:
                self.pay(1)


class Budget:
    """What all evaluations for one object may cost together, and each of them at most."""

    __slots__ = ("left", "per_call")

    def __init__(self, total: int = PER_OBJECT, per_call: int = PER_CALL) -> None:
        self.left = total
        self.per_call = per_call

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def spend(self, cost: int) -> None:
        """Pay for something that is no evaluation; raise Overrun if there is not enough left."""
        self.left = max(0, self.left - cost)
        if not self.left:
            raise Overrun

    def meter(self) -> Meter:
        """Begin an evaluation."""
        return Meter(min(self.left, self.per_call))

    def settle(self, meter: Meter) -> None:
        """End an evaluation. What it failed to pay for does not count."""
        self.left -= min(self.left, self.per_call) - max(0, meter.left)
