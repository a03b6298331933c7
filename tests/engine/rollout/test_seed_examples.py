"""The stories that decision groups were invented for, from the side of those who apply workloads."""

from echelon.engine.placement.decisions import DecisionGroups
from echelon.engine.placement.slices import Slice
from echelon.engine.rollout.model import ClusterStatus, Decision, Phase
from echelon.engine.rollout.walk import decide
from tests.engine.rollout.notation import NOW, seconds, strategy_of

NAMES = [f"cls{number:03d}" for number in range(1, 311)]
WEST, EAST, FIRST, SECOND = NAMES[:10], NAMES[10:20], NAMES[20:170], NAMES[170:310]
CANARIES = ["prod-canary-west", "prod-canary-east"]
FIFTY_MINUTES = "50m"


def fleet(*groups: list[str]) -> DecisionGroups:
    """Two canary groups and the rest, in slices of at most a hundred, as a placement publishes them."""
    slices: list[Slice] = []
    for index, members in enumerate(groups):
        name = CANARIES[index] if index < 2 else ""
        for start in range(0, len(members), 100):
            part = tuple(members[start : start + 100])
            slices.append(Slice(f"ztp-placement-decision-{len(slices)}", name, index, index, part))
    return DecisionGroups.from_slices(slices)


ZTP = fleet(WEST, EAST, FIRST, SECOND)


def available(*groups: list[str]) -> list[ClusterStatus]:
    return [ClusterStatus(name, Phase.SUCCEEDED, NOW - seconds(60)) for group in groups for name in group]


def started(decision: Decision) -> list[str]:
    return [one.cluster for one in decision.to_start]


def test_the_canaries_come_first_one_group_after_the_other() -> None:
    strategy = strategy_of("Progressive", progressDeadline=FIFTY_MINUTES, first=CANARIES, default_concurrency=150)
    assert started(decide(strategy, ZTP, [], NOW)) == WEST
    assert started(decide(strategy, ZTP, available(WEST[:9]), NOW)) == [WEST[9]]
    assert started(decide(strategy, ZTP, available(WEST), NOW)) == EAST


def test_one_canary_that_is_not_available_keeps_everybody_else_waiting() -> None:
    strategy = strategy_of("Progressive", progressDeadline=FIFTY_MINUTES, first=CANARIES, maxFailures="100%")
    for age, phase in ((60, Phase.PROGRESSING), (60, Phase.FAILED), (3000, Phase.PROGRESSING)):
        one = ClusterStatus(EAST[0], phase, NOW - seconds(age))
        assert started(decide(strategy, ZTP, [*available(WEST, EAST[1:]), one], NOW)) == []


def test_after_the_canaries_the_rest_goes_as_many_at_a_time_as_are_in_a_group() -> None:
    strategy = strategy_of("Progressive", first=CANARIES, default_concurrency=150)
    assert started(decide(strategy, ZTP, available(WEST, EAST), NOW)) == NAMES[20:170]
    half = available(WEST, EAST, FIRST[:75])
    flying = [ClusterStatus(name, Phase.PROGRESSING, NOW) for name in FIRST[75:]]
    assert started(decide(strategy, ZTP, half + flying, NOW)) == SECOND[:75]


def test_the_workload_reaches_a_group_only_after_the_one_before_succeeded_or_timed_out() -> None:
    strategy = strategy_of("ProgressivePerGroup", progressDeadline=FIFTY_MINUTES, maxFailures=1)
    assert started(decide(strategy, ZTP, available(WEST, EAST), NOW)) == FIRST
    last = ClusterStatus(FIRST[0], Phase.PROGRESSING, NOW - seconds(2999))
    assert started(decide(strategy, ZTP, [*available(WEST, EAST, FIRST[1:]), last], NOW)) == []
    assert started(decide(strategy, ZTP, [*available(WEST, EAST, FIRST[1:]), last], NOW + seconds(1))) == SECOND


def test_all_reaches_everybody_at_once() -> None:
    assert started(decide(strategy_of("All"), ZTP, [], NOW)) == NAMES


def test_a_cluster_that_joins_the_first_group_gets_the_workload_while_a_later_group_is_under_way() -> None:
    grown = fleet([*WEST, "cls999"], EAST, FIRST, SECOND)
    flying = [ClusterStatus(name, Phase.PROGRESSING, NOW) for name in FIRST]
    for kind in ("Progressive", "ProgressivePerGroup"):
        strategy = strategy_of(kind, first=CANARIES)
        decision = decide(strategy, grown, [*available(WEST, EAST), *flying], NOW)
        assert started(decision) == ["cls999"]
        assert all(one.phase is Phase.PROGRESSING for one in decision.cluster_decisions if one.cluster in FIRST)


def test_when_all_groups_change_the_new_clusters_go_group_by_group_again() -> None:
    changed = fleet([*WEST[5:], "new-w"], [*EAST, "new-e"], SECOND, FIRST)
    strategy = strategy_of("ProgressivePerGroup")
    known = available(WEST, EAST, FIRST[:50])
    first = decide(strategy, changed, known, NOW)
    assert started(first) == ["new-w"]
    assert [status.cluster for status in first.removed] == WEST[:5]
    assert started(decide(strategy, changed, [*known, *available(["new-w"])], NOW)) == ["new-e"]
    assert started(decide(strategy, changed, [*known, *available(["new-w", "new-e"])], NOW)) == SECOND
