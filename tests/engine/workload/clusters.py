"""Clusters, templates and policies, as short as tests want to say them."""

from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import ManagedCluster
from echelon.api.propagation import ClusterPropagationPolicy, PropagationPolicy
from echelon.engine.workload.selecting import Policy


def cluster(name: str, **fields: Any) -> ManagedCluster:
    """Return a cluster that was let in; `labels`, `taints`, `claims`, `allocatable` and `metadata` are optional."""
    claims = [{"name": key, "value": value} for key, value in fields.get("claims", {}).items()]
    wire = {
        "metadata": {"name": name, "labels": fields.get("labels", {}), **fields.get("metadata", {})},
        "spec": {"hubAcceptsClient": fields.get("accepted", True), "taints": fields.get("taints", [])},
        "status": {"allocatable": fields.get("allocatable", {}), "clusterClaims": claims},
    }
    return msgspec.convert(wire, ManagedCluster)


def template(name: str = "web", kind: str = "Deployment", **fields: Any) -> JSONObject:
    """Return a template in the namespace `apps`."""
    version = {"CloneSet": "apps.kruise.io/v1alpha1"}.get(kind, "apps/v1")
    metadata = {"name": name, "namespace": "apps", "uid": f"uid-{name}", "generation": 1, "resourceVersion": "7"}
    containers = [{"name": "web", "image": "registry.example.com/web/app:v1", "args": ["--a", "--b"]}]
    return {
        "apiVersion": fields.get("api_version", version),
        "kind": kind,
        "metadata": {**metadata, "labels": {"app": name}, **fields.get("metadata", {})},
        "spec": {"replicas": 3, "template": {"spec": {"containers": containers}}, **fields.get("spec", {})},
    }


def policy(name: str, *selectors: JSONObject, **spec: Any) -> PropagationPolicy:
    """Return a policy of the namespace `apps`, for Deployments if nothing else is said."""
    return msgspec.convert(_wire(name, selectors, spec, "apps"), PropagationPolicy)


def cluster_policy(name: str, *selectors: JSONObject, **spec: Any) -> ClusterPropagationPolicy:
    """Return a policy for all namespaces."""
    return msgspec.convert(_wire(name, selectors, spec, ""), ClusterPropagationPolicy)


def _wire(name: str, selectors: tuple[JSONObject, ...], spec: JSONObject, namespace: str) -> JSONObject:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
    metadata |= spec.pop("metadata", {})
    chosen = list(selectors) or [DEPLOYMENTS]
    return {"metadata": metadata, "spec": {"resourceSelectors": chosen, **spec}}


DEPLOYMENTS: JSONObject = {"apiVersion": "apps/v1", "kind": "Deployment"}


def named(found: Policy | None) -> str:
    """Return the name of a policy, or nothing."""
    return found.metadata.name if found is not None else ""
