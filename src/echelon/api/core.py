"""The core group: namespaces, configuration, identities and events.

Larger kinds of the group have modules of their own; all of the group's kinds are listed here.
"""

from typing import Annotated, Any, TypeAlias

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.namespaces import NAMESPACE
from echelon.api.nodes import Node
from echelon.api.podprinting import pod_ip, pod_readiness_gates, pod_ready, pod_restarts, pod_status
from echelon.api.pods import Pod
from echelon.api.printing import (
    AGE,
    claim_access_modes,
    claim_attributes_class,
    claim_capacity,
    claim_phase,
    config_map_size,
    event_columns,
    kernel,
    labels_cell,
    node_address,
    node_roles,
    node_status,
    or_none,
    or_unknown,
    secret_size,
    service_cluster_ip,
    service_external_ip,
    service_ports,
)
from echelon.api.references import EventSource, ObjectReference
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.services import Service
from echelon.api.volumes import PersistentVolumeClaim

Base64: TypeAlias = Annotated[str, field("Bytes in base64.", format="byte")]


class ConfigMap(APIStruct, frozen=True, gc=False, kw_only=True):
    """Configuration as keys and values."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    immutable: Annotated[bool | None, field("Whether the values can no longer change.")] = None
    data: Annotated[dict[str, str], field("Values by key.")] = {}
    binary_data: Annotated[dict[str, Base64], field("Values that are not text, in base64.")] = {}


class Secret(APIStruct, frozen=True, gc=False, kw_only=True):
    """Confidential values."""

    api_version: str = "v1"
    kind: str = "Secret"
    metadata: ObjectMeta = ObjectMeta()
    immutable: Annotated[bool | None, field("Whether the values can no longer change.")] = None
    data: Annotated[dict[str, Base64], field("Values by key, in base64.")] = {}
    string_data: Annotated[
        dict[str, str], field("Values as plain text; merged into `data` when written, never read.")
    ] = {}
    type: Annotated[str, field("What the secret is for.", default="Opaque")] = "Opaque"


class EventSeries(APIStruct, frozen=True, gc=False, kw_only=True):
    """Repetitions of an event."""

    count: Annotated[int, field("How often it happened.")] = 0
    last_observed_time: Annotated[str | None, field("When it happened last.", format="date-time", nullable=True)] = None


class Event(APIStruct, frozen=True, gc=False, kw_only=True):
    """Something that happened to an object."""

    api_version: str = "v1"
    kind: str = "Event"
    metadata: ObjectMeta = ObjectMeta()
    involved_object: Annotated[ObjectReference, field("What it happened to.")]
    reason: Annotated[str, field("What happened, as one word.")] = ""
    message: Annotated[str, field("What happened, as a sentence.")] = ""
    source: Annotated[EventSource, field("Who reported.")] = EventSource()
    first_timestamp: Annotated[str | None, field("When it happened first.", format="date-time", nullable=True)] = None
    last_timestamp: Annotated[str | None, field("When it happened last.", format="date-time", nullable=True)] = None
    count: Annotated[int, field("How often it happened.")] = 0
    type: Annotated[str, field("Normal or Warning.")] = ""
    event_time: Annotated[str | None, field("When it was first seen.", format="date-time", nullable=True)] = None
    series: Annotated[EventSeries | None, field("Repetitions.")] = None
    action: Annotated[str, field("What was done or failed.")] = ""
    related: Annotated[ObjectReference | None, field("A second object that it is about.")] = None
    reporting_component: Annotated[str, field("Controller that reported.", default="")] = ""
    reporting_instance: Annotated[str, field("Instance of that controller.", default="")] = ""


CONFIG_MAP = Kind(
    "",
    "v1",
    "ConfigMap",
    "configmaps",
    ConfigMap,
    short_names=("cm",),
    builtin=True,
    columns=(Column("Data", type="integer", cell=config_map_size), AGE),
)
SECRET = Kind(
    "",
    "v1",
    "Secret",
    "secrets",
    Secret,
    builtin=True,
    columns=(Column("Type", ".type"), Column("Data", type="integer", cell=secret_size), AGE),
    selectable_fields=("type",),
)
NODE = Kind(
    "",
    "v1",
    "Node",
    "nodes",
    Node,
    namespaced=False,
    short_names=("no",),
    status=True,
    builtin=True,
    columns=(
        Column("Status", cell=node_status),
        Column("Roles", cell=node_roles),
        AGE,
        Column("Version", ".status.nodeInfo.kubeletVersion"),
        Column("Internal-IP", priority=1, cell=node_address("InternalIP")),
        Column("External-IP", priority=1, cell=node_address("ExternalIP")),
        Column("OS-Image", priority=1, cell=or_unknown("status", "nodeInfo", "osImage")),
        Column("Kernel-Version", priority=1, cell=kernel),
        Column("Container-Runtime", priority=1, cell=or_unknown("status", "nodeInfo", "containerRuntimeVersion")),
    ),
    selectable_fields=("spec.unschedulable",),
)
POD = Kind(
    "",
    "v1",
    "Pod",
    "pods",
    Pod,
    short_names=("po",),
    categories=("all",),
    status=True,
    builtin=True,
    columns=(
        Column("Ready", cell=pod_ready),
        Column("Status", cell=pod_status),
        Column("Restarts", cell=pod_restarts),
        AGE,
        Column("IP", priority=1, cell=pod_ip),
        Column("Node", priority=1, cell=or_none("spec", "nodeName")),
        Column("Nominated Node", priority=1, cell=or_none("status", "nominatedNodeName")),
        Column("Readiness Gates", priority=1, cell=pod_readiness_gates),
    ),
    selectable_fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
)
SERVICE = Kind(
    "",
    "v1",
    "Service",
    "services",
    Service,
    short_names=("svc",),
    categories=("all",),
    status=True,
    builtin=True,
    columns=(
        Column("Type", ".spec.type"),
        Column("Cluster-IP", cell=service_cluster_ip),
        Column("External-IP", cell=service_external_ip),
        Column("Port(s)", cell=service_ports),
        AGE,
        Column("Selector", priority=1, cell=labels_cell("spec", "selector")),
    ),
    selectable_fields=("spec.clusterIP", "spec.type"),
)
PERSISTENT_VOLUME_CLAIM = Kind(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    PersistentVolumeClaim,
    short_names=("pvc",),
    status=True,
    builtin=True,
    columns=(
        Column("Status", cell=claim_phase),
        Column("Volume", ".spec.volumeName"),
        Column("Capacity", cell=claim_capacity),
        Column("Access Modes", cell=claim_access_modes),
        Column("StorageClass", ".spec.storageClassName"),
        Column("VolumeAttributesClass", cell=claim_attributes_class),
        AGE,
        Column("VolumeMode", ".spec.volumeMode", priority=1),
    ),
)
EVENT = Kind(
    "",
    "v1",
    "Event",
    "events",
    Event,
    short_names=("ev",),
    builtin=True,
    columns=event_columns("involvedObject", "message"),
    selectable_fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
)

KINDS: tuple[Kind[Any], ...] = (
    NAMESPACE,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    NODE,
    POD,
    SERVICE,
    PERSISTENT_VOLUME_CLAIM,
    EVENT,
)
