"""Owners after creates and updates."""

import json
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.hub.apply import track_update

WHO: JSONObject = {"manager": "ctl", "api_version": "apps/v1", "subresource": "", "now": "2026-01-01T00:00:00Z"}


def test_a_create_owns_everything_and_every_map_on_the_way(story: Any) -> None:
    story.updates(
        "ctl",
        """
        metadata: {labels: {b: '1', a: '2'}, finalizers: [x/a]}
        spec:
          selector: {a: b}
          strategy: {rolling: {}}
          containers: [{name: c, ports: [{port: 443}, {port: 80}], args: [x]}]
          regions: {eu: {weight: 1}}
        """,
    )
    assert story.entry("ctl", "Update")["fieldsV1"] == {
        "f:metadata": {
            "f:finalizers": {".": {}, 'v:"x/a"': {}},
            "f:labels": {".": {}, "f:a": {}, "f:b": {}},
        },
        "f:spec": {
            ".": {},
            "f:containers": {
                ".": {},
                'k:{"name":"c"}': {
                    ".": {},
                    "f:args": {},
                    "f:name": {},
                    "f:ports": {
                        ".": {},
                        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}},
                        'k:{"port":443,"protocol":"TCP"}': {".": {}, "f:port": {}},
                    },
                },
            },
            "f:regions": {".": {}, "f:eu": {".": {}, "f:weight": {}}},
            "f:selector": {},
            "f:strategy": {".": {}, "f:rolling": {}},
        },
    }


def test_what_the_server_says_of_an_object_belongs_to_nobody(schema: JSONObject) -> None:
    about = {"name": "n", "namespace": "ns", "uid": "u", "generation": 1, "resourceVersion": "7", "selfLink": "s"}
    new = {"apiVersion": "v1", "kind": "K", "metadata": {**about, "creationTimestamp": "t", "deletionTimestamp": "t"}}
    assert track_update(None, new, schema, **WHO) == []


def test_an_update_owns_what_it_changes(story: Any) -> None:
    story.updates("ann", "spec: {replicas: 1, containers: [{name: c, image: x}, {name: d, image: x}]}")
    story.updates("bob", "spec: {replicas: 1, containers: [{name: c, image: y}, {name: d, image: x}]}")
    assert story.owned("bob", "Update") == ['.spec.containers[name="c"].image']
    assert '.spec.containers[name="c"].image' not in story.owned("ann", "Update")


def test_moving_a_list_item_changes_nothing(story: Any) -> None:
    story.updates("ann", "spec: {containers: [{name: c}, {name: d}]}")
    story.updates("bob", "spec: {containers: [{name: d}, {name: c}]}")
    assert [entry["manager"] for entry in story.entries] == ["ann"]


def test_a_later_update_by_the_same_manager_adds_to_its_entry(story: Any) -> None:
    story.updates("ann", "spec: {replicas: 1}")
    story.updates("ann", "spec: {replicas: 1, paused: true}")
    assert story.owned("ann", "Update") == [".spec", ".spec.paused", ".spec.replicas"]
    assert story.entry("ann", "Update")["time"] == "2026-01-01T00:00:02Z"


def test_a_manager_without_a_name_is_unknown(story: Any) -> None:
    story.updates("", "spec: {replicas: 1}")
    assert [entry["manager"] for entry in story.entries] == ["unknown"]


@pytest.mark.parametrize("cleared", ["[]", "[{}]"])
def test_clearing_the_owners_ends_the_tracking(story: Any, cleared: str) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.updates("ctl", f"metadata: {{managedFields: {cleared}}}\nspec: {{replicas: 1}}")
    assert story.entries == []
    story.updates("ctl", "spec: {replicas: 2}")
    assert story.entries == []


