"""Revisions: hashes that last."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.rollout.revision import canonical, revision_of

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
