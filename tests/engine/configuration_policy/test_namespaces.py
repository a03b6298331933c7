"""Which namespaces a selector selects."""

import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.configuration_policy import NamespaceSelector
from echelon.engine.configuration_policy.globs import MOST_PATTERNS, BadPattern, Globs
from echelon.engine.configuration_policy.namespaces import BadNamespaceSelector, NamespaceFacts, select_namespaces

NAMESPACES = (
    NamespaceFacts("default"),
    NamespaceFacts("kube-one", {"box": "yes", "tier": "system"}),
    NamespaceFacts("kube-two", {"box": "no"}),
    NamespaceFacts("team", {"box": "yes"}),
    NamespaceFacts("team-ending", {"box": "yes"}, terminating=True),
)


def selected(**selector: Any) -> list[str]:
    return list(select_namespaces(msgspec.convert(selector, NamespaceSelector), NAMESPACES))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, []),
        ({"exclude": ["kube-*"]}, []),
        ({"include": ["*"]}, ["default", "kube-one", "kube-two", "team"]),
        ({"include": ["*"], "exclude": ["kube-*"]}, ["default", "team"]),
        ({"include": ["kube-*", "te?m"], "exclude": ["*-two"]}, ["kube-one", "team"]),
        ({"matchLabels": {}}, ["default", "kube-one", "kube-two", "team"]),
        ({"matchLabels": {"box": "yes"}}, ["kube-one", "team"]),
        ({"matchLabels": {"box": "yes"}, "include": ["kube-*"]}, ["kube-one"]),
        (
            {"matchExpressions": [{"key": "box", "operator": "In", "values": ["yes", "no"]}], "exclude": ["team"]},
            ["kube-one", "kube-two"],
        ),
        ({"matchExpressions": [{"key": "box", "operator": "DoesNotExist"}]}, ["default"]),
        ({"matchLabels": {"box": "yes"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, ["kube-one"]),
    ],
)
def test_labels_and_patterns_select_together(selector: dict[str, Any], expected: list[str]) -> None:
    assert selected(**selector) == expected


@pytest.mark.parametrize(
    "selector",
    [
        {"include": ["a["]},
        {"include": ["*"], "exclude": ["[]a]"]},
        {"include": ["a\\"]},
        {"matchLabels": {"bad key!": "x"}},
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        {"include": [f"a*{number}" for number in range(MOST_PATTERNS + 1)]},
    ],
)
def test_a_selector_that_cannot_be_understood_selects_nothing_and_says_why(selector: dict[str, Any]) -> None:
    with pytest.raises(BadNamespaceSelector, match=r".+"):
        selected(**selector)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "", True),
        ("a*c", "abbbc", True),
        ("a*c", "abbbcd", False),
        ("a*b*c", "axxbxxc", True),
        ("*ab", "aab", True),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "axb", False),
        ("?", "", False),
        ("[a\\]]", "]", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_patterns_are_read_as_go_does(pattern: str, name: str, matches: bool) -> None:
    assert Globs.of([pattern]).matches(name) is matches


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_stars_and_question_marks_mean_what_they_mean_everywhere(pattern: str, name: str) -> None:
    expected = re.fullmatch(pattern.replace("*", ".*").replace("?", "."), name) is not None
    assert Globs.of([pattern]).matches(name) is expected


@given(st.text("[]^-\\ab*?", max_size=8), st.text(max_size=4))
def test_any_pattern_is_matched_or_refused(pattern: str, name: str) -> None:
    with suppress(BadPattern):
        Globs.of([pattern]).matches(name)
