"""Deployments and the ReplicaSets behind them, and the list of all kinds of the apps group."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, IntOrString, field
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.daemonsets import DaemonSet
from echelon.api.kinds import Column, Kind, Scale
from echelon.api.meta import LabelSelector, ObjectMeta, PlainCondition
from echelon.api.pods import PodTemplateSpec
from echelon.api.printing import AGE, CONTAINERS, SELECTOR, count, labels_cell, ready_of_wanted
from echelon.api.statefulsets import StatefulSet


class RollingUpdateDeployment(APIStruct, frozen=True, gc=False, kw_only=True):
    """Limits of a rolling update."""

    max_unavailable: Annotated[
        IntOrString, field("Pods that may be unavailable, as a number or percentage.", default="25%")
    ] = "25%"
    max_surge: Annotated[
        IntOrString, field("Pods above the wanted number, as a number or percentage.", default="25%")
    ] = "25%"


class DeploymentStrategy(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods are replaced."""

    type: Annotated[
        str, field("Recreate or RollingUpdate.", default="RollingUpdate", enum=("Recreate", "RollingUpdate"))
    ] = "RollingUpdate"
    rolling_update: Annotated[RollingUpdateDeployment | None, field("Limits, with RollingUpdate.")] = None


class DeploymentSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Pods that are kept running."""

    replicas: Annotated[int, field("How many pods are wanted.", default=1, minimum=0)] = 1
    selector: Annotated[LabelSelector, field("Pods that belong to it; never changes.")]
    template: Annotated[PodTemplateSpec, field("The pods to run.")]
    strategy: Annotated[
        DeploymentStrategy,
        field(
            "How pods are replaced.",
            default={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            patch_strategy="retainKeys",
        ),
    ] = DeploymentStrategy(rolling_update=RollingUpdateDeployment())
    min_ready_seconds: Annotated[int, field("Seconds of readiness before a pod is available.", minimum=0)] = 0
    revision_history_limit: Annotated[int, field("How many old ReplicaSets are kept.", default=10, minimum=0)] = 10
    paused: Annotated[bool, field("Whether changes of the template wait.")] = False
    progress_deadline_seconds: Annotated[
        int, field("Seconds without progress until the rollout counts as stuck.", default=600, minimum=0)
    ] = 600


class DeploymentCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of a Deployment's state."""

    type: Annotated[str, field("What the condition is about.")]
    status: Annotated[str, field("True, False or Unknown.")]
    last_update_time: Annotated[str | None, field("When it was last updated.", format="date-time", nullable=True)] = (
        None
    )
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""


class DeploymentStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a Deployment."""

    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    replicas: Annotated[int, field("Pods that exist.")] = 0
    updated_replicas: Annotated[int, field("Pods of the current template.")] = 0
    ready_replicas: Annotated[int, field("Pods that are ready.")] = 0
    available_replicas: Annotated[int, field("Pods that have been ready for long enough.")] = 0
    unavailable_replicas: Annotated[int, field("Pods that are missing for full availability.")] = 0
    terminating_replicas: Annotated[int | None, field("Pods that are ending.")] = None
    conditions: Annotated[
        list[DeploymentCondition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []
    collision_count: Annotated[int | None, field("Hash collisions so far.")] = None


class Deployment(APIStruct, frozen=True, gc=False, kw_only=True):
    """Interchangeable pods with rolling updates."""

    api_version: str = "apps/v1"
    kind: str = "Deployment"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DeploymentSpec, field("The pods that are wanted.")]
    status: Annotated[DeploymentStatus, field("Its state.")] = DeploymentStatus()


class ReplicaSetSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A number of equal pods."""

    replicas: Annotated[int, field("How many pods are wanted.", default=1, minimum=0)] = 1
    min_ready_seconds: Annotated[int, field("Seconds of readiness before a pod is available.", minimum=0)] = 0
    selector: Annotated[LabelSelector, field("Pods that belong to it; never changes.")]
    template: Annotated[PodTemplateSpec, field("The pods to run.")]


class ReplicaSetStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a ReplicaSet."""

    replicas: Annotated[int, field("Pods that exist.")] = 0
    fully_labeled_replicas: Annotated[int, field("Pods with all labels of the template.")] = 0
    ready_replicas: Annotated[int, field("Pods that are ready.")] = 0
    available_replicas: Annotated[int, field("Pods that have been ready for long enough.")] = 0
    terminating_replicas: Annotated[int | None, field("Pods that are ending.")] = None
    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    conditions: Annotated[
        list[PlainCondition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []


class ReplicaSet(APIStruct, frozen=True, gc=False, kw_only=True):
    """A number of equal pods."""

    api_version: str = "apps/v1"
    kind: str = "ReplicaSet"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ReplicaSetSpec, field("The pods that are wanted.")]
    status: Annotated[ReplicaSetStatus, field("Its state.")] = ReplicaSetStatus()


DEPLOYMENT = Kind(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    Deployment,
    short_names=("deploy",),
    categories=("all",),
    status=True,
    scale=Scale(),
    builtin=True,
    columns=(
        Column("Ready", cell=ready_of_wanted),
        Column("Up-to-date", type="integer", cell=count("status", "updatedReplicas")),
        Column("Available", type="integer", cell=count("status", "availableReplicas")),
        AGE,
        *CONTAINERS,
        SELECTOR,
    ),
)
REPLICA_SET = Kind(
    "apps",
    "v1",
    "ReplicaSet",
    "replicasets",
    ReplicaSet,
    short_names=("rs",),
    categories=("all",),
    status=True,
    scale=Scale(),
    builtin=True,
    columns=(
        Column("Desired", type="integer", cell=count("spec", "replicas")),
        Column("Current", type="integer", cell=count("status", "replicas")),
        Column("Ready", type="integer", cell=count("status", "readyReplicas")),
        AGE,
        *CONTAINERS,
        SELECTOR,
    ),
)
STATEFUL_SET = Kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    StatefulSet,
    short_names=("sts",),
    categories=("all",),
    status=True,
    scale=Scale(),
    builtin=True,
    columns=(Column("Ready", cell=ready_of_wanted), AGE, *CONTAINERS),
)
DAEMON_SET = Kind(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    DaemonSet,
    short_names=("ds",),
    categories=("all",),
    status=True,
    builtin=True,
    columns=(
        Column("Desired", type="integer", cell=count("status", "desiredNumberScheduled")),
        Column("Current", type="integer", cell=count("status", "currentNumberScheduled")),
        Column("Ready", type="integer", cell=count("status", "numberReady")),
        Column("Up-to-date", type="integer", cell=count("status", "updatedNumberScheduled")),
        Column("Available", type="integer", cell=count("status", "numberAvailable")),
        Column("Node Selector", cell=labels_cell("spec", "template", "spec", "nodeSelector")),
        AGE,
        *CONTAINERS,
        SELECTOR,
    ),
)
KINDS: tuple[Kind[Any], ...] = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, CONTROLLER_REVISION)
