import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.schema.structural import Structural

Schema = dict[str, Any]

SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    SCALARS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from("abcd")


def schemas() -> st.SearchStrategy[Schema]:
    leaves: list[Schema] = [
        {"type": "string"},
        {"type": "integer", "default": 3},
        {"type": "string", "nullable": True, "default": "x"},
        {"x-kubernetes-int-or-string": True},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"type": "boolean", "default": False},
    ]

    def grow(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
        objects = st.builds(
            lambda parts, default: {"type": "object", "properties": parts, **({"default": {}} if default else {})},
            st.dictionaries(NAMES, inner, max_size=3),
            st.booleans(),
        )
        maps = inner.map(lambda part: {"type": "object", "additionalProperties": part})
        lists = inner.map(lambda part: {"type": "array", "items": part})
        keeping = objects.map(lambda schema: {**schema, "x-kubernetes-preserve-unknown-fields": True})
        return objects | maps | lists | keeping

    return st.recursive(st.sampled_from(leaves), grow, max_leaves=8)


def spec(**properties: Schema) -> Structural:
    return Structural({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})


def test_unknown_fields_are_dropped_and_named() -> None:
    structural = spec(known={"type": "string"}, items={"type": "array", "items": {"type": "object"}})
    obj = {"spec": {"known": "x", "foo": 1, "items": [{"bar": 1}, {}]}, "extra": {}}
    pruned, unknown = structural.prune(obj)
    assert pruned == {"spec": {"known": "x", "items": [{}, {}]}}
    assert unknown == ["extra", "spec.foo", "spec.items[0].bar"]


def test_type_and_metadata_stay_at_the_root_and_in_embedded_objects() -> None:
    structural = spec(template={"type": "object", "x-kubernetes-embedded-resource": True})
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    obj = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"template": {**inner, "spec": {}}}}
    pruned, unknown = structural.prune(obj)
    assert pruned == {**obj, "spec": {"template": inner}}
    assert unknown == ["spec.template.spec"]


def test_unknown_and_null_metadata_goes() -> None:
    pruned, unknown = spec().prune({"metadata": {"name": "a", "creationTimestamp": None, "nmae": "b"}})
    assert pruned == {"metadata": {"name": "a"}}
    assert unknown == ["metadata.nmae"]


def test_a_free_object_keeps_everything_but_prunes_what_it_does_describe() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    structural = spec(
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": inner}}
    )
    pruned, unknown = structural.prune({"spec": {"free": {"x": {"y": 1}, "known": {"a": 1, "b": 2}}}})
    assert pruned == {"spec": {"free": {"x": {"y": 1}, "known": {"a": 1}}}}
    assert unknown == ["spec.free.known.b"]


def test_any_key_of_a_map_is_known_but_not_what_is_inside_when_nothing_says_so() -> None:
    structural = spec(
        typed={"type": "object", "additionalProperties": {"type": "integer"}},
        free={"type": "object", "additionalProperties": True},
    )
    pruned, unknown = structural.prune({"spec": {"typed": {"a": 1}, "free": {"a": 1, "b": {"c": 1}}}})
    assert pruned == {"spec": {"typed": {"a": 1}, "free": {"a": 1, "b": {}}}}
    assert unknown == ["spec.free.b.c"]


def test_builtin_kinds_lose_nulls_and_keep_raw_objects() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {
            "raw": {"type": "object"},
            "data": {"type": "object", "additionalProperties": {"type": "string"}},
            "text": {"type": "string"},
        },
    }
    pruned, unknown = Structural(schema, builtin=True).prune(
        {"raw": {"any": {"thing": 1}}, "data": {"a": None, "b": "x"}, "text": None, "typo": 1}
    )
    assert pruned == {"raw": {"any": {"thing": 1}}, "data": {"a": "", "b": "x"}}
    assert unknown == ["typo"]


def test_defaults_fill_missing_keys_at_any_depth_whose_parent_exists() -> None:
    deep = {"type": "object", "properties": {"y": {"type": "string", "default": "d"}}}
    structural = spec(
        top={"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 7}, "deep": deep}},
        items={"type": "array", "items": deep},
        map={"type": "object", "additionalProperties": deep},
    )
    filled = structural.default({"spec": {"items": [{}, {"y": "own"}], "map": {"k": {}}}})
    assert filled == {"spec": {"items": [{"y": "d"}, {"y": "own"}], "map": {"k": {"y": "d"}}, "top": {"x": 7}}}


def test_nulls_are_defaulted_dropped_or_kept_as_the_schema_says() -> None:
    structural = spec(
        defaulted={"type": "integer", "default": 1},
        plain={"type": "integer"},
        nullable={"type": "integer", "nullable": True},
        both={"type": "integer", "nullable": True, "default": 5},
    )
    obj = {"spec": dict.fromkeys(("defaulted", "plain", "nullable", "both"))}
    assert structural.default(obj) == {"spec": {"defaulted": 1, "nullable": None, "both": None}}


def test_a_default_is_a_fresh_copy_each_time() -> None:
    structural = spec(a={"type": "object", "default": {"b": [1]}, "x-kubernetes-preserve-unknown-fields": True})
    first = structural.default({"spec": {}})
    first["spec"]["a"]["b"].append(2)
    assert structural.default({"spec": {}}) == {"spec": {"a": {"b": [1]}}}


@given(schemas(), JSON)
def test_pruning_twice_changes_nothing_and_the_input_is_never_touched(schema: Schema, obj: Any) -> None:
    structural, before = Structural(schema), copy.deepcopy(obj)
    pruned, _ = structural.prune(obj)
    assert obj == before
    assert structural.prune(pruned) == (pruned, [])


@given(schemas(), JSON)
def test_defaulting_twice_changes_nothing_and_adds_no_unknown_field(schema: Schema, obj: Any) -> None:
    structural = Structural(schema)
    once = structural.default(structural.prune(obj)[0])
    assert structural.default(copy.deepcopy(once)) == once
    assert structural.prune(once)[1] == []


@given(schemas(), JSON)
def test_builtin_pruning_is_idempotent_too(schema: Schema, obj: Any) -> None:
    structural = Structural(schema, builtin=True)
    pruned, _ = structural.prune(obj)
    assert structural.prune(pruned) == (pruned, [])


@given(JSON)
def test_the_result_shares_no_container_with_the_input(obj: Any) -> None:
    structural = Structural({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    mine = {"a": [obj], "b": {"c": obj}}
    pruned, _ = structural.prune(mine)
    assert pruned == mine
    assert not _containers(pruned) & _containers(mine)


def _containers(value: Any) -> set[int]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = {id(value)} if isinstance(value, dict | list) else set()
    return own.union(*(_containers(each) for each in below))


@pytest.mark.parametrize("obj", [None, 5, "x", [], [{"a": 1}]])
def test_something_that_is_no_object_passes_through(obj: Any) -> None:
    structural = spec()
    pruned, _ = structural.prune(obj)
    assert structural.default(pruned) == ([{}] if obj == [{"a": 1}] else obj)
