"""Whatever is published, and wherever the writer dies: nobody vanishes, nobody is early, and it ends."""

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.placement.publish import (
    CreateSlice,
    DeleteSlice,
    Publication,
    SliceInUse,
    UpdateStrategy,
    WriteLabels,
    WriteStatus,
    publish,
)
from echelon.engine.placement.slices import Slice
from tests.engine.placement.publishing import (
    Update,
    World,
    carried_out,
    check_with_crashes,
    in_some_order,
    plan,
    prefixes,
)
from tests.examples import examples

STRATEGIES: tuple[UpdateStrategy, ...] = ("All", "RollingUpdate")
NAMES = ("canary", "west")


def unnamed(name: str, index: int, *clusters: str) -> Slice:
    return Slice(name, "", index, index, clusters)


def test_nothing_to_do_is_no_write() -> None:
    slices = (unnamed("p-decision-1", 0, "a"),)
    assert publish(slices, slices, "RollingUpdate") == Publication()


def test_a_receiver_is_written_before_the_giver() -> None:
    before = (unnamed("p-decision-1", 0, "a", "b"), unnamed("p-decision-2", 1, "c"))
    after = (unnamed("p-decision-1", 0, "a"), unnamed("p-decision-2", 1, "b", "c"))
    for strategy in STRATEGIES:
        assert publish(before, after, strategy) == Publication(
            ((WriteStatus("p-decision-2", ("b", "c")),), (WriteStatus("p-decision-1", ("a",)),))
        )


def test_a_swap_surges_one_slice_and_counts_what_is_over_the_limit() -> None:
    before = (unnamed("p-decision-1", 0, "a", "x"), unnamed("p-decision-2", 1, "b"))
    after = (unnamed("p-decision-1", 0, "b", "x"), unnamed("p-decision-2", 1, "a"))
    publication = publish(before, after, "RollingUpdate", limit=2)
    assert publication.writes == (
        WriteStatus("p-decision-1", ("a", "b", "x"), surge=True),
        WriteStatus("p-decision-2", ("a",)),
        WriteStatus("p-decision-1", ("b", "x")),
    )
    assert (publication.surge, publication.over_limit) == (0, 1)


def test_slices_of_a_new_placement_are_created_together_and_filled_group_by_group() -> None:
    after = (unnamed("p-1", 0, "a"), unnamed("p-2", 0, "b"), unnamed("p-3", 1, "c"))
    assert publish((), after, "RollingUpdate").batches == (
        tuple(CreateSlice(replace(one, clusters=())) for one in after),
        (WriteStatus("p-1", ("a",)), WriteStatus("p-2", ("b",))),
        (WriteStatus("p-3", ("c",)),),
    )


def test_slices_that_have_nothing_to_do_with_each_other_are_written_together() -> None:
    before = (unnamed("p-1", 0, "a", "x"), unnamed("p-2", 0, "b", "y"), unnamed("p-3", 0, "c"))
    after = (unnamed("p-1", 0, "a"), unnamed("p-2", 0, "b"), unnamed("p-3", 0, "c", "d"))
    for strategy in STRATEGIES:
        assert len(publish(before, after, strategy).batches) == 1


def test_all_writes_a_circle_in_index_order_and_each_slice_once() -> None:
    before = tuple(unnamed(f"p-decision-{n + 1}", n, cluster) for n, cluster in enumerate("abc"))
    after = tuple(unnamed(f"p-decision-{n + 1}", n, cluster) for n, cluster in enumerate("cab"))
    assert publish(before, after, "All").writes == tuple(
        WriteStatus(f"p-decision-{n + 1}", (cluster,)) for n, cluster in enumerate("cab")
    )


def test_a_surge_does_not_carry_clusters_that_were_deselected() -> None:
    before = (unnamed("p-decision-1", 0, "a", "gone"), unnamed("p-decision-2", 1, "b", "too"))
    after = (unnamed("p-decision-1", 0, "b"), unnamed("p-decision-2", 1, "a"))
    writes = publish(before, after, "RollingUpdate").writes
    assert not any({"gone", "too"}.intersection(write.clusters) for write in writes if isinstance(write, WriteStatus))


def test_a_slice_with_clusters_is_not_given_to_another_group() -> None:
    with pytest.raises(SliceInUse, match="decision p-decision-1 holds clusters of another group"):
        publish((unnamed("p-decision-1", 0, "a"),), (Slice("p-decision-1", "canary", 0, 0, ("a",)),), "All")


def test_an_empty_slice_is_labelled_before_it_is_filled() -> None:
    writes = publish((unnamed("p-decision-1", 0),), (Slice("p-decision-1", "canary", 0, 0, ("a",)),), "All").writes
    assert writes == (
        WriteLabels(Slice("p-decision-1", "canary", 0, 0)),
        WriteStatus("p-decision-1", ("a",)),
    )


