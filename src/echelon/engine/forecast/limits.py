"""Which setting holds a rollout up: each is loosened in a copy of the subject, and the forecast is made again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from echelon.api.rollout import RolloutStrategy
from echelon.engine.forecast.course import forecast
from echelon.engine.forecast.model import Assumptions
from echelon.engine.rollout.evaluate import roll_out
from echelon.engine.rollout.stages import stages
from echelon.engine.rollout.subject import Subject

_MANY = 1_000_000


@dataclass(frozen=True)
class SpeedLimit:
    """A setting, and how much sooner a rollout would end without it."""

    setting: str
    saved: timedelta


def speed_limits(subject: Subject, now: datetime, takes: timedelta) -> tuple[SpeedLimit, ...]:
    """Return what makes a rollout slow, the worst first; `takes` is what a cluster needs by itself."""
    assumed = Assumptions(takes)
    ends = forecast(subject, now, assumed).ends
    found = []
    for setting, loosened in _LOOSENED.items():
        references = tuple(replace(each, strategy=loosened(each.strategy)) for each in subject.references)
        saved = ends - forecast(replace(subject, references=references), now, assumed).ends
        if saved > timedelta():
            found.append(SpeedLimit(setting, saved))
    if takes:
        found.append(SpeedLimit("the time that clusters need", ends - forecast(subject, now).ends))
    return tuple(sorted(found, key=lambda each: -each.saved))


def most_in_flight(subject: Subject, now: datetime) -> int:
    """Return how many clusters may be in flight at once: those of the largest stage of each reference."""
    found = 0
    for ref in roll_out(subject, now).references:
        allocation = ref.allocation
        if allocation.strategy is not None:
            found += max((each.slots for each in stages(allocation.strategy, allocation.groups)), default=0)
    return found


def _without_soak(strategy: RolloutStrategy) -> RolloutStrategy:
    changed = {
        name: msgspec.structs.replace(settings, min_success_time="0")
        for name in ("all", "progressive", "progressive_per_group")
        if (settings := getattr(strategy, name, None)) is not None
    }
    return msgspec.structs.replace(strategy, **changed)


def _without_concurrency(strategy: RolloutStrategy) -> RolloutStrategy:
    if strategy.progressive is None:
        return strategy
    return msgspec.structs.replace(
        strategy, progressive=msgspec.structs.replace(strategy.progressive, max_concurrency=_MANY)
    )


def _without_mandatory(strategy: RolloutStrategy) -> RolloutStrategy:
    if strategy.progressive is None:
        return strategy
    return msgspec.structs.replace(
        strategy, progressive=msgspec.structs.replace(strategy.progressive, mandatory_decision_groups=[])
    )


def _without_groups(strategy: RolloutStrategy) -> RolloutStrategy:
    if strategy.type != "ProgressivePerGroup":
        return strategy
    return RolloutStrategy(type="All")


_LOOSENED: dict[str, Callable[[RolloutStrategy], RolloutStrategy]] = {
    "minSuccessTime": _without_soak,
    "maxConcurrency": _without_concurrency,
    "mandatoryDecisionGroups": _without_mandatory,
    "one group after the other": _without_groups,
}
