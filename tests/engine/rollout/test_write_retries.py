"""Failed writes are tried again later each time, and what is kept of them changes only with what it means."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.write_retries import FIRST, LAST, news, not_stored, wait_before

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
REFUSED = FailedWrite("r1", NOW, True, 'namespaces "c1" not found')
NO_TIME = timedelta(0)


def test_the_wait_doubles_up_to_a_minute_and_is_as_long_as_the_server_asks() -> None:
    waits = [wait_before(tries, NO_TIME) for tries in range(100)]
    assert waits[:4] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]
    assert waits == sorted(waits)
    assert waits[-1] == LAST
    assert wait_before(0, timedelta(minutes=5)) == timedelta(minutes=5)


def test_other_words_of_a_server_are_no_news() -> None:
    assert news(REFUSED, None) == REFUSED
    assert news(replace(REFUSED, since=NOW + FIRST, message="still not found"), REFUSED) is None


def test_a_failure_that_means_something_else_is_news_and_goes_on_since_the_first_try() -> None:
    unanswered = replace(REFUSED, since=NOW + FIRST, refused=False, message="timeout")
    assert news(unanswered, REFUSED) == replace(unanswered, since=NOW)
    other = replace(unanswered, revision="r2")
    assert news(other, REFUSED) == other


def test_a_turn_that_is_refused_is_another_thing_than_something_to_look_at() -> None:
    release = replace(REFUSED, since=NOW + FIRST)
    assert news(release, replace(REFUSED, held=True)) == release


def test_what_is_stored_with_a_shorter_message_is_stored() -> None:
    noted = {"c1": replace(REFUSED, message="x" * 9999), "c2": REFUSED}
    assert not_stored(noted, {"c1": REFUSED}) == {"c2": REFUSED}
    assert not_stored(noted, {"c1": replace(REFUSED, refused=False)}) == noted
