"""When an object has what a definition says, and what it becomes if it does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.configuration_policy.effort import DEEPEST, MOST_STEPS, Effort, TooMuchEffort
from echelon.engine.configuration_policy.equality import compare_values
from echelon.engine.configuration_policy.matching import Merged, merge
from echelon.engine.configuration_policy.scalars import Likeness
from tests.engine.configuration_policy.values import MAPS, VALUES, shuffled


def merged(existing: Any, desired: Any) -> Merged:
    return merge(existing, desired, Effort())


def likeness(existing: Any, desired: Any) -> Likeness:
    return compare_values(existing, desired, Effort())


def test_a_map_needs_to_have_what_is_wanted_and_may_have_more() -> None:
    assert not merged({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2}}).changed
    found = merged({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}})
    assert found.differs
    assert found.value == {"a": 1, "b": {"c": 4, "d": 3}}


def test_items_of_the_same_name_are_merged() -> None:
    existing = [{"name": "web", "image": "web:1", "tty": True}, {"name": "log", "image": "log:1"}]
    found = merged(existing, [{"name": "web", "image": "web:2"}])
    assert found.value == [{"name": "web", "image": "web:2", "tty": True}, {"name": "log", "image": "log:1"}]


def test_items_without_a_name_are_added_if_none_has_all_of_them() -> None:
    existing = [{"port": 80, "protocol": "TCP"}]
    assert not merged(existing, [{"port": 80}]).changed
    assert merged(existing, [{"port": 81}]).value == [{"port": 80, "protocol": "TCP"}, {"port": 81}]


def test_an_item_that_is_wanted_twice_has_to_be_there_twice() -> None:
    assert not merged(["a", "a", "b"], ["a", "a"]).changed
    assert merged(["a", "b"], ["a", "a"]).value == ["a", "b", "a"]
    assert merged([{"x": 1}], [{"x": 1}, {"x": 1}]).value == [{"x": 1}, {"x": 1}]


def test_an_item_does_not_take_the_only_partner_of_another() -> None:
    small, large = {"a": "1"}, {"a": "1", "b": "2"}
    for existing in ([small, large], [large, small]):
        for desired in ([small, large], [large, small]):
            assert not merged(existing, desired).changed
    # The one that fits both has to move on, along a chain.
    existing = [{"a": "1", "b": "1", "p": "1"}, {"a": "1", "c": "1", "q": "1"}]
    assert not merged(existing, [{"a": "1"}, {"b": "1"}]).changed
    assert not merged(existing, [{"b": "1"}, {"a": "1"}]).changed


def test_a_partner_of_the_same_name_that_needs_no_change_is_preferred() -> None:
    existing = [{"name": "default", "namespace": "a"}, {"name": "default", "namespace": "b"}]
    assert not merged(existing, [{"name": "default", "namespace": "b"}]).changed


def test_a_text_of_several_words_is_one_item_and_its_blanks_count() -> None:
    assert not merged(["sh", "-c", "a  b "], ["a  b "]).changed
    assert merged(["a", "b"], ["a b"]).value == ["a", "b", "a b"]
    assert merged(["a  b "], ["a b"]).value == ["a  b ", "a b"]
    assert likeness({"a": "b "}, {"a": "b"}) is Likeness.OTHER


def test_lists_in_lists_have_no_order_either() -> None:
    assert not merged([["a", "b"], ["c"]], [["c"], ["b", "a"]]).changed


@pytest.mark.parametrize(("existing", "desired"), [("80", 80), (True, "true"), (1.0, 1), ("a", "a"), (None, None)])
def test_scalars_are_the_same_if_their_text_is(existing: Any, desired: Any) -> None:
    assert merged({"a": existing}, {"a": desired}) == Merged({"a": existing})


@pytest.mark.parametrize(("existing", "desired"), [("1", "1000m"), ("1Gi", "1024Mi"), (2, "2e0"), ("1.1", "1.10")])
def test_amounts_in_other_words_are_a_doubt_for_the_server(existing: Any, desired: Any) -> None:
    found = merged({"a": existing}, {"a": desired})
    assert (found.differs, found.doubt, found.value) == (False, True, {"a": desired})
    assert likeness([existing], [desired]) is Likeness.DOUBTFUL


@pytest.mark.parametrize("zero", [0, False, "", {}, [], {"b": {"c": False}}])
def test_a_zero_value_of_what_is_missing_is_a_doubt_for_the_server(zero: Any) -> None:
    found = merged({}, {"a": zero})
    assert (found.differs, found.doubt) == (False, True)
    assert likeness({}, {"a": zero}) is Likeness.DOUBTFUL


def test_nothing_is_wanted_where_a_definition_says_null() -> None:
    assert not merged({"a": {"b": 1}}, {"a": None}).changed
    assert not merged({}, {"a": None}).changed
    assert merged({"a": "b"}, {"a": None}) == Merged({"a": None}, differs=True)


def test_a_value_of_another_type_differs() -> None:
    for existing, desired in (({"a": 1}, ["a"]), (["a"], {"a": 1}), ("a", {"a": 1}), ({"a": 1}, "a"), (["a"], "a")):
        assert merged({"x": existing}, {"x": desired}) == Merged({"x": desired}, differs=True)


def test_equal_lists_may_have_another_order_and_nothing_else() -> None:
    assert likeness([1, {"a": [2, 3]}], [{"a": [3, 2]}, 1]) is Likeness.SAME
    assert likeness([1, 1, 2], [1, 2, 2]) is Likeness.OTHER
    assert likeness({"a": 1, "b": 2}, {"a": 1}) is Likeness.OTHER
    assert likeness({"a": 1, "b": 0}, {"a": 1}) is Likeness.DOUBTFUL


@given(MAPS, MAPS)
def test_merging_again_changes_nothing(existing: Any, desired: Any) -> None:
    once = merged(existing, desired)
    again = merged(once.value, desired)
    assert not again.differs
    assert again.value == once.value


@given(MAPS, MAPS)
def test_what_is_there_is_never_lost_but_where_something_else_is_wanted(existing: Any, desired: Any) -> None:
    found = merged(existing, desired)
    assert set(found.value) == set(existing) | set(desired)
    for key in set(existing) - set(desired):
        assert found.value[key] == existing[key]


@given(st.data(), MAPS, MAPS)
def test_the_order_of_lists_does_not_matter(data: st.DataObject, existing: Any, desired: Any) -> None:
    found = merged(existing, desired)
    other = merged(shuffled(existing, data.draw), shuffled(desired, data.draw))
    assert (found.differs, found.doubt) == (other.differs, other.doubt)
    assert likeness(found.value, other.value) is Likeness.SAME


@given(VALUES)
def test_everything_has_itself(value: Any) -> None:
    assert not merged({"a": value}, {"a": value}).differs
    assert likeness(value, value) is Likeness.SAME


@given(st.data(), st.lists(MAPS, max_size=5))
def test_a_part_of_a_list_is_always_found_in_it(data: st.DataObject, items: list[dict[str, Any]]) -> None:
    parts = [
        {key: item[key] for key in data.draw(st.sets(st.sampled_from(sorted(item))))} if item else {} for item in items
    ]
    wanted = data.draw(st.permutations(parts))
    assert not merged({"a": items}, {"a": wanted}).differs


def test_long_lists_are_compared_item_by_item_where_items_can_be_told_apart() -> None:
    numbers = list(range(5_000))
    plain = [str(number) for number in numbers]
    named = [{"name": f"n{number}", "v": number, "x": 1} for number in numbers]
    apart = [{"k": number, "x": {"y": 1}} for number in numbers]
    for existing, desired in (
        (plain, plain[::-1]),
        (named, [{"name": f"n{number}", "v": number} for number in reversed(numbers)]),
        (apart, [{"k": number} for number in reversed(numbers)]),
    ):
        assert not merged(existing, desired).changed
        assert likeness(existing, existing[::-1]) is Likeness.SAME


def test_lists_of_items_that_are_too_much_alike_are_refused() -> None:
    numbers = range(5_000)
    alike = [{"a": {"b": [number]}, "c": 1} for number in numbers]
    with pytest.raises(TooMuchEffort, match="too many similar items"):
        merged(alike, [{"a": {"b": [number]}} for number in numbers])


def test_lists_in_lists_that_have_nothing_in_common_are_not_compared_for_ever() -> None:
    def nested(depth: int, leaf: str) -> Any:
        value: Any = {"x": leaf}
        for _ in range(depth):
            value = {"l": [value, value]}
        return value

    with pytest.raises(TooMuchEffort, match="too many similar items"):
        merged(nested(14, "a"), nested(14, "b"))


def test_what_is_nested_too_deeply_is_refused() -> None:
    value: Any = "x"
    for _ in range(DEEPEST + 2):
        value = {"a": value}
    with pytest.raises(TooMuchEffort, match="nested deeper"):
        merged(value, value)
    with pytest.raises(TooMuchEffort, match="nested deeper"):
        likeness(value, value)


def test_what_is_long_costs_more() -> None:
    effort = Effort()
    merge([{"text": "x" * 1_000_000}], [{"text": "y" * 1_000_000}], effort)
    assert MOST_STEPS - effort.steps > 1_000


def test_what_is_compared_again_and_again_is_written_down_once() -> None:
    def items(kind: str) -> list[JSONObject]:
        return [{"parts": [{"text": f"{number} {'x' * 20_000}", "kind": kind}]} for number in range(50)]

    effort = Effort()
    assert merge(items("a"), items("b"), effort).differs
    assert MOST_STEPS - effort.steps < 30_000
