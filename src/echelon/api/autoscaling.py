"""Scale, the common face of everything that has a size, and the autoscaler that uses it."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import LabelSelector, ObjectMeta
from echelon.api.printing import AGE, autoscaler_reference, autoscaler_targets, count, or_unset


class ScaleSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The size that is wanted."""

    replicas: Annotated[int, field("How many are wanted.", minimum=0)] = 0


class ScaleStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The size that is there."""

    replicas: Annotated[int, field("How many there are.")] = 0
    selector: Annotated[str, field("Selector of the pods, as text.")] = ""


class Scale(APIStruct, frozen=True, gc=False, kw_only=True):
    """The size of an object."""

    api_version: str = "autoscaling/v1"
    kind: str = "Scale"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ScaleSpec, field("What is wanted.")] = ScaleSpec()
    status: Annotated[ScaleStatus, field("What is there.")] = ScaleStatus()


class CrossVersionObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """The object that is scaled."""

    kind: Annotated[str, field("Kind of the object.")]
    name: Annotated[str, field("Name of the object.")]
    api_version: Annotated[str, field("API version of the object.")] = ""


class MetricIdentifier(APIStruct, frozen=True, gc=False, kw_only=True):
    """Names a metric."""

    name: Annotated[str, field("Name of the metric.")]
    selector: Annotated[LabelSelector | None, field("Series of the metric.")] = None


class MetricTarget(APIStruct, frozen=True, gc=False, kw_only=True):
    """The value that a metric should have."""

    type: Annotated[str, field("Utilization, Value or AverageValue.")]
    value: Annotated[IntOrString | None, field("Value.")] = None
    average_value: Annotated[IntOrString | None, field("Average over the pods.")] = None
    average_utilization: Annotated[int | None, field("Average over the pods, in percent of the request.")] = None


class ContainerResourceMetricSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A resource of one container."""

    name: Annotated[str, field("Name of the resource.")]
    target: Annotated[MetricTarget, field("Value to reach.")]
    container: Annotated[str, field("Name of the container.")]


class ExternalMetricSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A metric from outside of the cluster."""

    metric: Annotated[MetricIdentifier, field("The metric.")]
    target: Annotated[MetricTarget, field("Value to reach.")]


class ObjectMetricSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A metric of an object."""

    described_object: Annotated[CrossVersionObjectReference, field("The object.")]
    target: Annotated[MetricTarget, field("Value to reach.")]
    metric: Annotated[MetricIdentifier, field("The metric.")]


class PodsMetricSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A metric of the pods."""

    metric: Annotated[MetricIdentifier, field("The metric.")]
    target: Annotated[MetricTarget, field("Value to reach.")]


class ResourceMetricSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A resource of the pods."""

    name: Annotated[str, field("Name of the resource.")]
    target: Annotated[MetricTarget, field("Value to reach.")]


class MetricSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A metric to scale by."""

    type: Annotated[str, field("Which of them.")]
    object: Annotated[ObjectMetricSource | None, field("A metric of an object.")] = None
    pods: Annotated[PodsMetricSource | None, field("A metric of the pods.")] = None
    resource: Annotated[ResourceMetricSource | None, field("A resource of the pods.")] = None
    container_resource: Annotated[ContainerResourceMetricSource | None, field("A resource of one container.")] = None
    external: Annotated[ExternalMetricSource | None, field("A metric from outside.")] = None


class HPAScalingPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How fast the size may change."""

    type: Annotated[str, field("Pods or Percent.")]
    value: Annotated[int, field("The limit.", minimum=1)]
    period_seconds: Annotated[int, field("Window that the limit is about.", minimum=1, maximum=1800)]


class HPAScalingRules(APIStruct, frozen=True, gc=False, kw_only=True):
    """Rules for one direction."""

    stabilization_window_seconds: Annotated[int | None, field("Seconds over which the best proposal is taken.")] = None
    select_policy: Annotated[str | None, field("Which limit counts: Max, Min or Disabled.")] = None
    policies: Annotated[list[HPAScalingPolicy], field("Limits.", atomic=True)] = []
    tolerance: Annotated[IntOrString | None, field("Deviation that does nothing.")] = None


class HorizontalPodAutoscalerBehavior(APIStruct, frozen=True, gc=False, kw_only=True):
    """Rules for both directions."""

    scale_up: Annotated[HPAScalingRules | None, field("Rules for getting larger.")] = None
    scale_down: Annotated[HPAScalingRules | None, field("Rules for getting smaller.")] = None


class HorizontalPodAutoscalerSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """How an object is scaled."""

    scale_target_ref: Annotated[CrossVersionObjectReference, field("The object that is scaled.")]
    min_replicas: Annotated[int, field("Smallest size.", default=1, minimum=0)] = 1
    max_replicas: Annotated[int, field("Largest size.", minimum=1)]
    metrics: Annotated[list[MetricSpec], field("Metrics to scale by.", atomic=True)] = []
    behavior: Annotated[HorizontalPodAutoscalerBehavior | None, field("How fast the size may change.")] = None


class HorizontalPodAutoscalerCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of an autoscaler's state."""

    type: Annotated[str, field("What the condition is about.")]
    status: Annotated[str, field("True, False or Unknown.")]
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""
    observed_generation: Annotated[int | None, field("Generation that it was computed from.", format="int64")] = None


class HorizontalPodAutoscalerStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of an autoscaler."""

    observed_generation: Annotated[
        int | None, field("Generation that the status was computed from.", format="int64")
    ] = None
    last_scale_time: Annotated[str, field("When the size last changed.", format="date-time")] = ""
    current_replicas: Annotated[int, field("Size as it was last seen.")] = 0
    desired_replicas: Annotated[int, field("Size that is wanted.")] = 0
    current_metrics: Annotated[
        list[JSONObject] | None, field("Metrics as they were last read.", atomic=True, nullable=True)
    ] = []
    conditions: Annotated[
        list[HorizontalPodAutoscalerCondition],
        field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type"),
    ] = []


class HorizontalPodAutoscaler(APIStruct, frozen=True, gc=False, kw_only=True):
    """Scales an object by metrics."""

    api_version: str = "autoscaling/v2"
    kind: str = "HorizontalPodAutoscaler"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[HorizontalPodAutoscalerSpec, field("How.")]
    status: Annotated[HorizontalPodAutoscalerStatus, field("Its state.")] = HorizontalPodAutoscalerStatus()


HORIZONTAL_POD_AUTOSCALER = Kind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    HorizontalPodAutoscaler,
    short_names=("hpa",),
    categories=("all",),
    status=True,
    builtin=True,
    columns=(
        Column("Reference", cell=autoscaler_reference),
        Column("Targets", cell=autoscaler_targets),
        Column("MinPods", cell=or_unset("spec", "minReplicas")),
        Column("MaxPods", type="integer", cell=count("spec", "maxReplicas")),
        Column("Replicas", type="integer", cell=count("status", "currentReplicas")),
        AGE,
    ),
)

KINDS: tuple[Kind[Any], ...] = (HORIZONTAL_POD_AUTOSCALER,)
