"""How our programs run in a cluster: as nobody, on a root that can only be read, watched by probes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from echelon import __version__
from echelon.install.labels import labels_of, selector_of
from echelon.install.settings import ARGUMENTS, FLAG, MAP, OBJECTS, TEXT, TEXTS, Setting
from echelon.install.template import NAMESPACE, Joined, Node, Value, When, joined

PORT = 8080
_LEVEL = {"type": "string", "enum": ["debug", "info", "warning", "error"]}
_PULL = {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]}
_TAG = {**TEXT, "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"}
_NONROOT = 65532


@dataclass(frozen=True)
class Port:
    """The port on which a program answers, and is asked how it is."""

    name: str
    number: int
    scheme: Node = "HTTP"


METRICS: Final = Port("metrics", PORT)
BUDGET: Final = Setting(
    "podDisruptionBudget.enabled", True, FLAG, "Where there are several pods, let nodes be drained one by one only."
)


def pod_settings(memory: str, memory_limit: str) -> tuple[Setting, ...]:
    """Return what can be said of the pods of any of our programs."""
    resources = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": memory_limit}}
    return (
        Setting(
            "image.repository", "", {**TEXT, "minLength": 1}, "Where the image is that you have built. Has to be set."
        ),
        Setting("image.tag", __version__, _TAG, "Its version. A digest goes before it."),
        Setting(
            "image.digest", "", {**TEXT, "pattern": "^(sha256:[0-9a-f]{64})?$"}, "Its digest, sha256: and 64 digits."
        ),
        Setting("image.pullPolicy", "IfNotPresent", _PULL, "When to pull it."),
        Setting("imagePullSecrets", [], OBJECTS, "Secrets for the registry, as pods have them: [{name: …}]."),
        Setting("logLevel", "info", _LEVEL, "What is logged, as a line of JSON each: debug, info, warning or error."),
        Setting("extraArgs", [], ARGUMENTS, "More arguments of the program."),
        Setting("resources", resources, MAP, "What the container asks for, and may have."),
        Setting("podAnnotations", {}, TEXTS, "Annotations of pods."),
        Setting("nodeSelector", {}, TEXTS, "Which nodes pods may run on."),
        Setting("tolerations", [], OBJECTS, "Taints that pods tolerate."),
        Setting("affinity", {}, MAP, "Where pods rather run."),
        Setting("priorityClassName", "", TEXT, "Their priority class."),
        Setting("serviceAccount.annotations", {}, TEXTS, "Annotations of the account."),
        Setting("networkPolicy.enabled", True, FLAG, "Let nobody in but to the port of metrics and probes."),
        Setting(
            "networkPolicy.metricsFrom", [], OBJECTS, "Who may reach it: peers of a NetworkPolicy. Empty: everybody."
        ),
        Setting(
            "networkPolicy.egress", [], OBJECTS, "What pods may reach: rules of a NetworkPolicy. Empty: everything."
        ),
    )


def image() -> Joined:
    """Return the name of the image."""
    tagged, pinned = joined(":", Value("image.tag")), joined("@", Value("image.digest"))
    return joined(Value("image.repository"), When("image.digest", pinned, tagged))


def deployment(
    name: str,
    component: str,
    arguments: Sequence[Node],
    *,
    replicas: Node,
    strategy: Mapping[str, Node],
    mounts: Sequence[Node] = (),
    volumes: Sequence[Node] = (),
    account: str,
    environment: Node | None = None,
    port: Port = METRICS,
    rights: bool = True,
) -> Node:
    """Return the Deployment of a program. Without `rights` its account is nobody's to the server."""
    metadata = {"labels": labels_of(component), "annotations": When("podAnnotations", Value("podAnnotations"))}
    pod = {
        "serviceAccountName": account,
        **({} if rights else {"automountServiceAccountToken": False}),
        "imagePullSecrets": When("imagePullSecrets", Value("imagePullSecrets")),
        "priorityClassName": When("priorityClassName", Value("priorityClassName")),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NONROOT,
            "runAsGroup": _NONROOT,
            "fsGroup": _NONROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 30,  # to give the lease back; the next one begins at once then
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector_of(component)},
            }
        ],
        "containers": [_container(arguments, mounts, environment, port)],
        # Certificates of a kubeconfig become files before they can be used; they never touch a disk.
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}, *volumes],
        "nodeSelector": When("nodeSelector", Value("nodeSelector")),
        "tolerations": When("tolerations", Value("tolerations")),
        "affinity": When("affinity", Value("affinity")),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(component)},
        "spec": {
            "replicas": replicas,
            "strategy": dict(strategy),
            "selector": {"matchLabels": selector_of(component)},
            "template": {"metadata": metadata, "spec": pod},
        },
    }


def _container(arguments: Sequence[Node], mounts: Sequence[Node], environment: Node | None, port: Port) -> Node:
    return {
        "name": "echelon",
        "image": image(),
        "imagePullPolicy": Value("image.pullPolicy"),
        "args": [*arguments],
        **({} if environment is None else {"env": environment}),
        "ports": [{"name": port.name, "containerPort": port.number, "protocol": "TCP"}],
        "livenessProbe": _probe("/healthz", port, failures=6),
        "readinessProbe": _probe("/readyz", port, failures=3),
        "resources": Value("resources"),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],  # noqa: S108 - of the container
    }


def _probe(path: str, port: Port, failures: int) -> Node:
    scheme = {} if port.scheme == "HTTP" else {"scheme": port.scheme}
    return {
        "httpGet": {"path": path, "port": port.name, **scheme},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def metrics_service(name: str, component: str) -> Node:
    """Return the service through which metrics are found. Each pod is asked by itself, so it has no address."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(component)},
        "spec": {
            "clusterIP": "None",
            "selector": selector_of(component),
            "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics", "protocol": "TCP"}],
        },
    }


def disruption_budget(name: str, component: str) -> Node:
    """Return how many pods may go at once for the sake of their nodes: also the only one, where there is one."""
    return When(
        BUDGET.path,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(component)},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector_of(component)}},
        },
    )


def network_policy(name: str, component: str, port: Port = METRICS, peers: str = "networkPolicy.metricsFrom") -> Node:
    """Return who may reach the pods, and whom they may; `peers` is the setting that says who."""
    return When(
        "networkPolicy.enabled",
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of(component)},
            "spec": {
                "podSelector": {"matchLabels": selector_of(component)},
                "policyTypes": ["Ingress", When("networkPolicy.egress", "Egress")],
                "ingress": [
                    {
                        "ports": [{"port": port.name, "protocol": "TCP"}],
                        "from": When(peers, Value(peers)),
                    }
                ],
                "egress": When("networkPolicy.egress", Value("networkPolicy.egress")),
            },
        },
    )
