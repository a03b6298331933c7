"""Taking fields from their owners."""

from typing import Any


def test_force_takes_the_field_from_its_owner(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, paused: true}")
    assert story.applies("bob", "spec: {replicas: 2}", force=True)["spec"] == {"replicas": 2, "paused": True}
    assert story.owned("ann") == [".spec.paused"]
    assert story.owned("bob") == [".spec.replicas"]


def test_an_owner_that_loses_everything_is_gone(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("bob", "spec: {replicas: 2}", force=True)
    assert [entry["manager"] for entry in story.entries] == ["bob"]


def test_force_without_a_conflict_shares(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("bob", "spec: {replicas: 1}", force=True)
    assert story.owned("ann") == story.owned("bob") == [".spec.replicas"]


def test_force_takes_one_list_item_and_leaves_the_rest(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, image: x}, {name: b, image: x}]}")
    story.applies("bob", "spec: {containers: [{name: b, image: y}]}", force=True)
    assert '.spec.containers[name="b"].image' not in story.owned("ann")
    assert '.spec.containers[name="a"].image' in story.owned("ann")
