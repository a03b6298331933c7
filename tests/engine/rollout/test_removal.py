"""Who loses content: nobody by mistake, never too many at once, and only those whom somebody named."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.rollout.control import BadControl
from echelon.engine.rollout.removal import (
    APPROVED_REMOVAL,
    MAX_REMOVALS,
    Approval,
    Departed,
    RemovalControl,
    Stay,
    approve_removal,
    fingerprint,
    read_removal,
    remove,
)
from echelon.engine.rollout.thresholds import Threshold

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NAMES = [f"c{number}" for number in range(12)]


@st.composite
def fleets(draw: st.DrawFn) -> list[Departed]:
    return [
        Departed(
            name,
            draw(st.booleans()),
            draw(st.sampled_from(["", "", "no cluster matches"])),
            draw(st.sampled_from([None, NOW, NOW + timedelta(seconds=1), NOW - timedelta(seconds=1)])),
        )
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True))
    ]


LIMITS = st.one_of(
    st.builds(Threshold, st.integers(1, 14)), st.builds(lambda share: Threshold(percent=share), st.floats(1, 100))
)


def approved(clusters: list[str]) -> Approval:
    value = approve_removal(clusters)[APPROVED_REMOVAL]
    assert value is not None
    return read_removal({APPROVED_REMOVAL: value}, paused=False).approved


@given(fleets(), LIMITS, st.integers(0, 20), st.booleans(), st.lists(st.sampled_from(NAMES), unique=True))
def test_a_removal_keeps_to_every_rule(
    departed: list[Departed], limit: Threshold, others: int, paused: bool, named: list[str]
) -> None:
    control = RemovalControl(paused, approved(named), limit)
    having = len(departed) + others
    found = remove(departed, having, control, NOW)
    assert found == remove(departed[::-1], having, control, NOW)
    by_name = {one.cluster: one for one in departed}
    ending = {one.cluster for one in departed if one.ending}
    assert len(ending | set(found.going)) <= max(limit.of(having, 0), len(ending))
    assert not (paused and found.going)
    for cluster in found.going:
        one = by_name[cluster]
        assert not one.hold or cluster in named
        assert one.until is None or one.until <= NOW
    # Everybody is accounted for, once.
    assert {*found.going, *found.stays, *ending} == by_name.keys()
    assert len(found.going) + len(found.stays) + len(ending) == len(by_name)
    assert found.held.keys() == {name for name, stay in found.stays.items() if stay is Stay.HELD}


@given(st.lists(st.sampled_from(NAMES), unique=True, min_size=2), st.integers(1, 3))
def test_an_approved_removal_comes_to_its_end_a_few_at_a_time(clusters: list[str], limit: int) -> None:
    control = RemovalControl(approved=approved(clusters), limit=Threshold(limit))
    left = sorted(clusters)
    while left:
        found = remove([Departed(name, hold="empty") for name in left], len(left), control, NOW)
        assert 0 < len(found.going) <= limit
        left = [name for name in left if name not in found.going]


def test_a_hash_alone_covers_just_the_clusters_that_it_was_made_of() -> None:
    control = RemovalControl(approved=Approval(fingerprint(["a", "b"])))
    held = [Departed("a", hold="empty"), Departed("b", hold="empty")]
    assert remove(held, 2, control, NOW).going == ("a", "b")
    assert remove([*held, Departed("c", hold="empty")], 3, control, NOW).going == ()
    assert remove(held[:1], 1, control, NOW).going == ()


def test_an_approval_covers_nobody_who_was_not_named() -> None:
    control = RemovalControl(approved=approved(["a", "b"]))
    found = remove([Departed(name, hold="empty") for name in ("b", "c")], 2, control, NOW)
    assert found.going == ("b",)
    assert found.held == {"c": "empty"}
    assert found.fingerprint == fingerprint(["c"])


def test_the_next_look_is_when_the_first_grace_ends() -> None:
    ends = [NOW + timedelta(seconds=seconds) for seconds in (30, 10)]
    found = remove([Departed("a", until=ends[0]), Departed("b", until=ends[1])], 2, RemovalControl(), NOW)
    assert found.stays == {"a": Stay.GRACE, "b": Stay.GRACE}
    assert found.recheck_after == timedelta(seconds=10)


@pytest.mark.parametrize("value", ["0", "-1", "0%", "101%", "some", "", "5 clusters"])
def test_a_limit_that_says_nothing_is_refused_with_its_name_value_and_rule(value: str) -> None:
    with pytest.raises(BadControl) as refused:
        read_removal({MAX_REMOVALS: value}, paused=False)
    assert str(refused.value).startswith(f'annotation {MAX_REMOVALS} is "{value}": it must be a number')


@pytest.mark.parametrize("value", [":bcdfghjk", "abc:short"])
def test_an_approval_that_cannot_be_read_is_refused(value: str) -> None:
    with pytest.raises(BadControl):
        read_removal({APPROVED_REMOVAL: value}, paused=False)


def test_limits_are_numbers_or_shares() -> None:
    assert read_removal({MAX_REMOVALS: "25%"}, paused=False).limit.of(10, 0) == 3
    assert read_removal({MAX_REMOVALS: "2"}, paused=False).limit.of(10, 0) == 2
    assert read_removal({}, paused=False, limit=Threshold(1)).limit.of(10, 0) == 1
