"""What a node reports about a pod.

Nothing is required except the keys of lists: a status is written piece by piece, by several writers.
"""

from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.containers import ResourceRequirements


class PodCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of a pod's state."""

    type: Annotated[str, field("What the condition is about.")]
    observed_generation: Annotated[int, field("Generation that it was computed from.", format="int64")] = 0
    status: Annotated[str, field("True, False or Unknown.")]
    last_probe_time: Annotated[str | None, field("When it was last looked at.", format="date-time", nullable=True)] = (
        None
    )
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""


class ResourceHealth(APIStruct, frozen=True, gc=False, kw_only=True):
    """Health of a device."""

    resource_id: Annotated[str, field("Id of the device.")] = msgspec.field(name="resourceID")
    health: Annotated[str, field("Healthy, Unhealthy or Unknown.")] = ""
    message: Annotated[str | None, field("Why.")] = None


class ResourceStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Health of the devices of a resource."""

    name: Annotated[str, field("Name of the resource.")]
    resources: Annotated[list[ResourceHealth], field("The devices.", list_map_keys=("resourceID",))] = []


class VolumeMountStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """A mount in force."""

    name: Annotated[str, field("Volume of the pod.")]
    mount_path: Annotated[str, field("Path in the container.")]
    read_only: Annotated[bool, field("Whether the container may only read.")] = False
    recursive_read_only: Annotated[str | None, field("Whether mounts below are read-only too.")] = None
    volume_status: Annotated[JSONObject | None, field("What is known about the volume.")] = None


class ContainerStateRunning(APIStruct, frozen=True, gc=False, kw_only=True):
    """The container runs."""

    started_at: Annotated[str | None, field("When it started.", format="date-time", nullable=True)] = None


class ContainerStateTerminated(APIStruct, frozen=True, gc=False, kw_only=True):
    """The container has ended."""

    exit_code: Annotated[int, field("Exit code.")] = 0
    signal: Annotated[int, field("Signal that ended it.")] = 0
    reason: Annotated[str, field("Why it ended, as one word.")] = ""
    message: Annotated[str, field("Last words of the container.")] = ""
    started_at: Annotated[str | None, field("When it started.", format="date-time", nullable=True)] = None
    finished_at: Annotated[str | None, field("When it ended.", format="date-time", nullable=True)] = None
    container_id: Annotated[str, field("Id of the container.")] = msgspec.field(default="", name="containerID")


class ContainerStateWaiting(APIStruct, frozen=True, gc=False, kw_only=True):
    """The container waits to run."""

    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""


class ContainerState(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a container does; one of three."""

    waiting: Annotated[ContainerStateWaiting | None, field("It waits.")] = None
    running: Annotated[ContainerStateRunning | None, field("It runs.")] = None
    terminated: Annotated[ContainerStateTerminated | None, field("It has ended.")] = None


class ContainerStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is known about a container."""

    name: Annotated[str, field("Name of the container.")]
    state: Annotated[ContainerState, field("What it does now.", default={})] = ContainerState()
    last_state: Annotated[ContainerState, field("How it ended the last time.", default={})] = ContainerState()
    ready: Annotated[bool, field("Whether it passes its readiness probe.")] = False
    restart_count: Annotated[int, field("How often it was restarted.")] = 0
    image: Annotated[str, field("Image that it runs.")] = ""
    image_id: Annotated[str, field("Digest of the image.")] = msgspec.field(default="", name="imageID")
    container_id: Annotated[str, field("Id of the container.")] = msgspec.field(default="", name="containerID")
    started: Annotated[bool | None, field("Whether it has started up.")] = None
    allocated_resources: Annotated[dict[str, IntOrString], field("Resources that the node set aside.")] = {}
    resources: Annotated[ResourceRequirements | None, field("Resources in force.")] = None
    volume_mounts: Annotated[
        list[VolumeMountStatus], field("Mounts in force.", list_map_keys=("mountPath",), patch_merge_key="mountPath")
    ] = []
    user: Annotated[JSONObject | None, field("User that it runs as.")] = None
    allocated_resources_status: Annotated[
        list[ResourceStatus], field("Health of devices.", list_map_keys=("name",), patch_merge_key="name")
    ] = []
    stop_signal: Annotated[str | None, field("Signal that asks it to stop.")] = None


class HostIP(APIStruct, frozen=True, gc=False, kw_only=True):
    """An address of the node."""

    ip: Annotated[str, field("The address.")]


class PodIP(APIStruct, frozen=True, gc=False, kw_only=True):
    """An address of the pod."""

    ip: Annotated[str, field("The address.")]


class PodResourceClaimStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """The claim that was made for the pod."""

    name: Annotated[str, field("Name in the pod's `resourceClaims`.")]
    resource_claim_name: Annotated[str | None, field("Name of the claim.")] = None


class PodStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is known about a pod."""

    observed_generation: Annotated[int, field("Generation that the status was computed from.", format="int64")] = 0
    phase: Annotated[str, field("Pending, Running, Succeeded, Failed or Unknown.")] = ""
    conditions: Annotated[
        list[PodCondition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []
    message: Annotated[str, field("Why it is in this phase, as a sentence.")] = ""
    reason: Annotated[str, field("Why it is in this phase, as one word.")] = ""
    nominated_node_name: Annotated[str, field("Node on which room is being made.")] = ""
    host_ip: Annotated[str, field("Address of the node.")] = msgspec.field(default="", name="hostIP")
    host_ips: Annotated[list[HostIP], field("Addresses of the node.", atomic=True, patch_merge_key="ip")] = (
        msgspec.field(default_factory=list, name="hostIPs")
    )
    pod_ip: Annotated[str, field("Address of the pod.")] = msgspec.field(default="", name="podIP")
    pod_ips: Annotated[list[PodIP], field("Addresses of the pod.", list_map_keys=("ip",), patch_merge_key="ip")] = (
        msgspec.field(default_factory=list, name="podIPs")
    )
    start_time: Annotated[str, field("When the node took it up.", format="date-time")] = ""
    init_container_statuses: Annotated[list[ContainerStatus], field("The init containers.", atomic=True)] = []
    container_statuses: Annotated[list[ContainerStatus], field("The containers.", atomic=True)] = []
    qos_class: Annotated[str, field("Guaranteed, Burstable or BestEffort.")] = ""
    ephemeral_container_statuses: Annotated[list[ContainerStatus], field("The ephemeral containers.", atomic=True)] = []
    resize: Annotated[str, field("State of a resource change.")] = ""
    resource_claim_statuses: Annotated[
        list[PodResourceClaimStatus],
        field(
            "Claims made for it.", list_map_keys=("name",), patch_merge_key="name", patch_strategy="merge,retainKeys"
        ),
    ] = []
    extended_resource_claim_status: Annotated[JSONObject | None, field("Claim that backs extended resources.")] = None
    allocated_resources: Annotated[dict[str, IntOrString], field("Resources that the node set aside.")] = {}
    resources: Annotated[ResourceRequirements | None, field("Resources in force for the whole pod.")] = None
    node_allocatable_resource_claim_statuses: Annotated[
        list[JSONObject],
        field(
            "Claims that count against the node.",
            list_map_keys=("resourceClaimName",),
            patch_merge_key="resourceClaimName",
        ),
    ] = []
    volume_health: Annotated[list[JSONObject], field("Health of its volumes.", list_map_keys=("name",))] = []
