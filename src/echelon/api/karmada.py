"""Karmada's bindings and works, as far as keeping a federated rollout inside its budgets needs them.

A binding says which clusters get how many replicas of a resource; a work is what is sent to one of them. Placement and
failover rules belong to Karmada's own policies and pass through here untouched.
"""

from typing import Annotated, Any

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.podscheduling import NodeSelector, Toleration
from echelon.api.printing import AGE

GROUP = "work.karmada.io"
HEALTH = ("Healthy", "Unhealthy", "Unknown")
PURGE_MODES = ("Directly", "Gracefully", "Never", "Immediately", "Graciously")
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class ObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """The resource template that a binding is about."""

    api_version: Annotated[str, field("API version of the template.")]
    kind: Annotated[str, field("Kind of the template.")]
    namespace: Annotated[str, field("Namespace of the template; empty for cluster-scoped kinds.")] = ""
    name: Annotated[str, field("Name of the template.")]
    uid: Annotated[str, field("UID of the template.")] = ""
    resource_version: Annotated[str, field("Version of the template that the binding was made from.")] = ""


class NodeClaim(APIStruct, frozen=True, gc=False, kw_only=True):
    """The nodes that a replica needs."""

    hard_node_affinity: Annotated[NodeSelector | None, field("Nodes that are possible at all.")] = None
    node_selector: Annotated[dict[str, str], field("Labels that the node must have.")] = {}
    tolerations: Annotated[list[Toleration], field("Taints that do not keep a replica away.", atomic=True)] = []


class ReplicaRequirements(APIStruct, frozen=True, gc=False, kw_only=True):
    """What each replica needs."""

    node_claim: Annotated[NodeClaim | None, field("Nodes that it needs.")] = None
    resource_request: Annotated[dict[str, IntOrString], field("Resources that it needs.")] = {}
    namespace: Annotated[str, field("Namespace that it runs in.")] = ""
    priority_class_name: Annotated[str, field("Priority class of its pods.")] = ""


class Component(APIStruct, frozen=True, gc=False, kw_only=True):
    """One of several pod templates of a workload."""

    name: Annotated[str, field("Name of the component.", max_length=32)]
    replicas: Annotated[int, field("Replicas of the component.")]
    replica_requirements: Annotated[ReplicaRequirements | None, field("What each replica needs.")] = None


class TargetCluster(APIStruct, frozen=True, gc=False, kw_only=True):
    """A cluster that gets the resource."""

    name: Annotated[str, field("Name of the cluster.")]
    replicas: Annotated[int, field("Replicas that the cluster gets.", minimum=0)] = 0


class GracefulEvictionTask(APIStruct, frozen=True, gc=False, kw_only=True):
    """A cluster that is being left."""

    from_cluster: Annotated[str, field("The cluster.")]
    purge_mode: Annotated[str, field("What becomes of what runs there.", enum=PURGE_MODES)] = ""
    replicas: Annotated[int | None, field("Replicas that leave.")] = None
    reason: Annotated[str, field("Why, as one word.", pattern=REASON, min_length=1, max_length=32)]
    message: Annotated[str, field("Why, as a sentence.", max_length=1024)] = ""
    producer: Annotated[str, field("Controller that asked for it.")]
    grace_period_seconds: Annotated[int | None, field("Longest wait for a replacement, in seconds.")] = None
    suppress_deletion: Annotated[bool | None, field("Whether to wait until somebody decides.")] = None
    preserved_label_state: Annotated[dict[str, str], field("Labels that the replacement gets.")] = {}
    clusters_before_failover: Annotated[list[str], field("Clusters before the failover.", atomic=True)] = []
    creation_timestamp: Annotated[str, field("When the task was made.", format="date-time")] = ""


class BindingSnapshot(APIStruct, frozen=True, gc=False, kw_only=True):
    """A binding that depends on this one."""

    namespace: Annotated[str, field("Namespace of the binding.")] = ""
    name: Annotated[str, field("Name of the binding.")]
    clusters: Annotated[list[TargetCluster], field("Its clusters.", atomic=True)] = []


