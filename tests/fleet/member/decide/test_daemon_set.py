from dataclasses import replace

import pytest

from echelon.fleet.member.decide.daemon_set import DaemonSetView, decide, status
from echelon.fleet.member.decide.pods import PodView

NOW = 1000.0


def a_view(text: str, nodes: str = "", **more: object) -> DaemonSetView:
    """Read nodes and their pods, `a:O b:nO c:-`: `o` and `n` for old and new, in capitals when ready, `x` ending."""
    placed: dict[str, tuple[PodView, ...]] = {}
    for part in text.split():
        node, letters = part.split(":")
        placed[node] = tuple(
            PodView(
                "ns",
                f"{node}{letter}",
                f"u{node}{letter}",
                "ds",
                "n" if letter in "nN" else "o",
                node,
                "Failed" if letter == "f" else "Running",
                NOW - 60 if letter.isupper() else None,
                letter == "x",
            )
            for letter in letters.strip("-")
        )
    wanted = tuple(nodes) if nodes else tuple(placed)
    return replace(DaemonSetView(wanted, placed, "n", NOW), **more)  # type: ignore[arg-type]


def doing(text: str, nodes: str = "", **more: object) -> str:
    step = decide(a_view(text, nodes, **more))
    return " ".join([*(f"+{node}" for node in step.create), *(f"-{name}" for name in step.delete)])


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [
        ("a:- b:N", "", "+a"),
        ("a:N b:N", "a", "-bN"),
        ("a:f b:N", "", "-af"),
        ("a:x b:N", "", ""),  # an ending pod is waited for
        ("a:O b:O c:O", "", "-aO"),
        ("a:n b:O c:O", "", ""),
        ("a:N b:O c:O", "", "-bO"),
        ("a:o b:O c:O", "", "-ao"),  # to replace what is down costs nothing, and uses up what may be down
    ],
)
def test_old_pods_go_first_as_far_as_nodes_may_be_without(text: str, nodes: str, expected: str) -> None:
    assert doing(text, nodes) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a:O b:O c:O", "+a"), ("a:On b:O", ""), ("a:ON b:O", "-aO +b"), ("a:N b:O", "+b"), ("a:on b:O", "-ao")],
)
def test_with_surge_new_pods_come_first(text: str, expected: str) -> None:
    # One node with two pods at a time: the next may begin when the old pod of this one is gone.
    step = decide(a_view(text, surge=1, unavailable=0))
    deleted = " ".join(f"-{name}" for name in step.delete)
    assert deleted == " ".join(word for word in expected.split() if word.startswith("-"))
    assert len(step.create) <= 1
    if "-" not in expected:
        assert " ".join(f"+{node}" for node in step.create) == expected


def test_on_delete_only_the_user_updates() -> None:
    assert doing("a:O b:O", on_delete=True) == ""


def test_the_status_counts_nodes() -> None:
    said = status(a_view("a:N b:O c:- d:n", "abcd"), 3, {})
    assert (said["desiredNumberScheduled"], said["currentNumberScheduled"], said["numberReady"]) == (4, 3, 2)
    assert (said["updatedNumberScheduled"], said["numberAvailable"], said["numberUnavailable"]) == (2, 2, 2)
