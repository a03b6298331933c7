"""Maps in maps."""

from typing import Any


def test_a_named_map_has_no_owner_of_its_own(story: Any) -> None:
    story.applies("ann", "spec: {strategy: {rolling: {surge: 1}}}")
    assert story.owned("ann") == [".spec.strategy.rolling.surge"]


def test_an_empty_map_is_a_field(story: Any) -> None:
    story.applies("ann", "spec: {strategy: {rolling: {}}}")
    assert story.owned("ann") == [".spec.strategy.rolling"]


def test_an_empty_map_leaves_what_others_have_in_it(story: Any) -> None:
    story.applies("ann", "spec: {strategy: {rolling: {surge: 1}}}")
    assert story.applies("bob", "spec: {strategy: {rolling: {}}}")["spec"] == {"strategy": {"rolling": {"surge": 1}}}


def test_an_entry_of_a_map_is_a_field_with_fields(story: Any) -> None:
    story.applies("ann", "spec: {regions: {eu: {weight: 1}}}")
    assert story.entry("ann")["fieldsV1"] == {"f:spec": {"f:regions": {"f:eu": {".": {}, "f:weight": {}}}}}


def test_two_managers_share_an_entry(story: Any) -> None:
    story.applies("ann", "spec: {regions: {eu: {weight: 1}}}")
    story.applies("bob", "spec: {regions: {eu: {tier: x}, us: {tier: y}}}")
    assert story.applies("ann", "")["spec"]["regions"] == {"eu": {"tier": "x"}, "us": {"tier": "y"}}


def test_labels_of_two_managers_live_side_by_side(story: Any) -> None:
    story.applies("ann", "metadata: {labels: {a: '1'}}")
    story.applies("bob", "metadata: {labels: {b: '2'}}")
    assert story.content == {"metadata": {"labels": {"a": "1", "b": "2"}}}
    assert story.owned("bob") == [".metadata.labels.b"]


def test_a_field_that_the_schema_does_not_have_is_refused(story: Any) -> None:
    assert story.refused("ann", "spec: {nope: 1}").message.endswith(".spec.nope: field not declared in schema")


def test_all_that_has_the_wrong_type_is_named(story: Any) -> None:
    message = story.refused("ann", "spec: {replicas: x, paused: y, strategy: z, zones: {a: 1}}").message
    assert message.split("): ")[1].splitlines() == [
        "errors:",
        "  .spec.replicas: expected numeric (int or float), got string",
        "  .spec.paused: expected boolean, got &{y}",
        "  .spec.strategy: expected map, got &{z}",
        "  .spec.zones: expected list, got &{map[a:1]}",
    ]
