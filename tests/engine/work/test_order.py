"""What others need is applied first."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.work.order import OTHERS, UNREADABLE, apply_order, rank

LADDER = ["Namespace", "ClusterRole", "ServiceAccount", "ConfigMap", "Service", "Deployment", "APIService", "Guest"]


def manifest(kind: str, name: str = "x") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


UNREADABLES: list[Any] = [
    None,
    {},
    [],
    {"kind": "Pod"},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
    {"apiVersion": 1, "kind": "Pod", "metadata": {"name": "x"}},
]


def test_kinds_have_ranks() -> None:
    ranks = [rank(manifest(kind)) for kind in LADDER]
    assert ranks == [0, 1, 2, 3, 4, 5, 6, OTHERS]
    first = ["PriorityClass", "CustomResourceDefinition", "StorageClass", "PersistentVolume", "PodSecurityPolicy"]
    assert {rank(manifest(kind)) for kind in first} == {0}
    assert {rank(manifest(kind)) for kind in ("ClusterRoleBinding", "Role", "RoleBinding")} == {1}
    guards = ("NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget")
    assert {rank(manifest(kind)) for kind in guards} == {2}
    assert {rank(manifest(kind)) for kind in ("Secret", "PersistentVolumeClaim")} == {3}
    running = ("DaemonSet", "Pod", "ReplicaSet", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob")
    assert {rank(manifest(kind)) for kind in running} == {5}
    gates = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding")
    assert {rank(manifest(kind)) for kind in gates} == {6}


def test_what_cannot_be_read_comes_last() -> None:
    assert {rank(each) for each in UNREADABLES} == {UNREADABLE}
    assert apply_order([{}, manifest("Guest"), manifest("Pod"), manifest("Namespace")]) == (3, 2, 1, 0)


@given(st.lists(st.sampled_from([*map(manifest, LADDER), *UNREADABLES]), max_size=12))
def test_the_order_loses_nothing_and_keeps_the_spec_among_equals(manifests: list[Any]) -> None:
    order = apply_order(manifests)
    assert sorted(order) == list(range(len(manifests)))
    keys = [(rank(manifests[place]), place) for place in order]
    assert keys == sorted(keys)
