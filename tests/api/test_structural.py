"""The texts in these tests are what Kubernetes 1.36 answers when it is given the same schema in a CRD.

Two are shorter: a bad pattern is not explained, and how a default breaks its schema is told in the validator's words.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.structural import check_structural

ROOT = "spec.validation.openAPIV3Schema"
STRING: JSONObject = {"type": "string"}
LIST_MAP: JSONObject = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}


def obj(**properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        obj(a=STRING, metadata={"type": "object"}),
        obj(metadata={"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}}),
        obj(a={"x-kubernetes-int-or-string": True}),
        obj(a={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, STRING], "default": "5%"}),
        obj(
            a={
                "x-kubernetes-int-or-string": True,
                "allOf": [{"anyOf": [{"type": "integer"}, STRING]}, {"minimum": 0}],
            }
        ),
        obj(a={"x-kubernetes-preserve-unknown-fields": True}),
        obj(a={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}),
        obj(a={"type": "object", "additionalProperties": STRING}),
        obj(a={**LIST_MAP, "items": {**obj(a=STRING), "required": ["a"]}}),
        obj(a={**LIST_MAP, "items": obj(a={"type": "string", "default": "x"})}),
        obj(a={"type": "array", "x-kubernetes-list-type": "set", "items": STRING}),
        obj(a={**obj(b=STRING), "default": {"b": "x"}}),
        obj(a={**obj(b=STRING), "anyOf": [{"required": ["b"]}, {"properties": {"b": {"pattern": "x"}}}]}),
        obj(a={"type": "string", "nullable": True, "default": "x"}),
        obj(a={**obj(b={"type": "string", "nullable": True}), "default": {"b": None}}),
        {**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    ],
)
def test_a_structural_schema_is_accepted(schema: JSONObject) -> None:
    assert check_structural(schema) == []


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, "type: Required value: must not be empty at the root"),
        ({"type": "string"}, 'type: Invalid value: "string": must be object at the root'),
        ({"type": "object", "nullable": True}, "nullable: Forbidden: nullable cannot be true at the root"),
        (
            {"type": "object", "additionalProperties": STRING},
            "additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            obj(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            (
                "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified"
            ),
        ),
        (
            obj(metadata={"type": "object", "description": "Mine."}),
            (
                "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified"
            ),
        ),
        (
            obj(kind={"type": "string", "default": "Widget"}),
            "properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (obj(kind={"type": "integer"}), 'properties[kind].type: Invalid value: "integer": must be string'),
        (
            {**obj(a=STRING), "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
            f"properties[b]: Required value: because it is defined in {ROOT}.anyOf[0].properties[b]",
        ),
    ],
)
def test_the_root_is_an_object_whose_metadata_is_the_servers_business(schema: JSONObject, problem: str) -> None:
    assert check_structural(schema) == [f"{ROOT}.{problem}"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({}, ".type: Required value: must not be empty for specified object fields"),
        ({"type": "array", "items": {}}, ".items.type: Required value: must not be empty for specified array items"),
        (
            {"type": "object", "additionalProperties": {}},
            ".additionalProperties.type: Required value: must not be empty for specified object fields",
        ),
        ({"type": "array"}, ".items: Required value: must be specified"),
        (
            {"type": "file"},
            (
                '.type: Unsupported value: "file": supported values: "array", "boolean", "integer", "number", '
                '"object", "string"'
            ),
        ),
        ({"type": "string", "$ref": "#/x"}, ".$ref: Forbidden: $ref is not supported"),
        (
            {"type": "array", "items": STRING, "uniqueItems": True},
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            {**obj(b=STRING), "additionalProperties": STRING},
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "string", "pattern": "(?=a)"},
            '.pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn\'t',
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            (
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-kubernetes-int-or-string is true"
            ),
        ),
        (
            {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            ".type: Required value: must be object if x-kubernetes-embedded-resource is true",
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            (
                ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            ),
        ),
        (
            {"type": "string", "x-kubernetes-map-type": "atomic"},
            '.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
        ),
        (
            {"type": "string", "x-kubernetes-validations": [{"rule": " "}]},
            ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ),
        (
            {"type": "string", "x-kubernetes-validations": [{"rule": "true", "reason": "Because"}]},
            (
                '.x-kubernetes-validations[0].reason: Unsupported value: "Because": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            ),
        ),
    ],
)
def test_a_field_that_is_not_structural_is_named(part: JSONObject, problem: str) -> None:
    assert check_structural(obj(a=part)) == [f"{ROOT}.properties[a]{problem}"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (
            {"type": "string", "x-kubernetes-list-type": "set"},
            '.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
        ),
        (
            {"type": "array", "items": STRING, "x-kubernetes-list-map-keys": ["a"]},
            ".x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": obj(a=STRING)},
            (
                ".items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
                "x-kubernetes-list-type=set"
            ),
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": True}},
            ".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (
            {**LIST_MAP, "items": STRING},
            '.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
        ),
        (
            {**LIST_MAP, "items": obj(a=STRING)},
            (
                ".items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it "
                "must have a default or be a required property"
            ),
        ),
        (
            {**LIST_MAP, "items": {**obj(b=STRING), "required": ["b"]}},
            '.x-kubernetes-list-map-keys: Invalid value: ["a"]: entries must all be names of item properties',
        ),
        (
            {**LIST_MAP, "items": {**obj(a={"type": "object"}), "required": ["a"]}},
            (
                '.items.properties[a].type: Invalid value: "object": must be a scalar type if parent array\'s '
                "x-kubernetes-list-type is map"
            ),
        ),
    ],
)
def test_lists_merge_only_by_keys_that_are_always_there(part: JSONObject, problem: str) -> None:
    assert check_structural(obj(a=part)) == [f"{ROOT}.properties[a]{problem}"]


@pytest.mark.parametrize(
    ("word", "value", "instead"),
    [
        ("type", "string", "empty"),
        ("description", "x", "empty"),
        ("default", "", "undefined"),
        ("nullable", True, "false"),
        ("additionalProperties", {}, "undefined"),
        ("x-kubernetes-preserve-unknown-fields", True, "false"),
        ("x-kubernetes-validations", [{"rule": "true"}], "empty"),
    ],
)
@pytest.mark.parametrize("junction", ["allOf", "anyOf", "oneOf"])
def test_a_junction_narrows_values_down_and_says_nothing_else(
    junction: str, word: str, value: object, instead: str
) -> None:
    path = f"{ROOT}.properties[a].{junction}[0].{word}"
    found = check_structural(obj(a={"type": "string", junction: [{word: value}]}))
    assert found == [f"{path}: Forbidden: must be {instead} to be structural"]


def test_metadata_is_not_restricted_in_a_junction() -> None:
    found = check_structural({**obj(metadata={"type": "object"}), "not": {"properties": {"metadata": {}}}})
    assert found == [f"{ROOT}.not.properties[metadata]: Forbidden: must not be specified in a nested context"]


def test_a_default_has_no_unknown_fields() -> None:
    found = check_structural(obj(a={**obj(b=obj(c=STRING)), "default": {"b": {"d": 1}}}))
    assert found == [f'{ROOT}.properties[a].default: Invalid value: {{"b": {{"d": 1}}}}: must not have unknown fields']


@pytest.mark.parametrize(
    ("part", "default"),
    [
        ({"type": "integer"}, "x"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "integer", "minimum": 1}, 0),
        ({"x-kubernetes-int-or-string": True}, [1]),
        ({**obj(b=STRING), "required": ["b"]}, {}),
        ({"type": "array", "items": STRING}, [1]),
    ],
)
def test_a_default_obeys_its_own_schema(part: JSONObject, default: object) -> None:
    (found,) = check_structural(obj(a={**part, "default": default}))
    assert found.startswith(f"{ROOT}.properties[a].default: Invalid value: ")


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], "Expected `object`, got `array`"),
        ({"type": 1}, "Expected `str | null`, got `int` - at `$.type`"),
        ({"properties": {"a": "string"}}, "Expected `object`, got `str` - at `$.properties[...]`"),
        ({"required": "a"}, "Expected `array | null`, got `str` - at `$.required`"),
        ({"items": {"allOf": {}}}, "Expected `array | null`, got `object` - at `$.items.allOf`"),
    ],
)
def test_what_is_no_schema_at_all_is_named(schema: JSONObject, problem: str) -> None:
    assert check_structural(schema) == [f"{ROOT}: Invalid value: {problem}"]


def test_a_word_that_is_null_is_not_said() -> None:
    words = {"required", "items", "default", "allOf", "pattern", "x-kubernetes-list-type", "additionalProperties"}
    assert check_structural({**obj(a={**STRING, **dict.fromkeys(words)}), "x-kubernetes-validations": None}) == []


# Words with values that may be right, wrong, or of the wrong type: whatever a user can write.
NAMES = st.sampled_from(["a", "b", "metadata", "kind"])
PARTS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "array"}, {}, None, True, "x", 1]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "null", 1]),
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "items": inner,
            "additionalProperties": inner,
            "allOf": st.lists(inner, max_size=2),
            "not": inner,
            "default": st.sampled_from([1, "x", {"a": {"b": 1}}, [{}], None]),
            "required": st.sampled_from([["a"], "a"]),
            "x-kubernetes-list-type": st.sampled_from(["map", "set", "x"]),
            "x-kubernetes-list-map-keys": st.sampled_from([["a"], ["a", "a"], []]),
            "x-kubernetes-validations": st.sampled_from([[{}], [{"rule": "true"}], [{"rule": 1}]]),
        },
    ),
    max_leaves=8,
)


@given(PARTS)
def test_whatever_a_user_writes_is_judged(part: Any) -> None:
    for found in check_structural(obj(a=part)):
        assert found.startswith(ROOT)


def test_all_problems_are_reported_at_once_and_in_order() -> None:
    found = check_structural(obj(b={}, a={"type": "array"}), "schema")
    assert found == [
        "schema.properties[a].items: Required value: must be specified",
        "schema.properties[b].type: Required value: must not be empty for specified object fields",
    ]
