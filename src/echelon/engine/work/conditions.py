"""Conditions of a work and when their clocks start.

Soak times and deadlines of a rollout run from these times, so a clock must not be older than what it measures: a
condition that is about another generation starts anew, even if it says the same. For facts that outlive a generation,
such as an object being there, only a change of status counts.
"""

from datetime import datetime, timedelta

import msgspec

from echelon.api.meta import Condition
from echelon.api.times import format_time, parse_time
from echelon.engine.conditions import MAX_MESSAGE


class ConditionStamp(msgspec.Struct, frozen=True):
    """What new conditions carry: the generation that is reported on, and the present time."""

    generation: int
    now: str

    def since(self, time: str) -> timedelta | None:
        """Return how long ago a time was, in whole seconds as conditions have them; None if it is no time."""
        then, now = parse_time(time), parse_time(self.now)
        return None if then is None or now is None else now - then

    def condition(self, kind: str, status: str, reason: str, message: str = "") -> Condition:
        """Return a condition that is about this generation and starts now."""
        return Condition(
            type=kind,
            status=status,
            observed_generation=self.generation,
            last_transition_time=self.now,
            reason=reason,
            message=message[:MAX_MESSAGE],
        )

    def current(self, condition: Condition | None, status: str = "") -> bool:
        """Tell whether a condition is about this generation, and has a status if one is given."""
        return (
            condition is not None
            and condition.observed_generation == self.generation
            and status in ("", condition.status)
        )


def condition_stamp(generation: int, now: datetime) -> ConditionStamp:
    """Return the stamp of a report's conditions."""
    return ConditionStamp(generation, format_time(now))
