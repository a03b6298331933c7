"""The list of what Grove's tests check is whole, and what it names is there."""

import pytest

from tests.engine.pod_clique.checklist import BUGS, NUMBERED, PAGE, Line, read, render
from tests.named_tests import is_there

LIST = read()


@pytest.mark.parametrize("section", LIST.sections)
def test_every_line_has_an_answer_that_is_there(section: str) -> None:
    def faults(line: Line) -> list[str]:
        missing = [test for test in line.tests if not is_there(test)]
        unknown = [each for each in line.differs if each not in LIST.differences]
        unanswered = [] if bool(line.tests) != bool(line.not_here) else ["needs tests, or a reason"]
        return [f"{line.id}: {each}" for each in (*missing, *unknown, *unanswered)]

    assert [fault for line in LIST.sections[section] for fault in faults(line)] == []


def test_no_line_is_missing_or_twice() -> None:
    numbered = [f"{part}-{number}" for part, numbers in NUMBERED.items() for number in numbers]
    assert sorted(line.id for line in LIST.lines) == sorted([*numbered, *(f"#{bug}" for bug in BUGS.split())])


def test_every_difference_is_one_of_some_line() -> None:
    assert {each for line in LIST.lines for each in line.differs} == LIST.differences.keys()


def test_the_page_says_the_same() -> None:
    assert PAGE.read_text() == render(LIST), "python -m tests.engine.pod_clique.checklist writes it"
