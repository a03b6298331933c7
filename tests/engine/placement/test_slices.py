"""Decision objects: their names and contents, and what can be read back from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.meta import ObjectMeta
from echelon.api.placement import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from echelon.engine.placement.groups import Group
from echelon.engine.placement.slices import (
    INDEX_LABEL,
    NAME_LABEL,
    SERIAL_ANNOTATION,
    Slice,
    read_slice,
    recall,
    reslice,
    slice_annotations,
    slice_labels,
)


def clusters(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"c{n:03}" for n in range(first, last + 1))


def test_without_slices_numbers_run_over_all_groups() -> None:
    groups = [Group("", clusters(1, 150)), Group("", clusters(151, 290))]
    assert [(one.name, one.group_index, one.clusters) for one in reslice("p", (), groups)] == [
        ("p-decision-1", 0, clusters(1, 100)),
        ("p-decision-2", 0, clusters(101, 150)),
        ("p-decision-3", 1, clusters(151, 250)),
        ("p-decision-4", 1, clusters(251, 290)),
    ]


def test_an_empty_group_has_an_empty_slice() -> None:
    assert reslice("p", (), [Group("")]) == (Slice("p-decision-1", "", 0, 0),)


def test_a_slice_over_the_limit_gives_up_its_highest_names() -> None:
    assert reslice("p", [Slice("p-decision-1", "", 0, 0, ("a", "b", "c"))], [Group("", ("a", "b", "c"))], limit=2) == (
        Slice("p-decision-1", "", 0, 0, ("a", "b")),
        Slice("p-decision-2", "", 0, 0, ("c",)),
    )


def test_a_cluster_listed_twice_in_a_group_is_kept_once() -> None:
    twice = [Slice("p-decision-1", "", 0, 0, ("a",)), Slice("p-decision-2", "", 0, 0, ("a", "b"))]
    assert [one.clusters for one in reslice("p", twice, [Group("", ("a", "b"))])] == [("a",), ("b",)]


def test_a_slice_that_holds_clusters_serves_no_other_group() -> None:
    existing = [Slice("p-decision-1", "", 0, 0, ("a",))]
    assert reslice("p", existing, [Group("canary", ("a",))]) == (Slice("p-decision-2", "canary", 0, 0, ("a",)),)


def test_the_empty_slice_of_an_empty_placement_serves_the_first_group() -> None:
    groups = [Group("canary", ("a",)), Group("", ("b",))]
    assert reslice("p", [Slice("p-decision-1", "", 0, 0)], groups) == reslice("p", (), groups)


@pytest.mark.parametrize("name", ["other-decision-1", "p-decision-x", "p-decision-01", "p-decision-"])
def test_a_decision_with_a_foreign_name_is_replaced(name: str) -> None:
    assert [one.name for one in reslice("p", [Slice(name, "", 0, 0, ("a",))], [Group("", ("a",))])] == ["p-decision-1"]


def test_a_group_keeps_its_serial_when_its_index_moves() -> None:
    existing = [Slice("p-decision-1", "", 0, 0, ("a",)), Slice("p-decision-2", "", 1, 1, ("b",))]
    groups = [Group("canary", ("c",)), Group("", ("a",)), Group("", ("b",)), Group("", ("d",))]
    assert [(one.name, one.group_index, one.group_serial) for one in reslice("p", existing, groups)] == [
        ("p-decision-3", 0, 0),
        ("p-decision-1", 1, 0),
        ("p-decision-2", 2, 1),
        ("p-decision-4", 3, 3),
    ]


def test_a_group_torn_between_two_indexes_is_remembered_as_one() -> None:
    torn = [
        Slice("p-decision-1", "", 0, 0, ("a",)),
        Slice("p-decision-2", "", 2, 0, ("b",)),
        Slice("p-decision-3", "", 3, 1, ("c",)),
    ]
    assert recall(torn).groups == (Group("", ("a", "b")), Group("", ("c",)))


def test_a_cluster_in_two_groups_is_remembered_in_the_one_with_the_higher_index() -> None:
    listed = [Slice("p-decision-2", "", 1, 1, ("a",)), Slice("p-decision-1", "canary", 0, 0, ("a", "b"))]
    memory = recall(listed)
    assert memory.groups == (Group("", ("a",)), Group("canary", ("b",)))
    assert memory.clusters == {"a", "b"}


def test_a_group_that_waits_for_its_place_is_no_memory() -> None:
    waiting = [Slice("p-decision-1", "", 0, 0, ("a",)), Slice("p-decision-2", "canary", 2, 0)]
    assert recall(waiting).groups == (Group("", ("a",)),)


def test_an_emptied_group_in_the_middle_is_remembered() -> None:
    slices = [Slice("p-decision-1", "canary", 0, 0), Slice("p-decision-2", "", 1, 1, ("a",))]
    assert recall(slices).groups == (Group("", ("a",)), Group("canary"))


def test_nothing_published_is_nothing_remembered() -> None:
    assert recall([Slice("p-decision-1", "", 0, 0)]).groups == ()


SLICES = st.builds(
    Slice,
    name=st.just("p-decision-1"),
    group_name=st.sampled_from(["", "canary"]),
    group_index=st.integers(0, 12),
    group_serial=st.integers(0, 12),
    clusters=st.lists(st.sampled_from("abc"), unique=True).map(tuple),
)


@given(SLICES)
def test_what_is_written_is_read_back(one: Slice) -> None:
    annotations = {key: value for key, value in slice_annotations(one).items() if value is not None}
    assert read_slice(decision(one.name, slice_labels(one), annotations, one.clusters)) == one


def test_a_group_whose_serial_equals_its_index_needs_no_annotation() -> None:
    assert slice_annotations(Slice("p-decision-1", "", 3, 3)) == {SERIAL_ANNOTATION: None}
    assert slice_labels(Slice("p-decision-1", "", 3, 3)) == {INDEX_LABEL: "3", NAME_LABEL: ""}


@pytest.mark.parametrize("labels", [{}, {INDEX_LABEL: "first"}, {INDEX_LABEL: "-1"}])
def test_labels_that_make_no_sense_read_as_missing(labels: dict[str, str]) -> None:
    assert read_slice(decision("p-decision-1", labels, {}, ("a",))) == Slice("p-decision-1", "", 0, 0, ("a",))


def test_a_decision_without_a_status_is_empty() -> None:
    assert read_slice(PlacementDecision(metadata=ObjectMeta(name="p-decision-1"))) == Slice("p-decision-1", "", 0, 0)


def decision(
    name: str, labels: dict[str, str], annotations: dict[str, str], listed: tuple[str, ...]
) -> PlacementDecision:
    entries = [ClusterDecision(cluster_name=cluster, reason="") for cluster in listed]
    return PlacementDecision(
        metadata=ObjectMeta(name=name, labels=labels, annotations=annotations),
        status=PlacementDecisionStatus(decisions=entries),
    )
