"""What holds for every decision, whatever the strategy, the reports and the words of people."""

from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from echelon.engine.placement.decisions import DecisionGroups, GroupKey
from echelon.engine.rollout.model import NO_CONTROL, ClusterStatus, Control, Phase, Wait
from echelon.engine.rollout.strategy import Strategy, StrategyType
from echelon.engine.rollout.walk import decide
from tests.engine.rollout.drawing import ROLLOUTS, Rollout, group_sets, statuses, strategies
from tests.engine.rollout.notation import NOW, seconds


def order(rollout: Rollout) -> list[set[GroupKey]]:
    """The groups in the order in which they are taken, those together that are taken together."""
    keys = sorted(rollout.groups.groups)
    if rollout.strategy.type is StrategyType.ALL:
        return [set(keys)]
    first = [
        key
        for key in keys
        if any(key.name == one.name if one.name else key.index == one.index for one in rollout.strategy.mandatory)
    ]
    rest = [key for key in keys if key not in first]
    return [{key} for key in first] + (
        [{key} for key in rest] if rollout.strategy.type is StrategyType.PER_GROUP else [set(rest)]
    )


@given(ROLLOUTS)
def test_every_decided_cluster_stands_somewhere_once_and_says_why(rollout: Rollout) -> None:
    decision = rollout.decided()
    named = sorted((key, cluster) for key, clusters in rollout.groups.groups.items() for cluster in clusters)
    assert [(one.group, one.cluster) for one in decision.cluster_decisions] == named
    for one in decision.cluster_decisions:
        assert one.message
        assert decision.explain(one.cluster) == one.message
        if one.phase is Phase.TO_APPLY:
            assert one.starts is (one.wait is Wait.NOTHING)
        else:
            assert not one.starts
    assert {status.cluster for status in decision.removed} == {s.cluster for s in rollout.statuses} - {
        cluster for _, cluster in named
    } - {""}


@given(ROLLOUTS)
def test_nothing_starts_above_the_concurrency(rollout: Rollout) -> None:
    assume(rollout.strategy.type is StrategyType.PROGRESSIVE)
    decision = rollout.decided()
    window = order(rollout)[-1]
    inside = [one for one in decision.cluster_decisions if one.group in window]
    if any(one.starts for one in inside):
        flying = sum(one.in_flight for one in decision.cluster_decisions)
        assert flying + len(decision.to_start) <= rollout.strategy.concurrency(len(inside))


@given(ROLLOUTS)
def test_nothing_starts_outside_of_the_groups_whose_turn_it_is(rollout: Rollout) -> None:
    decision = rollout.decided()
    starting = {one.group for one in decision.to_start}
    assert starting <= set(decision.active)
    for stage in order(rollout):
        if starting <= stage:
            break
        for one in decision.cluster_decisions:
            if one.group in stage:
                assert one.phase is not Phase.TO_APPLY
                assert not one.in_flight or one.failed
    else:
        raise AssertionError(f"{starting} are not taken together")


@given(ROLLOUTS)
def test_a_mandatory_group_with_a_failure_lets_nobody_past(rollout: Rollout) -> None:
    assume(rollout.strategy.type is not StrategyType.ALL and rollout.strategy.mandatory)
    decision = rollout.decided()
    first = set(rollout.groups.expand(rollout.strategy.mandatory))
    if any(one.failed for one in decision.cluster_decisions if one.group in first):
        assert all(one.group in first for one in decision.to_start)


@given(ROLLOUTS)
def test_nothing_starts_after_a_breach_while_paused_or_without_approval(rollout: Rollout) -> None:
    decision = rollout.decided()
    if decision.breach or rollout.control.paused or rollout.control.aborted:
        assert not decision.to_start
        assert decision.blocked is not Wait.NOTHING
        assert decision.blocked_message
    for one in decision.to_start:
        called = {one.group.name, str(one.group.index)}
        gated = rollout.control.gated
        assert (gated is not None and not called & gated) or called & rollout.control.approved


@given(ROLLOUTS)
def test_what_starts_fills_the_slots_so_that_nothing_more_starts_at_once(rollout: Rollout) -> None:
    decision = rollout.decided()
    started = {one.cluster for one in decision.to_start}
    others = tuple(status for status in rollout.statuses if status.cluster not in started)
    now_progressing = tuple(ClusterStatus(cluster, Phase.PROGRESSING, NOW) for cluster in started)
    again = Rollout(rollout.strategy, rollout.groups, others + now_progressing, rollout.control).decided()
    if started:
        assert not again.to_start


@given(ROLLOUTS, st.randoms(use_true_random=False))
def test_the_order_of_reports_does_not_matter(rollout: Rollout, random: object) -> None:
    shuffled = list(rollout.statuses)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = Rollout(rollout.strategy, rollout.groups, tuple(shuffled), rollout.control).decided()
    mine = rollout.decided()
    assert other.cluster_decisions == mine.cluster_decisions
    assert (other.breach, other.failures, other.recheck_after) == (mine.breach, mine.failures, mine.recheck_after)
    assert other.newly_timed_out == mine.newly_timed_out
    assert other.removed == mine.removed


@given(ROLLOUTS)
def test_the_next_look_is_when_something_can_change(rollout: Rollout) -> None:
    decision = rollout.decided()
    ends = [one.until - NOW for one in decision.cluster_decisions if one.in_flight and one.until]
    assert decision.recheck_after == (min(ends) if ends else None)
    assert all(end > timedelta() for end in ends)


HARMLESS = statuses((Phase.TO_APPLY, Phase.PROGRESSING, Phase.SUCCEEDED, Phase.SKIPPED))


@given(strategies(), group_sets(), HARMLESS)
def test_with_successes_only_a_rollout_comes_to_its_end(
    strategy: Strategy, groups: DecisionGroups, known: tuple[ClusterStatus, ...]
) -> None:
    phases = {one.cluster: ClusterStatus(one.cluster, one.phase, one.since or NOW) for one in known if one.cluster}
    now = NOW
    for _ in range(3 * len(groups.clusters) + 2):
        decision = decide(strategy, groups, phases.values(), now, NO_CONTROL)
        assume(not decision.newly_timed_out)
        if all(
            one.phase in (Phase.SUCCEEDED, Phase.SKIPPED) and not one.in_flight for one in decision.cluster_decisions
        ):
            return
        moved = [one for one in decision.cluster_decisions if one.starts or one.phase is Phase.PROGRESSING]
        assert moved or decision.recheck_after
        phases.update({one.cluster: ClusterStatus(one.cluster, Phase.SUCCEEDED, now) for one in moved})
        now += strategy.soak + seconds(1)
    raise AssertionError("it does not end")


@given(ROLLOUTS)
def test_a_pause_changes_nothing_but_what_starts(rollout: Rollout) -> None:
    free = Rollout(rollout.strategy, rollout.groups, rollout.statuses, NO_CONTROL).decided()
    paused = Rollout(rollout.strategy, rollout.groups, rollout.statuses, Control(paused=True)).decided()
    assert [(one.cluster, one.phase, one.until) for one in paused.cluster_decisions] == [
        (one.cluster, one.phase, one.until) for one in free.cluster_decisions
    ]
    assert (paused.breach, paused.failures, paused.active) == (free.breach, free.failures, free.active)
