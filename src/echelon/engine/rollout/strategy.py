"""A rollout strategy, read from its wire form and checked once.

Others parse each limit when the rollout gets there, so that a typing error stops it in the middle of the fleet. Here a
strategy is read as a whole before anything moves: what cannot be carried out is refused, with the field, the value and
the rule.
"""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from echelon.api.base import IntOrString
from echelon.api.rollout import (
    MandatoryDecisionGroup,
    RolloutAll,
    RolloutProgressive,
    RolloutProgressivePerGroup,
    RolloutStrategy,
)
from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout import durations
from echelon.engine.rollout.thresholds import NotAThreshold, Threshold

_FOR_EVER = ("", "None")
_DEADLINE = re.compile(r"[0-9]+[hms]")  # how a deadline has to begin; Go's other notations are not taken elsewhere


class BadStrategy(ValueError):
    """A strategy that cannot be carried out as it is written."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        super().__init__(f'rolloutStrategy.{field} is "{value}": {rule}')
        self.field = field
        self.value = value
        self.rule = rule


class StrategyType(StrEnum):
    """How a rollout moves; the type of a strategy."""

    ALL = "All"
    PROGRESSIVE = "Progressive"
    PER_GROUP = "ProgressivePerGroup"


@dataclass(frozen=True, slots=True)
class Strategy:
    """In which order, how many at a time, and up to how many failures a change reaches the clusters."""

    type: StrategyType = StrategyType.ALL
    soak: timedelta = timedelta()
    deadline: timedelta | None = None  # None waits for ever
    max_failures: Threshold = field(default_factory=Threshold)
    mandatory: tuple[GroupKey, ...] = ()
    max_concurrency: Threshold = field(default_factory=Threshold)
    default_concurrency: int | None = None  # None is everyone

    def concurrency(self, clusters: int) -> int:
        """How many of so many clusters may be in flight at once."""
        default = self.default_concurrency
        return self.max_concurrency.of(clusters, default if default and default > 0 else clusters)


def read_strategy(strategy: RolloutStrategy, default_concurrency: int | None = None) -> Strategy:
    """Read a strategy. `default_concurrency` is for one that does not say how many: None means everyone at once.

    Raises BadStrategy for the first field that cannot be carried out.
    """
    match strategy.type:
        case StrategyType.ALL:
            everywhere = strategy.all or RolloutAll()
            _soak("all", everywhere.min_success_time)  # it has no meaning here; a mistake in it is one all the same
            _threshold("all.maxFailures", everywhere.max_failures)
            return Strategy(deadline=_deadline("all", everywhere.progress_deadline))
        case StrategyType.PROGRESSIVE:
            window = strategy.progressive or RolloutProgressive()
            return Strategy(
                StrategyType.PROGRESSIVE,
                _soak("progressive", window.min_success_time),
                _deadline("progressive", window.progress_deadline),
                _threshold("progressive.maxFailures", window.max_failures),
                mandatory_keys(window.mandatory_decision_groups),
                _threshold("progressive.maxConcurrency", window.max_concurrency),
                default_concurrency,
            )
        case StrategyType.PER_GROUP:
            steps = strategy.progressive_per_group or RolloutProgressivePerGroup()
            return Strategy(
                StrategyType.PER_GROUP,
                _soak("progressivePerGroup", steps.min_success_time),
                _deadline("progressivePerGroup", steps.progress_deadline),
                _threshold("progressivePerGroup.maxFailures", steps.max_failures),
                mandatory_keys(steps.mandatory_decision_groups),
            )
    raise BadStrategy(
        "type", strategy.type, f"incorrect rollout strategy type: it must be one of {', '.join(StrategyType)}"
    )


def mandatory_keys(listed: list[MandatoryDecisionGroup]) -> tuple[GroupKey, ...]:
    """The groups that are asked for: by name, or else by index."""
    return tuple(GroupKey(0, one.group_name) if one.group_name else GroupKey(one.group_index) for one in listed)


def read_deadline(text: str) -> timedelta | None:
    """Read a deadline; None is for ever."""
    if text in _FOR_EVER:
        return None
    if not _DEADLINE.match(text):
        raise durations.NotADuration(text)
    return durations.parse(text)


def _deadline(block: str, text: str) -> timedelta | None:
    try:
        return read_deadline(text)
    except durations.NotADuration as mistake:
        rule = "invalid timeout format: it must be None or a duration such as 90s, 10m or 1h30m"
        raise BadStrategy(f"{block}.progressDeadline", text, rule) from mistake


def _soak(block: str, text: str) -> timedelta:
    rule = "it must be a duration such as 0, 90s, 10m or 1h30m, and not negative"
    try:
        soak = durations.parse(text)
    except durations.NotADuration as mistake:
        raise BadStrategy(f"{block}.minSuccessTime", text, rule) from mistake
    if soak < timedelta():
        raise BadStrategy(f"{block}.minSuccessTime", text, rule)
    return soak


def _threshold(name: str, value: IntOrString | None) -> Threshold:
    try:
        return Threshold.read(value)
    except NotAThreshold as mistake:
        rule = "it must be a number or a percentage such as 25%"
        raise BadStrategy(name, value, rule) from mistake
