"""Federated budgets on real clusters: Kubernetes' own Deployment controller, one budget over two clusters.

Somebody who knows nothing of Echelon counts: pods by their watch events, in the one order in which etcd stored them.
"""

from functools import partial
from itertools import dropwhile
from typing import Any

import pytest

from echelon.api.base import JSONObject
from tests.e2e.fleet import Fleet
from tests.e2e.pod_watch import PodWatch, breaches

pytestmark = pytest.mark.xdist_group("fleet")

SPLIT = {"west": 4, "east": 6}


def deployment(namespace: str, image: str, **spec: Any) -> JSONObject:
    """Return the Deployment of the first story; its pods take a moment to become ready."""
    labels = {"app": "demo"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "demo", "namespace": namespace},
        "spec": {
            "replicas": 10,
            "strategy": {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": 1}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"starts-after": "700ms"}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
            **spec,
        },
    }


def propagation(namespace: str) -> list[JSONObject]:
    """Return what sends the Deployment to two clusters, four replicas to one and six to the other."""
    weights = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in SPLIT.items()]
    inside = {"namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global", **inside},
            "spec": {"clusterSet": "global"},
        },
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": "demo", **inside},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}],
                "placement": {
                    "clusterAffinity": {"clusterNames": list(SPLIT)},
                    "replicaScheduling": {
                        "replicaSchedulingType": "Divided",
                        "replicaDivisionPreference": "Weighted",
                        "weightPreference": {"staticWeightList": weights},
                    },
                },
            },
        },
    ]


def complete(image: str) -> Any:
    """Return whether all pods have an image and are available."""
    return lambda last: last.available == last.pods == last.by_image.get(image) == 10


def test_at_no_event_there_are_fewer_than_eight_available_or_more_than_eleven_pods(fleet: Fleet) -> None:
    namespace = "federated"
    fleet.apply([*propagation(namespace), deployment(namespace, "nginx:v1")])
    fleet.until(lambda: fleet.pods_available(namespace, SPLIT) == SPLIT, "the first version does not run")
    with PodWatch({name: fleet.administrator(name) for name in SPLIT}, namespace) as watch:
        for image in ("nginx:v2", "nginx:v3"):
            fleet.apply([deployment(namespace, image)])
            watch.wait(complete(image), fleet.until)
        counts = watch.counts()
    assert not breaches(counts, least=8, most=11)
    print(f"Deployments left the limits of their own specs {len(breaches(counts, 8, 11, native=True))} times")
    # The budget was used: two pods were missing at once, and there was one too many.
    since = [*dropwhile(lambda each: each.available < 10, counts)]
    assert (min(each.available for each in since), max(each.pods for each in since)) == (8, 11)


def test_the_template_on_the_hub_says_how_far_all_clusters_have_come(fleet: Fleet) -> None:
    namespace = "federated-status"
    fleet.apply([*propagation(namespace), deployment(namespace, "nginx:v1")])

    def told() -> bool:
        found = fleet.get("deployment", "demo", namespace)
        status, generation = found.get("status", {}), found["metadata"]["generation"]
        return bool(
            (status.get("observedGeneration"), status.get("availableReplicas"), status.get("updatedReplicas"))
            == (generation, 10, 10)
        )

    fleet.until(told, "the status of the template is not that of all clusters")
    answer = fleet.echelon("rollout", "status", "deployment/demo", "-n", namespace)
    assert answer.code == 0, answer.text


def test_a_deleted_template_is_deleted_on_every_cluster(fleet: Fleet) -> None:
    namespace = "federated-end"
    fleet.apply([*propagation(namespace), deployment(namespace, "nginx:v1")])
    fleet.until(lambda: fleet.pods_available(namespace, SPLIT) == SPLIT, "the first version does not run")
    fleet.kubectl("delete", "deployment", "demo", "-n", namespace, "--wait=false")
    for name in SPLIT:
        fleet.until(partial(_is_gone, fleet, namespace, name), f"{name} keeps it")


def _is_gone(fleet: Fleet, namespace: str, cluster: str) -> bool:
    return not fleet.get("deployment", "demo", namespace, where=cluster)
