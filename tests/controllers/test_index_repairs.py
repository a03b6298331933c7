"""What a handler of an index has missed is found by comparing the index with its cache, told, and made good."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec
import pytest

from echelon.api.karmada import ObjectReference, ResourceBinding, ResourceBindingSpec, Work
from echelon.api.keys import Key
from echelon.api.meta import ObjectMeta
from echelon.controllers.cluster.sets import ClusterSetReconciler
from echelon.controllers.policy.replica_index import ReplicaIndex
from echelon.controllers.workload.claims import Claims
from echelon.controllers.workload.meant_clusters import MeantClusters
from echelon.controllers.workload.work_index import WorkIndex
from echelon.engine.policy.names import ROOT_LABEL
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.engine.workload.names import BINDING_NAME, BINDING_NAMESPACE, MADE_BY, POLICY_NAME, PROPAGATION
from echelon.kube.cache import key_of
from echelon.kube.informer import Delta
from tests.engine.workload.clusters import cluster, policy

BINDING = Key("shop", "web-deployment")


class Cached:
    """A cache that holds what it is given."""

    def __init__(self) -> None:
        self.objects: dict[Key, Any] = {}

    def get(self, key: Key) -> Any:
        return self.objects.get(key)

    def values(self, namespace: str = "") -> Iterable[Any]:
        return [each for key, each in self.objects.items() if namespace in ("", key.namespace)]

    def put(self, obj: Any) -> Delta[Any]:
        key = key_of(obj)
        old, self.objects[key] = self.objects.get(key), obj
        return Delta(old, obj)


class Checked(Protocol):
    def verify(self) -> Iterator[str | None]: ...


Handler = Callable[[Delta[Any]], Any]


def work(version: str) -> Work:
    notes = {BINDING_NAMESPACE: BINDING.namespace, BINDING_NAME: BINDING.name}
    meta = {"name": "w", "namespace": "karmada-es-c1", "uid": "u", "resourceVersion": version, "annotations": notes}
    return msgspec.convert({"metadata": meta, "spec": {"workload": {"manifests": []}}}, Work)


def works(cache: Any) -> tuple[Checked, Handler, Any]:
    index = WorkIndex(cache)
    return index, index.changed, work


def replica(version: str) -> RawPolicy:
    name = "shop.audit"
    meta = ObjectMeta(name=name, namespace="c1", uid="u", resource_version=version, labels={ROOT_LABEL: name})
    return RawPolicy(metadata=meta)


def replicas(cache: Any) -> tuple[Checked, Handler, Any]:
    index = ReplicaIndex(cache)
    return index, index.changed, replica


def binding(version: str) -> ResourceBinding:
    notes = {MADE_BY: PROPAGATION, POLICY_NAME: f"policy-{version}"}
    meta = ObjectMeta(name=BINDING.name, namespace=BINDING.namespace, annotations=notes)
    resource = ObjectReference(api_version="apps/v1", kind="Deployment", namespace="shop", name="web")
    return ResourceBinding(metadata=meta, spec=ResourceBindingSpec(resource=resource))


def claims(cache: Any) -> tuple[Checked, Handler, Any]:
    index = Claims(cache)
    return index, index.binding_changed, binding


def labelled(version: str) -> Any:
    return cluster("c1", labels={"version": version})


def meant(cache: Any) -> tuple[Checked, Handler, Any]:
    index = MeantClusters(cache)
    spec = {"placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"version": "1"}}}}}
    index.of(policy("p", **spec))
    return index, index.cluster_changed, labelled


def sets(cache: Any) -> tuple[Checked, Handler, Any]:
    nothing: Any = Cached()
    reconciler = ClusterSetReconciler(cache, nothing, nothing)
    return reconciler, reconciler.cluster_changed, labelled


def differences(index: Checked) -> list[str]:
    return [each for each in index.verify() if each is not None]


@pytest.mark.parametrize("made", [works, replicas, claims, meant, sets], ids=lambda made: str(made.__name__))
def test_what_a_handler_missed_is_found_and_made_good(made: Callable[[Any], tuple[Checked, Handler, Any]]) -> None:
    cache = Cached()
    index, heard, version = made(cache)
    heard(cache.put(version("1")))
    if made is meant:
        index, heard, _ = made(cache)  # somebody has asked since
    assert differences(index) == []
    cache.put(version("2"))
    assert len(differences(index)) == 1, "it changed, and nobody heard of it"
    assert differences(index) == []
    cache.objects.clear()
    assert made is meant or len(differences(index)) == 1, "it went, and nobody heard of it"
    assert differences(index) == []
