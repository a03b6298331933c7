"""The way of a rollout through the groups: one stage after the other, each with its own limits.

All three types are the same walk over different stages. Mandatory groups come first, by index, each a stage in which
everyone may start and nobody may fail. Then the rest: as one stage with a window that spans all groups (Progressive),
or as a stage for each group (ProgressivePerGroup), there placement after placement, each with its own mandatory groups
first. All is one stage without limits.
"""

from dataclasses import dataclass

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import Wait
from echelon.engine.rollout.strategy import Strategy, StrategyType


@dataclass(frozen=True, slots=True)
class Stage:
    """Groups that are taken together: how many of their clusters may be in flight, and how many may fail."""

    groups: tuple[GroupKey, ...]
    slots: int
    tolerated: int
    mandatory: bool = False
    budget: GroupKey | None = None  # the group whose limit that is, if it is not everyone's

    @property
    def wait(self) -> Wait:
        """What those after it wait for."""
        return Wait.MANDATORY if self.mandatory else Wait.GROUP


def stages(strategy: Strategy, groups: DecisionGroups) -> tuple[Stage, ...]:
    """The stages in the order in which they are taken."""
    sizes = {key: len(groups.groups[key]) for key in sorted(groups.groups)}
    total = sum(sizes.values())
    if strategy.type is StrategyType.ALL:
        return (Stage(tuple(sizes), total, total),)
    first = set(groups.expand(strategy.mandatory))
    mandatory = tuple(Stage((key,), sizes[key], 0, mandatory=True, budget=key) for key in sizes if key in first)
    rest = {key: size for key, size in sizes.items() if key not in first}
    if strategy.type is StrategyType.PER_GROUP:
        steps = tuple(Stage((key,), size, strategy.max_failures.of(size, 0), budget=key) for key, size in rest.items())
        return tuple(sorted(mandatory + steps, key=lambda stage: stage.groups[0].placement))  # else in this order
    slots = strategy.concurrency(sum(rest.values()))
    return (*mandatory, Stage(tuple(rest), slots, strategy.max_failures.of(total, 0)))
