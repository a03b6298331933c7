"""Names of works and bindings are Karmada's: its tools and ours find the same objects."""

import pytest

from echelon.engine.workload.names import (
    LONGEST_CLUSTER_NAME,
    binding_name,
    cluster_of,
    execution_namespace,
    work_name,
)


def test_a_work_is_named_as_karmada_names_it() -> None:
    """The name that Karmada's documentation shows for its first example."""
    assert work_name("default", "nginx", "Deployment") == "nginx-687f7fb96f"


def test_works_of_different_kinds_and_namespaces_do_not_share_a_name() -> None:
    names = {
        work_name("default", "web", "Deployment"),
        work_name("default", "web", "StatefulSet"),
        work_name("shop", "web", "Deployment"),
        work_name("", "web", "Deployment"),
    }
    assert len(names) == 4


def test_the_hash_does_not_see_case() -> None:
    assert work_name("Default", "web", "DEPLOYMENT") == work_name("default", "web", "deployment")


def test_colons_become_dots() -> None:
    assert work_name("", "system:reader", "ClusterRole").startswith("system.reader-")
    assert binding_name("system:reader", "ClusterRole") == "system.reader-clusterrole"


@pytest.mark.parametrize(("name", "kind", "expected"), [("pod", "Pods", "pod-pods"), ("Pod", "pods", "pod-pods")])
def test_a_binding_is_named_in_lower_case(name: str, kind: str, expected: str) -> None:
    assert binding_name(name, kind) == expected


def test_an_execution_namespace_tells_its_cluster() -> None:
    assert execution_namespace("edge") == "karmada-es-edge"
    assert cluster_of("karmada-es-edge") == "edge"


@pytest.mark.parametrize("namespace", ["default", "karmada-es-", "karmada-es", "", "x-karmada-es-edge"])
def test_other_namespaces_belong_to_no_cluster(namespace: str) -> None:
    assert cluster_of(namespace) is None


def test_the_longest_cluster_name_still_fits_a_namespace() -> None:
    assert len(execution_namespace("c" * LONGEST_CLUSTER_NAME)) == 63
    assert LONGEST_CLUSTER_NAME == 52
