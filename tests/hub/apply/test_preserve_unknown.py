"""Parts of an object that no schema describes: maps are many things, lists are one."""

from typing import Any


def test_unknown_maps_are_owned_field_by_field(story: Any) -> None:
    story.applies("ann", "spec: {raw: {a: {b: 1, c: [1, {d: 2}]}}}")
    assert story.entry("ann")["fieldsV1"] == {"f:spec": {"f:raw": {"f:a": {".": {}, "f:b": {}, "f:c": {}}}}}


def test_unknown_maps_are_merged(story: Any) -> None:
    story.applies("ann", "spec: {raw: {a: {b: 1}}}")
    assert story.applies("bob", "spec: {raw: {a: {c: 2}}}")["spec"]["raw"] == {"a": {"b": 1, "c": 2}}
    assert story.applies("ann", "")["spec"]["raw"] == {"a": {"c": 2}}


def test_unknown_lists_are_replaced(story: Any) -> None:
    story.applies("ann", "spec: {raw: {a: [1, 2]}}")
    assert story.applies("ann", "spec: {raw: {a: [3]}}")["spec"]["raw"] == {"a": [3]}


def test_a_value_may_become_a_map_and_a_map_a_value(story: Any) -> None:
    story.applies("ann", "spec: {raw: {a: 1}}")
    assert story.applies("ann", "spec: {raw: {a: {b: 1}}}")["spec"]["raw"] == {"a": {"b": 1}}
    assert story.applies("ann", "spec: {raw: {a: x}}")["spec"]["raw"] == {"a": "x"}
    assert story.owned("ann") == [".spec.raw.a"]


def test_the_metadata_of_an_embedded_object_is_known(story: Any) -> None:
    story.applies(
        "ann", "spec: {manifest: {apiVersion: v1, kind: X, metadata: {name: n, labels: {a: b}}, data: {k: v}}}"
    )
    assert story.entry("ann")["fieldsV1"]["f:spec"]["f:manifest"] == {
        "f:apiVersion": {},
        "f:data": {".": {}, "f:k": {}},
        "f:kind": {},
        "f:metadata": {"f:labels": {"f:a": {}}, "f:name": {}},
    }
