"""Durations on the wire and for people."""

from datetime import timedelta

import pytest

from echelon.engine.rollout.durations import NotADuration, elapsed, parse, remaining


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("0s", 0),
        ("2h", 7200),
        ("90m", 5400),
        ("1h30m", 5400),
        ("30m1h", 5400),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("10ms", 0.01),
        ("3us", 0.000003),
        ("3\u00b5s", 0.000003),
        ("3\u03bcs", 0.000003),
        ("-1m", -60),
        ("+1m", 60),
        ("1h0.5s", 3600.5),
    ],
)
def test_gos_notation_is_read(text: str, seconds: float) -> None:
    assert parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "5",
        "s",
        ".s",
        "2d",
        "1h-5m",
        "1h 5m",
        " 1h",
        "2hxyz",
        "5|",
        "None",
        "1e3s",
        "9999999h",
        "9" * 5000 + "s",
    ],
)
def test_what_go_does_not_read_is_refused(text: str) -> None:
    with pytest.raises(NotADuration):
        parse(text)


def test_a_soak_is_never_shorter_than_asked_for() -> None:
    assert parse("1ns") == timedelta(microseconds=1)
    assert parse("1.0000001s") == timedelta(seconds=1, microseconds=1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (200, "3m20s"),
        (3600, "1h"),
        (3900, "1h5m"),
        (86_400, "1d"),
        (97_200, "1d3h"),
    ],
)
def test_people_read_two_units(seconds: int, text: str) -> None:
    assert elapsed(timedelta(seconds=seconds)) == text
    assert remaining(timedelta(seconds=seconds)) == text


def test_a_second_that_has_begun_remains_and_has_not_elapsed() -> None:
    assert elapsed(timedelta(seconds=1.5)) == "1s"
    assert remaining(timedelta(seconds=1.5)) == "2s"


def test_clocks_that_disagree_show_no_negative_time() -> None:
    assert elapsed(timedelta(seconds=-5)) == "0s"
    assert remaining(timedelta(seconds=-5)) == "0s"
