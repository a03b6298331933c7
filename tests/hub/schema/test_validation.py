from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.schema import causes
from echelon.hub.schema.explaining import explain
from echelon.hub.schema.validation import SchemaError, Validator

Schema = dict[str, Any]


def found(part: Schema, value: Any, old: Any = None) -> list[tuple[str, str, str]]:
    """Validate a value as `spec.x`."""
    spec: Schema = {"type": "object", "properties": {"x": part}}
    schema: Schema = {"type": "object", "properties": {"spec": spec}}
    before = None if old is None else {"spec": {"x": old}}
    result = Validator(schema).validate({"spec": {"x": value}}, before)
    return [(cause.field, cause.detail, cause.reason.removeprefix("FieldValue")) for cause in result]


IN = "spec.x in body"


@pytest.mark.parametrize(
    ("part", "value", "detail"),
    [
        ({"type": "integer"}, "a", f'Invalid value: "string": {IN} must be of type integer: "string"'),
        ({"type": "string"}, None, f'Invalid value: "null": {IN} must be of type string: "null"'),
        ({"type": "string"}, True, f'Invalid value: "boolean": {IN} must be of type string: "boolean"'),
        ({"type": "string", "format": "date-time"}, "x", f'Invalid value: "x": {IN} must be of type date-time: "x"'),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            f'Invalid value: "number": {IN} must be of type integer,string: "number"',
        ),
        ({"type": "integer", "format": "int32"}, True, f'Invalid value: "": {IN} must be of type int32: ""'),
    ],
)
def test_a_wrong_type_is_named(part: Schema, value: Any, detail: str) -> None:
    assert found(part, value) == [("spec.x", detail, "TypeInvalid")]


@pytest.mark.parametrize(
    ("part", "value", "detail"),
    [
        ({"type": "integer", "maximum": 4}, 5, f"5: {IN} should be less than or equal to 4"),
        ({"type": "number", "maximum": 4.5, "exclusiveMaximum": True}, 4.5, f"4.5: {IN} should be less than 4.5"),
        ({"type": "number", "maximum": 4}, 12345678.5, f"1.23456785e+07: {IN} should be less than or equal to 4"),
        ({"type": "integer", "minimum": 2}, 1, f"1: {IN} should be greater than or equal to 2"),
        ({"type": "integer", "multipleOf": 3}, 4, f"4: {IN} should be a multiple of 3"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "A\n\x01", f"\"A\\n\\x01\": {IN} should match '^[a-z]+$'"),
        ({"type": "string", "minLength": 2}, "é", f'"é": {IN} should be at least 2 chars long'),
        ({"type": "array", "minItems": 1}, [], f"0: {IN} should have at least 1 items"),
        ({"type": "object", "minProperties": 1}, {}, f"0: {IN} should have at least 1 properties"),
    ],
)
def test_a_broken_bound_is_named(part: Schema, value: Any, detail: str) -> None:
    assert found(part, value) == [("spec.x", f"Invalid value: {detail}", "Invalid")]


