"""Nodes of a cluster."""

from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.meta import ObjectMeta


class Taint(APIStruct, frozen=True, gc=False, kw_only=True):
    """Keeps pods away that do not tolerate it."""

    key: Annotated[str, field("Key of the taint.")]
    value: Annotated[str, field("Value of the taint.")] = ""
    effect: Annotated[
        str, field("NoSchedule, PreferNoSchedule or NoExecute.", enum=("NoSchedule", "PreferNoSchedule", "NoExecute"))
    ]
    time_added: Annotated[str, field("When the taint was added.", format="date-time")] = ""


class NodeSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """How a node is used."""

    pod_cidr: Annotated[str, field("Address range of the node's pods.")] = msgspec.field(default="", name="podCIDR")
    pod_cidrs: Annotated[
        list[str], field("Address ranges of the node's pods.", list_set=True, patch_strategy="merge")
    ] = msgspec.field(default_factory=list, name="podCIDRs")
    provider_id: Annotated[str, field("Id that the cloud gave the node.")] = msgspec.field(
        default="", name="providerID"
    )
    unschedulable: Annotated[bool, field("Whether new pods are kept away.")] = False
    taints: Annotated[list[Taint], field("What keeps pods away.", atomic=True)] = []
    config_source: Annotated[
        JSONObject | None, field("Source of the kubelet's configuration; no longer supported.")
    ] = None
    external_id: Annotated[str, field("Id in the cloud; no longer used.")] = msgspec.field(
        default="", name="externalID"
    )
    pod_preemption_policy: Annotated[JSONObject | None, field("How pods on the node may be preempted.")] = None


class NodeAddress(APIStruct, frozen=True, gc=False, kw_only=True):
    """An address of a node."""

    type: Annotated[str, field("Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.")]
    address: Annotated[str, field("The address.")]


class NodeCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """One aspect of a node's state."""

    type: Annotated[str, field("What the condition is about.")]
    status: Annotated[str, field("True, False or Unknown.")]
    last_heartbeat_time: Annotated[
        str | None, field("When it was last reported.", format="date-time", nullable=True)
    ] = None
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""


class DaemonEndpoint(APIStruct, frozen=True, gc=False, kw_only=True):
    """A port of a daemon."""

    port: Annotated[int, field("The port.")] = msgspec.field(name="Port")


class NodeDaemonEndpoints(APIStruct, frozen=True, gc=False, kw_only=True):
    """Ports of the node's daemons."""

    kubelet_endpoint: Annotated[DaemonEndpoint | None, field("Port of the kubelet.")] = None


class NodeSwapStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Swap of a node."""

    capacity: Annotated[int | None, field("Bytes of swap.", format="int64")] = None


class NodeSystemInfo(APIStruct, frozen=True, gc=False, kw_only=True):
    """The system that a node runs."""

    machine_id: Annotated[str, field("Id of the machine.")] = msgspec.field(default="", name="machineID")
    system_uuid: Annotated[str, field("UUID of the hardware.")] = msgspec.field(default="", name="systemUUID")
    boot_id: Annotated[str, field("Changes with every boot.")] = msgspec.field(default="", name="bootID")
    kernel_version: Annotated[str, field("Kernel version.")] = ""
    os_image: Annotated[str, field("Name of the distribution.")] = ""
    container_runtime_version: Annotated[str, field("Container runtime and version.")] = ""
    kubelet_version: Annotated[str, field("Kubelet version.")] = ""
    kube_proxy_version: Annotated[str, field("Kube-proxy version; no longer used.")] = ""
    operating_system: Annotated[str, field("linux or windows.")] = ""
    architecture: Annotated[str, field("Architecture, such as amd64.")] = ""
    swap: Annotated[NodeSwapStatus | None, field("Swap of the node.")] = None
    running_in_user_namespace: Annotated[bool | None, field("Whether the kubelet runs in a user namespace.")] = None


class ContainerImage(APIStruct, frozen=True, gc=False, kw_only=True):
    """An image on a node."""

    names: Annotated[list[str] | None, field("Names of the image.", atomic=True, nullable=True)] = []
    size_bytes: Annotated[int, field("Size in bytes.", format="int64")] = 0


class AttachedVolume(APIStruct, frozen=True, gc=False, kw_only=True):
    """A volume attached to a node."""

    name: Annotated[str, field("Name of the volume.")]
    device_path: Annotated[str, field("Path of the device.")]


class NodeRuntimeHandlerFeatures(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a runtime handler can do."""

    recursive_read_only_mounts: Annotated[bool | None, field("Whether it supports recursive read-only mounts.")] = None
    user_namespaces: Annotated[bool | None, field("Whether it supports user namespaces.")] = None


class NodeRuntimeHandler(APIStruct, frozen=True, gc=False, kw_only=True):
    """A runtime handler of a node."""

    name: Annotated[str, field("Name of the handler; empty for the default one.")] = ""
    features: Annotated[NodeRuntimeHandlerFeatures | None, field("What it can do.")] = None


class NodeFeatures(APIStruct, frozen=True, gc=False, kw_only=True):
    """What the runtime of a node can do."""

    supplemental_groups_policy: Annotated[bool | None, field("Whether group policies of pods are supported.")] = None


class NodeStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is known about a node."""

    capacity: Annotated[dict[str, IntOrString], field("Resources that the node has.")] = {}
    allocatable: Annotated[dict[str, IntOrString], field("Resources that pods can have.")] = {}
    phase: Annotated[str, field("No longer used.")] = ""
    conditions: Annotated[
        list[NodeCondition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []
    addresses: Annotated[
        list[NodeAddress], field("Addresses of the node.", list_map_keys=("type",), patch_merge_key="type")
    ] = []
    daemon_endpoints: Annotated[NodeDaemonEndpoints, field("Ports of daemons.")] = NodeDaemonEndpoints()
    node_info: Annotated[NodeSystemInfo, field("The system that it runs.")] = NodeSystemInfo()
    images: Annotated[list[ContainerImage], field("Images on the node.", atomic=True)] = []
    volumes_in_use: Annotated[list[str], field("Volumes in use on it.", atomic=True)] = []
    volumes_attached: Annotated[list[AttachedVolume], field("Volumes attached to it.", atomic=True)] = []
    config: Annotated[JSONObject | None, field("State of the kubelet's configuration source; no longer used.")] = None
    runtime_handlers: Annotated[list[NodeRuntimeHandler], field("Its runtime handlers.", atomic=True)] = []
    features: Annotated[NodeFeatures | None, field("What its runtime can do.")] = None
    declared_features: Annotated[list[str], field("Features that the node declares.", atomic=True)] = []


class Node(APIStruct, frozen=True, gc=False, kw_only=True):
    """A machine that runs pods."""

    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[NodeSpec, field("How it is used.")] = NodeSpec()
    status: Annotated[NodeStatus, field("What is known about it.")] = NodeStatus()
