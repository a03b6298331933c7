"""OpenKruise's CloneSet: a Deployment whose `partition` keeps pods old.

The pod template is kept as it comes, like upstream's CRD does: a CloneSet may carry fields of a newer Kubernetes than
this one, and a federated rollout must not prune them.
"""

from typing import Annotated, Any

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.meta import LabelSelector, ObjectMeta, PlainCondition

GROUP = "apps.kruise.io"


class CloneSetScaleStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods come and go when the size changes."""

    pods_to_delete: Annotated[list[str], field("Pods to delete first, by name.", atomic=True)] = []
    max_unavailable: Annotated[
        IntOrString | None, field("Pods that may be unavailable while the size grows.", int_or_string=True)
    ] = None
    disable_pvc_reuse: Annotated[bool, field("Whether claims of deleted pods are not used again.")] = msgspec.field(
        default=False, name="disablePVCReuse"
    )


class UpdateScatterTerm(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods that are not updated together."""

    key: Annotated[str, field("Label key of the pods.")]
    value: Annotated[str, field("Label value of the pods.")]


class CloneSetUpdateStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods are replaced."""

    type: Annotated[
        str,
        field(
            "ReCreate, InPlaceIfPossible or InPlaceOnly.",
            default="ReCreate",
            enum=("ReCreate", "InPlaceIfPossible", "InPlaceOnly"),
        ),
    ] = "ReCreate"
    partition: Annotated[
        IntOrString, field("Pods that keep the old revision, as a number or percentage.", default=0, int_or_string=True)
    ] = 0
    max_unavailable: Annotated[
        IntOrString,
        field("Pods that may be unavailable, as a number or percentage.", default="20%", int_or_string=True),
    ] = "20%"
    max_surge: Annotated[
        IntOrString, field("Pods above the wanted number, as a number or percentage.", default=0, int_or_string=True)
    ] = 0
    paused: Annotated[bool, field("Whether no pod is updated.")] = False
    priority_strategy: Annotated[JSONObject | None, field("Which pods are updated first.")] = None
    scatter_strategy: Annotated[list[UpdateScatterTerm], field("Pods that are not updated together.", atomic=True)] = []
    in_place_update_strategy: Annotated[JSONObject | None, field("How pods are updated in place.")] = None


class CloneSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods that are kept running."""

    replicas: Annotated[int, field("How many pods are wanted.", default=1, minimum=0)] = 1
    selector: Annotated[LabelSelector, field("Pods that belong to it; never changes.")]
    template: Annotated[JSONObject, field("The pods to run.", preserve_unknown=True)]
    volume_claim_templates: Annotated[list[JSONObject], field("Claims made for each pod.", atomic=True)] = []
    scale_strategy: Annotated[CloneSetScaleStrategy, field("How pods come and go when the size changes.")] = (
        CloneSetScaleStrategy()
    )
    update_strategy: Annotated[CloneSetUpdateStrategy, field("How pods are replaced.", default={})] = (
        CloneSetUpdateStrategy()
    )
    revision_history_limit: Annotated[int, field("How many old revisions are kept.", default=10, minimum=0)] = 10
    min_ready_seconds: Annotated[int, field("Seconds of readiness before a pod is available.", minimum=0)] = 0
    lifecycle: Annotated[JSONObject | None, field("Hooks into the life of pods.")] = None
    progress_deadline_seconds: Annotated[
        int | None, field("Seconds without progress until the rollout counts as stuck.")
    ] = None


class CloneSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a CloneSet, as of the start of its last sync."""

    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    replicas: Annotated[int, field("Pods that exist.")] = 0
    ready_replicas: Annotated[int, field("Pods that are ready.")] = 0
    available_replicas: Annotated[int, field("Pods that have been ready for long enough.")] = 0
    updated_replicas: Annotated[int, field("Pods of the update revision.")] = 0
    updated_ready_replicas: Annotated[int, field("Pods of the update revision that are ready.")] = 0
    updated_available_replicas: Annotated[int, field("Pods of the update revision that are available.")] = 0
    expected_updated_replicas: Annotated[int, field("Pods that should be updated: all but the partition.")] = 0
    update_revision: Annotated[str, field("Revision that is being reached.")] = ""
    current_revision: Annotated[str, field("Revision that is being left.")] = ""
    collision_count: Annotated[int | None, field("Hash collisions so far.")] = None
    conditions: Annotated[list[PlainCondition], field("Aspects of its state.", list_map_keys=("type",))] = []
    label_selector: Annotated[str, field("Selector of the pods, as text.")] = ""


class CloneSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """Interchangeable pods, with partitioned and in-place updates."""

    api_version: str = f"{GROUP}/v1alpha1"
    kind: str = "CloneSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[CloneSetSpec, field("The pods that are wanted.")]
    status: Annotated[CloneSetStatus, field("Its state.")] = CloneSetStatus()


CLONE_SET = Kind(
    GROUP,
    "v1alpha1",
    "CloneSet",
    "clonesets",
    CloneSet,
    short_names=("clone",),
    status=True,
    scale=Scale(selector=".status.labelSelector"),
    columns=(
        Column("Desired", ".spec.replicas", type="integer"),
        Column("Updated", ".status.updatedReplicas", type="integer"),
        Column("Updated_Ready", ".status.updatedReadyReplicas", type="integer"),
        Column("Ready", ".status.readyReplicas", type="integer"),
        Column("Total", ".status.replicas", type="integer"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
        Column("Containers", ".spec.template.spec.containers[*].name", priority=1),
        Column("Images", ".spec.template.spec.containers[*].image", priority=1),
        Column("Selector", ".status.labelSelector", priority=1),
    ),
)

KINDS: tuple[Kind[Any], ...] = (CLONE_SET,)
