"""Strategic merge patch."""

import copy
import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSON, JSONObject
from echelon.hub.verbs.patch import merge_patch
from echelon.hub.verbs.strategic import strategic_merge
from echelon.kube.errors import BadRequest


def record(**fields: JSONObject) -> JSONObject:
    return {"type": "object", "properties": fields}


def by(key: str, **fields: JSONObject) -> JSONObject:
    return {
        "type": "array",
        "x-kubernetes-patch-merge-key": key,
        "items": record(**{key: {"type": "string"}, **fields}),
    }


STRINGS: JSONObject = {"type": "array", "items": {"type": "string"}}
SCHEMA = record(
    metadata=record(
        labels={"type": "object", "additionalProperties": {"type": "string"}},
        finalizers={**STRINGS, "x-kubernetes-list-type": "set"},
    ),
    spec=record(
        replicas={"type": "integer"},
        strategy=record(type={"type": "string"}, rolling=record(surge={"type": "integer"})),
        containers=by("name", env=by("name"), ports=by("port"), args=STRINGS),
        args=STRINGS,
        rules={"type": "array", "items": record(verbs=STRINGS)},
    ),
)


def merged(live: str, patch: str) -> Any:
    document, change = yaml.safe_load(live), yaml.safe_load(patch)
    before = copy.deepcopy((document, change))
    result = strategic_merge(document, change, SCHEMA)
    assert (document, change) == before
    return result


def containers(live: str, patch: str) -> list[str]:
    """Merge lists of containers that are named by single letters; return the names of the result."""
    document = {"spec": {"containers": [{"name": name, "image": name} for name in live]}}
    result = strategic_merge(document, {"spec": yaml.safe_load(patch)}, SCHEMA)
    return [item["name"] for item in result["spec"]["containers"]]


def test_maps_merge_and_null_deletes() -> None:
    live = "{metadata: {labels: {a: '1', b: '2'}}, spec: {replicas: 1}}"
    assert merged(live, "{metadata: {labels: {a: null, c: '3'}}}") == {
        "metadata": {"labels": {"b": "2", "c": "3"}},
        "spec": {"replicas": 1},
    }


def test_items_with_the_same_key_merge() -> None:
    live = "spec: {containers: [{name: a, image: x, env: [{name: k, value: v}]}, {name: b, image: y}]}"
    patch = "spec: {containers: [{name: a, env: [{name: l, value: w}, {name: k, value: new}]}]}"
    assert merged(live, patch)["spec"]["containers"] == [
        {"name": "a", "image": "x", "env": [{"name": "l", "value": "w"}, {"name": "k", "value": "new"}]},
        {"name": "b", "image": "y"},
    ]


def test_lists_without_a_key_are_replaced() -> None:
    assert merged("spec: {args: [a, b], rules: [{verbs: [x]}]}", "spec: {args: [c], rules: []}") == {
        "spec": {"args": ["c"], "rules": []}
    }


def test_sets_are_united() -> None:
    assert merged("metadata: {finalizers: [a, b]}", "metadata: {finalizers: [c, a, c]}") == {
        "metadata": {"finalizers": ["c", "a", "b"]}
    }


def test_new_values_lose_their_nulls() -> None:
    patch = "spec: {strategy: {type: null, rolling: {surge: 1}}, containers: [{name: a, image: null}]}"
    assert merged("{}", patch) == {"spec": {"strategy": {"rolling": {"surge": 1}}, "containers": [{"name": "a"}]}}


