"""Services, the stable addresses of pods."""

from typing import Annotated

import msgspec

from echelon.api.base import APIStruct, IntOrString, field
from echelon.api.meta import Condition, ObjectMeta


class ServicePort(APIStruct, frozen=True, gc=False, kw_only=True):
    """A port of a service."""

    name: Annotated[str, field("Name of the port; required if there is more than one.")] = ""
    protocol: Annotated[str, field("TCP, UDP or SCTP.", default="TCP", enum=("TCP", "UDP", "SCTP"))] = "TCP"
    app_protocol: Annotated[str | None, field("Protocol of the application.")] = None
    port: Annotated[int, field("Port that is exposed.", minimum=1, maximum=65535)]
    target_port: Annotated[IntOrString | None, field("Number or name of the pods' port; `port` if not given.")] = None
    node_port: Annotated[int, field("Port on every node.", minimum=0, maximum=65535)] = 0


class ClientIPConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """Stickiness by client address."""

    timeout_seconds: Annotated[int, field("Seconds that a client stays with a pod.", default=10800)] = 10800


class SessionAffinityConfig(APIStruct, frozen=True, gc=False, kw_only=True):
    """How clients stay with a pod."""

    client_ip: Annotated[ClientIPConfig | None, field("By client address.")] = msgspec.field(
        default=None, name="clientIP"
    )


class ServiceSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """How pods are reached."""

    ports: Annotated[
        list[ServicePort], field("Ports of the service.", list_map_keys=("port", "protocol"), patch_merge_key="port")
    ] = []
    selector: Annotated[dict[str, str], field("Labels of the pods.", map_atomic=True)] = {}
    cluster_ip: Annotated[str, field("Virtual address; None for a headless service.")] = msgspec.field(
        default="", name="clusterIP"
    )
    cluster_ips: Annotated[list[str], field("Virtual addresses.", atomic=True)] = msgspec.field(
        default_factory=list, name="clusterIPs"
    )
    type: Annotated[
        str,
        field(
            "ClusterIP, NodePort, LoadBalancer or ExternalName.",
            default="ClusterIP",
            enum=("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        ),
    ] = "ClusterIP"
    external_ips: Annotated[list[str], field("Addresses outside of the cluster that are accepted.", atomic=True)] = (
        msgspec.field(default_factory=list, name="externalIPs")
    )
    session_affinity: Annotated[str, field("None or ClientIP.", default="None", enum=("None", "ClientIP"))] = "None"
    load_balancer_ip: Annotated[str, field("Wished address; depends on the provider.")] = msgspec.field(
        default="", name="loadBalancerIP"
    )
    load_balancer_source_ranges: Annotated[list[str], field("Client ranges that are let through.", atomic=True)] = []
    external_name: Annotated[str, field("DNS name that the service stands for.")] = ""
    external_traffic_policy: Annotated[str, field("Cluster or Local, for outside traffic.")] = ""
    health_check_node_port: Annotated[int, field("Port for load balancer checks.")] = 0
    publish_not_ready_addresses: Annotated[bool, field("Whether pods count before they are ready.")] = False
    session_affinity_config: Annotated[SessionAffinityConfig | None, field("How clients stay with a pod.")] = None
    ip_families: Annotated[list[str], field("IPv4, IPv6 or both.", atomic=True)] = []
    ip_family_policy: Annotated[str | None, field("SingleStack, PreferDualStack or RequireDualStack.")] = None
    allocate_load_balancer_node_ports: Annotated[bool | None, field("Whether a load balancer gets node ports.")] = None
    load_balancer_class: Annotated[str | None, field("Which load balancer implementation.")] = None
    internal_traffic_policy: Annotated[str | None, field("Cluster or Local, for inside traffic.")] = None
    traffic_distribution: Annotated[str | None, field("Preference between endpoints.")] = None


class PortStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a load balancer port."""

    port: Annotated[int, field("The port.")]
    protocol: Annotated[str, field("Its protocol.")]
    error: Annotated[str | None, field("What went wrong.")] = None


class LoadBalancerIngress(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where a load balancer is reached."""

    ip: Annotated[str, field("Its address.")] = ""
    hostname: Annotated[str, field("Its DNS name.")] = ""
    ip_mode: Annotated[str | None, field("How traffic arrives: VIP or Proxy.")] = None
    ports: Annotated[list[PortStatus], field("Its ports.", atomic=True)] = []


class LoadBalancerStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a load balancer."""

    ingress: Annotated[list[LoadBalancerIngress], field("Where it is reached.", atomic=True)] = []


class ServiceStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a service."""

    load_balancer: Annotated[LoadBalancerStatus, field("State of its load balancer.", default={})] = (
        LoadBalancerStatus()
    )
    conditions: Annotated[
        list[Condition], field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type")
    ] = []


class Service(APIStruct, frozen=True, gc=False, kw_only=True):
    """A stable address for pods."""

    api_version: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ServiceSpec, field("How the pods are reached.")] = ServiceSpec()
    status: Annotated[ServiceStatus, field("Its state.")] = ServiceStatus()
