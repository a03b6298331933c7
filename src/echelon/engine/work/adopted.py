"""Telling that an object was there before the work that names it: it is kept up to date, and outlives the work."""

from collections.abc import Sequence

from echelon.api.meta import Condition
from echelon.engine.conditions import ConditionStamp, set_condition
from echelon.engine.work.ownership import ADOPT

ADOPTED = "Adopted"
_MESSAGE = (
    "It was there before this work: it is brought in line with its manifest, belongs to nobody here, and stays "
    f"when the work goes ({ADOPT}: delete on the work makes it the work's own)"
)


def with_adopted(conditions: Sequence[Condition], stamp: ConditionStamp, *, adopted: bool) -> list[Condition]:
    """Tell of an object whether it was there before; what is not so is not mentioned."""
    if not adopted:
        return [each for each in conditions if each.type != ADOPTED]
    return set_condition(conditions, stamp.condition(ADOPTED, "True", "FoundOnCluster", _MESSAGE))
