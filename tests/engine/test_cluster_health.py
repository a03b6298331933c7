from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.cluster_health import RECENT_SECONDS, Heartbeat, Silence, silence

NOW = 1_000_000.0
EVERY = 60.0


def heard(*ago: float) -> list[Heartbeat]:
    return [Heartbeat(NOW - each, NOW - each + 2 * EVERY) for each in ago]


def most(*ago: float, share: float = 0.55) -> bool:
    return silence(heard(*ago), NOW, share).of_most


def test_more_than_the_share_must_have_missed_two_renewals() -> None:
    assert not most(*[10.0] * 9, *[120.0] * 11)  # exactly 55 %
    assert most(*[10.0] * 8, *[120.0] * 12)
    assert not most(*[10.0] * 8, *[119.0] * 12)


def test_fewer_than_three_silent_clusters_are_their_own_matter() -> None:
    assert not most(120.0)
    assert not most(120.0, 120.0)
    assert not most(10.0, 120.0, 120.0)
    assert most(120.0, 120.0, 120.0)


def test_who_was_not_heard_for_a_day_is_not_counted() -> None:
    gone = [RECENT_SECONDS] * 90
    assert not most(*gone, *[10.0] * 10)
    assert most(*gone, *[10.0] * 4, *[120.0] * 6)
    assert silence(heard(*gone, 10.0), NOW, 0.55).heard == 1


def test_a_share_of_all_is_never_exceeded() -> None:
    assert not most(*[600.0] * 50, share=1.0)


def test_it_tells_when_it_begins_if_nobody_is_heard() -> None:
    found = silence(heard(10, 20, 30, 40, 50), NOW, 0.5)
    assert found == Silence(heard=5, silent=0, of_most=False, of_most_at=NOW + 90)
    assert silence([], NOW, 0.5) == Silence()
    assert silence(heard(10, 20), NOW, 0.5).of_most_at is None


@given(st.lists(st.floats(0, 2 * RECENT_SECONDS)), st.floats(0.01, 1))
def test_it_begins_when_it_says(ago: list[float], share: float) -> None:
    heartbeats = heard(*ago)
    found = silence(heartbeats, NOW, share)
    assert found.of_most == (found.of_most_at is not None and found.of_most_at <= NOW)
    if (
        found.of_most_at is not None
        and found.of_most_at > NOW
        and all(each < RECENT_SECONDS - 2 * EVERY for each in ago)
    ):
        assert silence(heartbeats, found.of_most_at, share).of_most
