"""What consumers read from decisions, at rest and in the middle of an update."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.meta import ObjectMeta
from echelon.api.placement import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from echelon.engine.placement.decisions import DecisionGroups, GroupKey, UnreadableIndex, changes
from echelon.engine.placement.slices import INDEX_LABEL, NAME_LABEL, Slice

FIRST, SECOND, THIRD = GroupKey(0, "group1"), GroupKey(1, "group1"), GroupKey(2, "group2")


def groups(*contents: tuple[GroupKey, str]) -> DecisionGroups:
    return DecisionGroups.from_slices(
        Slice(f"p-decision-{n}", key.name, key.index, key.index, tuple(clusters.split()))
        for n, (key, clusters) in enumerate(contents, 1)
    )


THREE = groups((FIRST, "c1"), (SECOND, "c2"), (THIRD, "c3"))


@pytest.mark.parametrize(
    ("keys", "only", "besides"),
    [
        ([GroupKey(name="group1"), GroupKey(index=2), GroupKey(name="group3")], [FIRST, SECOND, THIRD], []),
        ([GroupKey(name="group1")], [FIRST, SECOND], [THIRD]),
        ([], [], [FIRST, SECOND, THIRD]),
        ([GroupKey()], [FIRST], [SECOND, THIRD]),
        ([GroupKey(index=2, name="group1")], [FIRST, SECOND], [THIRD]),
        ([GroupKey(index=2), GroupKey(name="group2")], [THIRD], [FIRST, SECOND]),
        ([GroupKey(index=9)], [], [FIRST, SECOND, THIRD]),
    ],
)
def test_groups_are_asked_for_by_name_or_else_by_index(
    keys: list[GroupKey], only: list[GroupKey], besides: list[GroupKey]
) -> None:
    assert list(THREE.only(keys)) == only
    assert list(THREE.besides(keys)) == besides


def test_clusters_and_their_groups() -> None:
    assert THREE.clusters == {"c1", "c2", "c3"}
    assert THREE.group_of("c2") == SECOND
    assert THREE.group_of("c4") is None


def test_changes_since_the_last_look() -> None:
    before = groups((GroupKey(), "c1 c2"))
    after = groups((GroupKey(), "c1"), (GroupKey(1), "c3"))
    assert changes(before, after) == (frozenset({"c3"}), frozenset({"c2"}))


def test_a_cluster_that_only_changes_its_group_is_no_change() -> None:
    assert changes(groups((GroupKey(), "c1")), groups((GroupKey(1), "c1"))) == (frozenset(), frozenset())


def test_gaps_in_the_indexes_hide_nothing() -> None:
    gapped = groups((GroupKey(0), "c1"), (GroupKey(7), "c2"))
    assert list(gapped.besides([])) == [GroupKey(0), GroupKey(7)]
    assert gapped.clusters == {"c1", "c2"}


def test_groups_are_ordered_by_number_not_by_text() -> None:
    assert [key.index for key in groups((GroupKey(10), "a"), (GroupKey(9), "b")).groups] == [9, 10]


def test_an_index_with_two_names_shows_both() -> None:
    shared = groups((GroupKey(0, "canary"), "c1"), (GroupKey(0), "c2"))
    assert shared.clusters == {"c1", "c2"}
    assert set(shared.only([GroupKey(index=0)])) == {GroupKey(0), GroupKey(0, "canary")}


@pytest.mark.parametrize("turned", [False, True])
def test_a_cluster_in_two_groups_counts_in_the_later_one(turned: bool) -> None:
    listed = [(GroupKey(0, "canary"), "c1 c2"), (GroupKey(1), "c1")]
    read = groups(*(reversed(listed) if turned else listed))
    assert read.groups == {GroupKey(0, "canary"): {"c2"}, GroupKey(1): {"c1"}}


def test_empty_decisions_show_their_group() -> None:
    assert groups((GroupKey(3, "canary"), "")).groups == {GroupKey(3, "canary"): frozenset()}


def decision(labels: dict[str, str], *listed: str) -> PlacementDecision:
    entries = [ClusterDecision(cluster_name=cluster, reason="") for cluster in listed]
    meta = ObjectMeta(name="p-decision-1", labels=labels)
    return PlacementDecision(metadata=meta, status=PlacementDecisionStatus(decisions=entries))


def test_decisions_as_they_are_on_the_wire() -> None:
    wire = [
        decision({INDEX_LABEL: "0", NAME_LABEL: "canary"}, "c1"),
        decision({INDEX_LABEL: "1", NAME_LABEL: ""}, "c2"),
    ]
    assert DecisionGroups.from_decisions(wire).groups == {GroupKey(0, "canary"): {"c1"}, GroupKey(1): {"c2"}}


def test_a_decision_without_an_index_is_in_group_0() -> None:
    assert DecisionGroups.from_decisions([decision({}, "c1")]).group_of("c1") == GroupKey()


@pytest.mark.parametrize("index", ["one", "-1", "", "1.0", "²", "9" * 10])
def test_an_index_that_is_no_number_is_not_guessed(index: str) -> None:
    with pytest.raises(UnreadableIndex, match="incorrect group index: decision p-decision-1 has"):
        DecisionGroups.from_decisions([decision({INDEX_LABEL: index}, "c1")])


KEYS = st.builds(GroupKey, index=st.integers(0, 4), name=st.sampled_from(["", "group1", "group2"]))


@given(
    st.lists(st.tuples(KEYS, st.lists(st.sampled_from("abcd"), unique=True).map(" ".join))), st.lists(KEYS, max_size=3)
)
def test_every_cluster_is_in_exactly_one_group_and_on_one_side(
    contents: list[tuple[GroupKey, str]], keys: list[GroupKey]
) -> None:
    read = groups(*contents)
    listed = {cluster for _, clusters in contents for cluster in clusters.split()}
    assert read.clusters == listed
    assert sum(len(clusters) for clusters in read.groups.values()) == len(listed)
    only, besides = read.only(keys), read.besides(keys)
    assert {**only, **besides} == read.groups
    assert not only.keys() & besides.keys()
