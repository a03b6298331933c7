"""Karmada's propagation policies: which resources go to which clusters, and how their replicas are divided.

All fields that Karmada has are here, so that a policy can be written for either. Those that have no effect are
free-form where they are objects; `echelon.engine.workload.policy_fields` names them to people.
"""

from typing import Annotated, Any, ClassVar

from echelon.api.base import APIStruct, JSONObject, Rule, field
from echelon.api.karmada import SuspendClusters
from echelon.api.karmada_selectors import GROUP, ClusterAffinity, ResourceSelector
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.override import (
    CLUSTER_OVERRIDE_POLICY,
    OVERRIDE_POLICY,
    ClusterOverridePolicy,
    OverridePolicy,
)
from echelon.api.podscheduling import Toleration

__all__ = [
    "CLUSTER_OVERRIDE_POLICY",
    "CLUSTER_PROPAGATION_POLICY",
    "KINDS",
    "OVERRIDE_POLICY",
    "PROPAGATION_POLICY",
    "ClusterAffinity",
    "ClusterOverridePolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "PropagationPolicy",
    "ResourceSelector",
]


class PolicySuspension(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is held back."""

    dispatching: Annotated[bool | None, field("Whether nothing is sent to any cluster.")] = None
    dispatching_on_clusters: Annotated[SuspendClusters | None, field("Clusters to which nothing is sent.")] = None

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "!has(self.dispatching) || !self.dispatching || !has(self.dispatchingOnClusters)",
                "dispatching holds all clusters back: leave dispatchingOnClusters out",
                ".dispatchingOnClusters",
            )
        ]
    }


class StaticClusterWeight(APIStruct, frozen=True, gc=False, kw_only=True):
    """How much some clusters weigh."""

    target_cluster: Annotated[ClusterAffinity, field("The clusters.")]
    weight: Annotated[int, field("Their weight, each.", minimum=1, format="int64")]


class ClusterPreferences(APIStruct, frozen=True, gc=False, kw_only=True):
    """How much clusters weigh."""

    static_weight_list: Annotated[
        list[StaticClusterWeight], field("Weights; the first that matches a cluster counts.", atomic=True)
    ] = []
    dynamic_weight: Annotated[str, field("Weights by what clusters report.", enum=("AvailableReplicas",))] = ""


class ReplicaScheduling(APIStruct, frozen=True, gc=False, kw_only=True):
    """How many replicas each cluster gets."""

    replica_scheduling_type: Annotated[
        str,
        field(
            "Duplicated gives every cluster all replicas, Divided each a part.",
            default="Divided",
            enum=("Duplicated", "Divided"),
        ),
    ] = ""
    replica_division_preference: Annotated[
        str,
        field(
            "Weighted divides by weight, Aggregated to as few clusters as have room.", enum=("Aggregated", "Weighted")
        ),
    ] = ""
    weight_preference: Annotated[ClusterPreferences | None, field("Weights; all the same if absent.")] = None


class PolicyPlacement(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which clusters, and how many replicas each."""

    cluster_affinity: Annotated[ClusterAffinity | None, field("The clusters; all if absent.")] = None
    cluster_affinities: Annotated[
        list[JSONObject], field("Groups of clusters of which one is used; not honoured.", atomic=True)
    ] = []
    cluster_tolerations: Annotated[list[Toleration], field("Taints of clusters that are tolerated.", atomic=True)] = []
    spread_constraints: Annotated[
        list[JSONObject], field("How many groups of clusters are used; not honoured.", atomic=True)
    ] = []
    replica_scheduling: Annotated[ReplicaScheduling | None, field("Replicas of each; Duplicated if absent.")] = None

    schema_extra: ClassVar[JSONObject] = {
        "x-kubernetes-validations": [
            Rule(
                "!has(self.clusterAffinity) || !has(self.clusterAffinities) || size(self.clusterAffinities) == 0",
                "clusterAffinity and clusterAffinities exclude each other",
                ".clusterAffinities",
            )
        ]
    }


class PropagationSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which resources go where."""

    resource_selectors: Annotated[list[ResourceSelector], field("The resources.", min_items=1, atomic=True)]
    association: Annotated[bool, field("Deprecated; without effect.")] = False
    propagate_deps: Annotated[bool, field("Whether what they refer to goes along; only false has an effect.")] = False
    placement: Annotated[PolicyPlacement, field("The clusters.", preserve_unknown=True)] = PolicyPlacement()
    priority: Annotated[int, field("Of several policies for a resource, the highest counts.", default=0)] = 0
    preemption: Annotated[
        str,
        field("Whether it takes resources from policies of lower priority.", default="Never", enum=("Always", "Never")),
    ] = ""
    dependent_overrides: Annotated[
        list[str], field("Override policies that must be there; without effect.", atomic=True)
    ] = []
    scheduler_name: Annotated[str, field("Scheduler; without effect.", default="default-scheduler")] = ""
    failover: Annotated[JSONObject | None, field("What happens when something fails; without effect.")] = None
    conflict_resolution: Annotated[
        str,
        field("Whether what is there already is taken over.", default="Abort", enum=("Abort", "Overwrite")),
    ] = ""
    activation_preference: Annotated[
        str, field("When changes of the policy take effect; without effect.", enum=("Lazy",))
    ] = ""
    suspension: Annotated[PolicySuspension | None, field("What is held back.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, field("Whether clusters keep a resource whose template is deleted.")
    ] = None
    schedule_priority: Annotated[JSONObject | None, field("Which are scheduled first; without effect.")] = None


class PropagationPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says to which clusters resources of its namespace go."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "PropagationPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PropagationSpec, field("Which resources go where.", preserve_unknown=True)]


class ClusterPropagationPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says to which clusters resources go, whatever their namespace."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "ClusterPropagationPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PropagationSpec, field("Which resources go where.", preserve_unknown=True)]


_COLUMNS = (
    Column("Conflict-Resolution", ".spec.conflictResolution"),
    Column("Priority", ".spec.priority", type="integer"),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)
PROPAGATION_POLICY = Kind(
    GROUP,
    "v1alpha1",
    "PropagationPolicy",
    "propagationpolicies",
    PropagationPolicy,
    short_names=("pp",),
    categories=("karmada-io",),
    columns=_COLUMNS,
)
CLUSTER_PROPAGATION_POLICY = Kind(
    GROUP,
    "v1alpha1",
    "ClusterPropagationPolicy",
    "clusterpropagationpolicies",
    ClusterPropagationPolicy,
    namespaced=False,
    short_names=("cpp",),
    categories=("karmada-io",),
    columns=_COLUMNS,
)

KINDS: tuple[Kind[Any], ...] = (
    PROPAGATION_POLICY,
    CLUSTER_PROPAGATION_POLICY,
    OVERRIDE_POLICY,
    CLUSTER_OVERRIDE_POLICY,
)
