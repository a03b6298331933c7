"""Lists whose items are told apart by keys."""

from typing import Any


def names(content: Any) -> list[str]:
    return [item["name"] for item in content["spec"]["containers"]]


def test_items_and_their_keys_are_owned(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, image: x}]}")
    assert story.entry("ann")["fieldsV1"] == {
        "f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}}}
    }


def test_two_managers_have_items_of_their_own(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, image: x}]}")
    assert names(story.applies("bob", "spec: {containers: [{name: b, image: y}]}")) == ["a", "b"]
    assert names(story.applies("ann", "spec: {containers: [{name: c, image: x}]}")) == ["b", "c"]


def test_two_managers_share_an_item(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, image: x}]}")
    story.applies("bob", "spec: {containers: [{name: a, args: [v]}]}")
    assert story.content["spec"]["containers"] == [{"name": "a", "image": "x", "args": ["v"]}]
    assert story.applies("ann", "")["spec"]["containers"] == [{"name": "a", "args": ["v"]}]


def test_an_item_goes_with_what_nobody_owns_in_it(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, containers: [{name: a, image: x}]}")
    story.object["spec"]["containers"][0]["args"] = ["default"]
    assert story.applies("ann", "spec: {replicas: 1}") == {"spec": {"replicas": 1}}


def test_an_item_goes_though_an_updater_has_set_a_field_in_it(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, image: x}, {name: b, image: x}]}")
    story.updates("ctl", "spec: {containers: [{name: a, image: x, args: [v]}, {name: b, image: x}]}")
    assert names(story.applies("ann", "spec: {containers: [{name: b, image: x}]}")) == ["b"]
    assert story.owned("ctl", "Update") == []


def test_an_item_that_an_updater_created_stays(story: Any) -> None:
    story.updates("ctl", "spec: {containers: [{name: a, image: x}]}")
    story.applies("ann", "spec: {containers: [{name: a, image: x, args: [v]}]}")
    assert story.applies("ann", "")["spec"]["containers"] == [{"name": "a", "image": "x"}]


def test_the_order_of_the_configuration_wins_among_its_items(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a}, {name: b}, {name: c}]}")
    story.applies("bob", "spec: {containers: [{name: x}, {name: c}, {name: a}]}")
    assert names(story.content) == ["b", "x", "c", "a"]


def test_items_of_others_stay_in_front_of_what_they_were_in_front_of(story: Any) -> None:
    story.updates("ctl", "spec: {containers: [{name: s1}, {name: a}, {name: s2}, {name: b}, {name: s3}]}")
    story.applies("ann", "spec: {containers: [{name: a}, {name: n}, {name: b}]}")
    assert names(story.content) == ["s1", "a", "s2", "n", "b", "s3"]


def test_a_duplicate_in_a_configuration_is_refused(story: Any) -> None:
    refusal = story.refused("ann", "spec: {containers: [{name: a}, {name: a}]}")
    assert refusal.message == (
        "failed to create typed patch object (/web; apps/v1, Kind=Deployment): "
        '.spec.containers: duplicate entries for key [name="a"]'
    )


def test_an_item_without_its_key_is_refused(story: Any) -> None:
    assert story.refused("ann", "spec: {containers: [{image: x}]}").message.endswith(
        ".spec.containers: element 0: associative list with keys has an element that omits all key fields "
        '["name"] (and doesn\'t have default values for any key fields)'
    )


def test_duplicates_that_are_stored_already_are_one_thing(story: Any) -> None:
    story.updates("ctl", "spec: {containers: [{name: a, image: x}, {name: a, image: y}]}")
    assert '.spec.containers[name="a"].image' not in story.owned("ctl", "Update")
    story.applies("ann", "spec: {containers: [{name: a, image: z}]}", force=True)
    assert story.content["spec"]["containers"] == [{"name": "a", "image": "z"}]
