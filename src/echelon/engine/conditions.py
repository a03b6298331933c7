"""Conditions, as every controller reads and writes them: in place, and with a time that moves only when it should.

Soak times and deadlines of a rollout run from the times of a work's conditions, so a clock must not be older than what
it measures: a condition that is about another generation starts anew there, even if it says the same. For facts that
outlive a generation, such as an object being there, only a change of status counts.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition
from echelon.api.times import format_time, parse_time

MAX_MESSAGE = 32768


def find_condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of a type."""
    for condition in conditions:  # no generator: plans ask this some thousand times
        if condition.type == kind:
            return condition
    return None


def set_condition(
    before: Sequence[Condition], said: Condition, *, per_generation: bool = False, restart: bool = False
) -> list[Condition]:
    """Return conditions with one of them said anew, in its old place; `said` has the present time.

    Its old time stays if its status does. With `per_generation` a condition about another generation starts anew, even
    if it says the same; with `restart` it starts anew in any case.
    """
    known = find_condition(before, said.type)
    if known is None:
        return [*before, said]
    same = known.status == said.status
    if per_generation:
        same = same and known.observed_generation == said.observed_generation
    if same and not restart:
        said = msgspec.structs.replace(said, last_transition_time=known.last_transition_time)
    return [said if condition.type == said.type else condition for condition in before]


def conditions_to_wire(conditions: Sequence[Condition]) -> list[JSONObject]:
    """Return conditions as the API has them."""
    return [msgspec.to_builtins(condition) for condition in conditions]


class ConditionStamp(msgspec.Struct, frozen=True):
    """What new conditions carry: the generation that is reported on, and the present time."""

    generation: int
    now: str

    def since(self, time: str) -> timedelta | None:
        """Return how long ago a time was, in whole seconds as conditions have them; None if it is no time."""
        then, now = parse_time(time), parse_time(self.now)
        return None if then is None or now is None else now - then

    def condition(self, kind: str, status: str | bool, reason: str, message: str = "") -> Condition:
        """Return a condition that is about this generation and starts now."""
        return Condition(
            type=kind,
            status=str(status),
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
