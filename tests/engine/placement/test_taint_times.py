from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.cluster import Taint
from echelon.engine.placement.taint_times import with_times
from tests.engine.placement.building import NOW, cluster, fleet_of, taint, wire_time


def of(*taints: dict[str, object]) -> tuple[Taint, ...]:
    return tuple(msgspec.convert(each, Taint) for each in taints)


def test_a_time_that_somebody_gave_is_left_alone() -> None:
    given = of(taint("k", added=-60))
    assert with_times(given, of(taint("k", added=-90)), NOW) == given


def test_a_taint_that_lost_its_time_gets_it_back() -> None:
    before = of(taint("k", added=-60))
    assert with_times(of(taint("k")), before, NOW) == before


def test_a_taint_with_another_value_or_effect_is_a_new_one() -> None:
    before = of(taint("k", value="v", added=-60))
    for new in (taint("k", value="w"), taint("k", "NoSelectIfNew", "v")):
        (found,) = with_times(of(new), before, NOW)
        assert found.time_added == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("times", [(None, -60), (-60, None), (None, None)])
def test_the_same_taints_keep_their_times_also_if_one_is_there_twice(times: tuple[float | None, ...]) -> None:
    given = of(*(taint("k", added=each) for each in times))
    first = with_times(given, (), NOW)
    assert with_times(given, first, NOW + timedelta(seconds=5)) == first


def test_without_a_time_to_give_it_stays_without() -> None:
    assert with_times(of(taint("k")), (), None) == of(taint("k"))


def test_a_fleet_remembers_when_it_first_saw_a_taint() -> None:
    fleet = fleet_of(cluster("a"))
    for later in (0, 30, 60):
        fleet.update(cluster("a", {"turn": str(later)}, taints=[taint("k")]), NOW + timedelta(seconds=later))
    (found,) = fleet
    assert found.taints[0].time_added == "2026-01-01T00:00:00Z"
    fleet.update(cluster("a", taints=[taint("k", added=5)]), NOW + timedelta(seconds=90))
    (found,) = fleet
    assert found.taints[0].time_added == wire_time(5)


TAINTS = st.lists(
    st.builds(
        taint, st.sampled_from("kl"), st.sampled_from(["NoSelect", "NoSelectIfNew"]), added=st.sampled_from([None, -9])
    ),
    unique_by=lambda each: (each["key"], each["effect"]),
)


@given(TAINTS, TAINTS)
def test_a_time_once_given_stays(taints: list[dict[str, object]], before: list[dict[str, object]]) -> None:
    once = with_times(of(*taints), of(*before), NOW)
    assert with_times(once, (), NOW + timedelta(days=1)) == once
    assert with_times(of(*taints), once, NOW + timedelta(days=1)) == once
