"""Override policies: what is different in the manifests of some clusters, and which bindings a change concerns."""

from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import ManagedCluster
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.override import CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICY
from echelon.controllers.context import ControllerContext
from echelon.engine.workload.overriding import AnyOverridePolicy, Overridden, Overrides, unknown_cluster
from echelon.engine.workload.templates import Override, no_override
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (OVERRIDE_POLICY, CLUSTER_OVERRIDE_POLICY)


class OverridePolicies:
    """The caches of override policies."""

    def __init__(self, context: ControllerContext, clusters: Informer[ManagedCluster]) -> None:
        self.own = context.informer(OVERRIDE_POLICY)
        self.everywhere = context.informer(CLUSTER_OVERRIDE_POLICY)
        self._clusters = clusters

    def within(self, namespace: str) -> Override:
        """Return what makes the manifests of a namespace those of clusters."""
        policies: list[AnyOverridePolicy] = [*self.everywhere.values(), *self.own.values(namespace)]
        if not policies:
            return no_override
        overrides = Overrides(policies)

        def override(manifest: JSONObject, cluster: str) -> Overridden:
            return overrides(manifest, self._clusters.get(Key("", cluster)) or unknown_cluster(cluster))

        return override

    def may_concern(self, delta: Delta[ManagedCluster]) -> bool:
        """Whether a change of a cluster may change what overrides make of its manifests."""
        old, new = delta.old, delta.new
        if old is None or new is None or not (len(self.own) or len(self.everywhere)):
            return False
        return _looks(old) != _looks(new)


def _looks(cluster: ManagedCluster) -> tuple[object, ...]:
    return cluster.metadata.labels, cluster.status.cluster_claims
