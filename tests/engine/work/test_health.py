"""Kinds that say little about themselves, kinds that nobody knows, and objects that make no sense."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.work.health import HEALTHY, Degraded, Progressing, grace_left, health
from tests.engine.work.statuses import counts, deployment, made, said


@pytest.mark.parametrize(
    ("version", "kind", "spec", "status", "expected"),
    [
        ("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"}, HEALTHY),
        (
            "v1",
            "PersistentVolumeClaim",
            {},
            {"phase": "Pending"},
            Progressing("ClaimPending", "no volume is bound yet"),
        ),
        ("v1", "PersistentVolumeClaim", {}, {"phase": "Lost"}, Degraded("ClaimLost", "its volume is lost")),
        ("v1", "Service", {"type": "ClusterIP"}, {"loadBalancer": {}}, HEALTHY),
        (
            "v1",
            "Service",
            {"type": "LoadBalancer"},
            {"loadBalancer": {}},
            Progressing("NoLoadBalancer", "the load balancer has no address yet"),
        ),
        ("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}, HEALTHY),
        ("v1", "Namespace", {}, {"phase": "Active"}, HEALTHY),
        ("v1", "Namespace", {}, {"phase": "Terminating"}, Progressing("Terminating", "is being deleted")),
        ("v1", "ConfigMap", None, None, HEALTHY),
        ("batch/v1", "CronJob", {}, {}, HEALTHY),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            {},
            {"conditions": [said("Available", "False", "MissingEndpoints", "no endpoints")]},
            Progressing("NotAvailable", "no endpoints"),
        ),
        ("apiregistration.k8s.io/v1", "APIService", {}, {"conditions": [said("Available", "True")]}, HEALTHY),
    ],
)
def test_other_kinds_of_kubernetes(
    version: str, kind: str, spec: JSONObject | None, status: JSONObject | None, expected: object
) -> None:
    assert health(made(version, kind, spec, status)) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], Progressing("NotEstablished", "the API server does not serve it yet")),
        ([said("NamesAccepted", "True")], Progressing("NotEstablished", "the API server does not serve it yet")),
        ([said("NamesAccepted", "True"), said("Established", "True")], HEALTHY),
        (
            [said("NamesAccepted", "False", message='"widgets" is already in use'), said("Established", "False")],
            Degraded("NamesNotAccepted", '"widgets" is already in use'),
        ),
    ],
)
def test_a_definition_is_done_when_it_is_served(conditions: list[JSONObject], expected: object) -> None:
    obj = made("apiextensions.k8s.io/v1", "CustomResourceDefinition", {}, {"conditions": conditions})
    assert health(obj) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [said("Ready", "True")]}, HEALTHY),
        ({"conditions": [said("Ready", "False", message="installing")]}, Progressing("NotReady", "installing")),
        ({"conditions": [said("Ready", "Unknown", "Checking")]}, Progressing("NotReady", "Checking")),
        (
            {"conditions": [said("Ready", "True"), said("Available", "False", message="0 up")]},
            Progressing("NotAvailable", "0 up"),
        ),
        (
            {"observedGeneration": 2, "conditions": [said("Ready", "True")]},
            Progressing("NotObserved", "the controller has not seen the present spec yet"),
        ),
        (
            {"conditions": [said("Ready", "True", observedGeneration=2)]},
            Progressing("NotObserved", "the controller has not seen the present spec yet"),
        ),
        ({"observedGeneration": 3, "conditions": [said("Ready", "True", observedGeneration=3)]}, HEALTHY),
        (
            {"conditions": [said("Stalled", "True", "InvalidSpec", "no such chart"), said("Ready", "False")]},
            Degraded("Stalled", "no such chart"),
        ),
        (
            {"conditions": [said("Reconciling", "True", message="upgrading"), said("Ready", "True")]},
            Progressing("Reconciling", "upgrading"),
        ),
        ({"phase": "whatever"}, HEALTHY),
        ({}, HEALTHY),
    ],
)
def test_an_unknown_kind_is_taken_at_its_word(status: JSONObject, expected: object) -> None:
    assert health(made("example.com/v1", "Widget", {}, status)) == expected


def test_an_object_that_is_being_deleted_is_progressing_whatever_it_says() -> None:
    leaving = deployment(counts(3, 5, 5, 5))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert health(leaving) == Progressing("Terminating", "is being deleted")


KNOWN = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("v1", "Namespace"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apps.kruise.io/v1alpha1", "CloneSet"),
    ("grove.io/v1alpha1", "PodCliqueSet"),
    ("grove.io/v1alpha1", "PodClique"),
    ("grove.io/v1alpha1", "PodCliqueScalingGroup"),
    ("example.com/v1", "Widget"),
]
FIELDS = st.sampled_from(
    [
        "replicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "generation",
        "conditions",
        "type",
        "status",
        "reason",
        "message",
        "phase",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "containerStatuses",
        "state",
        "waiting",
        "loadBalancer",
        "ingress",
        "suspend",
        "completions",
        "currentRevision",
        "updateRevision",
        "updateProgress",
        "lastErrors",
        "deletionTimestamp",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["True", "Ready", "100%", "²%", ""])
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5), max_leaves=20
)


@given(kind=st.sampled_from(KNOWN), metadata=ANYTHING, spec=ANYTHING, status=ANYTHING)
def test_whatever_an_object_says_health_has_an_answer(
    kind: tuple[str, str], metadata: Any, spec: Any, status: Any
) -> None:
    obj = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec, "status": status}
    judged = health(obj)
    assert judged == HEALTHY or isinstance(judged, Progressing | Degraded)


@given(obj=st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "status"]), ANYTHING))
def test_what_is_no_object_at_all_has_an_answer_too(obj: JSONObject) -> None:
    assert health(obj) is not None


WIDGET: JSONObject = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}}


@pytest.mark.parametrize(
    ("obj", "age", "left"),
    [
        (WIDGET, 0, 10),
        (WIDGET, 7, 3),
        (WIDGET, 10, 0),
        (WIDGET, 3600, 0),
        (WIDGET, -1, 0),  # of another clock
        (WIDGET, None, 0),
        ({**WIDGET, "status": {}}, 0, 10),
        ({**WIDGET, "status": {"phase": "Open"}}, 0, 0),
        ({**WIDGET, "apiVersion": "batch/v1", "kind": "CronJob"}, 0, 0),
        ({**WIDGET, "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_only_what_nobody_knows_and_nobody_has_spoken_of_gets_a_moment(
    obj: JSONObject, age: int | None, left: int
) -> None:
    assert grace_left(obj, None if age is None else timedelta(seconds=age)) == timedelta(seconds=left)
