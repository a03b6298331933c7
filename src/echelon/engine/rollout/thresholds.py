"""How many clusters a number or a percentage stands for.

A percentage is rounded up, in binary floating point and in the order of operations that others use, so that the same
strategy means the same count everywhere. Unlike elsewhere, a number above the total is the total and not the default:
who tolerates ten failures among six clusters means all of them, not none.
"""

import math
import re
from dataclasses import dataclass

from echelon.api.base import IntOrString

_PERCENT = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))%")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
_MORE_THAN_ALL = 1e6  # percent; keeps the product finite, however many digits somebody writes


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
        if value is None:
            return cls()
        if isinstance(value, int):
            return cls(value)
        if found := _PERCENT.fullmatch(value):
            return cls(percent=min(float(found[1]), _MORE_THAN_ALL))
        if _NUMBER.fullmatch(value):
            return cls(int(value))
        raise NotAThreshold(value)

    @property
    def is_zero(self) -> bool:
        """Whether it sets no limit at all, and a default stands in for it."""
        return (self.number if self.percent is None else self.percent) <= 0

    def of(self, total: int, default: int) -> int:
        """How many of a total that is; the default stands in for zero or less."""
        count = self.number if self.percent is None else math.ceil(self.percent / 100 * total)
        return min(count if count > 0 else default, total)