def test_a_group_that_is_inserted_waits_beyond_the_last_index() -> None:
    world = grown(World({"a": "", "b": ""}, NAMES, 1))
    update = plan(replace(world, members={"a": "", "b": "", "c": "canary"}))
    assert update.publication.writes == (
        CreateSlice(Slice("p-decision-3", "canary", 3, 0)),
        WriteLabels(Slice("p-decision-2", "", 2, 1)),
        WriteLabels(Slice("p-decision-1", "", 1, 0)),
        WriteLabels(Slice("p-decision-3", "canary", 0, 0)),
        WriteStatus("p-decision-3", ("c",)),
    )
    check_with_crashes(update)


def test_a_group_whose_slices_move_one_by_one_stays_one_group_through_a_crash() -> None:
    clusters = dict.fromkeys(["a", "b", "c"], "")
    world = grown(World(clusters, NAMES, limit=1))
    check_with_crashes(plan(replace(world, members={**clusters, "d": "canary"})), depth=2)


def grown(world: World) -> World:
    return carried_out(plan(world))


# The cases that the rolling update was proposed with.


def many(first: int, last: int) -> dict[str, str]:
    return {f"cluster{n:03}": "" for n in range(first, last + 1)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cluster_move(strategy: UpdateStrategy) -> None:
    """Upstream moves a cluster across the border of the slices here. Now none has to move, and one slice is written."""
    world = grown(World(many(1, 150), strategy=strategy))
    assert [len(one.clusters) for one in world.slices.values()] == [100, 50]
    update = plan(replace(world, members=many(0, 150)))
    assert [type(write) for write in update.publication.writes] == [WriteStatus]
    check_with_crashes(update)


def test_cluster_move_between_slices_of_another_version() -> None:
    """The proposal's own layout: what was cut by name before and after, decided by others."""
    before, after = list(many(1, 150)), list(many(0, 150))
    existing = (unnamed("p-decision-1", 0, *before[:100]), unnamed("p-decision-2", 0, *before[100:]))
    desired = (unnamed("p-decision-1", 0, *after[:100]), unnamed("p-decision-2", 0, *after[100:]))
    publication = publish(existing, desired, "RollingUpdate")
    # cluster100 is in both for a moment; the order of the writes is enough, so nothing is over the limit.
    assert publication.writes == tuple(WriteStatus(one.name, one.clusters) for one in reversed(desired))
    assert publication.surge is None


def test_cluster_delete() -> None:
    world = grown(World(many(0, 150)))
    update = plan(replace(world, members=many(1, 150)))
    assert [type(write) for write in update.publication.writes] == [WriteStatus]
    check_with_crashes(update)


def test_decision_group_change() -> None:
    world = grown(World(many(1, 250), per_group="100%"))
    assert [len(one.clusters) for one in world.slices.values()] == [100, 100, 50]
    update = plan(replace(world, per_group=50, from_scratch=True))
    after = check_with_crashes(update)
    assert [(one.group_index, len(one.clusters)) for one in update.desired] == [(n, 50) for n in range(5)]
    assert len(after.slices) == 5


def test_all_is_the_same_for_every_slice_and_writes_each_once() -> None:
    world = grown(World(many(1, 250), per_group="100%", strategy="All"))
    update = plan(replace(world, per_group=50, from_scratch=True))
    names = [write.name for write in update.publication.writes if isinstance(write, WriteStatus | DeleteSlice)]
    assert len(names) == len(set(names))
    assert carried_out(update).slices == carried_out(plan(replace(update.world, strategy="RollingUpdate"))).slices


@pytest.mark.parametrize(
    ("old", "new", "union"),
    [
        (("c1", "c2"), ("c3", "c4"), ("c1", "c2", "c3", "c4")),
        (("c1",), ("c1",), None),
        (("c1", "c2"), ("c2", "c3"), ("c1", "c2", "c3")),
    ],
    ids=["no overlap", "full overlap", "partial overlap"],
)
def test_merge(old: tuple[str, ...], new: tuple[str, ...], union: tuple[str, ...] | None) -> None:
    publication = publish(
        (unnamed("p-decision-1", 0, *old), unnamed("p-decision-2", 1, *new)),
        (unnamed("p-decision-1", 0, *new), unnamed("p-decision-2", 1, *old)),
        "RollingUpdate",
    )
    surges = [write.clusters for write in publication.writes if isinstance(write, WriteStatus) and write.surge]
    assert surges == ([union] if union else [])


# Histories.

CLUSTERS = [f"c{n}" for n in range(9)]
MEMBERS = st.dictionaries(st.sampled_from(CLUSTERS), st.sampled_from(["", *NAMES]))
SIZES = st.sampled_from([None, 1, 2, 3, "20%", "50%"])


@dataclass(frozen=True)
class Step:
    """A change of the placement or its clusters, and after how many of the writes the controller dies."""

    members: dict[str, str]
    strategy: UpdateStrategy
    respec: tuple[tuple[str, ...], int | str | None] | None
    dies_after: int | None


STEPS = st.builds(
    Step,
    members=MEMBERS,
    strategy=st.sampled_from(STRATEGIES),
    respec=st.none() | st.tuples(st.permutations(NAMES).map(tuple), SIZES),
    dies_after=st.none() | st.integers(0, 12),
)


@pytest.mark.long
@examples(100)
@given(st.lists(STEPS, min_size=2, max_size=5), st.sampled_from([1, 2, 3]), SIZES, st.randoms(use_true_random=False))
def test_every_update_keeps_its_promises_wherever_it_stops(
    steps: list[Step], limit: int, per_group: int | str | None, random: Random
) -> None:
    world = World(limit=limit, names=NAMES, per_group=per_group)
    for step in steps:
        world = replace(world, members=step.members, strategy=step.strategy)
        if step.respec:
            world = replace(world, names=step.respec[0], per_group=step.respec[1], from_scratch=True)
        update = plan(world)
        settled = check_with_crashes(update)
        if step.dies_after is None:
            world = settled
        else:
            states = list(prefixes(world.slices, in_some_order(update.publication, random)))
            world = replace(world, slices=states[min(step.dies_after, len(states) - 1)], overtaken=True)


@examples(100)
@given(
    st.lists(st.tuples(st.sampled_from(CLUSTERS), st.sampled_from([None, "", *NAMES])), min_size=1, max_size=25),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([None, 1, 2, 5]),
)
def test_a_cluster_that_comes_or_goes_rewrites_one_slice(
    events: list[tuple[str, str | None]], limit: int, per_group: int | None
) -> None:
    world = World(limit=limit, names=NAMES, per_group=per_group)
    for cluster, name in events:
        present = cluster in world.members
        rest = {other: group for other, group in world.members.items() if other != cluster}
        update = plan(replace(world, members=rest if name is None else {**rest, cluster: name}))
        if present != (name is not None):
            assert len(rewritten(update)) <= 1 or compacts(update)
        world = carried_out(update)


def rewritten(update: Update) -> set[str]:
    """Slices whose readers have something new to read."""
    filled = {name for name, one in update.world.slices.items() if one.clusters}
    return {write.name for write in update.publication.writes if isinstance(write, WriteStatus)} | {
        write.name for write in update.publication.writes if isinstance(write, DeleteSlice) and write.name in filled
    }


def compacts(update: Update) -> bool:
    """Whether some group had more than twice the slices that its remaining clusters need."""
    filled = [one.group for one in update.world.slices.values() if set(one.clusters) & set(update.world.members)]
    left = Counter(
        one.group for one in update.world.slices.values() for cluster in one.clusters if cluster in update.world.members
    )
    return any(filled.count(group) > 2 * -(-left[group] // update.world.limit) for group in left)


@pytest.mark.full
def test_all_histories_of_four_clusters_and_three_steps() -> None:
    """Every way in which up to four clusters can come, go and be relabelled, one at a time."""
    clusters, states = "abcd", [None, "", *NAMES]
    kinds: list[tuple[int | None, UpdateStrategy]] = [(1, "RollingUpdate"), (2, "All")]
    for per_group, strategy in kinds:
        worlds = {frozenset[Slice](): World({}, NAMES, per_group, strategy, limit=2)}
        for _ in range(3):
            reached = {}
            for world, cluster, state in itertools.product(worlds.values(), clusters, states):
                rest = {other: name for other, name in world.members.items() if other != cluster}
                members = rest if state is None else {**rest, cluster: state}
                if members != world.members:
                    after = check_with_crashes(plan(replace(world, members=members)))
                    reached[frozenset(after.slices.values())] = after
            worlds = reached


@pytest.mark.parametrize(
    ("clusters", "per_group"),
    [("ab", 1), *(pytest.param("abc", size, marks=pytest.mark.full) for size in (1, None))],
)
def test_all_changes_from_any_selection_of_a_few_clusters_to_any_other(clusters: str, per_group: int | None) -> None:
    """Several clusters at a time can exchange their groups, which one at a time cannot."""
    selections = [
        {cluster: name for cluster, name in zip(clusters, names, strict=True) if name is not None}
        for names in itertools.product([None, "", *NAMES], repeat=len(clusters))
    ]
    surges = 0
    for before in selections:
        world = grown(World(before, NAMES, per_group, limit=1))
        for after in selections:
            update = plan(replace(world, members=after))
            surges += update.publication.surge is not None
            carried_out(update)
            if update.publication.surge is not None:
                check_with_crashes(update)
    assert surges