@pytest.mark.parametrize(
    ("live", "patch", "order"),
    [
        ("abc", "containers: [{name: b}, {name: z}]", "abzc"),
        ("abc", "containers: [{name: c}, {name: a}]", "bca"),
        ("abc", "containers: [{name: z}]", "zabc"),
        ("abc", "containers: []", "abc"),
        ("abcd", "{$setElementOrder/containers: [{name: d}, {name: b}]}", "acdb"),
        ("abc", "{$setElementOrder/containers: [{name: c}, {name: z}, {name: a}], containers: [{name: z}]}", "bcza"),
        ("abc", "{$setElementOrder/containers: [{name: a}, {name: b}, {name: c}]}", "abc"),
        ("", "{$setElementOrder/containers: [{name: y}, {name: x}], containers: [{name: y}, {name: x}]}", "yx"),
        ("abc", "containers: [{name: b, $patch: delete}]", "ac"),
        ("abc", "containers: [{name: none, $patch: delete}]", "abc"),
        ("abc", "containers: [{name: z}, {$patch: replace}]", "z"),
        ("abc", "{$setElementOrder/containers: [{name: c}, {name: a}], containers: [{name: b, $patch: delete}]}", "ca"),
    ],
)
def test_the_order_of_items(live: str, patch: str, order: str) -> None:
    assert "".join(containers(live, patch)) == order


def test_a_set_can_be_put_in_order() -> None:
    patch = "metadata: {$setElementOrder/finalizers: [c, new, a], finalizers: [new]}"
    assert merged("metadata: {finalizers: [a, b, c]}", patch)["metadata"]["finalizers"] == ["b", "c", "new", "a"]


def test_values_can_be_deleted_from_a_set() -> None:
    patch = "metadata: {$deleteFromPrimitiveList/finalizers: [a, z], finalizers: [c]}"
    assert merged("metadata: {finalizers: [a, b]}", patch)["metadata"] == {"finalizers": ["c", "b"]}
    assert merged("metadata: {}", "metadata: {$deleteFromPrimitiveList/finalizers: [a]}") == {"metadata": {}}


def test_a_map_can_be_replaced_deleted_or_merged() -> None:
    live = "spec: {replicas: 1, strategy: {type: x, rolling: {surge: 1}}}"
    assert merged(live, "spec: {strategy: {$patch: replace, type: y}}")["spec"]["strategy"] == {"type": "y"}
    assert merged(live, "spec: {strategy: {$patch: delete}}")["spec"]["strategy"] == {}
    assert merged(live, "spec: {strategy: {$patch: merge, type: y}}")["spec"]["strategy"] == {
        "type": "y",
        "rolling": {"surge": 1},
    }
    assert merged("spec: {}", "spec: {strategy: {$patch: delete}}") == {"spec": {}}


def test_keys_can_be_retained() -> None:
    live = "spec: {strategy: {type: RollingUpdate, rolling: {surge: 1}}}"
    patch = "spec: {strategy: {$retainKeys: [type], type: Recreate}}"
    assert merged(live, patch) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_directives_never_reach_the_object() -> None:
    patch = """
    spec:
      strategy: {$retainKeys: [type], type: x}
      $setElementOrder/containers: [{name: a}]
      containers: [{name: a, $setElementOrder/env: [{name: k}], env: [{name: k}]}, {name: b, $patch: delete}]
    """
    assert merged("{}", patch) == {
        "spec": {"strategy": {"type": "x"}, "containers": [{"name": "a", "env": [{"name": "k"}]}]}
    }


def test_items_that_share_a_key_are_all_kept() -> None:
    live = "spec: {containers: [{name: a, ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}]}"
    patch = "spec: {containers: [{name: a, ports: [{port: 53, hostPort: 1}, {port: 80}]}]}"
    assert merged(live, patch)["spec"]["containers"][0]["ports"] == [
        {"port": 53, "protocol": "TCP", "hostPort": 1},
        {"port": 53, "protocol": "UDP"},
        {"port": 80},
    ]


