"""A number, or a percentage of a whole: `maxUnavailable: 25%`.

Two arithmetics are on the wire. Workload controllers know whole percentages only and compute exactly; placements and
rollouts take fractions and compute in binary floating point, where 7% of 100 is a little more than 7 and so 8. What
lies outside of the whole ("150%", 12 of 10, -1) is not corrected here: one caller means all of it, another its
default, and a surge means just what it says.
"""

import math
import re
from dataclasses import dataclass
from enum import Enum

from echelon.api.base import IntOrString

_PERCENT = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)%")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")
_LARGEST = 2.0**62  # keeps counts finite, whatever exponent somebody writes


class Rounding(Enum):
    """What becomes of a part of a pod or of a cluster."""

    UP = "up"
    DOWN = "down"
    UP_IN_FLOATS = "up, after percent / 100 * whole in binary floating point"


class NotIntOrPercent(ValueError):
    """A value that is neither a number nor a percentage."""

    def __init__(self, value: str) -> None:
        super().__init__(f"{value!r} is neither a number nor a percentage")
        self.value = value


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """A value as the user wrote it. Where there is a percentage, the number does not count."""

    number: int = 0
    percent: float | None = None

    @classmethod
    def parse(cls, value: IntOrString | None) -> "IntOrPercent":
        """Read a value; nothing is zero, and a number in quotes is a number. Raises NotIntOrPercent."""
        if value is None:
            return cls()
        if isinstance(value, int):
            return cls(value)
        if found := _PERCENT.fullmatch(value):
            percent = float(found[1])
            if math.isfinite(percent):
                return cls(percent=percent)
        elif _NUMBER.fullmatch(value):
            return cls(int(value))
        raise NotIntOrPercent(value)

    def of(self, whole: int, rounding: Rounding) -> int:
        """Return the number that it stands for. Raises NotIntOrPercent for 12.5% where only whole ones are known."""
        if self.percent is None:
            return self.number
        if rounding is Rounding.UP_IN_FLOATS:
            # The order of the operations is part of the wire format.
            return math.ceil(max(-_LARGEST, min(self.percent / 100 * whole, _LARGEST)))
        if not self.percent.is_integer():
            raise NotIntOrPercent(f"{self.percent}%")
        share = int(self.percent) * whole
        return share // 100 if rounding is Rounding.DOWN else -(-share // 100)


def resolve(value: IntOrString | None, whole: int, rounding: Rounding) -> int:
    """Return the number that a value stands for. Raises NotIntOrPercent."""
    return IntOrPercent.parse(value).of(whole, rounding)


def kept_by_partition(value: IntOrString | None, replicas: int) -> int:
    """Return how many pods a partition keeps old. Raises NotIntOrPercent.

    A percentage that is not all of them lets one pod of several go, or a canary of a small set would never start.
    """
    partition = IntOrPercent.parse(value)
    kept = partition.of(replicas, Rounding.UP)
    if partition.percent is not None and partition.percent < 100 and kept == replicas > 1:
        return kept - 1
    return min(max(kept, 0), replicas)
