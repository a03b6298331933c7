"""The budgets of a federated workload, as numbers of pods.

Percentages are of the total over all clusters, and are resolved before anything is split: 25 % of three, three and
four pods are two pods, and not none and none and one. Each kind rounds as it does in one cluster. Two zeros would
stand still for ever, so then one pod may be unavailable, as in one cluster, and who reads the budgets is told.
"""

from dataclasses import dataclass

from echelon.api.base import IntOrString
from echelon.engine.align.contract import Contract, Family
from echelon.engine.align.grant import Grant
from echelon.engine.int_or_percent import NotIntOrPercent, Rounding, kept_by_partition, resolve


@dataclass(frozen=True, slots=True)
class RollingStrategy:
    """What a manifest says about its updates: numbers or percentages, None where it says nothing."""

    paused: bool = False
    partition: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


def strategy_of(grant: Grant) -> RollingStrategy:
    """Return what a manifest has to say for a grant; a kind writes of it what it has fields for."""
    return RollingStrategy(grant.paused, grant.partition, grant.unavailable, grant.surge)


@dataclass(frozen=True, slots=True)
class Budgets:
    """How many pods there should be, and how far a rollout may stray from that."""

    total: int
    unavailable: int
    surge: int
    partition: int = 0
    both_were_zero: bool = False

    @property
    def least_available(self) -> int:
        """Below this the rollout takes no available pod away."""
        return self.total - self.unavailable

    @property
    def most_pods(self) -> int:
        """Beyond this no pod is made."""
        return self.total + self.surge

    @property
    def most_updated(self) -> int:
        """Beyond this no pod is updated."""
        return self.total - self.partition


class BadStrategy(ValueError):
    """A field of a rolling strategy that says nothing sensible."""

    def __init__(self, field: str, value: IntOrString, rule: str) -> None:
        super().__init__(f"{field} is {value!r}: {rule}")
        self.field = field
        self.value = value


def resolve_budgets(strategy: RollingStrategy, contract: Contract, total: int) -> Budgets:
    """Return the budgets for so many pods in all clusters together. Raises BadStrategy."""
    surge = 0
    if contract.has_surge:
        default = "25%" if contract.family is Family.DEPLOYMENT else 0
        surge = _number("maxSurge", strategy.max_surge, default, total, Rounding.UP)
    if contract.family is Family.DEPLOYMENT:
        missing = _number("maxUnavailable", strategy.max_unavailable, "25%", total, Rounding.DOWN)
    elif contract.family is Family.CLONE_SET:
        rounding = Rounding.DOWN if surge else Rounding.UP
        missing = _number("maxUnavailable", strategy.max_unavailable, "20%", total, rounding)
    else:
        missing = max(1, _number("maxUnavailable", strategy.max_unavailable, 1, total, Rounding.DOWN))
    partition = 0
    if contract.has_partition and strategy.partition is not None:
        partition = _partition(strategy.partition, total)
    both_zero = surge == 0 and missing == 0
    missing = 1 if both_zero else missing
    if missing < contract.least_unavailable and total > 0:
        said = 0 if strategy.max_unavailable is None else strategy.max_unavailable
        rule = f"it must come to {contract.least_unavailable} at least for this kind, and comes to {missing}"
        raise BadStrategy("maxUnavailable", said, rule)
    return Budgets(total, min(missing, total), surge, partition, both_were_zero=both_zero and total > 0)


def _number(field: str, value: IntOrString | None, default: IntOrString, total: int, rounding: Rounding) -> int:
    value = default if value is None else value
    try:
        number = resolve(value, total, rounding)
    except NotIntOrPercent as error:
        raise BadStrategy(field, value, "it must be a number or a whole percentage") from error
    if number < 0:
        raise BadStrategy(field, value, "it must not be negative")
    return number


def _partition(value: IntOrString, total: int) -> int:
    try:
        return kept_by_partition(value, total)
    except NotIntOrPercent as error:
        raise BadStrategy("partition", value, "it must be a number or a whole percentage") from error