class DecisionConditions(APIStruct, frozen=True, gc=False, kw_only=True):
    """When an application counts as failed."""

    toleration_seconds: Annotated[int, field("Seconds of bad health until it is moved.", default=300, minimum=0)] = 300


class ApplicationFailover(APIStruct, frozen=True, gc=False, kw_only=True):
    """What happens when the application itself fails."""

    decision_conditions: Annotated[DecisionConditions, field("When it counts as failed.")]
    purge_mode: Annotated[str, field("What becomes of what runs there.", default="Gracefully", enum=PURGE_MODES)] = (
        "Gracefully"
    )
    grace_period_seconds: Annotated[int | None, field("Longest wait for a replacement, in seconds.")] = None
    state_preservation: Annotated[JSONObject | None, field("State that is taken along.")] = None


class Failover(APIStruct, frozen=True, gc=False, kw_only=True):
    """What happens when something fails."""

    application: Annotated[ApplicationFailover | None, field("When the application fails.")] = None
    cluster: Annotated[JSONObject | None, field("When the cluster fails.")] = None


class SuspendClusters(APIStruct, frozen=True, gc=False, kw_only=True):
    """Clusters to which nothing is sent."""

    cluster_names: Annotated[list[str], field("Their names.", atomic=True)] = []


class Suspension(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is held back."""

    dispatching: Annotated[bool | None, field("Whether nothing is sent to any cluster.")] = None
    dispatching_on_clusters: Annotated[SuspendClusters | None, field("Clusters to which nothing is sent.")] = None
    scheduling: Annotated[bool | None, field("Whether clusters are not chosen.")] = None


class SchedulePriority(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which bindings are scheduled first."""

    priority: Annotated[int, field("The higher, the earlier.", default=0)] = 0


class ResourceBindingSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which clusters get a resource."""

    resource: Annotated[ObjectReference, field("The resource template.")]
    propagate_deps: Annotated[bool, field("Whether what it depends on goes along.")] = False
    replica_requirements: Annotated[ReplicaRequirements | None, field("What each replica needs.")] = None
    replicas: Annotated[int, field("Replicas of the template.")] = 0
    components: Annotated[list[Component], field("Pod templates of a workload that has several.", atomic=True)] = []
    clusters: Annotated[list[TargetCluster], field("Clusters that get it, and how many replicas.", atomic=True)] = []
    placement: Annotated[JSONObject | None, field("Rules by which the clusters were chosen.")] = None
    graceful_eviction_tasks: Annotated[
        list[GracefulEvictionTask], field("Clusters that are being left.", atomic=True)
    ] = []
    required_by: Annotated[list[BindingSnapshot], field("Bindings that depend on this one.", atomic=True)] = []
    scheduler_name: Annotated[str, field("Scheduler that chooses the clusters.")] = ""
    failover: Annotated[Failover | None, field("What happens when something fails.")] = None
    conflict_resolution: Annotated[
        str,
        field("Whether a resource that is there already is taken over.", default="Abort", enum=("Abort", "Overwrite")),
    ] = "Abort"
    reschedule_triggered_at: Annotated[str, field("When a new choice was asked for.", format="date-time")] = ""
    suspension: Annotated[Suspension | None, field("What is held back.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, field("Whether the clusters keep the resource when the binding goes.")
    ] = None
    schedule_priority: Annotated[SchedulePriority | None, field("Which bindings are scheduled first.")] = None


class AggregatedStatusItem(APIStruct, frozen=True, gc=False, kw_only=True):
    """The resource in one cluster."""

    cluster_name: Annotated[str, field("The cluster.")]
    status: Annotated[JSONObject | None, field("Its status there.")] = None
    applied: Annotated[bool, field("Whether it was applied there.")] = False
    applied_message: Annotated[str, field("Why it was not applied.")] = ""
    health: Annotated[str, field("Healthy, Unhealthy or Unknown.", enum=HEALTH)] = ""


class ResourceBindingStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far a binding has come."""

    scheduler_observed_generation: Annotated[int, field("Generation that the scheduler has seen.", format="int64")] = 0
    scheduler_observing_affinity_name: Annotated[str, field("Affinity term in force.")] = ""
    last_scheduled_time: Annotated[str, field("When clusters were last chosen.", format="date-time")] = ""
    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []
    aggregated_status: Annotated[list[AggregatedStatusItem], field("The resource in each cluster.", atomic=True)] = []


class ResourceBinding(APIStruct, frozen=True, gc=False, kw_only=True):
    """Says which clusters get a resource, and how many replicas."""

    api_version: str = f"{GROUP}/v1alpha2"
    kind: str = "ResourceBinding"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ResourceBindingSpec, field("Which clusters get it.")]
    status: Annotated[ResourceBindingStatus, field("How far it has come.")] = ResourceBindingStatus()


