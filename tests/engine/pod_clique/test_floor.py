"""The floor, as a property: whatever wants something deleted, in whatever order, enough ready units stay."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.pod_clique.floor import ReplicaTurns, UnitBudget, given_up, rolling_floor, scale_in_floor

SIZES = st.integers(0, 12)
WISHES = st.lists(st.tuples(st.sampled_from(["roll", "scale-in"]), st.booleans(), st.booleans()), max_size=30)


@given(st.tuples(SIZES, SIZES, st.integers(1, 5), SIZES, SIZES), WISHES)
def test_ready_units_stay_above_the_floor_whatever_is_wished(
    shape: tuple[int, int, int, int, int], wishes: list[tuple[str, bool, bool]]
) -> None:
    replicas, minimum, most, ready, waited = shape
    budget = UnitBudget(replicas, minimum, most, ready, waited)
    rolled = 0
    for wish, is_ready, turn in wishes:
        before, out = budget.ready, budget.out
        taken = budget.roll(ready=is_ready, turn=turn) if wish == "roll" else budget.scale_in(ready=is_ready)
        assert taken or is_ready, "a unit that is not ready may always go"
        assert budget.ready == before - (taken and is_ready)
        if not (taken and is_ready):
            continue
        if wish == "scale-in":
            assert budget.ready >= scale_in_floor(minimum, replicas)
        else:
            rolled += 1
            assert turn
            assert budget.ready >= rolling_floor(minimum, replicas, most)
            assert out < most
    assert rolled <= max(most, 0) + max(0, ready - replicas) + waited


@given(SIZES, SIZES, st.integers(1, 5))
def test_whatever_runs_in_full_can_be_rolled(replicas: int, minimum: int, most: int) -> None:
    budget = UnitBudget(replicas, min(minimum, replicas), most, ready=replicas)
    assert budget.roll(ready=True) == (replicas > 0)


@given(SIZES, SIZES, SIZES, SIZES)
def test_a_scale_in_finds_enough_that_may_go(replicas: int, minimum: int, ready: int, unready: int) -> None:
    """Enough are left to choose from when a choice is passed over: no scale-in of a clique has to wait."""
    budget = UnitBudget(replicas, minimum, 1, ready)
    too_many = max(0, ready + unready - replicas)
    gone = 0
    for is_ready in [True] * ready + [False] * unready:  # the order that is hardest on it
        if gone < too_many and budget.scale_in(ready=is_ready):
            gone += 1
    assert gone == too_many


def test_a_clique_that_needs_all_of_its_pods_is_rolled_one_at_a_time() -> None:
    budget = UnitBudget(replicas=3, min_available=3, max_unavailable=1, ready=3)
    assert budget.roll(ready=True)
    assert not budget.roll(ready=True)


def test_a_unit_that_nobody_waits_for_any_more_frees_its_place_but_not_the_floor() -> None:
    assert UnitBudget(replicas=4, min_available=1, max_unavailable=1, ready=3, given_up=1).roll(ready=True)
    assert not UnitBudget(replicas=4, min_available=1, max_unavailable=1, ready=3).roll(ready=True)
    assert not UnitBudget(replicas=3, min_available=3, max_unavailable=1, ready=2, given_up=1).roll(ready=True)


def test_a_unit_that_is_replaced_is_waited_for_again() -> None:
    budget = UnitBudget(replicas=4, min_available=1, max_unavailable=1, ready=3, given_up=1)
    assert budget.roll(ready=False, given_up=True)
    assert not budget.roll(ready=True)


def test_a_roll_after_a_scale_in_of_the_same_plan_keeps_the_higher_floor() -> None:
    budget = UnitBudget(replicas=2, min_available=1, max_unavailable=2, ready=3)
    assert budget.scale_in(ready=True)
    assert budget.roll(ready=True)
    assert not budget.roll(ready=True)


def test_units_are_given_up_at_their_deadline_and_not_before() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    down = [now - timedelta(minutes=age) for age in (30, 10, 9)]
    assert given_up(down, timedelta(minutes=10), now) == 2


def test_one_replica_at_a_time_and_no_gang_beside_it() -> None:
    turns = ReplicaTurns()
    assert turns.may_terminate()
    turns.took(1)
    assert turns.may_roll(1)
    assert not turns.may_roll(0)
    assert not turns.may_terminate()
