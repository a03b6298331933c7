"""Conditions of a work and when their clocks start.

Soak times and deadlines of a rollout run from these times, so a clock must not be older than what it measures: a
condition that is about another generation starts anew, even if it says the same. For facts that outlive a generation,
such as an object being there, only a change of status counts.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from echelon.api.meta import Condition

MAX_MESSAGE = 32768
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Clock(msgspec.Struct, frozen=True):
    """The generation that is reported on, and the present time."""

    generation: int
    now: str

    def since(self, time: str) -> timedelta | None:
        """Return how long ago a time was, in whole seconds as conditions have them; None if it is no time."""
        try:
            return datetime.fromisoformat(self.now) - datetime.fromisoformat(time)
        except (TypeError, ValueError):
            return None

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


def clock(generation: int, now: datetime) -> Clock:
    """Return the clock of a report."""
    return Clock(generation, now.astimezone(UTC).strftime(_TIME))


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of a type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def restated(
    before: Sequence[Condition], said: Condition, *, lasting: bool = False, changed: bool = False
) -> list[Condition]:
    """Return conditions with one of them said anew, in its old place.

    Its clock goes on if status and generation are the same; `lasting` facts go on over generations, and `changed` ones
    start anew in any case.
    """
    known = find(before, said.type)
    if known is None:
        return [*before, said]
    same = known.status == said.status and (lasting or known.observed_generation == said.observed_generation)
    if same and not changed:
        said = msgspec.structs.replace(said, last_transition_time=known.last_transition_time)
    return [said if condition.type == said.type else condition for condition in before]
