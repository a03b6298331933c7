"""Ingresses, and who may talk to whom. Servers keep them; whoever routes or filters reads them."""

from typing import Annotated, Any, ClassVar

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import LabelSelector, ObjectMeta
from echelon.api.printing import AGE, at, or_none, selector_text
from echelon.api.volumes import TypedLocalObjectReference

GROUP = "networking.k8s.io"
PATH_TYPES = ("Exact", "Prefix", "ImplementationSpecific")


class ServiceBackendPort(APIStruct, frozen=True, gc=False, kw_only=True):
    """A port of a service, by name or by number."""

    name: Annotated[str, field("Name of the port.")] = ""
    number: Annotated[int, field("Number of the port.")] = 0

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class IngressServiceBackend(APIStruct, frozen=True, gc=False, kw_only=True):
    """A service that requests go to."""

    name: Annotated[str, field("Name of the service.")]
    port: Annotated[ServiceBackendPort | None, field("Port of the service.")] = None


class IngressBackend(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where requests go."""

    service: Annotated[IngressServiceBackend | None, field("A service.")] = None
    resource: Annotated[TypedLocalObjectReference | None, field("An object of another kind.")] = None


class HTTPIngressPath(APIStruct, frozen=True, gc=False, kw_only=True):
    """Paths of a host, and where their requests go."""

    path: Annotated[str, field("Path that requests have.")] = ""
    path_type: Annotated[str, field("How the path is compared: Exact, Prefix or ImplementationSpecific.")]
    backend: Annotated[IngressBackend, field("Where the requests go.")]


class HTTPIngressRuleValue(APIStruct, frozen=True, gc=False, kw_only=True):
    """Paths of a host."""

    paths: Annotated[list[HTTPIngressPath], field("Paths and where their requests go.", atomic=True)]


class IngressRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """A host, and where its requests go."""

    host: Annotated[str, field("Name of the host; all of them if empty.")] = ""
    http: Annotated[HTTPIngressRuleValue | None, field("Its paths.")] = None


class IngressTLS(APIStruct, frozen=True, gc=False, kw_only=True):
    """A certificate, and for whom it is."""

    hosts: Annotated[list[str], field("Hosts in the certificate.", atomic=True)] = []
    secret_name: Annotated[str, field("Secret that holds the certificate.")] = ""


class IngressSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """How requests from outside are routed."""

    ingress_class_name: Annotated[str | None, field("IngressClass that sees to it.")] = None
    default_backend: Annotated[IngressBackend | None, field("Where requests go that no rule is about.")] = None
    tls: Annotated[list[IngressTLS], field("Certificates.", atomic=True)] = []
    rules: Annotated[list[IngressRule], field("Hosts and paths.", atomic=True)] = []


class IngressPortStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a port."""

    port: Annotated[int, field("Number of the port.")]
    protocol: Annotated[str, field("TCP, UDP or SCTP.")]
    error: Annotated[str | None, field("What is wrong with it.")] = None


class IngressLoadBalancerIngress(APIStruct, frozen=True, gc=False, kw_only=True):
    """An address under which it is reached."""

    ip: Annotated[str, field("IP address.")] = ""
    hostname: Annotated[str, field("Name of the host.")] = ""
    ports: Annotated[list[IngressPortStatus], field("State of its ports.", atomic=True)] = []


class IngressLoadBalancerStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where it is reached."""

    ingress: Annotated[list[IngressLoadBalancerIngress], field("Addresses.", atomic=True)] = []


class IngressStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of an Ingress."""

    load_balancer: Annotated[IngressLoadBalancerStatus, field("Where it is reached.")] = IngressLoadBalancerStatus()


class Ingress(APIStruct, frozen=True, gc=False, kw_only=True):
    """How requests from outside reach services."""

    api_version: str = "networking.k8s.io/v1"
    kind: str = "Ingress"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[IngressSpec, field("How requests are routed.")] = IngressSpec()
    status: Annotated[IngressStatus, field("Its state.")] = IngressStatus()


class IngressClassParametersReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object with more settings."""

    api_group: Annotated[str | None, field("API group of the object.")] = None
    kind: Annotated[str, field("Kind of the object.")]
    name: Annotated[str, field("Name of the object.")]
    scope: Annotated[str | None, field("Cluster or Namespace.", default="Cluster")] = "Cluster"
    namespace: Annotated[str | None, field("Namespace of the object, for scope Namespace.")] = None


class IngressClassSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who sees to ingresses of a class."""

    controller: Annotated[str, field("Controller that sees to them.")] = ""
    parameters: Annotated[IngressClassParametersReference | None, field("An object with more settings.")] = None


class IngressClass(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who sees to ingresses that name it."""

    api_version: str = "networking.k8s.io/v1"
    kind: str = "IngressClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[IngressClassSpec, field("Who sees to them.")] = IngressClassSpec()


class IPBlock(APIStruct, frozen=True, gc=False, kw_only=True):
    """A range of addresses."""

    cidr: Annotated[str, field("The range.")]
    except_: Annotated[list[str], field("Ranges inside it that are not meant.", atomic=True)] = msgspec.field(
        default_factory=list, name="except"
    )


class NetworkPolicyPeer(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who is at the other end."""

    pod_selector: Annotated[LabelSelector | None, field("Pods.")] = None
    namespace_selector: Annotated[LabelSelector | None, field("Namespaces of the pods.")] = None
    ip_block: Annotated[IPBlock | None, field("Addresses.")] = None


class NetworkPolicyPort(APIStruct, frozen=True, gc=False, kw_only=True):
    """A port, or a range of them."""

    protocol: Annotated[str | None, field("TCP, UDP or SCTP.", default="TCP")] = "TCP"
    port: Annotated[IntOrString | None, field("Name or number of the port; all of them if missing.")] = None
    end_port: Annotated[int | None, field("Last port of a range.")] = None


class NetworkPolicyIngressRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """Traffic to the pods that is allowed."""

    ports: Annotated[list[NetworkPolicyPort], field("Ports; all of them if empty.", atomic=True)] = []
    from_: Annotated[list[NetworkPolicyPeer], field("Where it comes from; anywhere if empty.", atomic=True)] = (
        msgspec.field(default_factory=list, name="from")
    )


class NetworkPolicyEgressRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """Traffic from the pods that is allowed."""

    ports: Annotated[list[NetworkPolicyPort], field("Ports; all of them if empty.", atomic=True)] = []
    to: Annotated[list[NetworkPolicyPeer], field("Where it goes; anywhere if empty.", atomic=True)] = []


class NetworkPolicySpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """Traffic that some pods are allowed."""

    pod_selector: Annotated[LabelSelector, field("Pods that it is about; all of the namespace if empty.")] = (
        LabelSelector()
    )
    ingress: Annotated[list[NetworkPolicyIngressRule], field("Traffic to the pods.", atomic=True)] = []
    egress: Annotated[list[NetworkPolicyEgressRule], field("Traffic from the pods.", atomic=True)] = []
    policy_types: Annotated[list[str], field("Directions that it is about: Ingress, Egress.", atomic=True)] = []


class NetworkPolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Traffic that some pods are allowed."""

    api_version: str = "networking.k8s.io/v1"
    kind: str = "NetworkPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[NetworkPolicySpec, field("What is allowed.")] = NetworkPolicySpec()


def _hosts(obj: JSONObject) -> str:
    """HOSTS of an Ingress: three of them, and how many more there are."""
    hosts = [rule["host"] for rule in at(obj, "spec", "rules") or () if rule.get("host")]
    return (",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")) or "*"


def _address(obj: JSONObject) -> str:
    """ADDRESS of an Ingress: where it is reached."""
    points = at(obj, "status", "loadBalancer", "ingress") or ()
    return ",".join(point.get("ip") or point.get("hostname") or "" for point in points)


def _parameters(obj: JSONObject) -> str:
    """PARAMETERS of an IngressClass: the object that has them."""
    given = at(obj, "spec", "parameters")
    if not given:
        return "<none>"
    group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
    return f"{given['kind']}{group}/{given['name']}"


INGRESS = Kind(
    GROUP,
    "v1",
    "Ingress",
    "ingresses",
    Ingress,
    short_names=("ing",),
    status=True,
    builtin=True,
    columns=(
        Column("Class", cell=or_none("spec", "ingressClassName")),
        Column("Hosts", cell=_hosts),
        Column("Address", cell=_address),
        Column("Ports", cell=lambda obj: "80, 443" if at(obj, "spec", "tls") else "80"),
        AGE,
    ),
)
INGRESS_CLASS = Kind(
    GROUP,
    "v1",
    "IngressClass",
    "ingressclasses",
    IngressClass,
    namespaced=False,
    builtin=True,
    columns=(Column("Controller", ".spec.controller"), Column("Parameters", cell=_parameters), AGE),
)
NETWORK_POLICY = Kind(
    GROUP,
    "v1",
    "NetworkPolicy",
    "networkpolicies",
    NetworkPolicy,
    short_names=("netpol",),
    builtin=True,
    columns=(Column("Pod-Selector", cell=lambda obj: selector_text(at(obj, "spec", "podSelector"))), AGE),
)

KINDS: tuple[Kind[Any], ...] = (INGRESS, INGRESS_CLASS, NETWORK_POLICY)
