"""Conditions, as every controller reads and writes them: in place, and with a time that moves only when it should."""

from collections.abc import Sequence

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition

MAX_MESSAGE = 32768


def find_condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of a type."""
    return next((condition for condition in conditions if condition.type == kind), None)


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
