"""DaemonSets, and the stored revisions that they and StatefulSets go back to."""

from typing import Annotated

from echelon.api.base import APIStruct, IntOrString, field
from echelon.api.meta import LabelSelector, ObjectMeta, PlainCondition
from echelon.api.pods import PodTemplateSpec


class RollingUpdateDaemonSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """Limits of a rolling update."""

    max_unavailable: Annotated[
        IntOrString, field("Nodes without an available pod, as a number or percentage.", default=1)
    ] = 1
    max_surge: Annotated[IntOrString, field("Nodes that may run two pods, as a number or percentage.", default=0)] = 0


class DaemonSetUpdateStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods are replaced."""

    type: Annotated[
        str, field("RollingUpdate or OnDelete.", default="RollingUpdate", enum=("RollingUpdate", "OnDelete"))
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdateDaemonSet | None, field("Limits, with RollingUpdate.")] = None


class DaemonSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A pod on every node."""

    selector: Annotated[LabelSelector, field("Pods that belong to it; never changes.")]
    template: Annotated[PodTemplateSpec, field("The pods to run.")]
    update_strategy: Annotated[
        DaemonSetUpdateStrategy,
        field(
            "How pods are replaced.",
            default={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        ),
    ] = DaemonSetUpdateStrategy(rolling_update=RollingUpdateDaemonSet())
    min_ready_seconds: Annotated[int, field("Seconds of readiness before a pod is available.", minimum=0)] = 0
    revision_history_limit: Annotated[int, field("How many old revisions are kept.", default=10, minimum=0)] = 10


class DaemonSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a DaemonSet."""

    current_number_scheduled: Annotated[int, field("Nodes that run a pod and should.")] = 0
    number_misscheduled: Annotated[int, field("Nodes that run a pod and should not.")] = 0
    desired_number_scheduled: Annotated[int, field("Nodes that should run a pod.")] = 0
    number_ready: Annotated[int, field("Nodes with a ready pod.")] = 0
    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    updated_number_scheduled: Annotated[int, field("Nodes with a pod of the current template.")] = 0
    number_available: Annotated[int, field("Nodes with an available pod.")] = 0
    number_unavailable: Annotated[int, field("Nodes that should have an available pod and have none.")] = 0
    collision_count: Annotated[int | None, field("Hash collisions so far.")] = None
    conditions: Annotated[
        list[PlainCondition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []


class DaemonSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """A pod on every node."""

    api_version: str = "apps/v1"
    kind: str = "DaemonSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DaemonSetSpec, field("The pods that are wanted.")]
    status: Annotated[DaemonSetStatus, field("Its state.")] = DaemonSetStatus()
