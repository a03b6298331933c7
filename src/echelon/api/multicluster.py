"""Decisions as Kubernetes SIG Multicluster has them, for consumers that know no scheduler in particular.

These objects are data without a status, so content and labels change together and a new object is never empty. The
server holds every one of them to a hundred clusters, without exception. They are not part of what a hub needs, and
their plural is one that a hub has already; so they are installed by those who want them, and not in the registry.
"""

from typing import Annotated, Any

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta

GROUP = "multicluster.x-k8s.io"
LIMIT = 100

DECISION_KEY_LABEL = f"{GROUP}/decision-key"  # the same on all objects of one decision
DECISION_INDEX_LABEL = f"{GROUP}/decision-index"  # their order, from zero
PLACEMENT_KEY_LABEL = f"{GROUP}/placement-key"  # by which consumers find what was decided for something


class ClusterProfileReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """Names the profile of a cluster."""

    name: Annotated[str, field("Name of the profile, which is that of the cluster.")]
    namespace: Annotated[str, field("Namespace of the profile; that of the decision if empty.")] = ""


class ClusterDecision(APIStruct, frozen=True, gc=False, kw_only=True):
    """A chosen cluster."""

    cluster_profile_ref: Annotated[ClusterProfileReference, field("The profile of the cluster.")]
    reason: Annotated[str, field("Why it was chosen.")] = ""


class PlacementDecision(APIStruct, frozen=True, gc=False, kw_only=True):
    """Some of the clusters that a scheduler chose; labels say which objects belong together."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "PlacementDecision"
    metadata: ObjectMeta = ObjectMeta()
    decisions: Annotated[list[ClusterDecision], field("The chosen clusters.", min_items=0, max_items=LIMIT)]
    scheduler_name: Annotated[str, field("Who chose.")] = ""


MULTICLUSTER_DECISION = Kind(GROUP, "v1alpha1", "PlacementDecision", "placementdecisions", PlacementDecision)

KINDS: tuple[Kind[Any], ...] = (MULTICLUSTER_DECISION,)
