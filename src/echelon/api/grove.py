"""Grove's sets of pod cliques: pods in several roles that are scheduled, scaled and updated as gangs.

Pod specs are taken without the defaults that Kubernetes fills into real pods: they would become part of the hash by
which a changed template is recognised, and a newer default would roll every set of the fleet.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from echelon.api import groverules as rules
from echelon.api.autoscaling import MetricSpec
from echelon.api.base import JSON, APIStruct, JSONObject, field
from echelon.api.grovestatus import PodCliqueScalingGroupStatus, PodCliqueSetStatus, PodCliqueStatus
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.meta import ObjectMeta
from echelon.api.name_patterns import LABEL
from echelon.api.podgangs import POD_GANG
from echelon.api.pods import PodSpec
from echelon.api.printing import AGE
from echelon.api.schema import schema_of

GROUP = "grove.io"
NAME = f"^{LABEL}$"  # host names of pods have it in them, so there are no dots
DURATION = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"
STARTUP_TYPES = ("CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit")

CliqueName = Annotated[str, field("Name of a clique.", min_length=1, max_length=rules.NAME_BUDGET)]


def _undefaulted(schema: Mapping[str, JSON], keys: tuple[str, ...] = ()) -> JSONObject:
    """Return a schema without its defaults, except those of list keys, which a list needs to tell its items apart."""
    plain: JSONObject = {name: value for name, value in schema.items() if name != "default"}
    if "properties" in schema:
        plain["properties"] = {
            name: {**_undefaulted(part), **({"default": part["default"]} if name in keys and "default" in part else {})}
            for name, part in schema["properties"].items()
        }
    if "items" in schema:
        plain["items"] = _undefaulted(schema["items"], tuple(schema.get("x-kubernetes-list-map-keys", ())))
    if isinstance(schema.get("additionalProperties"), Mapping):
        plain["additionalProperties"] = _undefaulted(schema["additionalProperties"])
    return plain


class CliquePodSpec(PodSpec, frozen=True, gc=False, kw_only=True):
    """The pods of a clique, as the user wrote them."""

    @classmethod
    def schema_override(cls) -> JSONObject:
        """Return the schema; it takes a while to make, and most who import this never ask for it."""
        return _undefaulted(schema_of(PodSpec))


class AutoScalingConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Between which sizes, and by which metrics, something is scaled."""

    min_replicas: Annotated[int | None, field("Smallest size; replicas if not given.", minimum=1)] = None
    max_replicas: Annotated[int, field("Largest size.", minimum=1)]
    metrics: Annotated[list[MetricSpec], field("Metrics to scale by; 80% CPU if empty.", atomic=True)] = []

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.SCALING}


class PackConstraint(APIStruct, frozen=True, gc=False, kw_only=True):
    """How close together the pods of a replica are, as levels of a topology."""

    required: Annotated[str, field("Level that they must share.", max_length=63)] = ""
    preferred: Annotated[str, field("Level that they should share.", max_length=63)] = ""

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.PACK}


