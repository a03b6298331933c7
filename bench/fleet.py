"""The fleet that is loaded: clusters with what real ones carry, about 1.3 KB each as a server sends them.

The size matters more than the contents: the figures that ours stand next to are of 13 MB for 10,000 clusters.
"""

import base64

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER

COLLECTION = f"/apis/{MANAGED_CLUSTER.api_version}/{MANAGED_CLUSTER.plural}"

_CA = base64.b64encode(b"a certificate would be longer; " * 9).decode()


def name_of(number: int) -> str:
    """Name a cluster."""
    return f"bench-{number:05d}"


def address_of(number: int) -> str:
    """Return the path of a cluster."""
    return f"{COLLECTION}/{name_of(number)}"


def cluster(number: int) -> JSONObject:
    """Make a cluster as an administrator creates it."""
    return {
        "apiVersion": MANAGED_CLUSTER.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": {
            "name": name_of(number),
            "labels": {
                "bench": "echelon",
                f"{GROUP}/clusterset": "default",
                "region": f"r{number % 10}",
                "tier": f"t{number % 4}",
            },
        },
        "spec": {
            "hubAcceptsClient": True,
            "managedClusterClientConfigs": [
                {"url": f"https://{name_of(number)}.example.com:6443", "caBundle": _CA},
            ],
        },
    }


def heartbeat(number: int) -> JSONObject:
    """Make the status that an agent reports; each number makes a different one."""
    condition = {
        "type": "ManagedClusterConditionAvailable",
        "status": "True",
        "reason": "ManagedClusterAvailable",
        "message": f"heartbeat {number}",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"conditions": [condition], "version": {"kubernetes": "v1.36.1"}}}