class WorkloadTemplate(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is sent to the cluster."""

    manifests: Annotated[
        list[Annotated[JSONObject, field("A manifest.", preserve_unknown=True)]], field("The manifests.", atomic=True)
    ] = []


class WorkSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a cluster gets."""

    workload: Annotated[WorkloadTemplate, field("What is sent.")] = WorkloadTemplate()
    suspend_dispatching: Annotated[bool | None, field("Whether it is not sent.")] = None
    preserve_resources_on_deletion: Annotated[
        bool | None, field("Whether the cluster keeps it when the work goes.")
    ] = None


class ResourceIdentifier(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which manifest a status is about."""

    ordinal: Annotated[int, field("Position in the manifests.")]
    group: Annotated[str, field("API group.")] = ""
    version: Annotated[str, field("API version.")]
    kind: Annotated[str, field("Kind.")]
    resource: Annotated[str, field("Resource, in the plural.")]
    namespace: Annotated[str, field("Namespace; empty for cluster-scoped kinds.")] = ""
    name: Annotated[str, field("Name.")]


class ManifestStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """A manifest in the cluster."""

    identifier: Annotated[ResourceIdentifier, field("Which manifest.")]
    status: Annotated[JSONObject | None, field("Its status there.")] = None
    health: Annotated[str, field("Healthy, Unhealthy or Unknown.", enum=HEALTH)] = ""


class WorkStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """How far a work has come."""

    conditions: Annotated[list[Condition], field("Aspects of its state.", list_map_keys=("type",))] = []
    manifest_statuses: Annotated[list[ManifestStatus], field("The manifests in the cluster.", atomic=True)] = []


class Work(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is sent to one cluster; lives in the cluster's namespace, `karmada-es-<cluster>`."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "Work"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[WorkSpec, field("What the cluster gets.")]
    status: Annotated[WorkStatus, field("How far it has come.")] = WorkStatus()


RESOURCE_BINDING = Kind(
    GROUP,
    "v1alpha2",
    "ResourceBinding",
    "resourcebindings",
    ResourceBinding,
    short_names=("rb",),
    categories=("karmada-io",),
    status=True,
    columns=(
        Column("Scheduled", '.status.conditions[?(@.type=="Scheduled")].status'),
        Column("FullyApplied", '.status.conditions[?(@.type=="FullyApplied")].status'),
        AGE,
    ),
)
WORK = Kind(
    GROUP,
    "v1alpha1",
    "Work",
    "works",
    Work,
    short_names=("wk",),
    categories=("karmada-io",),
    status=True,
    columns=(
        Column("Workload-Kind", ".spec.workload.manifests[*].kind"),
        Column("Applied", '.status.conditions[?(@.type=="Applied")].status'),
        AGE,
    ),
)

KINDS: tuple[Kind[Any], ...] = (RESOURCE_BINDING, WORK)
