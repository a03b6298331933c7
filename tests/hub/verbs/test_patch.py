"""JSON patch and merge patch."""

import copy
import json
import operator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelon.api.base import JSON
from echelon.hub.verbs.patch import json_patch, merge_patch
from echelon.kube.errors import ApiError, BadRequest, Invalid, TooLarge

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text("ab", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "~", "/", "0"]), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "~", "/", "0"]), values, max_size=4)


def test_every_operation() -> None:
    patched = json_patch(
        {"a": {"b": [1, 2]}, "c": 1, "d": {}},
        [
            {"op": "test", "path": "/a/b/1", "value": 2},
            {"op": "add", "path": "/a/b/0", "value": 0},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "replace", "path": "/c", "value": 2},
            {"op": "copy", "from": "/a/b", "path": "/d/list"},
            {"op": "remove", "path": "/d/list/0"},
            {"op": "move", "from": "/c", "path": "/e"},
        ],
    )
    assert patched == {"a": {"b": [0, 1, 2, 3]}, "d": {"list": [1, 2, 3]}, "e": 2}


def test_names_are_unescaped_once() -> None:
    assert json_patch({"a/b": 1, "~1": 2}, [{"op": "remove", "path": "/a~1b"}]) == {"~1": 2}
    assert json_patch({"a/b": 1, "~1": 2}, [{"op": "remove", "path": "/~01"}]) == {"a/b": 1}


def test_an_empty_name_is_a_name() -> None:
    assert json_patch({}, [{"op": "add", "path": "/", "value": 1}]) == {"": 1}


def test_replacing_a_missing_member_sets_it() -> None:
    assert json_patch({"a": {}}, [{"op": "replace", "path": "/a/b", "value": 1}]) == {"a": {"b": 1}}


def test_a_missing_member_is_null_to_a_test() -> None:
    assert json_patch({"a": {}}, [{"op": "test", "path": "/a/b", "value": None}]) == {"a": {}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/flag", "value": 1},
        {"op": "test", "path": "/list", "value": [2, 1]},
        {"op": "test", "path": "/none/b", "value": None},
        {"op": "remove", "path": "/none"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/list/2"},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": "/list/-1"},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "add", "path": "/none/b", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "/list/٣", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/new"},
        {"op": "add", "path": "", "value": [1]},
        {"op": "add", "value": 1},
        {"op": "move", "from": "/none", "path": "/b"},
        {"op": "move", "from": "/map", "path": "/map/inside"},
        {"op": "move", "path": "/b"},
        {"op": "copy", "from": "/none", "path": "/b"},
        {"op": "turn", "path": "/a"},
        {"path": "/a"},
        {"op": "add", "path": "/x" * 101, "value": 1},
    ],
)
def test_what_does_not_fit_the_object_is_invalid(operation: JSON) -> None:
    document = {"a": 1, "flag": True, "list": [1, 2], "map": {}}
    with pytest.raises(Invalid) as refusal:
        json_patch(document, [operation])
    assert refusal.value.message == "the server rejected our request due to an error in our request"
    assert document == {"a": 1, "flag": True, "list": [1, 2], "map": {}}


@pytest.mark.parametrize(
    "patch", [{"a": 1}, None, "x", [5], [None], [{"op": 1, "path": ""}], [{"op": "add", "path": 5}]]
)
def test_what_is_no_patch_is_a_bad_request(patch: JSON) -> None:
    with pytest.raises(BadRequest, match="error decoding patch: json: cannot unmarshal"):
        json_patch({}, patch)


def test_too_many_operations() -> None:
    operation = {"op": "add", "path": "/a", "value": 1}
    assert json_patch({}, [operation] * 10_000) == {"a": 1}
    with pytest.raises(TooLarge) as refusal:
        json_patch({}, [operation] * 10_001)
    text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert refusal.value.message == text


def test_copies_that_double_the_document_end() -> None:
    patch = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 20
    with pytest.raises(Invalid):
        json_patch({"a": ["some text"]}, patch)


def test_moves_that_nest_the_document_end() -> None:
    deeper = [{"op": "add", "path": "/b", "value": {}}, {"op": "move", "from": "/a", "path": "/b/a"}]
    with pytest.raises(Invalid):
        json_patch({"a": {}}, [*deeper, {"op": "move", "from": "/b", "path": "/a"}] * 3000)


def test_nothing_moves_into_itself() -> None:
    with pytest.raises(Invalid):
        json_patch({"list": [{}, {}]}, [{"op": "move", "from": "/list/0", "path": "/list/0/inside"}])


def test_a_copy_and_its_original_go_their_own_ways() -> None:
    patch = [
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/y", "value": 2},
        {"op": "add", "path": "/a/z", "value": 3},
    ]
    assert json_patch({"a": {}}, patch) == {"a": {"x": 1, "z": 3}, "b": {"x": 1, "y": 2}}


def test_a_value_of_the_patch_is_not_written_to() -> None:
    patch: JSON = [{"op": "add", "path": "/a", "value": {}}, {"op": "add", "path": "/a/b", "value": 1}]
    assert json_patch({}, patch) == json_patch({}, patch) == {"a": {"b": 1}}
    assert patch[0]["value"] == {}