@pytest.mark.parametrize(
    ("part", "value", "detail", "reason"),
    [
        ({"type": "string", "maxLength": 1}, "ab", "Too long: may not be more than 1 byte", "TooLong"),
        ({"type": "string", "enum": ["a"]}, "c", 'Unsupported value: "c": supported values: "a"', "NotSupported"),
        ({"type": "integer", "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"', "NotSupported"),
        ({"type": "array", "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 item", "TooMany"),
        ({"type": "object", "maxProperties": 0}, {"a": 1}, "Too many: 1: must have at most 0 items", "TooMany"),
    ],
)
def test_some_keywords_have_their_own_reason(part: Schema, value: Any, detail: str, reason: str) -> None:
    assert found(part, value) == [("spec.x", detail, reason)]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": "number"}, 3),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "10%"),
        ({"x-kubernetes-int-or-string": True}, 10),
        ({"type": "string", "format": "unheard-of"}, "x"),
        ({"type": "string", "pattern": r"(?i)^[a-f]\d\z"}, "B7"),
        ({"type": "integer", "format": "int32"}, 2**31 - 1),
    ],
)
def test_what_kubernetes_accepts_is_accepted(part: Schema, value: Any) -> None:
    assert found(part, value) == []


def test_missing_and_nested_values_are_named_by_their_path() -> None:
    item = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    assert found({"type": "array", "items": item}, [{"name": "a"}, {}, {"name": 5}]) == [
        ("spec.x[1].name", "Required value", "Required"),
        (
            "spec.x[2].name",
            'Invalid value: "integer": spec.x[2].name in body must be of type string: "integer"',
            "TypeInvalid",
        ),
    ]


def test_a_missing_field_at_the_root_has_no_leading_dot() -> None:
    result = Validator({"type": "object", "required": ["spec"]}).validate({})
    assert [str(cause) for cause in result] == ["spec: Required value"]


def test_out_of_range_integers_are_refused() -> None:
    text = 'Invalid value: "": Checked value must be of type integer with format int32 in spec.x'
    assert found({"type": "integer", "format": "int32"}, 2**31) == [("<nil>", text, "Invalid")]


def test_of_failed_alternatives_the_best_match_is_told() -> None:
    part = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    assert found(part, {}) == [
        ("<nil>", 'Invalid value: "": "spec.x" must validate at least one schema (anyOf)', "Invalid"),
        ("spec.x.a", "Required value", "Required"),
    ]
    assert found(part, {"b": "x"}) == []


def test_one_of_counts_how_many_hold() -> None:
    part = {"type": "integer", "oneOf": [{"minimum": 1}, {"maximum": 5}]}
    text = 'Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    assert found(part, 3) == [("<nil>", text, "Invalid")]


def test_not_and_all_of_have_their_texts() -> None:
    text = 'Invalid value: "": "spec.x" must not validate the schema (not)'
    assert found({"type": "string", "not": {"enum": ["bad"]}}, "bad") == [("<nil>", text, "Invalid")]
    both = found({"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 5}]}, 1)
    assert ("<nil>", 'Invalid value: "": "spec.x" must validate all the schemas (allOf)', "Invalid") in both
    assert len(both) == 2


def test_keys_of_a_list_map_and_members_of_a_set_are_unique() -> None:
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    assert found(keyed, [{"name": "a"}, {"name": "b"}, {"name": "a"}, {"name": "a"}]) == [
        ("spec.x[2]", 'Duplicate value: {"name":"a"}', "Duplicate")
    ]
    two = {**keyed, "x-kubernetes-list-map-keys": ["name", "port"]}
    assert found(two, [{"name": "a", "port": 1}, {"name": "a", "port": 2}, {"port": 1, "name": "a"}]) == [
        ("spec.x[2]", 'Duplicate value: {"name":"a","port":1}', "Duplicate")
    ]
    unique = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    assert found(unique, ["a", "b", "a"]) == [("spec.x[2]", 'Duplicate value: "a"', "Duplicate")]
    assert "Duplicate" not in [cause[2] for cause in found(unique, [1, True])]


def test_an_embedded_object_needs_a_type_and_good_metadata() -> None:
    part = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert found(part, {"metadata": {"labels": {"a b": "c"}}})[:2] == [
        ("spec.x.apiVersion", "Required value", "Required"),
        ("spec.x.kind", "Required value", "Required"),
    ]
    assert [c[0] for c in found({"type": "array", "items": part}, [{"apiVersion": "v1", "kind": "Pod!"}])] == [
        "spec.x[0].kind"
    ]


SMALL: Schema = {"type": "integer", "maximum": 5}


class TestRatcheting:
    def test_what_did_not_change_may_stay_wrong(self) -> None:
        part = {"type": "object", "properties": {"a": SMALL, "b": SMALL}}
        assert found(part, {"a": 9, "b": 9}, {"a": 9, "b": 1}) == [
            ("spec.x.b", "Invalid value: 9: spec.x.b in body should be less than or equal to 5", "Invalid")
        ]

    def test_items_with_keys_are_recognised_when_they_move(self) -> None:
        item = {"type": "object", "properties": {"name": {"type": "string"}, "v": SMALL}}
        keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        old = [{"name": "a", "v": 9}, {"name": "b", "v": 1}]
        new = [{"name": "b", "v": 8}, {"name": "a", "v": 9}]
        assert [c[0] for c in found({"type": "array", "items": item, **keyed}, new, old)] == ["spec.x[0].v"]
        assert [c[0] for c in found({"type": "array", "items": item}, new, old)] == ["spec.x[0].v", "spec.x[1].v"]

    def test_a_changed_whole_is_checked_as_a_whole(self) -> None:
        part = {"type": "array", "maxItems": 1, "items": {"type": "string"}}
        assert found(part, ["a", "b"], ["a", "b"]) == []
        assert found(part, ["a", "c"], ["a", "b"]) == [("spec.x", "Too many: 2: must have at most 1 item", "TooMany")]

    def test_true_is_not_one(self) -> None:
        assert found({"type": "string"}, True, 1) != []


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^\d+$", "12", "٣"),
        (r"^\w+$", "a_1", "é"),
        (r"^\s$", "\t", "\u00a0"),
        (r"^[[:alpha:]]+$", "aZ", "a1"),
        (r"^[[a]+$", "[a", "]"),
        (r"^a{$", "a{", "a"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"(?i)^[a-c]x$", "BX", "dx"),
        (r"^(?P<n>a)\z", "a", "b"),
        (r"^[\w-]+$", "a-b", "a b"),
        (r"^[^\d]$", "a", "1"),
        (r"^\pL\P{Lu}$", "ab", "aB"),
        (r"^\x{41}\x42$", "AB", "ab"),
        (r"^[]a]+$", "]a", "b"),
        (r"^.$", "\r", "\n"),
        (r"(?s)^.$", "\n", "ab"),
        (r"^a{2,3}(?:b|c)?$", "aac", "ac"),
        (r"^[&&a]$", "&", "b"),
    ],
)
def test_patterns_mean_what_they_mean_to_re2(pattern: str, yes: str, no: str) -> None:
    part = {"type": "string", "pattern": pattern}
    assert found(part, yes) == []
    assert found(part, no) == [
        ("spec.x", f"Invalid value: {causes.quoted(no)}: spec.x in body should match '{pattern}'", "Invalid")
    ]


@pytest.mark.parametrize("pattern", ["a(?=b)", r"\y", "[a", "(", "(?m)^a$", "[[:nope:]]", "*a"])
def test_a_pattern_that_cannot_be_matched_is_refused_when_compiled(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    with pytest.raises(SchemaError) as error:
        Validator(schema).check_schema()
    assert error.value.path == "properties[a].pattern"


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_typed_error(pattern: str) -> None:
    try:
        Validator({"type": "string", "pattern": pattern}).check_schema()
    except SchemaError:
        return
    assert found({"type": "string", "pattern": pattern}, 5)[0][2] == "TypeInvalid"
    found({"type": "string", "pattern": pattern}, "abc")


SCALAR = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([0.5, 2.0, "", "a", "ab", "B", "2020-01-01"])
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
LEAF: st.SearchStrategy[Schema] = st.sampled_from(
    [
        {"type": "string", "pattern": "^[a-z]*$"},
        {"type": "string", "maxLength": 1, "nullable": True},
        {"type": "string", "format": "date"},
        {"type": "integer", "maximum": 4, "minimum": 0},
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        {"type": "number", "multipleOf": 2},
        {"type": "boolean"},
        {"enum": ["a", 1]},
        {"x-kubernetes-int-or-string": True},
        {"type": "string", "not": {"enum": ["a"]}},
        {"type": "integer", "anyOf": [{"maximum": 2}, {"minimum": 6}]},
        {"type": "integer", "oneOf": [{"maximum": 5}, {"minimum": 3}]},
        {"type": "integer", "allOf": [{"maximum": 5}, {"minimum": 3}]},
    ]
)
SCHEMA: st.SearchStrategy[Schema] = st.recursive(
    LEAF,
    lambda inner: (
        st.builds(
            lambda parts, need: {"type": "object", "properties": parts, "required": need},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=1),
        )
        | inner.map(lambda part: {"type": "object", "additionalProperties": part, "maxProperties": 2})
        | inner.map(lambda part: {"type": "array", "items": part, "maxItems": 2, "minItems": 1})
    ),
    max_leaves=6,
)


@given(SCHEMA, VALUE)
def test_the_fast_answer_and_the_explanation_agree(schema: Schema, value: Any) -> None:
    validator = Validator(schema)
    assert validator._fast.is_valid(value) == (explain(schema, value) == [])


@given(SCHEMA, VALUE, VALUE)
def test_an_update_is_never_judged_harder_than_a_create(schema: Schema, value: Any, old: Any) -> None:
    validator = Validator(schema)
    created = {str(cause) for cause in validator.validate(value)}
    assert {str(cause) for cause in validator.validate(value, old)} <= created


@given(SCHEMA, VALUE)
def test_an_object_that_did_not_change_is_always_accepted(schema: Schema, value: Any) -> None:
    if value is not None:
        assert Validator(schema).validate(value, value) == []
