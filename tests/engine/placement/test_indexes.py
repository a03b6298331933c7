"""Groups change places in every way, from any state in which an update was cut short: nobody is out of sight."""

from dataclasses import replace
from itertools import count
from random import Random
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.placement.indexes import relabel
from echelon.engine.placement.publish import CreateSlice, DeleteSlice, WriteLabels, publish
from echelon.engine.placement.slices import Slice, spare_names
from tests.engine.placement.publishing import Slices, check_no_blend, in_sight, in_some_order, prefixes, steps
from tests.examples import examples

CLUSTERS = [f"c{number}" for number in range(6)]
GROUPS = [(name, serial) for name in ("", "canary", "west") for serial in range(3)]

Layout: TypeAlias = dict[tuple[str, int], tuple[int, list[list[str]]]]  # of groups: the index, and what slices list


def by_name(*slices: Slice) -> dict[str, Slice]:
    return {one.name: one for one in slices}


def test_two_groups_change_places_behind_a_placeholder() -> None:
    here = by_name(Slice("p-1", "one", 0, 0, ("a",)), Slice("p-2", "two", 1, 0, ("b",)))
    there = by_name(replace(here["p-1"], group_index=1), replace(here["p-2"], group_index=0))
    publication = publish(tuple(here.values()), tuple(there.values()), "RollingUpdate", spare=["p-3"])
    assert publication.writes == (
        CreateSlice(Slice("p-3", "", 3, 3)),
        WriteLabels(Slice("p-1", "one", 2, 0)),
        WriteLabels(Slice("p-2", "two", 0, 0)),
        WriteLabels(Slice("p-1", "one", 1, 0)),
        DeleteSlice("p-3"),
    )


def test_no_placeholder_makes_up_for_an_index_that_somebody_else_wrote() -> None:
    here = by_name(Slice("p-1", "", 0, 0, ("a",)), Slice("p-2", "", 900, 1, ("b",)))
    there = by_name(here["p-1"], replace(here["p-2"], group_index=1))
    assert not relabel(here, there, (f"p-{number}" for number in count(3))).placeholders


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Groups with indexes from 0 without a gap, in any order, and the clusters of their slices."""
    groups = draw(st.lists(st.sampled_from(GROUPS), unique=True, min_size=1, max_size=5))
    clusters = draw(st.permutations(CLUSTERS))
    slices: list[list[list[str]]] = [[[] for _ in range(draw(st.integers(1, 2)))] for _ in groups]
    for cluster in clusters[: draw(st.integers(0, len(clusters)))]:
        draw(st.sampled_from(draw(st.sampled_from(slices)))).append(cluster)
    return {group: (index, slices[index]) for index, group in enumerate(groups)}


def slices_of(layout: Layout) -> Slices:
    """Each group has names of its own, so that slices with clusters are never asked to serve another group."""
    return by_name(
        *(
            Slice(
                f"p-decision-{10 * GROUPS.index(group) + number}", *(group[0], index, group[1]), tuple(sorted(listed))
            )
            for group, (index, slices) in layout.items()
            for number, listed in enumerate(slices, start=1)
        )
    )


@examples(150)
@given(
    layouts(),
    layouts(),
    layouts(),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
    st.randoms(use_true_random=False),
)
def test_what_is_in_sight_stays_in_sight_wherever_plans_stop(
    first: Layout, second: Layout, third: Layout, stops: tuple[int, int], random: Random
) -> None:
    """One plan after the other is cut short, and the next one wants something else."""
    state = slices_of(first)
    for layout, stop in zip((second, third, first), (*stops, None), strict=True):
        there = slices_of(layout)
        spare = spare_names("p", {*state, *there})
        publication = publish(tuple(state.values()), tuple(there.values()), "RollingUpdate", spare=spare)
        wanted = {cluster for one in there.values() for cluster in one.clusters}
        for before, later in steps(state, publication):
            assert not (in_sight(before) - in_sight(later)) & wanted
            check_no_blend(later)
        writes = in_some_order(publication, random)
        for later in list(prefixes(state, writes))[: None if stop is None else stop + 1]:
            assert not (in_sight(state) - in_sight(later)) & wanted
            check_no_blend(later)
            state = later
    assert state == slices_of(first)