def pointers(document: JSON, prefix: str = "") -> list[str]:
    """All places of a document, and some that are not there."""
    found = [prefix]
    if isinstance(document, dict):
        for key, value in document.items():
            found += pointers(value, f"{prefix}/{key.replace('~', '~0').replace('/', '~1')}")
        found.append(f"{prefix}/new")
    if isinstance(document, list):
        for index, value in enumerate(document):
            found += pointers(value, f"{prefix}/{index}")
        found += [f"{prefix}/-", f"{prefix}/{len(document)}"]
    return found


def naive(document: JSON, operation: JSON) -> JSON:
    """RFC 6902 as one would write it on paper: on a copy of everything, one operation at a time."""
    holder = {"root": copy.deepcopy(document)}

    def resolve(path: str) -> tuple[Any, Any]:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")]
        node, last = holder, tokens.pop()
        for depth, token in enumerate([*tokens, last]):
            key: Any = "root" if depth == 0 else token
            if isinstance(node, list) and key != "-":
                key = int(key)
            if depth == len(tokens):
                return node, key
            node = node[key]
        raise AssertionError

    def take(path: str) -> Any:
        node, key = resolve(path)
        value = node[key]
        if node is holder:
            raise KeyError(path)
        del node[key]
        return value

    def put(path: str, value: Any) -> None:
        node, key = resolve(path)
        if isinstance(node, list):
            if key != "-" and key > len(node):
                raise IndexError(key)
            node.insert(len(node) if key == "-" else key, value)
        else:
            operator.setitem(node, key, value)

    match operation["op"]:
        case "add":
            put(operation["path"], operation["value"])
        case "remove":
            take(operation["path"])
        case "move":
            if f"{operation['path']}/".startswith(f"{operation['from']}/") and operation["path"] != operation["from"]:
                raise KeyError
            put(operation["path"], take(operation["from"]))
        case "copy":
            node, key = resolve(operation["from"])
            put(operation["path"], copy.deepcopy(node[key]))
    if not isinstance(holder["root"], dict):
        raise TypeError
    return holder["root"]


@settings(deadline=None)
@given(objects, st.data())
def test_patches_do_what_the_model_does(document: JSON, data: st.DataObject) -> None:
    before = json.dumps(document)
    expected: JSON = document
    operations = []
    for _ in range(data.draw(st.integers(1, 4))):
        places = st.sampled_from(pointers(expected))
        operation: JSON = {
            "op": data.draw(st.sampled_from(["add", "remove", "move", "copy"])),
            "path": data.draw(places),
        }
        if operation["op"] == "add":
            operation["value"] = data.draw(values)
        elif operation["op"] != "remove":
            operation["from"] = data.draw(places)
        operations.append(operation)
        try:
            expected = naive(expected, operation)
        except (LookupError, TypeError, ValueError):
            with pytest.raises(ApiError):
                json_patch(document, operations)
            return
    assert json_patch(document, operations) == expected
    assert json.dumps(document) == before


def test_merge_sets_and_removes() -> None:
    live = {"title": "x", "author": {"given": "a", "family": "b"}, "tags": ["1", "2"], "content": "c"}
    patch = {"title": "y", "phone": "1", "author": {"family": None}, "tags": ["3"]}
    assert merge_patch(live, patch) == {
        "title": "y",
        "author": {"given": "a"},
        "tags": ["3"],
        "content": "c",
        "phone": "1",
    }


@pytest.mark.parametrize(
    ("live", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "text"}, {"a": {"b": {"c": 1, "d": None}}}, {"a": {"b": {"c": 1}}}),
    ],
)
def test_merges_of_the_standard(live: JSON, patch: JSON, result: JSON) -> None:
    assert merge_patch(live, patch) == result


def difference(old: JSON, new: JSON) -> JSON:
    """The merge patch that makes `new` of `old`."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    said = {key: difference(old.get(key), value) for key, value in new.items()}
    return {**said, **{key: None for key in old if key not in new}}


def without_nulls(value: JSON) -> JSON:
    """A merge patch can't say that a member is null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


@given(objects, objects)
def test_a_difference_leads_from_one_object_to_the_other(old: JSON, new: JSON) -> None:
    before, wanted = copy.deepcopy(old), without_nulls(new)
    patched = merge_patch(old, difference(old, wanted))
    assert json.dumps(patched, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    assert old == before


@given(objects, objects)
def test_merging_twice_is_merging_once(live: JSON, patch: JSON) -> None:
    once = merge_patch(live, patch)
    assert merge_patch(once, patch) == once


@given(objects)
def test_an_empty_merge_changes_nothing(live: JSON) -> None:
    assert merge_patch(live, {}) == live


@pytest.mark.parametrize("patch", [None, [], "x", 5, True])
def test_what_is_no_map_is_no_merge_patch(patch: JSON) -> None:
    with pytest.raises(BadRequest):
        merge_patch({}, patch)
