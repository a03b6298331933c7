"""Lists whose items are told apart by their value."""

from typing import Any


def test_items_are_owned_one_by_one(story: Any) -> None:
    story.applies("ann", "spec: {zones: [b, a], sizes: [10, 9]}")
    assert story.entry("ann")["fieldsV1"]["f:spec"] == {
        "f:sizes": {"v:10": {}, "v:9": {}},
        "f:zones": {'v:"a"': {}, 'v:"b"': {}},
    }


def test_numbers_are_ordered_as_numbers(story: Any) -> None:
    story.applies("ann", "spec: {sizes: [100, 9, 10]}")
    assert list(story.entry("ann")["fieldsV1"]["f:spec"]["f:sizes"]) == ["v:9", "v:10", "v:100"]


def test_sets_of_two_managers_are_united(story: Any) -> None:
    story.applies("ann", "spec: {zones: [a, b]}")
    assert story.applies("bob", "spec: {zones: [b, c]}") == {"spec": {"zones": ["a", "b", "c"]}}
    assert story.applies("ann", "spec: {zones: [a]}") == {"spec": {"zones": ["a", "b", "c"]}}
    assert story.applies("bob", "") == {"spec": {"zones": ["a"]}}


def test_finalizers_are_a_set(story: Any) -> None:
    story.updates("ctl", "metadata: {finalizers: [x/a]}")
    story.applies("ann", "metadata: {finalizers: [x/b]}")
    assert story.content["metadata"]["finalizers"] == ["x/a", "x/b"]
    assert story.owned("ann") == ['.metadata.finalizers[="x/b"]']


def test_a_duplicate_is_refused(story: Any) -> None:
    assert story.refused("ann", "spec: {zones: [a, a]}").message.endswith(
        '.spec.zones: duplicate entries for key [="a"]'
    )


def test_what_is_no_single_value_is_refused(story: Any) -> None:
    assert "element 0: associative list without keys has an element that's an explicit null" in (
        story.refused("ann", "spec: {zones: [null]}").message
    )


def test_characters_that_html_minds_are_escaped_as_in_go(story: Any) -> None:
    story.applies("ann", "spec: {zones: ['<a&b>']}")
    assert list(story.entry("ann")["fieldsV1"]["f:spec"]["f:zones"]) == [r'v:"\u003ca\u0026b\u003e"']
    assert story.owned("ann") == ['.spec.zones[="<a&b>"]']
