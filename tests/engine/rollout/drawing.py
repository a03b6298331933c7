"""Rollouts drawn at random, for properties."""

from dataclasses import dataclass
from datetime import timedelta

from hypothesis import strategies as st

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.placement.slices import Slice
from echelon.engine.rollout.model import ClusterStatus, Control, Decision, Phase
from echelon.engine.rollout.strategy import Strategy, StrategyType
from echelon.engine.rollout.thresholds import Threshold
from echelon.engine.rollout.walk import decide
from tests.engine.rollout.notation import NOW, seconds

NAMES = tuple("abcdefghijkl")
CALLED = st.sampled_from(["", "canary", "west"])
AGES = st.none() | st.sampled_from([0, 5, 59, 60, 61, 300, 700]).map(lambda age: NOW - seconds(age))
SOAKS = st.sampled_from([0, 60, 300]).map(seconds)
DEADLINES = st.none() | st.sampled_from([60, 600]).map(seconds)
THRESHOLDS = st.builds(Threshold, st.integers(-1, 14)) | st.sampled_from([10.0, 33.0, 50.0, 100.0]).map(
    lambda percent: Threshold(percent=percent)
)
KEYS = st.integers(0, 5).map(GroupKey) | CALLED.map(lambda name: GroupKey(0, name))


@dataclass(frozen=True)
class Rollout:
    """All that a decision is made from."""

    strategy: Strategy
    groups: DecisionGroups
    statuses: tuple[ClusterStatus, ...]
    control: Control

    def decided(self) -> Decision:
        return decide(self.strategy, self.groups, self.statuses, NOW, self.control)


@st.composite
def group_sets(draw: st.DrawFn) -> DecisionGroups:
    homes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=len(NAMES)))
    gap = draw(st.integers(1, 2))
    slices = []
    for index in range(5):
        members = tuple(name for name, home in zip(NAMES, homes, strict=False) if home == index)
        if members:
            slices.append(Slice(f"p-{index}", draw(CALLED), index * gap, index, members))
    return DecisionGroups.from_slices(slices)


def strategies() -> st.SearchStrategy[Strategy]:
    return st.builds(
        lambda kind, soak, deadline, failures, first, concurrency: Strategy(
            kind, timedelta() if kind is StrategyType.ALL else soak, deadline, failures, tuple(first), concurrency
        ),
        st.sampled_from(StrategyType),
        SOAKS,
        DEADLINES,
        THRESHOLDS,
        st.lists(KEYS, max_size=2),
        THRESHOLDS,
    )


def statuses(phases: tuple[Phase, ...] = tuple(Phase)) -> st.SearchStrategy[tuple[ClusterStatus, ...]]:
    one = st.builds(ClusterStatus, st.sampled_from([*NAMES, "gone", ""]), st.sampled_from(phases), AGES)
    return st.lists(one, max_size=10).map(tuple)


TIMES = st.none() | st.sampled_from([0, 30, 60, 400]).map(lambda age: NOW - seconds(age))
CONTROLS = st.builds(
    Control,
    paused=st.booleans(),
    promoted=TIMES,
    retried=TIMES,
    gated=st.none() | st.frozensets(st.sampled_from(["canary", "west", "0", "1", "2"])),
    approved=st.frozensets(st.sampled_from(["canary", "west", "0", "1", "2"])),
    aborted=st.booleans(),
)
ROLLOUTS = st.builds(Rollout, strategies(), group_sets(), statuses(), st.just(Control()) | CONTROLS)
