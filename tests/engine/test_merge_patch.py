"""Merge patches: what they make of one object is the other, whatever is in both."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.json_equality import is_same
from echelon.engine.merge_patch import merge_difference

scalars = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch, as RFC 7396 says."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def test_true_is_not_one() -> None:
    before, after = {"a": {"b": [1, 0.0]}}, {"a": {"b": [True, False]}}
    assert merge_difference(before, after) == after


@given(objects, objects)
def test_a_patch_makes_the_other_object(before: JSONObject, after: JSONObject) -> None:
    assert is_same(merged(before, merge_difference(before, after)), after)


@given(objects)
def test_there_is_nothing_to_patch_where_nothing_changes(same: JSONObject) -> None:
    assert merge_difference(same, same) == {}
