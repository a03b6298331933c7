"""Revisions: hashes that last, and a history to go back in."""

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.rollout.revision import LIMIT, History, NoSuchRevision, Revision, canonical, revision_of
from tests.engine.rollout.notation import NOW

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(each) for each in value] if isinstance(value, list) else value


@given(JSON)
def test_the_order_of_keys_does_not_matter(content: Any) -> None:
    assert revision_of(reversed_keys(content)) == revision_of(content)


@given(JSON)
def test_a_hash_fits_names_and_labels_and_is_never_a_number(content: Any) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]{9}", revision_of(content))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({}, "d79sgnrd88"),
        ({"b": [1, 2.5, None, True], "a": "ä"}, "drl9snhtx7"),
    ],
)
def test_hashes_of_today_are_those_of_tomorrow(content: Any, found: str) -> None:
    # Changing these restarts every rollout in the world at the next upgrade.
    assert revision_of(content) == found


def test_json_is_canonical() -> None:
    assert canonical({"b": [1.0, 2.5, -0.0, None], "a": "ä"}) == b'{"a":"\\u00e4","b":[1,2.5,0,null]}'


def test_what_servers_hold_to_be_equal_is_equal() -> None:
    assert revision_of({"replicas": 1.0}) == revision_of({"replicas": 1})
    assert revision_of({"replicas": "1"}) != revision_of({"replicas": 1})
    assert revision_of({"a": True}) != revision_of({"a": 1})
    assert revision_of([1, 2]) != revision_of([2, 1])


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        revision_of(float("nan"))


def history(present: str, *kept: tuple[int, str, int | None]) -> History:
    """Revisions by number, hash and the hour in which they were completed."""
    return History(
        present,
        tuple(
            Revision(number, name, None if hour is None else NOW + timedelta(hours=hour)) for number, name, hour in kept
        ),
    )


@pytest.mark.parametrize(
    ("kept", "number"),
    [
        ((), 1),
        (((1, "a", None),), 1),
        (((1, "b", None),), 2),
        (((1, "a", None), (2, "b", None)), 3),  # back to an older one: it becomes the newest
        (((7, "b", None), (9, "a", None)), 9),
        (((4, "a", None), (4, "b", None)), 5),
    ],
)
def test_the_present_revision_has_the_highest_number(
    kept: tuple[tuple[int, str, int | None], ...], number: int
) -> None:
    assert history("a", *kept).number == number


def test_the_present_revision_may_not_be_stored_yet() -> None:
    assert history("a", (1, "b", None)).current is None
    assert history("a", (1, "a", None)).current == Revision(1, "a")


def test_an_abort_goes_back_to_what_was_completed_last() -> None:
    kept = [(1, "a", 1), (2, "b", 5), (3, "c", 2), (4, "d", None), (5, "e", 9)]
    assert history("e", *kept).last_completed == Revision(2, "b", NOW + timedelta(hours=5))
    assert history("e", (4, "d", None), (5, "e", 9)).last_completed is None


def test_the_oldest_go_but_not_the_present_nor_the_one_to_go_back_to() -> None:
    kept = [(number, f"r{number}", 1 if number == 1 else None) for number in range(1, 14)]
    gone = history("r2", *kept).obsolete()
    assert [one.number for one in gone] == [3, 4, 5]
    assert len(kept) - len(gone) == LIMIT


def test_nothing_goes_within_the_limit() -> None:
    assert history("r1", *((number, f"r{number}", None) for number in range(1, 11))).obsolete() == ()


def test_a_limit_that_is_too_small_keeps_what_is_needed() -> None:
    assert [one.hash for one in history("c", (1, "a", 1), (2, "b", None), (3, "c", None)).obsolete(limit=1)] == ["b"]


def test_revisions_are_found_by_number_by_hash_or_as_the_last_that_was_complete() -> None:
    kept = history("d", (1, "a", 1), (4, "d", None), (2, "b", 2), (3, "c", None))
    assert kept.find("1").hash == "a"
    assert kept.find("b").number == 2
    assert kept.find().hash == "b"


@pytest.mark.parametrize("asked", ["9", "zz", "0"])
def test_a_revision_that_is_not_there_is_answered_with_those_that_are(asked: str) -> None:
    with pytest.raises(NoSuchRevision, match=rf"there is no revision {asked}; kept are: 1 \(a\), 2 \(b\)"):
        history("b", (1, "a", None), (2, "b", None)).find(asked)


def test_there_may_be_nothing_before() -> None:
    with pytest.raises(NoSuchRevision, match="before the present one"):
        history("a", (1, "a", None)).find()
