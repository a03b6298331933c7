"""A cluster that waits is healthy; one that does not work is not."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.engine.align import interpreter_of
from echelon.engine.workload.member_health import member_health


def judged(kind: str, status: JSONObject, **spec: Any) -> str:
    api_version = "apps.kruise.io/v1alpha1" if kind == "CloneSet" else "apps/v1"
    obj = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"generation": 2},
        "spec": {"replicas": 4, **spec},
        "status": {"observedGeneration": 2, **status},
    }
    return member_health(obj, interpreter_of(obj))


@pytest.mark.parametrize(
    ("kind", "updated", "available", "spec", "health"),
    [
        ("Deployment", 4, 4, {}, "Healthy"),
        ("Deployment", 4, 3, {}, "Unhealthy"),
        ("Deployment", 2, 4, {}, "Unhealthy"),
        ("Deployment", 0, 4, {"paused": True}, "Healthy"),
        ("Deployment", 0, 3, {"paused": True}, "Unhealthy"),
        ("CloneSet", 1, 4, {"updateStrategy": {"partition": 3}}, "Healthy"),
        ("CloneSet", 0, 4, {"updateStrategy": {"partition": 3}}, "Unhealthy"),
        ("CloneSet", 1, 4, {"updateStrategy": {"partition": "75%"}}, "Healthy"),
        ("StatefulSet", 0, 4, {"updateStrategy": {"rollingUpdate": {"partition": 4}}}, "Healthy"),
        ("StatefulSet", 0, 4, {"updateStrategy": {"type": "OnDelete"}}, "Unhealthy"),
    ],
)
def test_workloads(kind: str, updated: int, available: int, spec: JSONObject, health: str) -> None:
    counts = {"replicas": 4, "updatedReplicas": updated, "availableReplicas": available}
    assert judged(kind, counts, **spec) == health
    assert judged(kind, {**counts, "observedGeneration": 1}, **spec) == "Unhealthy"


def test_of_kinds_that_nobody_judges_nothing_is_known() -> None:
    assert member_health({"apiVersion": "v1", "kind": "ConfigMap"}, None) == "Unknown"
    assert member_health({"apiVersion": "v1", "kind": "Service", "spec": {}}, None) == "Healthy"
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
    assert member_health(claim, None) == "Unhealthy"
