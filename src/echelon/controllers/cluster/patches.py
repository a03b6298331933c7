"""Patches of clusters and their sets, for the state in which they were seen."""

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, MANAGED_CLUSTER_SET, ManagedCluster, ManagedClusterSet
from echelon.api.meta import Condition
from echelon.engine.conditions import conditions_to_wire, set_condition
from echelon.engine.plan import Patch


def patch_of(obj: ManagedCluster | ManagedClusterSet, body: JSONObject, subresource: str = "") -> Patch:
    """Return a patch that fails if the object is no longer as it was seen."""
    kind = MANAGED_CLUSTER if isinstance(obj, ManagedCluster) else MANAGED_CLUSTER_SET
    return Patch.of(kind, obj.metadata, body, subresource)


def condition_patch(obj: ManagedCluster | ManagedClusterSet, condition: Condition) -> Patch:
    """Return a patch of the status that sets a condition."""
    conditions = conditions_to_wire(set_condition(obj.status.conditions, condition))
    return patch_of(obj, {"status": {"conditions": conditions}}, "status")
