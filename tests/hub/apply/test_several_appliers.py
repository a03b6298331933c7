"""More than two parties around one object."""

from typing import Any


def test_a_field_lives_as_long_as_one_of_its_owners_wants_it(story: Any) -> None:
    for manager in ("ann", "bob", "cat"):
        story.applies(manager, "metadata: {labels: {shared: x}}")
    for manager in ("ann", "bob"):
        assert story.applies(manager, "") == {"metadata": {"labels": {"shared": "x"}}}
    assert story.applies("cat", "") == {}


def test_the_same_name_owns_apart_what_it_applies_and_what_it_updates(story: Any) -> None:
    story.updates("ann", "spec: {replicas: 1}")
    story.applies("ann", "spec: {replicas: 1}")
    assert [(entry["manager"], entry["operation"]) for entry in story.entries] == [("ann", "Apply"), ("ann", "Update")]
    assert story.refused("ann", "spec: {replicas: 2}").message.endswith('"ann" using apps/v1: .spec.replicas')


def test_a_manager_keeps_its_entry_when_the_version_of_its_configuration_changes(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, paused: true}", api_version="apps/v1beta1")
    assert story.applies("ann", "spec: {replicas: 1}", api_version="apps/v1") == {"spec": {"replicas": 1}}
    assert [entry["apiVersion"] for entry in story.entries] == ["apps/v1"]


def test_who_gives_a_field_up_leaves_it_to_who_set_it_later(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 3, paused: true}")
    story.updates("autoscaler", "spec: {replicas: 7, paused: true}")
    assert story.applies("ann", "spec: {paused: true}")["spec"] == {"paused": True, "replicas": 7}


def test_appliers_come_first_and_then_the_oldest(story: Any) -> None:
    story.updates("u1", "spec: {paused: true}")
    story.applies("z", "spec: {replicas: 1}")
    story.applies("a", "metadata: {labels: {x: y}}")
    story.updates("u0", "metadata: {labels: {x: y}}\nspec: {paused: false, replicas: 1}")
    order = [(entry["operation"], entry["manager"]) for entry in story.entries]
    assert order == [("Apply", "z"), ("Apply", "a"), ("Update", "u1"), ("Update", "u0")]


def test_everything_before_the_first_apply_is_of_one_owner(story: Any) -> None:
    story.updates("ctl", "spec: {replicas: 1}")
    story.object["metadata"]["managedFields"] = []
    story.applies("ann", "spec: {paused: true}")
    assert story.owned("before-first-apply", "Update") == [".spec", ".spec.replicas"]
    assert '"before-first-apply" using apps/v1: .spec.replicas' in story.refused("ann", "spec: {replicas: 2}").message


def test_a_configuration_must_not_bring_owners(story: Any) -> None:
    assert story.refused("ann", "metadata: {managedFields: []}").message == "metadata.managedFields must be nil"