def test_leaving_the_owners_out_keeps_them(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.updates("ctl", "spec: {replicas: 1, paused: true}")
    assert story.owned("ann") == [".spec.replicas"]


def test_owners_can_be_written_by_hand(story: Any) -> None:
    story.applies("ann", "spec: {zones: [a]}")
    entry = '{manager: bob, operation: Apply, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}'
    story.updates("ctl", f"metadata: {{managedFields: [{entry}]}}\nspec: {{zones: [a]}}")
    assert [(entry["manager"], entry["fieldsV1"]) for entry in story.entries] == [("bob", {"f:spec": {}})]


def test_owners_that_were_written_by_hand_are_stored_in_normal_form(schema: JSONObject) -> None:
    obj: JSONObject = {"metadata": {}, "spec": {"containers": [{"name": "c", "ports": [{"port": 80}]}]}}
    ports: JSONObject = {'k:{ "protocol": "TCP", "port": 80 }': {}}
    sent = {
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": {'k:{"name": "c"}': {"f:ports": ports, "f:name": {}, ".": {}}}}},
        "manager": "bob",
        "operation": "Apply",
    }
    (entry,) = track_update(obj, {**obj, "metadata": {"managedFields": [sent]}}, schema, **WHO)
    assert json.dumps(entry["fieldsV1"]) == json.dumps(
        {
            "f:spec": {
                "f:containers": {
                    'k:{"name":"c"}': {".": {}, "f:name": {}, "f:ports": {'k:{"port":80,"protocol":"TCP"}': {}}}
                }
            }
        }
    )


@pytest.mark.parametrize(
    "entry",
    [
        "{manager: x, operation: Nope, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {}}",
        "{manager: x, operation: Apply, fieldsType: FieldsV1, fieldsV1: {}}",
        "{manager: x, operation: Apply, apiVersion: v1, fieldsV1: {}}",
        "{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV2, fieldsV1: {}}",
        "{manager: 5, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {}}",
        "{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'k:{': {}}}",
        "{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:a': 5}}",
        "{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'nonsense': {}}}",
        "text",
    ],
)
def test_owners_that_can_not_be_read_are_not_taken(story: Any, entry: str) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.updates("ctl", f"metadata: {{managedFields: [{entry}]}}\nspec: {{replicas: 1}}")
    assert [entry["manager"] for entry in story.entries] == ["ann"]


def test_the_updaters_that_were_quiet_for_longest_are_merged(story: Any) -> None:
    story.updates("u00", "spec: {raw: {}}")
    story.applies("ann", "metadata: {labels: {a: b}}")
    for number in range(1, 14):
        fields = ", ".join(f"k{n}: 1" for n in range(1, number + 1))
        story.updates(f"u{number:02}", f"metadata: {{labels: {{a: b}}}}\nspec: {{raw: {{{fields}}}}}")
    updaters = [entry["manager"] for entry in story.entries if entry["operation"] == "Update"]
    assert updaters == ["ancient-changes", *(f"u{number:02}" for number in range(5, 14))]
    assert story.owned("ancient-changes", "Update") == [
        ".spec",
        ".spec.raw",
        ".spec.raw.k1",
        ".spec.raw.k2",
        ".spec.raw.k3",
        ".spec.raw.k4",
    ]
    assert story.owned("ann") == [".metadata.labels.a"]


def test_who_writes_its_own_fields_again_gets_a_new_time_and_nothing_else(story: Any) -> None:
    story.updates("ctl", "spec: {replicas: 1, selector: {a: b}}")
    first = story.entry("ctl", "Update")
    story.updates("ctl", "spec: {replicas: 2, selector: {a: b}}")
    assert {**story.entry("ctl", "Update"), "time": ""} == {**first, "time": ""}


def test_who_writes_its_own_fields_again_takes_them_from_others(story: Any) -> None:
    story.updates("ctl", "spec: {replicas: 1, selector: {a: b}}")
    story.updates("other", "spec: {replicas: 2, selector: {a: c}}")
    story.updates("other", "spec: {replicas: 3, selector: {a: c}}")
    story.updates("ctl", "spec: {replicas: 4, selector: {a: c}}")
    story.updates("ctl", "spec: {replicas: 5, selector: {a: c}}")
    assert story.entry("other", "Update")["fieldsV1"] == {"f:spec": {"f:selector": {}}}
