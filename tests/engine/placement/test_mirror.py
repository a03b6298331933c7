"""Copies of decisions: whatever moves, wherever the writer dies, nobody vanishes and no object is over the limit."""

from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st

from echelon.engine.placement.mirror import (
    DeleteMirrored,
    MirroredDecision,
    MirroredWrite,
    WriteMirrored,
    mirror,
    mirrored_decisions,
)
from echelon.engine.placement.slices import Slice

LIMIT = 3


def carried_out(existing: Iterable[MirroredDecision], writes: Iterable[MirroredWrite]) -> dict[str, MirroredDecision]:
    found = {one.name: one for one in existing}
    for write in writes:
        if isinstance(write, DeleteMirrored):
            del found[write.name]
        else:
            found[write.decision.name] = write.decision
    return found


def listed(found: dict[str, MirroredDecision]) -> set[str]:
    return {cluster for one in found.values() for cluster in one.clusters}


@st.composite
def states(draw: st.DrawFn) -> tuple[MirroredDecision, ...]:
    """Objects that list each cluster at most once, at most `LIMIT` in each."""
    order = draw(st.permutations("abcdefghi"))
    names = draw(st.lists(st.sampled_from(["p-decision-1", "p-decision-2", "p-decision-3"]), unique=True))
    sizes = [draw(st.integers(0, LIMIT)) for _ in names]
    found = []
    for index, (name, size) in enumerate(zip(names, sizes, strict=True)):
        found.append(MirroredDecision(name, index, tuple(sorted(order[:size]))))
        order = order[size:]
    return tuple(found)


FULL = tuple(
    MirroredDecision(f"p-decision-{n}", n, clusters) for n, clusters in enumerate([("a", "b", "c"), ("d", "e", "f")])
)
SWAPPED = tuple(
    MirroredDecision(f"p-decision-{n}", n, clusters) for n, clusters in enumerate([("b", "c", "d"), ("a", "e", "f")])
)


@given(states(), states())
@example(FULL, SWAPPED)
def test_nobody_vanishes_at_any_moment_and_no_object_is_over_the_limit(
    existing: tuple[MirroredDecision, ...], desired: tuple[MirroredDecision, ...]
) -> None:
    writes = mirror(existing, desired, LIMIT)
    stay = listed({one.name: one for one in existing}) & listed({one.name: one for one in desired})
    for end in range(len(writes) + 1):
        found = carried_out(existing, writes[:end])
        assert stay <= listed(found)
        assert all(len(one.clusters) <= LIMIT for one in found.values())
    assert carried_out(existing, writes) == {one.name: one for one in desired}


@given(states(), states(), st.data())
def test_another_process_goes_on_from_wherever_the_first_one_died(
    existing: tuple[MirroredDecision, ...], desired: tuple[MirroredDecision, ...], data: st.DataObject
) -> None:
    writes = mirror(existing, desired, LIMIT)
    torn = carried_out(existing, writes[: data.draw(st.integers(0, len(writes)))])
    rest = mirror(tuple(torn.values()), desired, LIMIT)
    stay = listed({one.name: one for one in existing}) & listed({one.name: one for one in desired})
    for end in range(len(rest) + 1):
        assert stay <= listed(carried_out(torn.values(), rest[:end]))
    assert carried_out(torn.values(), rest) == {one.name: one for one in desired}


def test_what_is_as_it_should_be_is_not_written() -> None:
    assert mirror(FULL, FULL, LIMIT) == ()


def test_one_cluster_more_is_one_write() -> None:
    more = (FULL[0], MirroredDecision("p-decision-1", 1, ("d", "e")))
    assert mirror(more, (FULL[0], FULL[1]), LIMIT) == (WriteMirrored(FULL[1]),)


def test_full_objects_that_exchange_clusters_need_a_third_one_for_the_time_being() -> None:
    writes = mirror(FULL, SWAPPED, LIMIT)
    assert writes == (
        WriteMirrored(MirroredDecision("p-decision-0-moving-1", 2, ("a",))),
        WriteMirrored(SWAPPED[0]),
        WriteMirrored(SWAPPED[1]),
        DeleteMirrored("p-decision-0-moving-1"),
    )


def test_objects_with_room_exchange_clusters_without_another_one() -> None:
    assert mirror(FULL, SWAPPED, LIMIT + 1) == (
        WriteMirrored(MirroredDecision("p-decision-0", 0, ("a", "b", "c", "d"))),
        WriteMirrored(SWAPPED[1]),
        WriteMirrored(SWAPPED[0]),
    )


def test_copies_are_numbered_by_group_and_then_by_decision() -> None:
    slices = [
        Slice("p-decision-10", "", 1, 1, ("d",)),
        Slice("p-decision-9", "", 1, 1, ("c",)),
        Slice("p-decision-2", "canary", 0, 0, ("b", "a")),
    ]
    assert mirrored_decisions(slices) == (
        MirroredDecision("p-decision-2", 0, ("a", "b")),
        MirroredDecision("p-decision-9", 1, ("c",)),
        MirroredDecision("p-decision-10", 2, ("d",)),
    )


def test_a_cluster_on_its_way_is_copied_once_and_a_surge_waited_for() -> None:
    slices = [Slice("p-decision-1", "", 0, 0, ("a", "b")), Slice("p-decision-2", "", 1, 1, ("b", "c"))]
    assert mirrored_decisions(slices, limit=2) == (
        MirroredDecision("p-decision-1", 0, ("a",)),
        MirroredDecision("p-decision-2", 1, ("b", "c")),
    )
    assert mirrored_decisions([Slice("p-decision-1", "", 0, 0, ("a", "b", "c"))], limit=2) is None
