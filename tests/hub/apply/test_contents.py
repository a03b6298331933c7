"""What an object has, and how two objects differ."""

from echelon.api.base import JSONObject
from echelon.hub.apply import apply, changed, field_set_of


def test_an_object_states_its_leaves(schema: JSONObject) -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "K",
        "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c"}],
            "zones": ["z"],
            "args": [],
            "selector": {},
            "regions": {"eu": {}},
            "sizes": [],
            "paused": None,
        },
    }
    assert sorted(field_set_of(obj, schema)) == [
        ".metadata.labels.a",
        ".spec.args",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].name',
        ".spec.paused",
        ".spec.regions.eu",
        ".spec.selector",
        '.spec.zones[="z"]',
    ]


def test_duplicates_are_stated_as_one_thing(schema: JSONObject) -> None:
    twins = [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]
    assert list(field_set_of({"spec": {"containers": twins}}, schema)) == ['.spec.containers[name="a"]']


def test_below_preserved_fields_everything_is_preserved() -> None:
    inner = {"type": "object", "properties": {"known": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"inner": inner},
            }
        },
    }
    obj = {"apiVersion": "v1", "kind": "K", "metadata": {}, "spec": {"inner": {"other": {"a": 1}}}}
    result = apply(None, obj, schema, manager="m", api_version="v1", subresource="", force=False, now="")
    assert result["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:spec": {"f:inner": {"f:other": {".": {}, "f:a": {}}}}
    }


def test_changes_and_removals(schema: JSONObject) -> None:
    old = {"spec": {"replicas": 1, "paused": True, "zones": ["a", "b"], "strategy": {"type": "x"}}}
    new = {"spec": {"replicas": 2, "paused": True, "zones": ["b", "c"], "containers": [{"name": "c"}]}}
    changes, removals = changed(old, new, schema)
    assert sorted(changes) == [
        ".spec.containers",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].name',
        ".spec.replicas",
        '.spec.zones[="c"]',
    ]
    assert sorted(removals) == [".spec.strategy", ".spec.strategy.type", '.spec.zones[="a"]']


def test_numbers_are_equal_in_both_notations_and_booleans_are_no_numbers(schema: JSONObject) -> None:
    old = {"spec": {"raw": {"a": 1, "b": [True, {"c": 0}], "d": 2}}}
    new = {"spec": {"raw": {"a": 1.0, "b": [1, {"c": False}], "d": 2.0}}}
    changes, removals = changed(old, new, schema)
    assert list(changes) == [".spec.raw.b"]
    assert removals.is_empty


def test_null_is_like_an_empty_container(schema: JSONObject) -> None:
    changes, removals = changed({"spec": {"regions": None}}, {"spec": {"regions": {"eu": {"weight": 1}}}}, schema)
    assert list(changes) == [".spec.regions.eu", ".spec.regions.eu.weight"]
    changes, removals = changed({"spec": {"zones": ["a"]}}, {"spec": {"zones": None}}, schema)
    assert (list(changes), list(removals)) == ([], ['.spec.zones[="a"]'])


def test_a_map_that_becomes_a_value_loses_its_fields(schema: JSONObject) -> None:
    changes, removals = changed({"spec": {"raw": {"a": {"b": 1}}}}, {"spec": {"raw": {"a": 5}}}, schema)
    assert (list(changes), list(removals)) == ([".spec.raw.a"], [".spec.raw.a.b"])


def test_duplicates_that_come_and_go(schema: JSONObject) -> None:
    one = {"spec": {"containers": [{"name": "a", "image": "x"}]}}
    two = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]}}
    item = '.spec.containers[name="a"]'
    changes, removals = changed(one, two, schema)
    assert (list(changes), sorted(removals)) == ([item], [item, f"{item}.image", f"{item}.name"])
    changes, removals = changed(two, one, schema)
    assert (sorted(changes), list(removals)) == ([item, f"{item}.image", f"{item}.name"], [item])
    assert [field.is_empty for field in changed(two, two, schema)] == [True, True]


def test_list_items_that_have_no_key_make_the_list_one_thing(schema: JSONObject) -> None:
    changes, _ = changed({"spec": {"containers": []}}, {"spec": {"containers": [{"image": "x"}]}}, schema)
    assert list(changes) == [".spec.containers"]
