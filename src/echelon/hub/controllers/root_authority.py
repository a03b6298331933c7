"""Publishes what the hub is recognised by, where kube-controller-manager does: who trusts it learns what follows.

Kubernetes has a copy in every namespace, for pods. Nobody runs pods here, so there is one, in `kube-public`.
"""

from echelon.api.base import JSONObject
from echelon.hub.cluster import LogicalCluster
from echelon.hub.storage.store import Key
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.writing import create, patch

NAMESPACE, NAME, FIELD = "kube-public", "kube-root-ca.crt", "ca.crt"


async def publish(cluster: LogicalCluster, authorities: bytes, request: Request) -> None:
    """Have the authorities written down, the one that signs first."""
    resource = cluster.catalogue.find("", "v1", "configmaps")
    data = {FIELD: authorities.decode()}
    entry = cluster.store.latest(Key("configmaps", NAMESPACE, NAME))
    if entry is None:
        body: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        await create(cluster, Target(resource, NAMESPACE), body, request)
    elif entry.object.get("data") != data:
        await patch(cluster, Target(resource, NAMESPACE, NAME), lambda obj: {**obj, "data": data}, request)