def test_what_changes_its_type_is_replaced() -> None:
    assert merged("spec: {strategy: text}", "spec: {strategy: {type: x}}") == {"spec": {"strategy": {"type": "x"}}}
    assert merged("spec: {strategy: {type: x}}", "spec: {strategy: 5}") == {"spec": {"strategy": 5}}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            "spec: {containers: [{image: y}]}",
            "spec.containers: map: map[image:y] does not contain declared merge key: name",
        ),
        ("spec: {containers: [{name: [x]}]}", "spec.containers: lists of lists are not supported"),
        ("spec: {containers: [{name: {}}]}", "spec.containers: cannot merge lists without merge key"),
        (
            "spec: {containers: [{$patch: delete}]}",
            "spec.containers: map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            "spec: {containers: [{name: a, $patch: merge}]}",
            "spec.containers: merging lists cannot yet be specified in the patch",
        ),
        (
            "spec: {containers: [{name: a, $patch: foo}]}",
            "spec.containers: unknown patch type: foo in map: map[$patch:foo name:a]",
        ),
        ("spec: {containers: [text]}", "spec.containers: list element types are not identical"),
        ("spec: {$patch: foo}", "spec: unknown patch type: foo in map: map[$patch:foo]"),
        ("spec: {$retainKeys: 5}", "spec: invalid patch format of retainKeys"),
        ("spec: {$retainKeys: [replicas], paused: true}", "spec: invalid patch format of retainKeys"),
        ("spec: {$setElementOrder/containers: 5}", "spec.containers: invalid patch format of setElementOrder list"),
        ("spec: {$setElementOrder: []}", "spec: invalid patch format of setElementOrder list"),
        ("metadata: {$deleteFromPrimitiveList: [a]}", "metadata: invalid patch format of primitive list"),
        (
            "spec: {$setElementOrder/containers: [{name: q}], containers: [{name: z}]}",
            "spec.containers: The order in patch list doesn't match $setElementOrder list",
        ),
        ("metadata: {finalizers: [[a]]}", "metadata.finalizers: lists of lists are not supported"),
        ("[1]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_mistakes_are_named_with_their_place(patch: str, why: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        merged("{metadata: {finalizers: [a]}, spec: {containers: [{name: a}]}}", patch)
    assert refusal.value.message == why


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text("ab", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner.filter(lambda item: item is not None), max_size=2),
        st.dictionaries(st.text("abc", min_size=1, max_size=1), inner, max_size=3),
    ),
    max_leaves=6,
)
objects = st.dictionaries(st.text("abc", min_size=1, max_size=1), values, max_size=3)


def nulls_in_lists(value: JSON, inside: bool = False) -> bool:
    if isinstance(value, dict):
        return any((inside and item is None) or nulls_in_lists(item, inside) for item in value.values())
    return isinstance(value, list) and any(nulls_in_lists(item, True) for item in value)


@given(objects, objects.filter(lambda patch: not nulls_in_lists(patch)))
def test_without_merge_keys_it_is_a_merge_patch(live: JSON, patch: JSON) -> None:
    assert json.dumps(strategic_merge(live, patch, {}), sort_keys=True) == json.dumps(
        merge_patch(live, patch), sort_keys=True
    )


names = st.lists(st.sampled_from("abcdef"), max_size=5, unique=True)


@given(names, names)
def test_no_item_is_lost_and_the_patch_keeps_its_order(live: list[str], patch: list[str]) -> None:
    document = {"spec": {"containers": [{"name": name, "image": "old"} for name in live]}}
    change = {"spec": {"containers": [{"name": name, "image": "new"} for name in patch]}}
    result = strategic_merge(document, change, SCHEMA)["spec"]["containers"]
    order = [item["name"] for item in result]
    assert sorted(order) == sorted({*live, *patch})
    assert [name for name in order if name in patch] == patch
    assert [name for name in order if name not in patch] == [name for name in live if name not in patch]
    assert all(item["image"] == ("new" if item["name"] in patch else "old") for item in result)


def test_a_long_name_costs_nothing_more_for_what_is_below_it() -> None:
    def cost(length: int) -> float:
        name, below = "k" * length, {str(number): 1 for number in range(20_000)}
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            strategic_merge({"data": {name: {"a": 1}}}, {"data": {name: below}}, {})
            best = min(best, time.process_time() - began)
        return best

    assert cost(500_000) < 10 * cost(500)
