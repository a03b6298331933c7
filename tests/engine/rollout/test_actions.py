"""What people did to a rollout is remembered, up to a bound, and never in the way."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from echelon.engine.rollout.actions import ACTIONS, MOST, Action, note_action, read_actions

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_the_last_words_are_kept_in_their_order() -> None:
    said: dict[str, str] = {}
    for number in range(MOST + 5):
        noted = note_action(said, "pause", f"user-{number}", NOW + timedelta(seconds=number), revision="5f7c9")
        said |= {name: value for name, value in noted.items() if value is not None}
    found = read_actions(said)
    assert [each.by for each in found] == [f"user-{number}" for number in range(5, MOST + 5)]
    assert found[0] == Action("pause", "user-5", "2026-11-01T12:00:05Z", "5f7c9")


@pytest.mark.parametrize("noted", ["", "nonsense", "{}", '"x"', "[1, null, []]", "null"])
def test_what_cannot_be_read_is_forgotten(noted: str) -> None:
    assert read_actions({ACTIONS: noted}) == ()
    written = note_action({ACTIONS: noted}, "abort", "me", NOW)[ACTIONS]
    assert [each["verb"] for each in json.loads(written or "")] == ["abort"]


def test_however_long_names_are_the_annotation_stays_small() -> None:
    said: dict[str, str] = {}
    for _ in range(MOST * 2):
        said[ACTIONS] = note_action(said, "approve", "u" * 10_000, NOW, detail="g" * 10_000)[ACTIONS] or ""
    assert len(said[ACTIONS]) < 12_000
