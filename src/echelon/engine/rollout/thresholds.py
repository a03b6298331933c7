"""How many clusters a number or a percentage stands for.

A percentage is rounded up, in binary floating point and in the order of operations that others use, so that the same
strategy means the same count everywhere. Unlike elsewhere, a number above the total is the total and not the default:
who tolerates ten failures among six clusters means all of them, not none.
"""

from dataclasses import dataclass

from echelon.api.base import IntOrString
from echelon.engine.int_or_percent import IntOrPercent, NotIntOrPercent, Rounding


class NotAThreshold(ValueError):
    """A limit that is neither a number nor a percentage."""

    def __init__(self, value: str) -> None:
        super().__init__(f"'{value}' is an invalid maximum threshold value: string is not a percentage")
        self.value = value


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit as the user wrote it: so many clusters, or a share of them."""

    number: int = 0
    percent: float | None = None

    @classmethod
    def read(cls, value: IntOrString | None) -> "Threshold":
        """Read a limit. A number in quotes is a number; nothing is zero, and so the default."""
        try:
            found = IntOrPercent.parse(value)
        except NotIntOrPercent as mistake:
            raise NotAThreshold(mistake.value) from None
        return cls(found.number, found.percent)

    @property
    def is_zero(self) -> bool:
        """Whether it sets no limit at all, and a default stands in for it."""
        return (self.number if self.percent is None else self.percent) <= 0

    def of(self, total: int, default: int) -> int:
        """How many of a total that is; the default stands in for zero or less."""
        count = IntOrPercent(self.number, self.percent).of(total, Rounding.UP_IN_FLOATS)
        return min(count if count > 0 else default, total)
