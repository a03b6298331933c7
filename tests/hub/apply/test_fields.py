"""The algebra of field sets, and their written form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.apply.fields import FieldSet, Path, key_step, readable, value_step

scalars = st.one_of(st.text(max_size=4), st.integers(-20, 20), st.booleans(), st.floats(allow_nan=False, width=16))
fields = st.sampled_from(["a", "b", "c", "a.b", "x/y", "ü", "."]).map(lambda name: f"f:{name}")
keys = st.dictionaries(st.sampled_from(["name", "port", "type"]), scalars, min_size=1, max_size=2).map(key_step)
steps = st.one_of(fields, keys, scalars.map(value_step), st.integers(0, 12).map(lambda index: f"i:{index}"))
paths = st.lists(steps, min_size=1, max_size=4).map(tuple)
path_sets = st.frozensets(paths, max_size=8)


def members(fields: FieldSet) -> set[Path]:
    return set(fields.paths())


@given(path_sets)
def test_a_set_has_exactly_what_was_put_in(chosen: frozenset[Path]) -> None:
    fields = FieldSet.of(*chosen)
    assert members(fields) == chosen
    assert all(fields.has(path) for path in chosen)
    assert fields.is_empty == (not chosen)


@given(path_sets, paths)
def test_a_set_does_not_have_what_was_not_put_in(chosen: frozenset[Path], path: Path) -> None:
    assert FieldSet.of(*chosen).has(path) == (path in chosen)


@given(path_sets)
def test_the_written_form_reads_back(chosen: frozenset[Path]) -> None:
    fields = FieldSet.of(*chosen)
    assert FieldSet.from_fields_v1(json.loads(json.dumps(fields.to_fields_v1()))) == fields


@given(path_sets, st.randoms())
def test_the_written_form_does_not_depend_on_history(chosen: frozenset[Path], random: Any) -> None:
    order = list(chosen)
    random.shuffle(order)
    assert json.dumps(FieldSet.of(*order).to_fields_v1()) == json.dumps(FieldSet.of(*chosen).to_fields_v1())


@given(path_sets, path_sets)
def test_the_algebra_is_that_of_sets(a: frozenset[Path], b: frozenset[Path]) -> None:
    left, right = FieldSet.of(*a), FieldSet.of(*b)
    assert members(left | right) == a | b
    assert members(left & right) == a & b
    assert members(left - right) == a - b
    assert ((left - right) | (left & right)) == left
    assert (left | right) == (right | left)


@given(path_sets, path_sets)
def test_a_set_covers_its_subsets(a: frozenset[Path], b: frozenset[Path]) -> None:
    assert FieldSet.of(*a, *b).covers(FieldSet.of(*b))
    assert FieldSet.of(*a).covers(FieldSet.of(*b)) == (b <= a)


@given(path_sets, path_sets)
def test_without_takes_what_is_below_too(a: frozenset[Path], b: frozenset[Path]) -> None:
    left = {path for path in a if not any(path[: len(gone)] == gone for gone in b)}
    assert members(FieldSet.of(*a).without(FieldSet.of(*b))) == left


@given(path_sets, path_sets)
def test_no_operation_modifies_its_operands(a: frozenset[Path], b: frozenset[Path]) -> None:
    left, right = FieldSet.of(*a), FieldSet.of(*b)
    before = json.dumps([left.root, right.root])
    _ = (left | right, left & right, left - right, left.without(right), left.to_fields_v1())
    assert json.dumps([left.root, right.root]) == before


def test_a_node_with_a_dot_is_a_member_besides_its_children() -> None:
    fields = FieldSet.from_fields_v1({"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}})
    assert list(fields) == [".a", ".a.b", ".c.d"]


def test_paths_read_as_in_messages() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"x"}', "f:ports", 'k:{"containerPort":80,"protocol":"TCP"}')
    assert readable(path) == '.spec.containers[name="x"].ports[containerPort=80,protocol="TCP"]'
    assert readable(("f:metadata", "f:finalizers", 'v:"a/b"')) == '.metadata.finalizers[="a/b"]'
    assert readable(("f:list", "i:3", "f:a")) == ".list[3].a"


def test_fields_come_before_keys_values_and_places() -> None:
    fields = FieldSet.of(("i:0",), ("v:1",), ('k:{"a":1}',), ("f:z",), ("f:a",))
    assert list(fields.to_fields_v1()) == ["f:a", "f:z", 'k:{"a":1}', "v:1", "i:0"]


def test_keys_are_ordered_by_value_not_by_text() -> None:
    written = FieldSet.of(('k:{"port":443}',), ('k:{"port":80}',), ('k:{"port":"x"}',)).to_fields_v1()
    assert list(written) == ['k:{"port":80}', 'k:{"port":443}', 'k:{"port":"x"}']


def test_equal_steps_are_equal_however_they_were_written() -> None:
    spaced = FieldSet.from_fields_v1({'k:{ "b": 1, "a": "<" }': {"f:x": {}}, r'k:{"a":"\u003c","b":1}': {"f:y": {}}})
    assert spaced.to_fields_v1() == {r'k:{"a":"\u003c","b":1}': {"f:x": {}, "f:y": {}}}


def test_steps_of_an_unknown_kind_are_ignored() -> None:
    assert FieldSet.from_fields_v1({"f:a": {"q:future": {}}, "f:b": {}}).to_fields_v1() == {"f:b": {}}


@pytest.mark.parametrize("step", ["", "f", "nonsense", "k:{", "k:5", "v:", "i:x", "i:1.5", "v:" + "[" * 100_000])
def test_steps_that_can_not_be_read_are_errors(step: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is for nobody: such entries are dropped
        FieldSet.from_fields_v1({step: {}})
