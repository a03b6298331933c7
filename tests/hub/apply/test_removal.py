"""What a manager no longer states."""

from typing import Any


def test_what_was_applied_and_is_no_longer_stated_is_removed(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, paused: true}")
    assert story.applies("ann", "spec: {replicas: 1}") == {"spec": {"replicas": 1}}
    assert story.owned("ann") == [".spec.replicas"]


def test_a_field_that_another_owns_stays(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("bob", "spec: {replicas: 1}")
    assert story.applies("ann", "") == {"spec": {"replicas": 1}}
    assert [entry["manager"] for entry in story.entries] == ["bob"]
    assert story.applies("bob", "") == {}


def test_named_parents_go_with_their_last_field(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, strategy: {rolling: {surge: 1}}}")
    assert story.applies("ann", "spec: {replicas: 1}") == {"spec": {"replicas": 1}}


def test_a_field_that_nobody_owns_stays(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, strategy: {rolling: {surge: 1}}}")
    story.object["spec"]["paused"] = True  # as a default would be filled in
    assert story.applies("ann", "spec: {replicas: 1}")["spec"] == {"replicas": 1, "paused": True}


def test_what_nobody_owns_goes_with_the_named_field_around_it(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, strategy: {rolling: {surge: 1}}}")
    story.object["spec"]["strategy"]["rolling"]["unavailable"] = 3
    assert story.applies("ann", "spec: {replicas: 1}")["spec"] == {"replicas": 1}


def test_a_map_that_another_created_stays_when_it_is_empty(story: Any) -> None:
    story.updates("ctl", "metadata: {labels: {a: '1'}}")
    story.applies("ann", "metadata: {labels: {b: '2'}}")
    story.updates("ctl", "metadata: {labels: {b: '2'}}")
    assert story.applies("ann", "") == {"metadata": {"labels": {}}}
    assert story.owned("ctl", "Update") == [".metadata.labels"]


def test_applying_nothing_at_all_removes_all_that_was_applied(story: Any) -> None:
    story.applies("ann", "metadata: {labels: {a: '1'}}\nspec: {zones: [a], containers: [{name: c}], raw: {x: {y: 1}}}")
    assert story.applies("ann", "") == {}
    assert story.entries == []


def test_what_an_update_removes_has_no_owner(story: Any) -> None:
    story.applies("ann", "metadata: {labels: {a: '1', b: '2'}}")
    story.updates("ctl", "metadata: {labels: {b: '2'}}")
    assert story.owned("ann") == [".metadata.labels.b"]
    assert [entry["manager"] for entry in story.entries] == ["ann"]
