"""Where a pod may run, and what it waits for."""

from typing import Annotated, ClassVar

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.meta import LabelSelector


class NodeSelectorRequirement(APIStruct, frozen=True, gc=False, kw_only=True):
    """One term about a node's labels or fields."""

    key: Annotated[str, field("Label or field that the term is about.")]
    operator: Annotated[str, field("In, NotIn, Exists, DoesNotExist, Gt or Lt.")]
    values: Annotated[list[str], field("Values for the operator.", atomic=True)] = []


class NodeSelectorTerm(APIStruct, frozen=True, gc=False, kw_only=True):
    """Requirements that must all hold."""

    match_expressions: Annotated[list[NodeSelectorRequirement], field("Requirements of labels.", atomic=True)] = []
    match_fields: Annotated[list[NodeSelectorRequirement], field("Requirements of fields.", atomic=True)] = []

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class NodeSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """Nodes that match one of the terms."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], field("Terms, one of which must match.", atomic=True)]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class PreferredSchedulingTerm(APIStruct, frozen=True, gc=False, kw_only=True):
    """A weighted wish for nodes."""

    weight: Annotated[int, field("Weight from 1 to 100.", minimum=1, maximum=100)]
    preference: Annotated[NodeSelectorTerm, field("Nodes that are wished for.")]


class NodeAffinity(APIStruct, frozen=True, gc=False, kw_only=True):
    """Which nodes a pod goes to."""

    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, field("Nodes that are possible at all.")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[PreferredSchedulingTerm], field("Wishes, by weight.", atomic=True)
    ] = []


class PodAffinityTerm(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods to be near to or away from."""

    label_selector: Annotated[LabelSelector | None, field("Pods that count.")] = None
    namespaces: Annotated[list[str], field("Namespaces by name; this pod's own if none is given.", atomic=True)] = []
    topology_key: Annotated[str, field("Node label whose equal values mean the same place.")]
    namespace_selector: Annotated[LabelSelector | None, field("Namespaces whose pods count.")] = None
    match_label_keys: Annotated[list[str], field("Label keys in which those pods equal this one.", atomic=True)] = []
    mismatch_label_keys: Annotated[
        list[str], field("Label keys in which those pods differ from this one.", atomic=True)
    ] = []


class WeightedPodAffinityTerm(APIStruct, frozen=True, gc=False, kw_only=True):
    """A weighted wish about other pods."""

    weight: Annotated[int, field("Weight from 1 to 100.", minimum=1, maximum=100)]
    pod_affinity_term: Annotated[PodAffinityTerm, field("The pods that it is about.")]


class PodAffinity(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods to be near to."""

    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm], field("What must hold.", atomic=True)
    ] = []
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm], field("Wishes, by weight.", atomic=True)
    ] = []


class PodAntiAffinity(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods to stay away from."""

    required_during_scheduling_ignored_during_execution: Annotated[
        list[PodAffinityTerm], field("What must hold.", atomic=True)
    ] = []
    preferred_during_scheduling_ignored_during_execution: Annotated[
        list[WeightedPodAffinityTerm], field("Wishes, by weight.", atomic=True)
    ] = []


class Affinity(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where a pod should run."""

    node_affinity: Annotated[NodeAffinity | None, field("By the nodes.")] = None
    pod_affinity: Annotated[PodAffinity | None, field("Near other pods.")] = None
    pod_anti_affinity: Annotated[PodAntiAffinity | None, field("Away from other pods.")] = None


class Toleration(APIStruct, frozen=True, gc=False, kw_only=True):
    """A taint that does not keep the pod away."""

    key: Annotated[str, field("Key of the taint; all of them if empty, with Exists.")] = ""
    operator: Annotated[str, field("Exists or Equal; Equal if empty.")] = ""
    value: Annotated[str, field("Value of the taint, with Equal.")] = ""
    effect: Annotated[str, field("Effect of the taint; all of them if empty.")] = ""
    toleration_seconds: Annotated[
        int | None, field("How long NoExecute is tolerated; for ever if not given.", format="int64")
    ] = None


class TopologySpreadConstraint(APIStruct, frozen=True, gc=False, kw_only=True):
    """How evenly pods are spread."""

    max_skew: Annotated[int, field("Largest difference between two places.", minimum=1)]
    topology_key: Annotated[str, field("Node label that makes a place.")]
    when_unsatisfiable: Annotated[
        str, field("DoNotSchedule or ScheduleAnyway.", enum=("DoNotSchedule", "ScheduleAnyway"))
    ]
    label_selector: Annotated[LabelSelector | None, field("Pods that are counted.")] = None
    min_domains: Annotated[int | None, field("Least number of places.")] = None
    node_affinity_policy: Annotated[str | None, field("Whether node affinity narrows the places: Honor or Ignore.")] = (
        None
    )
    node_taints_policy: Annotated[str | None, field("Whether taints narrow the places: Honor or Ignore.")] = None
    match_label_keys: Annotated[
        list[str], field("Label keys whose values narrow the pods that are counted.", atomic=True)
    ] = []


class PodSchedulingGate(APIStruct, frozen=True, gc=False, kw_only=True):
    """Keeps a pod from being scheduled until it is removed."""

    name: Annotated[str, field("Name of the gate.")]


class PodReadinessGate(APIStruct, frozen=True, gc=False, kw_only=True):
    """A condition that is part of readiness."""

    condition_type: Annotated[str, field("Type of the condition.")]


class PodSchedulingGroup(APIStruct, frozen=True, gc=False, kw_only=True):
    """The group that the pod is scheduled with."""

    pod_group_name: Annotated[str | None, field("Name of the pod group.")] = None


class PodResourceClaim(APIStruct, frozen=True, gc=False, kw_only=True):
    """A dynamic resource claim of the pod."""

    name: Annotated[str, field("Name for use by containers.")]
    resource_claim_name: Annotated[str | None, field("An existing claim.")] = None
    resource_claim_template_name: Annotated[str | None, field("Template from which a claim is made.")] = None


class PodOS(APIStruct, frozen=True, gc=False, kw_only=True):
    """The operating system that the pod is for."""

    name: Annotated[str, field("linux or windows.")]


class EvictionResponder(APIStruct, frozen=True, gc=False, kw_only=True):
    """Reacts to an eviction of the pod."""

    name: Annotated[str, field("Name of the responder.")]
    priority: Annotated[int, field("The highest one is asked first.", minimum=0, maximum=100000)]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}
