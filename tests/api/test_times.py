"""Times as the API writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from echelon.api.times import format_micro_time, format_time, parse_time

MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789, UTC)


def test_a_time_is_cut_to_the_second_and_a_micro_time_is_not() -> None:
    assert format_time(MOMENT) == "2026-02-03T04:05:06Z"
    assert format_micro_time(MOMENT) == "2026-02-03T04:05:06.000789Z"
    assert format_micro_time(MOMENT.replace(microsecond=0)) == "2026-02-03T04:05:06.000000Z"


def test_whatever_the_zone_is_written_in_utc() -> None:
    assert format_time(MOMENT.astimezone(timezone(timedelta(hours=9)))) == "2026-02-03T04:05:06Z"


def test_a_year_has_four_digits() -> None:
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"


def test_what_was_written_is_read_again() -> None:
    assert parse_time(format_micro_time(MOMENT)) == MOMENT
    assert parse_time("2026-02-03T04:05:06") == MOMENT.replace(microsecond=0)


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_none(text: str | None) -> None:
    assert parse_time(text) is None
