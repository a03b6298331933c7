"""Equal parts of objects, held once: nobody may be able to tell, except by looking at the memory."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.hub.storage import sharing
from echelon.hub.storage.sharing import shared, with_shared_parts

# Few names and values, so that much is equal; among them some that Python takes for equal and JSON does not.
SCALARS = st.sampled_from([None, True, False, 0, 1, 0.0, 1.0, -0.0, "", "1", "true"])
NAMES = st.sampled_from(["a", "b", "c", "metadata"])
PARTS = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3), max_leaves=8
)
OBJECTS = st.builds(
    lambda parts, about, owners: {**parts, "metadata": {**about, "managedFields": owners}},
    st.dictionaries(NAMES, PARTS, max_size=3),
    st.dictionaries(NAMES, PARTS, max_size=3),
    st.lists(st.dictionaries(NAMES, PARTS, max_size=2), max_size=2),
)


def text(value: Any) -> bytes:
    return msgspec.json.encode(value)


@given(st.lists(OBJECTS, max_size=6), st.sampled_from([2, 7, 32_768]))
def test_an_object_reads_as_it_was_written_whatever_it_shares(objects: list[dict[str, Any]], most: int) -> None:
    wanted = [text(each) for each in objects]
    held: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "_MOST_PARTS", most)
        for each in objects:
            held.append(with_shared_parts(each, held[-1] if held else None))
    assert [text(each) for each in held] == wanted
    assert [text(each) for each in objects] == wanted


@given(PARTS.filter(lambda part: isinstance(part, dict | list)))
def test_equal_parts_are_one(part: Any) -> None:
    first = shared(copy.deepcopy(part))
    assert shared(copy.deepcopy(part)) is first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": None}, {}),
        ({"a": {}}, {"a": []}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_what_reads_differently_is_not_shared(one: Any, other: Any) -> None:
    assert text(shared(one)) == text(one)
    assert text(shared(other)) == text(other)


def test_parts_of_different_wholes_are_shared() -> None:
    ready = {"type": "Ready", "status": "True"}
    one = shared({"conditions": [dict(ready)], "address": "10.0.0.1"})
    conditions = [dict(ready)]
    mine = {"conditions": conditions, "address": "10.0.0.2"}
    other = shared(mine)
    assert one["conditions"] is other["conditions"]
    assert mine["conditions"] is conditions  # the writer's own stays as it is
    assert (one["address"], other["address"]) == ("10.0.0.1", "10.0.0.2")


def test_owners_of_the_same_fields_share_them_whenever_they_wrote() -> None:
    def written(time: str) -> dict[str, Any]:
        return {"metadata": {"managedFields": [{"time": time, "fieldsV1": {"f:data": {"f:a": {}}}}]}}

    one, other = (with_shared_parts(written(time), None)["metadata"]["managedFields"][0] for time in ("1", "2"))
    assert one["fieldsV1"] is other["fieldsV1"]
    assert (one["time"], other["time"]) == ("1", "2")


def test_a_long_list_is_not_kept_and_its_items_are_shared() -> None:
    def clusters() -> list[dict[str, Any]]:
        return [{"name": f"cluster-{number}", "state": "Succeeded"} for number in range(100)]

    one, other = shared(clusters()), shared(clusters())
    assert one is not other
    assert all(a is b for a, b in zip(one, other, strict=True))


def test_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MOST_PARTS", 100)
    for number in range(1_000):
        shared({"number": number})
    assert len(sharing._known) <= 100
