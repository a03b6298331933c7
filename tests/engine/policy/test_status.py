"""The status of a policy fits into what a server takes, and says what it leaves out."""

from collections.abc import Collection, Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.policy import ClusterCompliance, PolicyStatus
from echelon.engine.policy.cluster_list import MOST_BYTES, is_crowded, room_for
from echelon.engine.policy.status import compliance_of

MEBIBYTE = 1 << 20
STATES = ("Compliant", "NonCompliant", "Pending", "", "odd")


def entry(name: str, status: str) -> ClusterCompliance:
    return ClusterCompliance(clustername=name, clusternamespace=name, compliant="NonCompliant", rollout_status=status)


def fleet(settled: int, waiting: int = 0, flying: int = 0, width: int = 20) -> list[ClusterCompliance]:
    statuses = ["Succeeded"] * settled + ["ToApply"] * waiting + ["Failed"] * flying
    return [entry(f"{number:0{width}d}", status) for number, status in enumerate(statuses)]


def timed(clusters: Iterable[ClusterCompliance], untimed: Collection[str] = ()) -> list[ClusterCompliance]:
    """Return clusters with times."""
    time = "2026-11-01T12:00:00.000000Z"
    return [
        each if each.clustername in untimed else msgspec.structs.replace(each, rollout_last_transition_time=time)
        for each in clusters
    ]


def fitting(clusters: list[ClusterCompliance], settled: set[str]) -> tuple[list[ClusterCompliance], str]:
    """Return what is told of clusters, and what is left out."""
    names = {each.clustername for each in clusters}
    looked_at = [each for each in clusters if each.clustername not in settled] if is_crowded(names) else clusters
    room = room_for(looked_at, settled, len(clusters))
    assert room == room_for(clusters, settled, len(clusters))
    return timed(room.listed, room.untimed), room.left_out


def size(clusters: list[ClusterCompliance]) -> int:
    return len(msgspec.json.encode(PolicyStatus(status=clusters)))


def settled_of(clusters: list[ClusterCompliance]) -> set[str]:
    return {each.clustername for each in clusters if each.rollout_status == "Succeeded"}


@pytest.mark.parametrize(
    ("settled", "waiting", "flying"),
    [(10_000, 0, 0), (0, 10_000, 0), (5_000, 4_900, 100), (0, 0, 10_000), (100, 9_000, 900)],
)
@pytest.mark.parametrize("width", [5, 20, 63])
def test_ten_thousand_clusters_fit(settled: int, waiting: int, flying: int, width: int) -> None:
    clusters = fleet(settled, waiting, flying, width)
    listed, why = fitting(clusters, settled_of(clusters))
    assert size(listed) < MEBIBYTE
    assert bool(why) == (listed != timed(clusters))


@given(st.integers(0, 9000), st.integers(0, 6000), st.integers(0, 3000))
def test_what_somebody_has_to_look_at_goes_last(settled: int, waiting: int, flying: int) -> None:
    clusters = fleet(settled, waiting, flying)
    listed, why = fitting(clusters, settled_of(clusters))
    names = {each.clustername for each in listed}
    assert size(listed) < MEBIBYTE
    assert [each for each in listed if each.rollout_status == "Failed"] == timed(clusters[settled + waiting :])
    if len(listed) < len(clusters):
        assert f"{len(clusters) - len(listed)} of {len(clusters)}" in why
        assert names.isdisjoint(settled_of(clusters))
    elif why:
        with_time = {each.rollout_status for each in listed if each.rollout_last_transition_time}
        assert "Succeeded" not in with_time
        assert ("ToApply" in with_time) == (bool(waiting) and "wait" not in why)
    else:
        assert listed == timed(clusters)


def test_those_that_wait_keep_their_place_for_as_long_as_it_goes() -> None:
    clusters = fleet(5000, 5000, 10)
    listed, _ = fitting(clusters, settled_of(clusters))
    assert [each.clustername for each in listed] == [each.clustername for each in clusters[5000:]]


def test_a_short_list_is_left_as_it_is() -> None:
    clusters = fleet(1000, 1000, 1000)
    assert fitting(clusters, settled_of(clusters)) == (timed(clusters), "")
    assert size(timed(clusters)) < MOST_BYTES


@given(st.sets(st.sampled_from(STATES)))
def test_a_policy_is_as_good_as_the_worst_of_its_clusters(states: set[str]) -> None:
    found = compliance_of(states)
    if "NonCompliant" in states:
        assert found == "NonCompliant"
    elif "Pending" in states:
        assert found == "Pending"
    else:
        assert found == ("Compliant" if states == {"Compliant"} else "")
