from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.cel import EvaluationError, compile_expression
from echelon.hub.schema.cel import escape
from echelon.hub.schema.seen_fields import View, fields_seen
from tests.examples import examples

FOUND = [
    ("size(self.metadata.name) <= 63", {"metadata": {"name": None}}),
    ("has(self.a) || self.b.c.all(x, x > 1)", {"a": None, "b": {"c": None}}),
    ("self.a.b == 1 && self.a == {}", {"a": None}),
    ("self.a == {} && self.a.b == 1", {"a": None}),
    ("self.a.size () > 1", {"a": None}),
    ("self.a[0].b.c", {"a": None}),
    ("self.a.?b.c", {"a": None}),
    ("oldSelf.a < myself.b", {}),
    ("true", {}),
]
ANY_FIELD = [
    "self == {}",
    "self.size() > 1",
    "self['a'] == 1",
    "self.?a.hasValue()",
    "self .a == 1",
    "self.`a-b` == 1",
    "[{'a': 1}].all(self, self.a == 1)",
    "self.a.size // the name of a function\n () > 1",
    "'self' == self.a",
]


@pytest.mark.parametrize(("text", "seen"), FOUND)
def test_a_rule_looks_at_the_fields_that_it_names(text: str, seen: dict[str, Any]) -> None:
    assert fields_seen([text]) == seen


@pytest.mark.parametrize("text", ANY_FIELD)
def test_a_rule_that_may_look_anywhere_is_shown_everything(text: str) -> None:
    assert fields_seen(["self.b == 1", text]) is None


def test_fields_are_shown_by_their_own_names() -> None:
    inner = {"type": "object", "properties": {"namespace": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"my-list": {"type": "array"}, "map": {"type": "object", "additionalProperties": inner}},
    }
    view = View({"my__dash__list": None, "map": {"x": {"__namespace__": None}}}, schema, escape)
    value = {"my-list": [1], "other": 2, "map": {"x": {"namespace": "a", "name": "b"}, "y": {}}}
    assert view.of(value) == {"my-list": [1], "map": {"x": {"namespace": "a"}}}
    assert view.of({"map": "not an object"}) == {"map": "not an object"}
    assert view.of(7) == 7


def test_only_the_very_same_fields_are_taken_for_the_same() -> None:
    view = View({"a": None, "m": {"b": None}}, {}, escape)
    one: dict[str, Any] = {"a": [1], "m": {"b": {}, "c": 1}, "x": 1}
    assert view.is_same(one, {**one, "x": 2, "m": {**one["m"], "c": 2}})
    assert not view.is_same(one, {**one, "a": [1]})
    assert not view.is_same(one, {**one, "m": {"b": {}}})
    assert not view.is_same(one, {"a": one["a"]})
    assert not view.is_same({"a": one["a"]}, one)
    assert not view.is_same({"m": {}}, {"m": "text"})
    assert view.is_same({}, {"x": 1})


PATHS = ["self.a", "self.a.b", "self.b.a.a", "self.b", "self.l", "self", "self.?a.?b.orValue(1)", "self['a']"]
TESTS = [
    "{} == {}",
    "has(self.a.b) || {} == {}",
    "{}.size() > 0 || {} == 1",
    "{}.all(x, {} != x)",
    "[{}].exists(self, self.a == {})",
    "type({}) == type({})",
]
EXPRESSION = st.sampled_from(TESTS).flatmap(
    lambda test: st.lists(st.sampled_from(PATHS), min_size=test.count("{}"), max_size=test.count("{}")).map(
        lambda paths: test.format(*paths)
    )
)
VALUE = st.dictionaries(
    st.sampled_from("abl"),
    st.recursive(
        st.integers(0, 2) | st.sampled_from(["", "a"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abl"), inner),
        max_leaves=6,
    ),
)


@examples(300)
@given(EXPRESSION, VALUE)
def test_a_rule_says_the_same_of_what_it_is_shown_as_of_everything(text: str, value: Any) -> None:
    seen = fields_seen([text])
    shown = value if seen is None else View(seen, {}, escape).of(value)
    assert outcome(text, shown) == outcome(text, value)


def outcome(text: str, value: Any) -> object:
    try:
        return compile_expression(text, ["self"]).evaluate(self=value)
    except EvaluationError as error:
        return str(error)
