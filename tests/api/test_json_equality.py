"""Values are the same if JSON says so, and not if only Python does."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.json_equality import is_same

scalars = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=6,
)


@given(values, values)
def test_two_values_are_the_same_if_their_texts_are(one: Any, other: Any) -> None:
    assert is_same(one, other) == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


def test_true_is_not_one_and_one_is_one_however_it_is_written() -> None:
    assert not is_same({"a": [1]}, {"a": [True]})
    assert is_same({"a": 1}, {"a": 1.0})
