"""Keys that an item may leave out, because the schema has a default for them."""

from typing import Any

TCP = '.spec.containers[name="a"].ports[port=80,protocol="TCP"]'


def test_a_key_that_was_left_out_has_its_default(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, ports: [{port: 80}]}]}")
    assert TCP in story.owned("ann")
    assert f"{TCP}.protocol" not in story.owned("ann")


def test_leaving_it_out_and_writing_it_is_the_same_item(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, ports: [{port: 80}]}]}")
    story.applies("bob", "spec: {containers: [{name: a, ports: [{port: 80, protocol: TCP, name: http}]}]}")
    ports = story.content["spec"]["containers"][0]["ports"]
    assert ports == [{"port": 80, "protocol": "TCP", "name": "http"}]


def test_another_value_of_the_key_is_another_item(story: Any) -> None:
    story.applies("ann", "spec: {containers: [{name: a, ports: [{port: 80}]}]}")
    story.applies("ann", "spec: {containers: [{name: a, ports: [{port: 80, protocol: UDP}, {port: 80}]}]}")
    assert len(story.content["spec"]["containers"][0]["ports"]) == 2


def test_both_forms_in_one_configuration_are_duplicates(story: Any) -> None:
    config = "spec: {containers: [{name: a, ports: [{port: 80, protocol: TCP}, {port: 80}]}]}"
    assert story.refused("ann", config).message.endswith(
        '.spec.containers[name="a"].ports: duplicate entries for key [port=80,protocol="TCP"]'
    )
