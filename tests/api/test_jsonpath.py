from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api import jsonpath
from echelon.api.jsonpath import JSONPathError

OBJECT: dict[str, Any] = {
    "metadata": {"annotations": {"example.com/owner": "ops"}},
    "spec": {"replicas": 3, "paused": False, "ports": [80, 443]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "weight": 1, "since": {"day": "Mon"}},
            {"type": "Synced", "status": "False", "weight": 2.5, "firm": True},
            {"status": "Lost", "parts": [{"name": "disk", "ok": False}]},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        ("$.spec.replicas", [3]),
        ("['spec'][\"replicas\"]", [3]),
        (".spec.paused", [False]),
        (".spec.nothing.here", []),
        (".spec.replicas.deeper", []),
        (".spec.ports[1]", [443]),
        (".spec.ports[-1]", [443]),
        (".spec.ports[2]", []),
        (".spec.ports[-2]", [80]),
        (".spec.ports[-3]", []),
        (".spec.ports[*]", [80, 443]),
        (".spec[*]", []),
        (".metadata.annotations.*", ["ops"]),
        (r".metadata.annotations.example\.com/owner", ["ops"]),
        (".metadata.annotations['example.com/owner']", ["ops"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        (".status.conditions[?(@['type']=='Synced')].status", ["False"]),
        ('.status.conditions[?(@.since.day=="Mon")].type', ["Ready"]),
        (".status.conditions[?(@.weight==1)].type", ["Ready"]),
        (".status.conditions[?(@.weight==2.5)].type", ["Synced"]),
        (".status.conditions[?(@.firm==true)].type", ["Synced"]),
        (".status.conditions[?(@.firm==1)].type", []),
        (".status.conditions[?(@.weight==true)].type", []),
        (".status.conditions[?(@.parts)].status", ["Lost"]),
        (".status.conditions[?(@.parts[0].name=='disk')].status", ["Lost"]),
        (".status.conditions[?(@.parts[?(@.ok==false)].name=='disk')].status", ["Lost"]),
        (".status.conditions[*].type", ["Ready", "Synced"]),
        ('.spec[?(@.type=="Ready")]', []),
        (r".spec['it\'s']", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[Any]) -> None:
    assert jsonpath.compile(path).find(OBJECT) == found


@pytest.mark.parametrize(
    ("path", "position", "problem"),
    [
        ("", 0, "expected . or ["),
        ("spec", 0, 'unexpected "s"'),
        (".", 1, "expected the name of a field"),
        (".spec.", 6, "expected the name of a field"),
        (".spec..x", 5, "recursive descent is not supported"),
        (".spec x", 5, 'unexpected " "'),
        (".a[", 3, "unexpected the end"),
        (".a[0", 4, "expected ], found the end"),
        (".a[0:2]", 4, 'expected ], found ":"'),
        (".a[0,1]", 4, 'expected ], found ","'),
        (".a['b", 3, "this quote is never closed"),
        (".a\\", 3, "nothing after the backslash"),
        (".a[?(type=='x')]", 5, 'expected @, found "t"'),
        (".a[?(@.b=~'x')]", 8, "expected ==, != or )"),
        (".a[?(@.b==c)]", 10, 'unexpected "c"'),
        (".a[?(@.b==1]", 11, 'expected ), found "]"'),
        (".a[?(@[?(@[?(@[?(@[?(@.x)])])])])]", 21, "filters nested deeper than 4"),
        (".a[1111111111111111111]", 21, 'expected ], found "1"'),
    ],
)
def test_a_mistake_in_a_path_is_named_with_its_position(path: str, position: int, problem: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        jsonpath.compile(path)
    assert caught.value.position == position
    assert str(caught.value) == f'invalid path "{path}": {problem} at position {position}'


def test_a_path_has_a_longest_length() -> None:
    assert jsonpath.compile("." + "a" * 1023).simple
    with pytest.raises(JSONPathError, match="longer than 1024 characters"):
        jsonpath.compile("." + "a" * 1024)


def test_a_simple_path_gets_one_value() -> None:
    assert jsonpath.compile(".spec.replicas").get(OBJECT) == 3
    assert jsonpath.compile(".spec.paused").get(OBJECT) is False
    assert jsonpath.compile(".spec.replicas.deeper").get(OBJECT) is None
    assert jsonpath.compile(".nothing.here").get(OBJECT) is None


@pytest.mark.parametrize("path", [".spec.ports[0]", ".spec.ports[*]", ".spec.*", ".a[?(@.b)]"])
def test_only_a_path_from_field_to_field_is_simple(path: str) -> None:
    compiled = jsonpath.compile(path)
    assert not compiled.simple
    with pytest.raises(JSONPathError, match="from field to field"):
        compiled.get(OBJECT)
    with pytest.raises(JSONPathError, match="from field to field"):
        compiled.set(OBJECT, 1)


def test_setting_leaves_the_old_object_alone_and_shares_the_rest() -> None:
    changed = jsonpath.compile(".spec.replicas").set(OBJECT, 5)
    assert changed["spec"] == {"replicas": 5, "paused": False, "ports": [80, 443]}
    assert OBJECT["spec"]["replicas"] == 3
    assert changed["status"] is OBJECT["status"]
    assert changed["spec"]["ports"] is OBJECT["spec"]["ports"]


def test_setting_makes_what_is_missing_on_the_way() -> None:
    assert jsonpath.compile(".status.replicas.now").set({"status": None}, 1) == {"status": {"replicas": {"now": 1}}}


FIELDS = st.sampled_from(["a", "b", "c"])
OBJECTS = st.recursive(st.integers() | st.none(), lambda inner: st.dictionaries(FIELDS, inner), max_leaves=12)


@given(st.dictionaries(FIELDS, OBJECTS), st.lists(FIELDS, min_size=1, max_size=4), st.integers())
def test_what_was_set_is_found(obj: dict[str, Any], names: list[str], value: int) -> None:
    path = jsonpath.compile("." + ".".join(names))
    changed = path.set(obj, value)
    assert path.get(changed) == value
    assert path.find(changed) == [value]
    assert {key: inner for key, inner in changed.items() if key != names[0]} == {
        key: inner for key, inner in obj.items() if key != names[0]
    }


def position_of_mistake(path: str) -> int:
    try:
        jsonpath.compile(path).find(OBJECT)
    except JSONPathError as error:
        return error.position
    return 0


@given(st.text(alphabet=".[]?(@)='\"*a0-\\$! "))
def test_any_text_is_a_path_or_a_path_error(text: str) -> None:
    assert 0 <= position_of_mistake(text) <= len(text)
