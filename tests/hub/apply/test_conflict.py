"""Two managers want different things."""

from typing import Any


def test_another_value_for_a_field_that_somebody_applied_is_a_conflict(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    refusal = story.refused("bob", "spec: {replicas: 2}")
    assert refusal.message == 'Apply failed with 1 conflict: conflict with "ann": .spec.replicas'
    assert refusal.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refusal.message,
        "reason": "Conflict",
        "code": 409,
        "details": {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "ann"', "field": ".spec.replicas"}]
        },
    }


def test_an_updater_is_named_with_its_version_and_subresource(story: Any) -> None:
    story.updates("ctl", "spec: {replicas: 1}", subresource="scale")
    refusal = story.refused("bob", "spec: {replicas: 2}")
    assert 'conflict with "ctl" with subresource "scale" using apps/v1: .spec.replicas' in refusal.message


def test_several_conflicts_are_listed_by_owner(story: Any) -> None:
    story.applies("zoe", "spec: {paused: true}")
    story.applies("ann", "spec: {replicas: 1, containers: [{name: a, image: x, ports: [{port: 80, name: h}]}]}")
    config = "spec: {replicas: 2, paused: false, containers: [{name: a, image: y, ports: [{port: 80, name: i}]}]}"
    assert story.refused("bob", config).message.splitlines() == [
        'Apply failed with 4 conflicts: conflicts with "ann":',
        "- .spec.replicas",
        '- .spec.containers[name="a"].image',
        '- .spec.containers[name="a"].ports[port=80,protocol="TCP"].name',
        'conflicts with "zoe":',
        "- .spec.paused",
    ]


def test_the_same_value_is_owned_by_both(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    story.applies("bob", "spec: {replicas: 1, paused: true}")
    assert story.owned("ann") == [".spec.replicas"]
    assert story.owned("bob") == [".spec.paused", ".spec.replicas"]
    assert "conflict with" in story.refused("bob", "spec: {replicas: 2}").message


def test_whoever_owns_a_field_alone_may_change_it(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1}")
    assert story.applies("ann", "spec: {replicas: 2}") == {"spec": {"replicas": 2}}


def test_true_and_one_are_different_values(story: Any) -> None:
    story.applies("ann", "spec: {raw: {flag: true}}")
    assert story.refused("bob", "spec: {raw: {flag: 1}}").message.endswith(".spec.raw.flag")


def test_a_field_that_somebody_only_updates_changes_hands(story: Any) -> None:
    story.applies("ann", "spec: {replicas: 1, paused: true}")
    story.updates("kubectl-edit", "spec: {replicas: 5, paused: true}")
    assert story.owned("ann") == [".spec.paused"]
    assert story.owned("kubectl-edit", "Update") == [".spec.replicas"]
    assert story.refused("ann", "spec: {replicas: 1, paused: true}").message == (
        'Apply failed with 1 conflict: conflict with "kubectl-edit" using apps/v1: .spec.replicas'
    )
