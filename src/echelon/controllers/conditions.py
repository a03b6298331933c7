"""Conditions as all controllers write them: the time changes only when the status does."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition


def timestamp(moment: datetime) -> str:
    """Return a moment as the API writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """Return the condition of a type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def with_condition(before: Sequence[Condition], said: Condition) -> list[Condition]:
    """Return conditions with one of them said anew; `said` has the present time."""
    known = find(before, said.type)
    if known is not None and known.status == said.status:
        said = msgspec.structs.replace(said, last_transition_time=known.last_transition_time)
    if known is None:
        return [*before, said]
    return [said if condition.type == said.type else condition for condition in before]


def wire(conditions: Sequence[Condition]) -> list[JSONObject]:
    """Return conditions as the API has them."""
    return [msgspec.to_builtins(condition) for condition in conditions]
