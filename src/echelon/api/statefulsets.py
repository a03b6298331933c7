"""StatefulSets, whose pods have a stable name and storage."""

from typing import Annotated

from echelon.api.base import APIStruct, IntOrString, field
from echelon.api.meta import LabelSelector, ObjectMeta, PlainCondition
from echelon.api.pods import PodTemplateSpec
from echelon.api.volumes import PersistentVolumeClaim


class RollingUpdateStatefulSetStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Limits of a rolling update."""

    partition: Annotated[int, field("Pods below this ordinal keep the old revision.", default=0, minimum=0)] = 0
    max_unavailable: Annotated[
        IntOrString | None, field("Pods that may be unavailable, as a number or percentage.")
    ] = None


class StatefulSetUpdateStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods are replaced."""

    type: Annotated[
        str, field("RollingUpdate or OnDelete.", default="RollingUpdate", enum=("RollingUpdate", "OnDelete"))
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdateStatefulSetStrategy | None, field("Limits, with RollingUpdate.")] = None


class StatefulSetOrdinals(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods are numbered."""

    start: Annotated[int, field("First number.", minimum=0)] = 0


class StatefulSetPersistentVolumeClaimRetentionPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """What becomes of claims."""

    when_deleted: Annotated[
        str, field("When the StatefulSet is deleted: Retain or Delete.", default="Retain", enum=("Retain", "Delete"))
    ] = "Retain"
    when_scaled: Annotated[
        str, field("When it is scaled down: Retain or Delete.", default="Retain", enum=("Retain", "Delete"))
    ] = "Retain"


class StatefulSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods with a stable name and storage."""

    replicas: Annotated[int, field("How many pods are wanted.", default=1, minimum=0)] = 1
    selector: Annotated[LabelSelector, field("Pods that belong to it; never changes.")]
    template: Annotated[PodTemplateSpec, field("The pods to run.")]
    volume_claim_templates: Annotated[list[PersistentVolumeClaim], field("Claims made for each pod.", atomic=True)] = []
    service_name: Annotated[str, field("Service that gives the pods their names.", default="")] = ""
    pod_management_policy: Annotated[
        str, field("OrderedReady or Parallel.", default="OrderedReady", enum=("OrderedReady", "Parallel"))
    ] = "OrderedReady"
    update_strategy: Annotated[
        StatefulSetUpdateStrategy,
        field("How pods are replaced.", default={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
    ] = StatefulSetUpdateStrategy(rolling_update=RollingUpdateStatefulSetStrategy())
    revision_history_limit: Annotated[int, field("How many old revisions are kept.", default=10, minimum=0)] = 10
    min_ready_seconds: Annotated[int, field("Seconds of readiness before a pod is available.", minimum=0)] = 0
    persistent_volume_claim_retention_policy: Annotated[
        StatefulSetPersistentVolumeClaimRetentionPolicy,
        field("What becomes of claims.", default={"whenDeleted": "Retain", "whenScaled": "Retain"}),
    ] = StatefulSetPersistentVolumeClaimRetentionPolicy()
    ordinals: Annotated[StatefulSetOrdinals | None, field("How pods are numbered.")] = None


class StatefulSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a StatefulSet."""

    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    replicas: Annotated[int, field("Pods that exist.")] = 0
    ready_replicas: Annotated[int, field("Pods that are ready.")] = 0
    current_replicas: Annotated[int, field("Pods of the current revision.")] = 0
    updated_replicas: Annotated[int, field("Pods of the update revision.")] = 0
    current_revision: Annotated[str, field("Revision that is being left.")] = ""
    update_revision: Annotated[str, field("Revision that is being reached.")] = ""
    collision_count: Annotated[int | None, field("Hash collisions so far.")] = None
    conditions: Annotated[
        list[PlainCondition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []
    available_replicas: Annotated[int, field("Pods that have been ready for long enough.", default=0)] = 0


class StatefulSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods with a stable name and storage."""

    api_version: str = "apps/v1"
    kind: str = "StatefulSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[StatefulSetSpec, field("The pods that are wanted.")]
    status: Annotated[StatefulSetStatus, field("Its state.")] = StatefulSetStatus()
