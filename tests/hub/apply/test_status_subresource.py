"""What can be owned through which endpoint."""

from typing import Any

from echelon.hub.apply import reset_fields

MAIN = reset_fields("", has_status=True)
STATUS = reset_fields("status", has_status=True)


def test_status_is_not_owned_through_the_object(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}\nstatus: {phase: x}", reset=MAIN)
    assert story.owned("ann") == [".spec.replicas"]


def test_status_is_owned_through_the_object_of_a_kind_without_the_subresource(story: Any) -> None:
    story.applies("ann", "status: {phase: x}", reset=reset_fields("", has_status=False))
    assert story.owned("ann") == [".status.phase"]


def test_only_status_is_owned_through_the_subresource(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}", reset=MAIN)
    config = "metadata: {labels: {a: b}}\nspec: {replicas: 2}\nstatus: {conditions: [{type: Ready, status: 'True'}]}"
    story.applies("ctl", config, subresource="status", reset=STATUS)
    ready = '.status.conditions[type="Ready"]'
    assert story.owned("ctl", subresource="status") == [ready, f"{ready}.status", f"{ready}.type"]
    assert story.owned("ann") == [".spec.replicas"]


def test_the_entry_names_the_subresource(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}", reset=MAIN)
    story.applies("ann", "status: {phase: x}", subresource="status", reset=STATUS)
    assert list(story.entry("ann", subresource="status")) == [
        "manager",
        "operation",
        "apiVersion",
        "time",
        "fieldsType",
        "fieldsV1",
        "subresource",
    ]


def test_conflicts_name_the_subresource(story: Any) -> None:
    story.updates("ann", "spec: {replicas: 1}", reset=MAIN)
    story.updates("ctl", "spec: {replicas: 1}\nstatus: {phase: x}", subresource="status", reset=STATUS)
    refusal = story.refused("bob", "status: {phase: y}", subresource="status", reset=STATUS)
    assert refusal.message == (
        'Apply failed with 1 conflict: conflict with "ctl" with subresource "status" using apps/v1: .status.phase'
    )


def test_owners_that_a_status_update_sends_are_ignored(story: Any) -> None:
    story.updates("ann", "spec: {replicas: 1}")
    config = "metadata: {managedFields: []}\nspec: {replicas: 1}\nstatus: {phase: x}"
    story.updates("ctl", config, subresource="status")
    assert [entry["manager"] for entry in story.entries] == ["ann", "ctl"]