class TopologyConstraint(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where the pods of a replica have to be."""

    topology_name: Annotated[str, field("Topology that the levels belong to.", max_length=253)] = ""
    pack: Annotated[PackConstraint | None, field("How close together they are.")] = None
    pack_domain: Annotated[str, field("Older form of pack.required.", max_length=63)] = ""

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.TOPOLOGY}


class SharingFilter(APIStruct, frozen=True, gc=False, kw_only=True):
    """Children that get a shared claim."""

    child_clique_names: Annotated[list[CliqueName], field("Cliques.", atomic=True, max_items=rules.MAX_CLIQUES)] = []
    child_scaling_group_names: Annotated[
        list[CliqueName], field("Scaling groups; only for the set as a whole.", atomic=True, max_items=rules.MAX_GROUPS)
    ] = []


class ResourceSharing(APIStruct, frozen=True, gc=False, kw_only=True):
    """A resource claim that pods share."""

    name: Annotated[str, field("Claim template, of the set or of the namespace.", max_length=253)]
    namespace: Annotated[str, field("Namespace of the claim template.", max_length=63)] = ""
    scope: Annotated[str, field("AllReplicas or PerReplica.", enum=("AllReplicas", "PerReplica"))]
    filter: Annotated[SharingFilter | None, field("Children that get it; all of them if not given.")] = None


class ResourceClaimTemplateConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """A claim template of the set."""

    name: Annotated[str, field("Name to refer to it by.", max_length=253)]
    template_spec: Annotated[JSONObject, field("Spec of the ResourceClaimTemplate.", preserve_unknown=True)]


class RollingUpdateConfiguration(APIStruct, frozen=True, gc=False, kw_only=True):
    """Limits of a rolling update of one component."""

    max_unavailable: Annotated[
        int | None, field("Pods or group replicas that may be unavailable; 1 if not given.", minimum=1)
    ] = None
    progress_deadline: Annotated[
        str,
        field("Time without progress until it is reported.", pattern=DURATION, max_length=64),
    ] = ""


class PodCliqueSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods in one role."""

    role_name: Annotated[str, field("Role of the pods.", min_length=1, max_length=253)]
    pod_spec: Annotated[CliquePodSpec, field("The pods to run.")]
    replicas: Annotated[int, field("How many pods are wanted.", minimum=0, maximum=rules.MOST_PODS)]
    min_available: Annotated[
        int | None, field("Pods that start together and must stay; replicas if not given.", minimum=0)
    ] = None
    starts_after: Annotated[
        list[CliqueName],
        field("Cliques that have to be up first.", list_set=True, max_items=rules.MAX_CLIQUES),
    ] = []
    auto_scaling_config: Annotated[AutoScalingConfig | None, field("How the clique is scaled.")] = None


class LivePodCliqueSpec(PodCliqueSpec, frozen=True, gc=False, kw_only=True):
    """Pods in one role, within one replica of a set.

    What has to be up first is named in full here, once for each replica of a scaling group, so there may be many.
    """

    starts_after: Annotated[list[str], field("PodCliques that have to be up first.", list_set=True)] = []


class PodCliqueTemplateSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A clique of the set."""

    name: Annotated[str, field("Name, unique in the set.", pattern=NAME, min_length=1, max_length=rules.NAME_BUDGET)]
    labels: Annotated[dict[str, str], field("Labels of the clique and its pods.")] = {}
    annotations: Annotated[dict[str, str], field("Annotations of the clique and its pods.")] = {}
    topology_constraint: Annotated[TopologyConstraint | None, field("Where the pods have to be.")] = None
    resource_sharing: Annotated[
        list[ResourceSharing], field("Claims that the pods share.", atomic=True, max_items=16)
    ] = []
    rolling_update: Annotated[RollingUpdateConfiguration | None, field("Limits of a rolling update.")] = None
    spec: Annotated[PodCliqueSpec, field("The pods of the clique.")]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.CLIQUE}


class PodCliqueScalingGroupConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Cliques that are scaled together."""

    name: Annotated[str, field("Name, unique in the set.", pattern=NAME, min_length=1, max_length=rules.NAME_BUDGET)]
    clique_names: Annotated[
        list[CliqueName], field("Cliques of the group.", list_set=True, min_items=1, max_items=rules.MAX_CLIQUES)
    ]
    annotations: Annotated[dict[str, str], field("Annotations of the group.")] = {}
    replicas: Annotated[
        int,
        field("Size at the start; later edits are ignored.", default=1, minimum=1, maximum=rules.MOST_GROUP_REPLICAS),
    ] = 1
    min_available: Annotated[int, field("Replicas that start together and must stay.", default=1, minimum=1)] = 1
    scale_config: Annotated[AutoScalingConfig | None, field("How the group is scaled.")] = None
    rolling_update: Annotated[RollingUpdateConfiguration | None, field("Limits of a rolling update.")] = None
    resource_sharing: Annotated[
        list[ResourceSharing], field("Claims that the pods share.", atomic=True, max_items=16)
    ] = []
    topology_constraint: Annotated[TopologyConstraint | None, field("Where a replica has to be.")] = None

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.SCALING_GROUP}


class HeadlessServiceConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods find each other by name."""

    publish_not_ready_addresses: Annotated[
        bool, field("Whether pods have a name before they are ready.", default=True)
    ] = True


class PodCliqueSetTemplateSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The cliques of each replica."""

    cliques: Annotated[
        list[PodCliqueTemplateSpec],
        field("The cliques.", list_map_keys=("name",), min_items=1, max_items=rules.MAX_CLIQUES),
    ]
    clique_startup_type: Annotated[
        str, field("In which order cliques start.", default=STARTUP_TYPES[0], enum=STARTUP_TYPES)
    ] = STARTUP_TYPES[0]
    priority_class_name: Annotated[str, field("Priority class of the gangs.")] = ""
    headless_service_config: Annotated[
        HeadlessServiceConfig, field("How pods find each other.", default={"publishNotReadyAddresses": True})
    ] = HeadlessServiceConfig()
    topology_constraint: Annotated[TopologyConstraint | None, field("Where a replica has to be.")] = None
    termination_delay: Annotated[
        str,
        field(
            "How long too few pods are tolerated before the gang is replaced.",
            default="4h",
            pattern=DURATION,
            max_length=64,
            rules=rules.POSITIVE_DURATION,
        ),
    ] = "4h"
    resource_claim_templates: Annotated[
        list[ResourceClaimTemplateConfig], field("Claim templates of the set.", list_map_keys=("name",), max_items=16)
    ] = []
    resource_sharing: Annotated[
        list[ResourceSharing], field("Claims that the pods share.", atomic=True, max_items=16)
    ] = []
    pod_clique_scaling_groups: Annotated[
        list[PodCliqueScalingGroupConfig],
        field("Cliques that are scaled together.", list_map_keys=("name",), max_items=rules.MAX_GROUPS),
    ] = []

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.TEMPLATE}


class PodCliqueSetUpdateStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How a changed template reaches the pods."""

    type: Annotated[
        str,
        field(
            "RollingRecreate replaces pods one after the other, OnDelete waits until somebody deletes them.",
            default="RollingRecreate",
            enum=("RollingRecreate", "OnDelete"),
        ),
    ] = "RollingRecreate"


class PodCliqueSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Gangs that are kept running."""

    replicas: Annotated[int, field("How many replicas are wanted.", default=0, minimum=0)] = 0
    update_strategy: Annotated[PodCliqueSetUpdateStrategy | None, field("How a changed template reaches the pods.")] = (
        None
    )
    template: Annotated[PodCliqueSetTemplateSpec, field("The cliques of each replica.")]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.SET_SIZE}


class PodCliqueSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """Replicas of a gang of pod cliques."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "PodCliqueSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodCliqueSetSpec, field("The gangs that are wanted.")]
    status: Annotated[PodCliqueSetStatus, field("Its state.")] = PodCliqueSetStatus()

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-validations": rules.SET_NAMES}


class PodClique(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods in one role; made by a set or by a scaling group."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "PodClique"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LivePodCliqueSpec, field("The pods that are wanted.")]
    status: Annotated[PodCliqueStatus, field("Its state.")] = PodCliqueStatus()


class PodCliqueScalingGroupSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Cliques that are scaled together."""

    replicas: Annotated[
        int, field("How many replicas are wanted.", default=1, minimum=0, maximum=rules.MOST_GROUP_REPLICAS)
    ] = 1
    min_available: Annotated[int, field("Replicas that start together and must stay.", default=1, minimum=1)] = 1
    clique_names: Annotated[list[str], field("Cliques of the group, as the set names them.", atomic=True)]


class PodCliqueScalingGroup(APIStruct, frozen=True, gc=False, kw_only=True):
    """Cliques that are scaled together; made by a set."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "PodCliqueScalingGroup"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodCliqueScalingGroupSpec, field("The replicas that are wanted.")]
    status: Annotated[PodCliqueScalingGroupStatus, field("Its state.")] = PodCliqueScalingGroupStatus()


_MIN_BREACHED = Column("MinBreached", '.status.conditions[?(@.type=="MinAvailableBreached")].status', priority=1)

POD_CLIQUE_SET = Kind(
    GROUP,
    "v1alpha1",
    "PodCliqueSet",
    "podcliquesets",
    PodCliqueSet,
    short_names=("pcs",),
    status=True,
    scale=Scale(selector=".status.hpaPodSelector"),
    columns=(
        Column("Replicas", ".spec.replicas", type="integer"),
        Column("Available", ".status.availableReplicas", type="integer"),
        Column("Updated", ".status.updatedReplicas", type="integer"),
        Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount", type="integer"),
        Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount", type="integer"),
        Column("PCSGs-Updated", ".status.updateProgress.updatedPodCliqueScalingGroupsCount", type="integer"),
        Column("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount", type="integer"),
        Column("Update", '.status.conditions[?(@.type=="UpdateInProgress")].reason', priority=1),
        AGE,
    ),
)
POD_CLIQUE = Kind(
    GROUP,
    "v1alpha1",
    "PodClique",
    "podcliques",
    PodClique,
    short_names=("pclq",),
    status=True,
    scale=Scale(selector=".status.hpaPodSelector"),
    columns=(
        Column("MinAvail", ".spec.minAvailable", type="integer"),
        Column("Replicas", ".status.replicas", type="integer"),
        Column("Ready", ".status.readyReplicas", type="integer"),
        Column("Scheduled", ".status.scheduledReplicas", type="integer"),
        Column("Updated", ".status.updatedReplicas", type="integer"),
        Column("Gated", ".status.scheduleGatedReplicas", type="integer", priority=1),
        _MIN_BREACHED,
        AGE,
    ),
)
POD_CLIQUE_SCALING_GROUP = Kind(
    GROUP,
    "v1alpha1",
    "PodCliqueScalingGroup",
    "podcliquescalinggroups",
    PodCliqueScalingGroup,
    short_names=("pcsg",),
    status=True,
    scale=Scale(selector=".status.selector"),
    columns=(
        Column("MinAvail", ".spec.minAvailable", type="integer"),
        Column("Replicas", ".status.replicas", type="integer"),
        Column("Available", ".status.availableReplicas", type="integer"),
        Column("Scheduled", ".status.scheduledReplicas", type="integer"),
        Column("Updated", ".status.updatedReplicas", type="integer"),
        Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount", type="integer"),
        Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount", type="integer"),
        _MIN_BREACHED,
        AGE,
    ),
)

KINDS: tuple[Kind[Any], ...] = (POD_CLIQUE_SET, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_GANG)
