"""What an agent tells of an object, and what the hub makes of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.align import Grant, Interpreter, MemberView, interpreter_of
from echelon.engine.align.reflection import read_snapshot, reflect, refused_push, snapshot_of
from echelon.engine.align.under_way import (
    PODS,
    REPLICA_SETS,
    PodFacts,
    SetFacts,
    UnderWay,
    children_of,
    read_pod,
    read_replica_set,
    under_pods,
    under_replica_sets,
)

TEMPLATE = {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "main", "image": "nginx:v2"}]}}
OWNER = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo", "uid": "uid", "controller": True}]


def workload(kind: str = "Deployment", api_version: str = "apps/v1", **status: Any) -> JSONObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": "demo",
            "uid": "uid",
            "resourceVersion": "40",
            "generation": 3,
            "annotations": {"echelon.dev/push-id": "7", "resourcetemplate.karmada.io/generation": "5"},
        },
        "spec": {"replicas": 4, "template": TEMPLATE},
        "status": {"observedGeneration": 3, "replicas": 4, "availableReplicas": 3, "updatedReplicas": 2, **status},
    }


def known(obj: JSONObject) -> Interpreter:
    found = interpreter_of(obj)
    assert found is not None
    return found


def replica_set(size: int, replicas: int, available: int, *, image: str = "nginx:v2", observed: int = 2) -> JSONObject:
    labels = {"app": "demo", "pod-template-hash": image[-2:]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "metadata": {"ownerReferences": OWNER, "generation": 2, "name": "demo-x"},
        "spec": {"replicas": size, "template": template},
        "status": {"replicas": replicas, "availableReplicas": available, "observedGeneration": observed},
    }


def facts(*sets: JSONObject) -> list[SetFacts]:
    return [found for each in sets if (found := read_replica_set(each, "uid")) is not None]


def pod(name: str, revision: str, *, ready: bool = True, **meta: Any) -> JSONObject:
    labels = {"controller-revision-hash": revision, **meta.pop("labels", {})}
    since = "2026-01-01T00:00:00Z"
    return {
        "metadata": {"name": name, "labels": labels, "ownerReferences": OWNER, **meta},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}],
        },
    }


def pods(*found: JSONObject, min_ready_seconds: int = 0, now: float = 2e9) -> list[PodFacts]:
    return [each for pod in found if (each := read_pod(pod, "uid", min_ready_seconds, now)) is not None]


def test_a_deployment_is_reflected_as_karmada_does_with_its_snapshot_beside_it() -> None:
    obj = workload(readyReplicas=3, unavailableReplicas=1, conditions=[{"type": "Available"}])
    reflected = reflect(obj, known(obj))
    snapshot = reflected.pop("snapshot")
    assert reflected == {
        "replicas": 4,
        "updatedReplicas": 2,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "unavailableReplicas": 1,
        "observedGeneration": 3,
        "generation": 3,
        "resourceTemplateGeneration": 5,
        "specReplicas": 4,
        "rolloutPushId": 7,
        "templateHash": known(obj).template_hash(obj),
    }
    assert snapshot == {
        "uid": "uid",
        "version": 40,
        "pushId": 7,
        "generation": 3,
        "observedGeneration": 3,
        "replicas": 4,
        "pods": 4,
        "available": 3,
        "updated": 2,
        "told": 4,
    }


def test_what_a_deployment_has_told_its_replica_sets_is_read_from_them() -> None:
    obj = workload()
    old = replica_set(1, 3, 3, image="nginx:v1")  # two pods have yet to go
    new = replica_set(3, 2, 1)
    foreign = {**replica_set(9, 9, 9), "metadata": {"generation": 1}}
    found = under_replica_sets(obj, facts(old, new, foreign), 90, {})
    assert found == UnderWay(90, pods=6, available=4, updated=3, settled=False, told=4)
    view = snapshot_of(obj, known(obj), found)
    assert view is not None
    assert (view.version, view.pods, view.available, view.updated, view.told, view.settled) == (90, 6, 4, 3, 4, False)


def test_what_replica_sets_with_pods_remember_is_read_from_them() -> None:
    def resized(size: int, most: str) -> JSONObject:
        found = replica_set(size, size, size)
        meta = {**found["metadata"], "annotations": {"deployment.kubernetes.io/max-replicas": most}}
        return {**found, "metadata": meta}

    def remembered(*sets: JSONObject) -> tuple[int, int] | None:
        found = under_replica_sets(workload(), facts(*sets), 90, {})
        assert found is not None
        return found.resized

    assert remembered(resized(3, "7"), resized(1, "5"), resized(0, "90")) == (5, 7)
    # Of one that does not say so nobody knows.
    assert remembered(resized(3, "7"), resized(1, "many")) is None
    assert remembered(resized(3, "7"), replica_set(1, 1, 1)) is None


@pytest.mark.parametrize(
    ("sets", "settled"),
    [
        ([replica_set(4, 4, 4)], True),
        ([replica_set(4, 4, 1)], True),  # a pod that is not available is not under way
        ([replica_set(4, 4, 4, observed=1)], False),
        ([replica_set(4, 3, 3)], False),
        ([replica_set(4, 4, 4), replica_set(0, 1, 0, image="nginx:v1")], False),
        ([], True),
    ],
)
def test_a_deployment_is_settled_when_all_its_replica_sets_are_observed_and_at_size(
    sets: list[JSONObject], settled: bool
) -> None:
    found = under_replica_sets(workload(), facts(*sets), 90, {})
    assert found is not None
    assert found.settled is settled


def test_of_a_deployment_that_has_not_observed_its_spec_the_template_before_tells_which_pods_are_updated() -> None:
    obj = workload(observedGeneration=2)
    old, new = replica_set(4, 4, 4, image="nginx:v1"), replica_set(0, 0, 0)
    before = facts(old)[0].template
    assert under_replica_sets(obj, facts(old, new), 90, {}) is None
    found = under_replica_sets(obj, facts(old, new), 90, {2: before})
    assert found is not None
    assert (found.updated, found.settled) == (4, False)


def test_a_clone_set_is_settled_when_no_pod_is_marked() -> None:
    obj = workload("CloneSet", "apps.kruise.io/v1alpha1", updateRevision="demo-b")
    marks = {"apps.kruise.io/specified-delete": "true"}
    found = [
        pod("demo-x", "demo-a", labels=marks),
        pod("demo-y", "b"),
        pod("demo-z", "demo-b", ready=False),
        pod("demo-w", "demo-b", deletionTimestamp="2026-01-01T00:00:00Z", labels=marks),
        {**pod("demo-v", "demo-b"), "status": {"phase": "Failed"}},
        pod("stranger", "demo-b", ownerReferences=[]),
    ]
    assert under_pods(obj, known(obj), pods(*found), 90) == UnderWay(90, 3, 2, 2, settled=False)
    assert under_pods(obj, known(obj), pods(*found[1:]), 90).settled
    unobserved = workload("CloneSet", "apps.kruise.io/v1alpha1", observedGeneration=2)
    assert not under_pods(unobserved, known(unobserved), [], 90).settled
    hooked = pod("demo-u", "demo-a", labels={"lifecycle.apps.kruise.io/state": "PreparingDelete"})
    assert not under_pods(obj, known(obj), pods(hooked), 90).settled


def test_a_stateful_set_is_settled_when_no_ordinal_from_the_partition_on_is_outdated() -> None:
    obj = workload("StatefulSet", updateRevision="demo-b")
    obj["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": 2}}
    outdated = [pod(f"demo-{n}", "demo-a") for n in range(2)]
    updated = [pod(f"demo-{n}", "demo-b") for n in (2, 3)]
    assert under_pods(obj, known(obj), pods(*outdated, *updated), 90) == UnderWay(90, 4, 4, 2, settled=True)
    assert not under_pods(obj, known(obj), pods(*outdated, updated[0], pod("demo-3", "demo-a")), 90).settled
    obj["spec"]["ordinals"] = {"start": 1}
    assert under_pods(obj, known(obj), pods(pod("demo-2", "demo-a")), 90).settled


def test_a_pod_is_available_when_it_has_been_ready_for_long_enough() -> None:
    since = 1767225600.0  # the time in `pod`
    assert [each.available for each in pods(pod("a", "r"), min_ready_seconds=10, now=since + 9)] == [False]
    assert [each.available for each in pods(pod("a", "r"), min_ready_seconds=10, now=since + 10)] == [True]
    assert [each.available for each in pods(pod("a", "r"), now=since - 5)] == [True]  # its clock is ahead of ours


def test_which_children_tell_is_known_for_the_kinds_that_we_know() -> None:
    assert children_of(known(workload())) == REPLICA_SETS
    assert children_of(known(workload("StatefulSet"))) == PODS
    assert children_of(known(workload("CloneSet", "apps.kruise.io/v1beta1"))) == PODS


def test_a_kind_without_an_interpreter_is_reflected_as_it_is() -> None:
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"generation": 1}, "status": status}
    assert reflect(claim) == status
    job = {"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1, "uncountedTerminatedPods": {}}}
    assert reflect(job) == {"active": 1}


def test_an_object_without_a_push_has_no_snapshot() -> None:
    obj = workload()
    obj["metadata"]["annotations"] = {"resourcetemplate.karmada.io/generation": "soon"}
    reflected = reflect(obj, known(obj))
    assert "snapshot" not in reflected
    assert "rolloutPushId" not in reflected
    assert "resourceTemplateGeneration" not in reflected
    assert read_snapshot(reflected) is None


def test_a_status_that_contradicts_itself_is_believed_where_it_promises_less() -> None:
    obj = workload("CloneSet", "apps.kruise.io/v1alpha1", replicas=2, availableReplicas=9, updatedReplicas=9)
    view = snapshot_of(obj, known(obj))
    assert view is not None
    assert (view.pods, view.available, view.updated) == (2, 2, 2)


GRANTS = st.builds(Grant, st.integers(0, 9), st.text(max_size=5), *[st.integers(0, 9)] * 4, paused=st.booleans())


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.none() | GRANTS, st.none() | st.booleans())
def test_what_the_agent_tells_is_what_the_hub_reads(
    count: int, available: int, updated: int, drift: Grant | None, settled: bool | None
) -> None:
    obj = workload()
    below = (
        None if settled is None else UnderWay(90, count, available, updated, settled, told=count, resized=(count, 20))
    )
    reflected = reflect(obj, known(obj), below, drift=drift)
    sent = msgspec.json.decode(msgspec.json.encode(reflected))
    told = snapshot_of(obj, known(obj), below, drift=drift)
    assert told is not None
    assert read_snapshot(sent) == told


def _good() -> JSONObject:
    found: JSONObject = msgspec.to_builtins(MemberView("uid", 40, 7, 3, 3, 4, 4, 3, 2))
    return found


@pytest.mark.parametrize(
    "change",
    [
        {"pods": -1},
        {"pods": "4"},
        {"pods": 4.5},
        {"pods": True},
        {"pods": 1 << 31},
        {"available": 5},
        {"updated": 5},
        {"missing": 3},
        {"pushId": None},
        {"pushId": 1 << 53},
        {"version": -1},
        {"uid": ""},
        {"uid": "x" * 254},
        {"settled": "yes"},
        {"drift": {"id": 7}},
        {"drift": {"id": 7, "revision": "a", "replicas": -1}},
    ],
)
def test_what_does_not_fit_is_no_snapshot(change: JSONObject) -> None:
    assert read_snapshot({"snapshot": _good()}) is not None
    assert read_snapshot({"snapshot": {**_good(), **change}}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["uid", "pods", "drift", "version"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_anything_at_all_can_be_read(anything: Any) -> None:
    assert read_snapshot({"snapshot": anything}) is None
    read_snapshot({"snapshot": {**_good(), "drift": anything}})


def test_a_refused_push_is_a_number_or_none() -> None:
    assert refused_push({"refusedPushId": 7}) == 7
    assert [refused_push({"refusedPushId": each}) for each in (0, -1, "7", True, 1 << 53, None)] == [None] * 6
