import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.placement import ranking
from echelon.engine.placement.facts import Names
from echelon.engine.placement.ranking import Ranking, first

TOTALS = st.dictionaries(st.integers(0, 40), st.integers(-2, 2), max_size=40)
STEPS = st.lists(st.tuples(st.integers(0, 40), st.none() | st.integers(-2, 2)), max_size=60)


def names() -> Names:
    table = Names()
    for number in range(41):
        table.acquire(f"c{(number * 17) % 41:02}")
    return table


@given(TOTALS, STEPS, st.integers(0, 10))
def test_following_changes_gives_the_same_best_as_sorting(
    totals: dict[int, int], steps: list[tuple[int, int | None]], limit: int
) -> None:
    table, remembered = names(), ranking._RUNNERS_UP
    ranking._RUNNERS_UP = 3
    try:
        kept = Ranking(table, limit)
        kept.fill(totals)
        for number, total in steps:
            if total is None:
                totals.pop(number, None)
            else:
                totals[number] = total
            kept.put(number, total)
            if kept.exhausted:
                kept.fill(totals)
            expected = sorted(totals, key=lambda each: (-totals[each], table[each]))
            assert list(kept.best()) == expected[:limit]
    finally:
        ranking._RUNNERS_UP = remembered


@given(TOTALS, st.integers(0, 50))
def test_the_first_are_the_highest_then_by_name(totals: dict[int, int], count: int) -> None:
    table = names()
    expected = sorted(totals, key=lambda each: (-totals[each], table[each]))[:count]
    assert [number for _, _, number in first(table, totals, count)] == expected


def test_a_cluster_behind_the_runners_up_does_not_overtake_those_who_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking, "_RUNNERS_UP", 1)
    kept = Ranking(names(), 2)
    kept.fill({number: 100 - number for number in range(10)})
    kept.put(9, 1)
    kept.put(8, 2)
    kept.put(0, None)
    assert kept.best() == (1, 2)
    kept.put(1, None)
    assert kept.exhausted
