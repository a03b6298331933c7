"""Pods, and the template that workloads make them from."""

from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, IntOrString, field
from echelon.api.containers import Container, EphemeralContainer, ResourceRequirements
from echelon.api.meta import ObjectMeta
from echelon.api.podscheduling import (
    Affinity,
    EvictionResponder,
    PodOS,
    PodReadinessGate,
    PodResourceClaim,
    PodSchedulingGate,
    PodSchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
)
from echelon.api.podsecurity import PodSecurityContext
from echelon.api.podstatus import PodStatus
from echelon.api.references import LocalObjectReference
from echelon.api.volumes import Volume


class HostAlias(APIStruct, frozen=True, gc=False, kw_only=True):
    """An extra line of the pod's hosts file."""

    ip: Annotated[str, field("The address.")]
    hostnames: Annotated[list[str], field("Names for the address.", atomic=True)] = []


class PodDNSConfigOption(APIStruct, frozen=True, gc=False, kw_only=True):
    """An option of the resolver."""

    name: Annotated[str, field("Name of the option.")] = ""
    value: Annotated[str | None, field("Its value.")] = None


class PodDNSConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Settings of the pod's resolver."""

    nameservers: Annotated[list[str], field("DNS servers.", atomic=True)] = []
    searches: Annotated[list[str], field("Search domains.", atomic=True)] = []
    options: Annotated[list[PodDNSConfigOption], field("Resolver options.", atomic=True)] = []


class PodSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a pod consists of and how it runs."""

    volumes: Annotated[
        list[Volume],
        field(
            "Volumes that containers can mount.",
            list_map_keys=("name",),
            patch_merge_key="name",
            patch_strategy="merge,retainKeys",
        ),
    ] = []
    init_containers: Annotated[
        list[Container],
        field(
            "Containers that run to their end, in order, before the others.",
            list_map_keys=("name",),
            patch_merge_key="name",
        ),
    ] = []
    containers: Annotated[
        list[Container],
        field("The containers; at least one.", min_items=1, list_map_keys=("name",), patch_merge_key="name"),
    ]
    ephemeral_containers: Annotated[
        list[EphemeralContainer],
        field("Containers added to a running pod for debugging.", list_map_keys=("name",), patch_merge_key="name"),
    ] = []
    restart_policy: Annotated[
        str,
        field(
            "When containers are restarted: Always, OnFailure or Never.",
            default="Always",
            enum=("Always", "OnFailure", "Never"),
        ),
    ] = "Always"
    termination_grace_period_seconds: Annotated[
        int, field("Seconds between the signal to stop and the kill.", default=30, minimum=0, format="int64")
    ] = 30
    active_deadline_seconds: Annotated[
        int | None, field("Seconds after which the pod is failed.", minimum=1, format="int64")
    ] = None
    dns_policy: Annotated[
        str,
        field(
            "How names are resolved.",
            default="ClusterFirst",
            enum=("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        ),
    ] = "ClusterFirst"
    node_selector: Annotated[dict[str, str], field("Labels that the node must have.", map_atomic=True)] = {}
    service_account_name: Annotated[str, field("Service account that the pod acts as.")] = ""
    service_account: Annotated[str, field("Old name of serviceAccountName.")] = ""
    automount_service_account_token: Annotated[bool | None, field("Whether a service account token is mounted.")] = None
    node_name: Annotated[str, field("Node that the pod runs on; set by the scheduler.")] = ""
    host_network: Annotated[bool, field("Whether the host's network is used.")] = False
    host_pid: Annotated[bool, field("Whether the host's process namespace is used.")] = msgspec.field(
        default=False, name="hostPID"
    )
    host_ipc: Annotated[bool, field("Whether the host's IPC namespace is used.")] = msgspec.field(
        default=False, name="hostIPC"
    )
    share_process_namespace: Annotated[bool | None, field("Whether containers see each other's processes.")] = None
    security_context: Annotated[PodSecurityContext, field("Rights of all containers.", default={})] = (
        PodSecurityContext()
    )
    image_pull_secrets: Annotated[
        list[LocalObjectReference],
        field("Secrets for pulling images.", list_map_keys=("name",), patch_merge_key="name"),
    ] = []
    hostname: Annotated[str, field("Host name of the pod.")] = ""
    subdomain: Annotated[str, field("Subdomain of the full host name.")] = ""
    affinity: Annotated[Affinity | None, field("Where the pod should run.")] = None
    scheduler_name: Annotated[
        str, field("Scheduler that places the pod.", default="default-scheduler", max_length=253)
    ] = "default-scheduler"
    tolerations: Annotated[list[Toleration], field("Taints that do not keep it away.", atomic=True)] = []
    host_aliases: Annotated[
        list[HostAlias], field("Extra lines of the hosts file.", list_map_keys=("ip",), patch_merge_key="ip")
    ] = []
    priority_class_name: Annotated[str, field("Priority class.")] = ""
    priority: Annotated[int | None, field("Priority as a number; from the class.")] = None
    dns_config: Annotated[PodDNSConfig | None, field("Resolver settings on top of the policy.")] = None
    readiness_gates: Annotated[
        list[PodReadinessGate], field("Conditions that are part of readiness.", atomic=True)
    ] = []
    runtime_class_name: Annotated[str | None, field("Runtime class.")] = None
    enable_service_links: Annotated[bool | None, field("Whether services become environment variables.")] = None
    preemption_policy: Annotated[str | None, field("Whether others may be evicted for it.")] = None
    overhead: Annotated[dict[str, IntOrString], field("Resources that the runtime itself needs.")] = {}
    topology_spread_constraints: Annotated[
        list[TopologySpreadConstraint],
        field(
            "How evenly pods are spread.",
            list_map_keys=("topologyKey", "whenUnsatisfiable"),
            patch_merge_key="topologyKey",
        ),
    ] = []
    set_hostname_as_fqdn: Annotated[bool | None, field("Whether the host name is the full name.")] = msgspec.field(
        default=None, name="setHostnameAsFQDN"
    )
    os: Annotated[PodOS | None, field("Operating system that the pod is for.")] = None
    host_users: Annotated[bool | None, field("Whether the host's user namespace is used.")] = None
    scheduling_gates: Annotated[
        list[PodSchedulingGate], field("What the scheduler waits for.", list_map_keys=("name",), patch_merge_key="name")
    ] = []
    resource_claims: Annotated[
        list[PodResourceClaim],
        field(
            "Dynamic resources of the pod.",
            list_map_keys=("name",),
            patch_merge_key="name",
            patch_strategy="merge,retainKeys",
        ),
    ] = []
    resources: Annotated[ResourceRequirements | None, field("Resources of all containers together.")] = None
    hostname_override: Annotated[str | None, field("Host name of the pod, whatever else says.")] = None
    scheduling_group: Annotated[PodSchedulingGroup | None, field("Group that is scheduled together.")] = None
    eviction_responders: Annotated[
        list[EvictionResponder],
        field("Who reacts to an eviction of the pod.", list_map_keys=("name",), patch_merge_key="name"),
    ] = []


class PodTemplateSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """The pods that a workload makes."""

    metadata: Annotated[ObjectMeta, field("Labels and annotations of the pods.")] = ObjectMeta()
    spec: Annotated[PodSpec, field("What the pods consist of.")]


class Pod(APIStruct, frozen=True, gc=False, kw_only=True):
    """Containers that run together on a node."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodSpec, field("What the pod consists of.")]
    status: Annotated[PodStatus, field("What is known about it.")] = PodStatus()
