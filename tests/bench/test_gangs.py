"""Gangs of pods are measured from end to end with few; what they cost is not judged, but what is deleted is."""

from typing import Any

import pytest

from bench import gangs
from bench.gang_counter import GangCounter
from bench.progress import Progress
from echelon.api.base import JSONObject
from echelon.hub.storage.store import Change, Entry, Key
from echelon.kube.client import EventType
from tests.bench.test_bench import measured

pytestmark = pytest.mark.full


@pytest.mark.parametrize("pods", [10, 50, 200, 1_000, 10_000])
def test_a_shape_has_the_pods_that_were_asked_for(pods: int) -> None:
    assert gangs.Shape.of(pods).pods == pods


def test_ten_thousand_pods_are_in_about_a_thousand_cliques() -> None:
    shape = gangs.Shape.of(gangs.PODS)
    assert shape.replicas * (2 + 2 * (shape.prefill + shape.decode)) == 960


def test_a_set_is_measured_until_it_serves_and_until_it_is_updated() -> None:
    laps = gangs.measure(Progress(), 200)
    assert [one.title for one in laps] == [
        "200 gang pods, until all are ready",
        "20 gang pods, until all are ready",
        "20 gang pods, updated by RollingRecreate",
    ]
    assert all(one.microseconds > 0 and one.longest > 0 and one.whose for one in laps)
    assert all(0 < one.seconds < gangs.READY_LIMIT for one in laps)
    assert [one.taken for one in laps] == [0, 0, 1 + 4 + 3]
    assert [one.below for one in laps] == [0, 0, 0]
    assert "units taken" in gangs.table(laps).splitlines()[0]
    assert gangs.figures(laps)["20 gang pods, updated by RollingRecreate: units taken against the floor"] == 0


@pytest.mark.full
def test_the_figures_are_printed_for_comparing_runs() -> None:
    figures = measured("gangs")["gangs"]
    assert figures["50 gang pods, until all are ready: virtual seconds"] > 0
    assert figures["10 gang pods, updated by RollingRecreate: units taken against the floor"] == 0


class Cluster:
    """Commits what a counter counts: a standalone clique and a scaling group in each of two replicas of a set."""

    def __init__(self) -> None:
        self.counter = GangCounter()
        self.pods: dict[str, JSONObject] = {}
        for replica in ("0", "1"):
            index = {"grove.io/podcliqueset-replica-index": replica}
            self.commit("podcliques.grove.io", f"front-{replica}", index, {"replicas": 3, "minAvailable": 2})
            self.commit(
                "podcliquescalinggroups.grove.io", f"group-{replica}", index, {"replicas": 2, "minAvailable": 2}
            )
            for pod in ("a", "b", "c"):
                self.pod(f"front-{replica}", pod)
            for unit in ("0", "1"):
                labels = {
                    **index,
                    "grove.io/podcliquescalinggroup": f"group-{replica}",
                    "grove.io/podcliquescalinggroup-replica-index": unit,
                }
                for clique, pods in (("lead", ("a",)), ("work", ("a", "b", "c"))):
                    name = f"group-{replica}-{unit}-{clique}"
                    spec = {"replicas": len(pods), "minAvailable": max(1, len(pods) - 1)}
                    self.commit("podcliques.grove.io", name, labels, spec)
                    for pod in pods:
                        self.pod(name, pod)

    def commit(self, resource: str, name: str, labels: dict[str, str], spec: JSONObject, **parts: Any) -> None:
        body = {"metadata": {"name": name, "labels": labels}, "spec": spec, **parts}
        entry = Entry(Key(resource, "default", name), 1, 1, labels, decoded=body)
        self.counter.committed(Change(EventType.MODIFIED, 1, entry))

    def pod(self, clique: str, pod: str, *, ready: bool = True, gone: bool = False) -> None:
        body = {
            "metadata": {"labels": {"grove.io/podclique": clique}, **({"deletionTimestamp": "now"} if gone else {})},
            "spec": {"containers": [{"image": "v1"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        }
        entry = Entry(Key("pods", "default", f"{clique}-{pod}"), 1, 1, {}, decoded=body)
        self.counter.committed(Change(EventType.MODIFIED, 1, entry))

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.counter.taken, self.counter.below, self.counter.beside


def test_a_ready_pod_that_goes_beneath_the_floor_is_counted() -> None:
    cluster = Cluster()
    cluster.pod("front-0", "a", gone=True)
    assert cluster.counts == (1, 0, 0)
    cluster.pod("front-0", "b", gone=True)
    assert cluster.counts == (2, 1, 0)


def test_a_pod_that_is_not_ready_may_go() -> None:
    cluster = Cluster()
    cluster.pod("front-0", "a", ready=False)
    cluster.pod("front-0", "b", ready=False)
    cluster.pod("front-0", "a", gone=True)
    assert cluster.counts == (0, 0, 0)


def test_a_replica_of_a_group_is_one_unit_and_goes_with_the_pod_that_it_cannot_do_without() -> None:
    cluster = Cluster()
    cluster.pod("group-0-0-work", "a", gone=True)
    assert cluster.counts == (0, 0, 0), "two workers are enough"
    cluster.pod("group-0-0-work", "b", gone=True)
    cluster.pod("group-0-0-lead", "a", gone=True)
    assert cluster.counts == (1, 0, 0)
    cluster.pod("group-0-1-lead", "a", gone=True)
    assert cluster.counts == (2, 1, 0), "of two, of which two are needed, one at a time may go"


def test_a_unit_that_goes_while_another_replica_lacks_one_is_counted() -> None:
    cluster = Cluster()
    cluster.pod("group-0-0-lead", "a", gone=True)
    cluster.pod("front-1", "a", gone=True)
    assert cluster.counts == (2, 0, 1)
    cluster.pod("group-0-0-lead", "d")
    cluster.pod("front-1", "d")
    cluster.pod("group-0-0-lead", "d", gone=True)
    assert cluster.counts == (3, 0, 1)
