"""Writes that change nothing."""

from typing import Any

FULL = "metadata: {labels: {a: b}}\nspec: {replicas: 1, zones: [x], containers: [{name: c, image: i}]}"


def test_applying_the_same_again_changes_nothing_at_all(story: Any) -> None:
    story.applies("ann", FULL)
    before = story.object
    story.applies("ann", FULL)
    assert story.object == before


def test_a_change_of_the_value_renews_the_time(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("ann", "spec: {replicas: 2}")
    assert story.entry("ann")["time"] == "2026-01-01T00:00:02Z"


def test_others_keep_their_time(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("bob", "spec: {paused: true}")
    assert story.entry("ann")["time"] == "2026-01-01T00:00:01Z"
    assert story.entry("bob")["time"] == "2026-01-01T00:00:02Z"


def test_who_only_joins_in_has_no_time(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("bob", "spec: {replicas: 1}")
    assert "time" not in story.entry("bob")


def test_an_update_to_the_same_leaves_owners_and_times(story: Any) -> None:
    story.updates("ctl", FULL)
    before = story.object
    story.updates("ctl", FULL)
    story.updates("other", FULL)
    assert story.object == before


def test_an_update_that_only_removes_makes_no_new_owner(story: Any) -> None:
    story.updates("ctl", "spec: {replicas: 1, paused: true}")
    story.updates("other", "spec: {replicas: 1}")
    assert story.entries == [
        {
            "manager": "ctl",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "time": "2026-01-01T00:00:01Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {".": {}, "f:replicas": {}}},
        }
    ]
