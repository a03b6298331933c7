"""Values that come back to the hub (A40 to A43)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.manifest_config import FeedbackRule, JsonPath
from echelon.api.work import FieldValue
from echelon.engine.work.feedback import Feedback, read_feedback

WELL_KNOWN = FeedbackRule(type="WellKnownStatus")


def paths(**named: str) -> FeedbackRule:
    return FeedbackRule(type="JSONPaths", json_paths=[JsonPath(name=name, path=path) for name, path in named.items()])


def plain(feedback: Feedback) -> dict[str, Any]:
    def value(field: FieldValue) -> Any:
        return {
            "Integer": field.integer,
            "String": field.string,
            "Boolean": field.boolean,
            "JsonRaw": field.json_raw,
        }[field.type]

    return {each.name: value(each.field_value) for each in feedback.values}


@pytest.mark.parametrize(
    ("version", "kind", "status", "expected"),
    [
        (
            "apps/v1",
            "Deployment",
            {"readyReplicas": 2, "replicas": 3, "availableReplicas": 1},
            {"ReadyReplicas": 2, "Replicas": 3, "AvailableReplicas": 1},
        ),
        (
            "apps/v1",
            "DaemonSet",
            {"numberReady": 2, "desiredNumberScheduled": 3, "numberAvailable": 1},
            {"NumberReady": 2, "DesiredNumberScheduled": 3, "NumberAvailable": 1},
        ),
        (
            "batch/v1",
            "Job",
            {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
            {"JobComplete": "True", "JobSucceeded": 1},
        ),
        (
            "v1",
            "Pod",
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
            {"PodReady": "False", "PodPhase": "Running"},
        ),
        ("apps/v1", "Deployment", {"replicas": 3}, {"Replicas": 3}),
    ],
)
def test_a40_well_known_values(version: str, kind: str, status: JSONObject, expected: JSONObject) -> None:
    read = read_feedback([WELL_KNOWN], {"apiVersion": version, "kind": kind, "status": status})
    assert plain(read) == expected
    assert not read.errors


def test_a41_a_bad_path_does_not_cost_the_good_values() -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "count": 3, "fine": True}}
    rule = paths(phase=".status.phase", bad=".status[", count=".status.count", fine=".status.fine")
    read = read_feedback([rule], obj)
    assert plain(read) == {"phase": "Running", "count": 3, "fine": True}
    assert len(read.errors) == 1
    assert "bad" in read.errors[0]


def test_a41_what_is_not_there_is_neither_a_value_nor_an_error() -> None:
    rule = paths(none=".status.none", null=".status.null")
    assert read_feedback([rule], {"apiVersion": "v1", "status": {"null": None}}) == Feedback()


def test_a42_a_kind_without_well_known_status_is_an_error_and_other_rules_still_count() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    read = read_feedback([WELL_KNOWN, paths(a=".data.a")], obj)
    assert plain(read) == {"a": "b"}
    assert "ConfigMap" in read.errors[0]


def test_a_path_for_another_version_is_an_error() -> None:
    rule = FeedbackRule(
        type="JSONPaths",
        json_paths=[
            JsonPath(name="old", path=".status.phase", version="v1beta1"),
            JsonPath(name="new", path=".status.phase", version="v1"),
        ],
    )
    read = read_feedback([rule], {"apiVersion": "example.com/v1", "status": {"phase": "Up"}})
    assert plain(read) == {"new": "Up"}
    assert read.errors == ("version set in the path old is not matched for the related resource",)


OBJ: JSONObject = {
    "apiVersion": "v1",
    "status": {"list": [1, 2], "object": {"a": 1}, "float": 1.5, "items": [{"n": "a"}, {"n": "b"}]},
}


def test_a43_without_the_gate_only_plain_values_and_the_first_match_are_reported() -> None:
    rule = paths(list=".status.list", object=".status.object", float=".status.float", names=".status.items[*].n")
    read = read_feedback([rule], OBJ)
    assert plain(read) == {"names": "a"}
    assert len(read.errors) == 3


def test_a43_with_the_gate_anything_short_enough_is_reported_as_json() -> None:
    rule = paths(list=".status.list", object=".status.object", float=".status.float", names=".status.items[*].n")
    read = read_feedback([rule, paths(plain=".status.list[0]")], OBJ, raw_limit=9)
    assert plain(read) == {"list": "[1,2]", "object": '{"a":1}', "float": "1.5", "names": '["a","b"]', "plain": 1}
    assert not read.errors
    short = read_feedback([rule], OBJ, raw_limit=8)
    assert "names" not in plain(short)
    assert "names" in short.errors[0]


def test_a_name_that_is_asked_for_twice_is_reported_once() -> None:
    obj = {"apiVersion": "v1", "status": {"a": 1, "b": 2}}
    assert plain(read_feedback([paths(x=".status.a"), paths(x=".status.b")], obj)) == {"x": 1}


def test_a_number_beyond_the_wire_is_an_error() -> None:
    assert read_feedback([paths(n=".status.n")], {"apiVersion": "v1", "status": {"n": 2**63}}).errors


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=10,
)


@given(value=JSON)
def test_a_value_is_reported_exactly_or_not_at_all(value: Any) -> None:
    read = read_feedback([paths(v=".status.v")], {"apiVersion": "v1", "status": {"v": value}}, raw_limit=1024)
    found = plain(read)
    if value is None:
        assert found == {}
    elif found:
        kind = read.values[0].field_value.type
        assert (json.loads(found["v"]) if kind == "JsonRaw" else found["v"]) == value
    else:
        assert read.errors
