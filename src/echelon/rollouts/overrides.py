"""Reads the override policies of a namespace: what is different in the manifests of some clusters.

A cluster knows a template by the hash of what it was sent. So whoever may not read overrides cannot tell whether what a
cluster has is the template with some, or another template.
"""

from collections.abc import Mapping
from contextlib import suppress

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.override import CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICY
from echelon.engine.workload.overriding import AnyOverridePolicy, Overridden, Overrides, unknown_cluster
from echelon.engine.workload.templates import Override, no_override
from echelon.kube.client import Reader
from echelon.kube.errors import NotFound


async def read_override(
    client: Reader, namespace: str, clusters: Mapping[str, ManagedCluster] | None = None
) -> Override:
    """Return what makes the manifests of a namespace those of clusters, which are read if they are not given.

    Raises `Forbidden`.
    """
    policies: list[AnyOverridePolicy] = []
    with suppress(NotFound):  # on a hub without the kind
        policies += (await client.list(CLUSTER_OVERRIDE_POLICY)).items
        policies += (await client.list(OVERRIDE_POLICY, namespace)).items
    if not policies:
        return no_override
    if clusters is None:
        clusters = {each.metadata.name: each for each in (await client.list(MANAGED_CLUSTER)).items}
    overrides, known = Overrides(policies), clusters

    def override(manifest: JSONObject, cluster: str) -> Overridden:
        return overrides(manifest, known.get(cluster) or unknown_cluster(cluster))

    return override
