from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.align.apportion import apportion

CLUSTERS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 4), st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=8
)


def one_by_one(total: int, rows: list[tuple[int, int, int, int]]) -> list[int]:
    shares = [low for _, low, _, _ in rows]
    for _ in range(total - sum(shares)):
        open_ = [
            (-weight / (2 * (shares[place] + offset) + 1), place)
            for place, (weight, low, top, offset) in enumerate(rows)
            if weight and shares[place] < max(low, top)
        ]
        if not open_:
            break
        shares[min(open_)[1]] += 1
    return shares


@given(rows=CLUSTERS, total=st.integers(0, 200))
def test_in_bulk_it_is_divided_as_one_by_one(rows: list[tuple[int, int, int, int]], total: int) -> None:
    weights, lower, upper, offsets = ([row[column] for row in rows] for column in range(4))
    assert apportion(total, weights, lower, upper, offsets) == one_by_one(total, rows)


@given(sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8), total=st.integers(0, 100))
def test_with_more_to_divide_nobody_gets_less(sizes: list[int], total: int) -> None:
    nothing = [0] * len(sizes)
    fewer, more = (apportion(each, sizes, nothing, sizes) for each in (total, total + 1))
    assert all(now >= before for before, now in zip(fewer, more, strict=True))
    assert sum(fewer) == min(total, sum(sizes))


def test_a_large_budget_is_divided_in_proportion() -> None:
    assert apportion(60_000, [10_000, 20_000, 30_000], [0] * 3, [60_000] * 3) == [10_000, 20_000, 30_000]
