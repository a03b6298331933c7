"""What a rollout asks the decision groups, by the numbers of the cases that others test their tracker with."""

import pytest

from echelon.engine.placement.decisions import DecisionGroups, GroupKey, changes
from tests.engine.rollout.notation import groups_of

FOUR = groups_of("0=group1: 1 / 0=group1: 2 / 1=: 3 4")
SPLIT = groups_of("group1: 1 / group1: 2 / group2: 3")
NAME, NAMED, OTHER = GroupKey(name="group1"), GroupKey(0, "group1"), GroupKey(1)


@pytest.mark.parametrize(
    ("number", "before", "after", "added", "removed"),
    [
        ("T01", "group1: 1 2", "0=group1: 1 / 0=group1: 3", "3", "2"),
        ("T02", "", "0=group1: 1 / 1=: 3", "13", ""),
    ],
)
def test_what_came_and_went(*, number: str, before: str, after: str, added: str, removed: str) -> None:
    del number
    assert changes(groups_of(before), groups_of(after)) == (frozenset(added), frozenset(removed))


def test_t01_two_decisions_of_one_group_are_one_group() -> None:
    assert FOUR.groups == {NAMED: {"1", "2"}, OTHER: {"3", "4"}}


def test_t03_at_first_everything_is_new() -> None:
    assert changes(DecisionGroups({}), FOUR) == (frozenset("1234"), frozenset())


def test_t04_by_name_by_index_and_by_a_name_that_is_not_there() -> None:
    asked = [NAME, GroupKey(1), GroupKey(name="nobody")]
    assert set().union(*FOUR.only(asked).values()) == {"1", "2", "3", "4"}
    assert FOUR.besides(asked) == {}


def test_t05_one_name_and_the_rest() -> None:
    assert FOUR.only([NAME]) == {NAMED: {"1", "2"}}
    assert FOUR.besides([NAME]) == {OTHER: {"3", "4"}}


def test_t06_nothing_is_asked_for() -> None:
    assert FOUR.only([]) == {}
    assert FOUR.besides([]) == FOUR.groups


def test_t07_a_name_stands_for_all_its_indexes_in_their_order() -> None:
    assert list(SPLIT.only([NAME])) == [GroupKey(0, "group1"), GroupKey(1, "group1")]
    assert list(SPLIT.only([GroupKey(1)])) == [GroupKey(1, "group1")]


def test_t08_besides_a_name_are_the_other_groups() -> None:
    assert list(SPLIT.besides([NAME])) == [GroupKey(2, "group2")]


def test_t09_besides_nothing_are_all() -> None:
    assert list(SPLIT.besides([])) == [GroupKey(0, "group1"), GroupKey(1, "group1"), GroupKey(2, "group2")]
