"""How long and how many sessions last, and links that are worth something once."""

import pytest

from echelon.dashboard.credentials import Identity
from echelon.dashboard.sessions import IDLE_SECONDS, LINK_SECONDS, LONGEST_SECONDS, MOST_EACH, Sessions
from echelon.kube.config import User


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _person(name: str) -> Identity:
    return Identity(name, (), User(token=f"token of {name}"))


def test_a_session_ends_when_nobody_was_there_for_long() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    name, _ = sessions.begin(_person("a"))
    clock.now += IDLE_SECONDS - 1
    assert sessions.find(name) is not None
    clock.now += IDLE_SECONDS + 1
    assert sessions.find(name) is None


def test_an_open_page_keeps_a_session_alive_and_not_for_ever() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    name, session = sessions.begin(_person("a"))
    session.watching = 1
    clock.now += LONGEST_SECONDS
    assert sessions.goes_on(session)
    clock.now += 1
    assert not sessions.goes_on(session)
    assert sessions.find(name) is None


def test_there_are_as_many_sessions_as_there_is_room_for_and_nobody_takes_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 2 * MOST_EACH
    monkeypatch.setattr("echelon.dashboard.sessions.MOST", most)
    sessions = Sessions(Clock())
    other, _ = sessions.begin(_person("other"))
    own = [sessions.begin(_person("greedy"))[0] for _ in range(MOST_EACH + 5)]
    assert len(sessions) == MOST_EACH + 1
    assert sessions.find(other) is not None
    assert sessions.find(own[4]) is None
    assert sessions.find(own[5]) is not None
    for number in range(most):
        sessions.begin(_person(f"person {number}"))
    assert len(sessions) == most
    assert sessions.find(other) is None


def test_whoever_the_hub_no_longer_knows_is_signed_out_everywhere() -> None:
    sessions = Sessions(Clock())
    names = [sessions.begin(_person("leaver"))[0] for _ in range(3)]
    stays, _ = sessions.begin(_person("stays"))
    sessions.end_of(_person("leaver").key)
    assert [sessions.find(each) for each in names] == [None] * 3
    assert sessions.find(stays) is not None


def test_a_link_is_worth_something_once_and_soon() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    code, late = sessions.link(_person("a")), sessions.link(_person("b"))
    assert sessions.redeem(code) == _person("a")
    assert sessions.redeem(code) is None
    clock.now += LINK_SECONDS + 1
    assert sessions.redeem(late) is None


def test_nothing_that_is_kept_or_printed_opens_a_session() -> None:
    sessions = Sessions(Clock())
    name, session = sessions.begin(_person("a"))
    assert name not in repr(vars(sessions))
    assert "token of a" not in repr(session)
    assert session.csrf not in repr(session)
