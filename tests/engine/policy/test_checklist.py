"""The page of what upstream's tests check of policies is whole, and what it names is there."""

import re

from tests.named_tests import TESTS, is_there

PAGE = TESTS.parent / "docs" / "policies-checklist.md"
# How many lines each part has: one that is taken out is missed.
LINES = {"P": 24, "S": 14, "E": 5, "T": 10, "C": 22, "R": 27}

ROWS = {
    cells[0]: (cells[1:-1], re.findall(r"`([^`]+)`", cells[-1]))
    for cells in (line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines())
    if re.fullmatch(r"[A-Z]\d+", cells[0])
}


def test_no_line_is_missing() -> None:
    assert list(ROWS) == [f"{part}{number}" for part, count in LINES.items() for number in range(1, count + 1)]


def test_every_line_says_what_is_checked_and_names_tests_that_exist() -> None:
    assert [line for line, (said, tests) in ROWS.items() if not (all(said) and tests)] == []
    assert [(line, test) for line, (_, tests) in ROWS.items() for test in tests if not is_there(test)] == []


def test_what_is_different_is_said_to_be() -> None:
    answers = {said[1] for line, (said, _) in ROWS.items() if line[0] != "R"}
    assert [each for each in answers if not re.match("same$|same, but for |differs: ", each)] == []
