"""Maps and lists that are one thing."""

from typing import Any


def test_an_atomic_list_is_one_field(story: Any) -> None:
    story.applies("ann", "spec: {args: [a, b]}")
    assert story.owned("ann") == [".spec.args"]
    assert story.applies("ann", "spec: {args: [c]}") == {"spec": {"args": ["c"]}}


def test_an_atomic_map_is_one_field(story: Any) -> None:
    story.applies("ann", "spec: {selector: {a: '1'}}")
    assert story.refused("bob", "spec: {selector: {b: '1'}}").message.endswith('"ann": .spec.selector')
    assert story.applies("bob", "spec: {selector: {b: '1'}}", force=True) == {"spec": {"selector": {"b": "1"}}}


def test_the_same_list_is_shared(story: Any) -> None:
    story.applies("ann", "spec: {args: [a, b]}")
    story.applies("bob", "spec: {args: [a, b]}")
    assert story.owned("bob") == [".spec.args"]


def test_another_order_is_another_list(story: Any) -> None:
    story.applies("ann", "spec: {args: [a, b]}")
    assert "conflict" in story.refused("bob", "spec: {args: [b, a]}").message


def test_an_int_or_a_string_is_one_field(story: Any) -> None:
    story.applies("ann", "spec: {maxSurge: 1}")
    assert story.applies("ann", "spec: {maxSurge: 25%}") == {"spec": {"maxSurge": "25%"}}
    assert story.owned("ann") == [".spec.maxSurge"]
