"""What a container is made of.

Every workload kind embeds these, ours and foreign ones, so list keys and defaults must be exactly those of Kubernetes:
server-side apply and strategic merge find containers, ports and variables by them.
"""

from typing import Annotated, ClassVar

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.podsecurity import SecurityContext


class ResourceClaim(APIStruct, frozen=True, gc=False, kw_only=True):
    """A claim of the pod that a container uses."""

    name: Annotated[str, field("Name of the claim in the pod's `resourceClaims`.")]
    request: Annotated[str, field("The one request of the claim that is used; all of them if empty.")] = ""


class ResourceRequirements(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a container needs and what it may use at most."""

    limits: Annotated[dict[str, IntOrString], field("The most that may be used, by resource name.")] = {}
    requests: Annotated[
        dict[str, IntOrString], field("What is reserved at least, by resource name; limits if not given.")
    ] = {}
    claims: Annotated[
        list[ResourceClaim], field("Dynamic resource claims that the container uses.", list_map_keys=("name",))
    ] = []


class ConfigMapKeySelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """One key of a ConfigMap."""

    name: Annotated[str, field("Name of the ConfigMap.")] = ""
    key: Annotated[str, field("Key in the ConfigMap.")]
    optional: Annotated[bool | None, field("Whether the ConfigMap or key may be missing.")] = None

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class SecretKeySelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """One key of a Secret."""

    name: Annotated[str, field("Name of the Secret.")] = ""
    key: Annotated[str, field("Key in the Secret.")]
    optional: Annotated[bool | None, field("Whether the Secret or key may be missing.")] = None

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class ObjectFieldSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """A field of the pod itself."""

    api_version: Annotated[str, field("Version in which the path is read.", default="v1")] = "v1"
    field_path: Annotated[str, field("Path of the field, such as metadata.name.")]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class ResourceFieldSelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """A resource of a container as a value."""

    container_name: Annotated[str, field("Container to look at; required in volumes.")] = ""
    resource: Annotated[str, field("The resource, such as limits.cpu.")]
    divisor: Annotated[IntOrString | None, field("Unit in which the value is given; 1 if not given.")] = None

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class FileKeySelector(APIStruct, frozen=True, gc=False, kw_only=True):
    """One key of an env file in a volume."""

    volume_name: Annotated[str, field("Volume that has the file.")]
    path: Annotated[str, field("Path of the file within the volume.")]
    key: Annotated[str, field("Key in the file.")]
    optional: Annotated[bool, field("Whether the file or key may be missing.", default=False)] = False

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class EnvVarSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """Where the value of an environment variable comes from."""

    field_ref: Annotated[ObjectFieldSelector | None, field("A field of the pod.")] = None
    resource_field_ref: Annotated[ResourceFieldSelector | None, field("A resource of the container.")] = None
    config_map_key_ref: Annotated[ConfigMapKeySelector | None, field("A key of a ConfigMap.")] = None
    secret_key_ref: Annotated[SecretKeySelector | None, field("A key of a Secret.")] = None
    file_key_ref: Annotated[FileKeySelector | None, field("A key of an env file.")] = None


class EnvVar(APIStruct, frozen=True, gc=False, kw_only=True):
    """An environment variable."""

    name: Annotated[str, field("Name of the variable.")]
    value: Annotated[str, field("Its value; `$(OTHER)` stands for another variable.")] = ""
    value_from: Annotated[EnvVarSource | None, field("Where the value comes from instead.")] = None


class ConfigMapEnvSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """All keys of a ConfigMap as variables."""

    name: Annotated[str, field("Name of the ConfigMap.")] = ""
    optional: Annotated[bool | None, field("Whether the ConfigMap may be missing.")] = None


class SecretEnvSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """All keys of a Secret as variables."""

    name: Annotated[str, field("Name of the Secret.")] = ""
    optional: Annotated[bool | None, field("Whether the Secret may be missing.")] = None


class EnvFromSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A whole object turned into environment variables."""

    prefix: Annotated[str, field("Put in front of every key.")] = ""
    config_map_ref: Annotated[ConfigMapEnvSource | None, field("The ConfigMap to take.")] = None
    secret_ref: Annotated[SecretEnvSource | None, field("The Secret to take.")] = None


class ContainerPort(APIStruct, frozen=True, gc=False, kw_only=True):
    """A port that a container listens on."""

    name: Annotated[str, field("Name that services may refer to.")] = ""
    host_port: Annotated[int, field("Port of the host to publish on.", minimum=0, maximum=65535)] = 0
    container_port: Annotated[int, field("Port number inside the pod.", minimum=1, maximum=65535)]
    protocol: Annotated[str, field("TCP, UDP or SCTP.", default="TCP", enum=("TCP", "UDP", "SCTP"))] = "TCP"
    host_ip: Annotated[str, field("Address of the host to bind to.")] = msgspec.field(default="", name="hostIP")


class ExecAction(APIStruct, frozen=True, gc=False, kw_only=True):
    """A command in the container."""

    command: Annotated[list[str], field("Program and arguments, not run by a shell.", atomic=True)] = []


class HTTPHeader(APIStruct, frozen=True, gc=False, kw_only=True):
    """A header of a request."""

    name: Annotated[str, field("Name of the header.")]
    value: Annotated[str, field("Value of the header.")]


class HTTPGetAction(APIStruct, frozen=True, gc=False, kw_only=True):
    """An HTTP request to the container."""

    path: Annotated[str, field("Path to ask for.", default="/")] = "/"
    port: Annotated[IntOrString, field("Number or name of the port.")]
    host: Annotated[str, field("Host to ask; the pod's address if empty.")] = ""
    scheme: Annotated[str, field("HTTP or HTTPS.", default="HTTP", enum=("HTTP", "HTTPS"))] = "HTTP"
    http_headers: Annotated[list[HTTPHeader], field("Headers to send.", atomic=True)] = []
    protocol: Annotated[str | None, field("HTTP version to speak.")] = None


class TCPSocketAction(APIStruct, frozen=True, gc=False, kw_only=True):
    """A TCP connection to the container."""

    port: Annotated[IntOrString, field("Number or name of the port.")]
    host: Annotated[str, field("Host to connect to; the pod's address if empty.")] = ""


class GRPCAction(APIStruct, frozen=True, gc=False, kw_only=True):
    """A call of the gRPC health service."""

    port: Annotated[int, field("Port of the service.")]
    service: Annotated[str, field("Service name in the request.", default="")] = ""
    mode: Annotated[str | None, field("How the connection is secured.")] = None


class SleepAction(APIStruct, frozen=True, gc=False, kw_only=True):
    """A pause."""

    seconds: Annotated[int, field("How long to sleep.", minimum=0, format="int64")]


class LifecycleHandler(APIStruct, frozen=True, gc=False, kw_only=True):
    """What to do at a moment of a container's life; exactly one action."""

    exec: Annotated[ExecAction | None, field("Run a command.")] = None
    http_get: Annotated[HTTPGetAction | None, field("Ask over HTTP.")] = None
    tcp_socket: Annotated[TCPSocketAction | None, field("Connect over TCP; kept for old objects.")] = None
    sleep: Annotated[SleepAction | None, field("Wait.")] = None


class Lifecycle(APIStruct, frozen=True, gc=False, kw_only=True):
    """Hooks into a container's life."""

    post_start: Annotated[LifecycleHandler | None, field("Done right after the container started.")] = None
    pre_stop: Annotated[LifecycleHandler | None, field("Done before the container is stopped.")] = None
    stop_signal: Annotated[str | None, field("Signal that asks the container to stop.")] = None


class Probe(APIStruct, frozen=True, gc=False, kw_only=True):
    """A check that is repeated against a container."""

    exec: Annotated[ExecAction | None, field("Run a command; exit code 0 is a pass.")] = None
    http_get: Annotated[HTTPGetAction | None, field("Ask over HTTP; 200 to 399 is a pass.")] = None
    tcp_socket: Annotated[TCPSocketAction | None, field("Open a TCP connection.")] = None
    grpc: Annotated[GRPCAction | None, field("Ask the gRPC health service.")] = None
    initial_delay_seconds: Annotated[int, field("Seconds after the start before the first check.", minimum=0)] = 0
    timeout_seconds: Annotated[int, field("Seconds until a check counts as failed.", default=1, minimum=0)] = 1
    period_seconds: Annotated[int, field("Seconds between checks.", default=10, minimum=0)] = 10
    success_threshold: Annotated[int, field("Passes in a row that make a pass.", default=1, minimum=0)] = 1
    failure_threshold: Annotated[int, field("Failures in a row that make a failure.", default=3, minimum=0)] = 3
    termination_grace_period_seconds: Annotated[
        int | None, field("Grace period when this probe stops the container.", format="int64")
    ] = None


class ContainerResizePolicy(APIStruct, frozen=True, gc=False, kw_only=True):
    """Whether a change of a resource restarts the container."""

    resource_name: Annotated[str, field("The resource: cpu or memory.")]
    restart_policy: Annotated[str, field("NotRequired or RestartContainer.")]


class ContainerRestartRuleOnExitCodes(APIStruct, frozen=True, gc=False, kw_only=True):
    """Exit codes that a rule is about."""

    operator: Annotated[str, field("In or NotIn.")]
    values: Annotated[list[int], field("The exit codes.", list_set=True)] = []


class ContainerRestartRule(APIStruct, frozen=True, gc=False, kw_only=True):
    """What to do when a container exits in a certain way."""

    action: Annotated[str, field("Restart or RestartAllContainers.")]
    exit_codes: Annotated[ContainerRestartRuleOnExitCodes | None, field("Exit codes that it applies to.")] = None


class VolumeDevice(APIStruct, frozen=True, gc=False, kw_only=True):
    """A block device that a container sees."""

    name: Annotated[str, field("Claim in the pod's volumes.")]
    device_path: Annotated[str, field("Path of the device in the container.")]


class VolumeMount(APIStruct, frozen=True, gc=False, kw_only=True):
    """A volume as a container sees it."""

    name: Annotated[str, field("Volume of the pod.")]
    read_only: Annotated[bool, field("Whether the container may only read.")] = False
    recursive_read_only: Annotated[str | None, field("Whether mounts below are read-only too.")] = None
    mount_path: Annotated[str, field("Path in the container.")]
    sub_path: Annotated[str, field("Path within the volume to mount.")] = ""
    mount_propagation: Annotated[str | None, field("How mounts travel between host and container.")] = None
    sub_path_expr: Annotated[str, field("The same, with environment variables expanded.")] = ""
    bind_mount_options: Annotated[list[str], field("Options of the bind mount.", list_set=True)] = []


class Container(APIStruct, frozen=True, gc=False, kw_only=True):
    """A program that runs in a pod."""

    name: Annotated[str, field("Name, unique in the pod.", max_length=63)]
    image: Annotated[str, field("Image to run.")] = ""
    command: Annotated[list[str], field("Program to run instead of the image's.", atomic=True)] = []
    args: Annotated[list[str], field("Arguments; the image's own if empty.", atomic=True)] = []
    working_dir: Annotated[str, field("Directory that it starts in.")] = ""
    ports: Annotated[
        list[ContainerPort],
        field(
            "Ports that the container listens on.",
            list_map_keys=("containerPort", "protocol"),
            patch_merge_key="containerPort",
        ),
    ] = []
    env_from: Annotated[list[EnvFromSource], field("Objects that become environment variables.", atomic=True)] = []
    env: Annotated[list[EnvVar], field("Environment variables.", list_map_keys=("name",), patch_merge_key="name")] = []
    resources: Annotated[ResourceRequirements, field("What it needs and may use.", default={})] = ResourceRequirements()
    resize_policy: Annotated[
        list[ContainerResizePolicy], field("Which resource changes need a restart.", atomic=True)
    ] = []
    restart_policy: Annotated[
        str | None, field("Its own restart policy; Always makes an init container a sidecar.")
    ] = None
    restart_policy_rules: Annotated[list[ContainerRestartRule], field("Restart rules by exit code.", atomic=True)] = []
    volume_mounts: Annotated[
        list[VolumeMount], field("Volumes that it sees.", list_map_keys=("mountPath",), patch_merge_key="mountPath")
    ] = []
    volume_devices: Annotated[
        list[VolumeDevice],
        field("Block devices that it sees.", list_map_keys=("devicePath",), patch_merge_key="devicePath"),
    ] = []
    liveness_probe: Annotated[Probe | None, field("Restarts the container when it fails.")] = None
    readiness_probe: Annotated[Probe | None, field("Takes the pod out of service when it fails.")] = None
    startup_probe: Annotated[Probe | None, field("Holds the other probes back until it passes.")] = None
    lifecycle: Annotated[Lifecycle | None, field("What to do after the start and before the stop.")] = None
    termination_message_path: Annotated[
        str, field("File whose content becomes the exit message.", default="/dev/termination-log")
    ] = "/dev/termination-log"
    termination_message_policy: Annotated[
        str, field("Whether logs may stand in for that file.", default="File", enum=("File", "FallbackToLogsOnError"))
    ] = "File"
    image_pull_policy: Annotated[
        str, field("When to pull the image: Always, IfNotPresent or Never.", enum=("Always", "IfNotPresent", "Never"))
    ] = ""
    security_context: Annotated[SecurityContext | None, field("Rights of the process.")] = None
    stdin: Annotated[bool, field("Whether standard input is kept open.")] = False
    stdin_once: Annotated[bool, field("Whether standard input closes after the first attach.")] = False
    tty: Annotated[bool, field("Whether a terminal is attached.")] = False


class EphemeralContainer(Container, frozen=True, gc=False, kw_only=True):
    """A container that is added to a running pod for debugging."""

    target_container_name: Annotated[str, field("Container whose processes it sees.")] = ""
