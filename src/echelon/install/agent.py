"""What is installed on a member: its agent, what that may do there, and the kinds that it needs."""

from collections.abc import Iterable
from typing import Any, Final

from echelon.api.cluster import CLUSTER_CLAIM
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.api.policy import POLICY
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.controllers.running import POD_CLIQUES, custom_kinds_of
from echelon.install import monitoring
from echelon.install.definitions import definitions
from echelon.install.installation import Installation
from echelon.install.labels import labels_of
from echelon.install.pods import (
    BUDGET,
    PORT,
    deployment,
    disruption_budget,
    metrics_service,
    network_policy,
    pod_settings,
)
from echelon.install.rights import member_rights
from echelon.install.settings import FLAG, NAME, TEXT, Setting
from echelon.install.template import NAMESPACE, AllOf, Each, Node, Not, Value, When, joined

AGENT: Final = "echelon-agent"
_CLIQUES: Final = "echelon-pod-cliques"
_SECRET: Final = "echelon-hub-kubeconfig"  # noqa: S105 - the name of one
_POLICIES, _WORKLOADS, _POD_CLIQUES = "capabilities.policies", "capabilities.workloads", "capabilities.podCliques"
_KUBECONFIG: Final = "hub.kubeconfigSecret"
_INVITATION: Final = "hub.invitationSecret"
_MOUNTED: Final = "/etc/echelon/hub"

_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "cluster",
        "",
        {**NAME, "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
        "Name of the cluster on the hub. Has to be set.",
    ),
    Setting(
        "hub.kubeconfig",
        "",
        TEXT,
        "Kubeconfig of the hub, for a secret that is made of it. It is kept with the release, too: who\n"
        "does not want that makes the secret, and names it below.",
    ),
    Setting(
        "hub.kubeconfigSecret",
        _SECRET,
        TEXT,
        "The secret that has the kubeconfig of the hub, under the key `kubeconfig`. Empty: extraArgs say how\n"
        "the agent gets to its hub.",
    ),
    Setting(
        "hub.invitation",
        "",
        TEXT,
        "What `echelon cluster join` printed on the hub, for a secret that is made of it, if one is named below.",
    ),
    Setting(
        _INVITATION,
        "",
        TEXT,
        "The secret that has an invitation, under the key `invitation`. The cluster joins with it, keeps its identity\n"
        "in the secret `hub-identity`, and needs neither the invitation nor a kubeconfig any more.",
    ),
    Setting(_POLICIES, True, FLAG, "Look after policies."),
    Setting(_WORKLOADS, True, FLAG, "Look after federated workloads."),
    Setting(_POD_CLIQUES, False, FLAG, "Run PodCliqueSets here. Grove's own operator must not be at work."),
    Setting(
        "podCliques.initImage", "", TEXT, "Image of the program that waits for other cliques; without one, none waits."
    ),
    Setting(
        "rights.admin",
        True,
        FLAG,
        "Let the agent touch everything that the role admin may, and namespaces. If not, bind what it\n"
        "may touch to its account yourself.",
    ),
    Setting("crds.install", True, FLAG, "Install the definitions of kinds. They stay when the release goes."),
)


def _needed() -> dict[str, Iterable[Kind[Any]]]:
    return {
        "": (APPLIED_MANIFEST_WORK, CLUSTER_CLAIM),
        _POLICIES: (POLICY, CONFIGURATION_POLICY),
        _POD_CLIQUES: custom_kinds_of((POD_CLIQUES,)),
    }


def _rights() -> list[Node]:
    return member_rights(
        {
            "echelon-agent-namespaces": "rights.admin",
            "echelon-agent-workloads": "rights.admin",
            "echelon-agent-pod-cliques": _POD_CLIQUES,
            _CLIQUES: _POD_CLIQUES,
        }
    )


def _agent() -> list[Node]:
    arguments = (
        "agent",
        joined("--cluster=", Value("cluster")),
        # Kubernetes puts the variable in its place, so the invitation is in no manifest.
        When(_INVITATION, "--join=$(ECHELON_INVITATION)"),
        When(_INVITATION, joined("--hub-secret=", NAMESPACE, "/hub-identity")),
        _with_kubeconfig(f"--hub-kubeconfig={_MOUNTED}/kubeconfig"),
        f"--metrics-listen=:{PORT}",
        "--log-format=json",
        joined("--log-level=", Value("logLevel")),
        When(_POLICIES, "--policies", "--no-policies"),
        When(_WORKLOADS, "--workloads", "--no-workloads"),
        Each("extraArgs"),
    )
    invited = {"name": Value(_INVITATION), "key": "invitation"}
    named = {
        "secretName": Value("hub.kubeconfigSecret"),
        "items": [{"key": "kubeconfig", "path": "kubeconfig"}],
    }
    return [
        When(AllOf((_KUBECONFIG, "hub.kubeconfig")), _secret(Value(_KUBECONFIG), "kubeconfig")),
        When(AllOf((_INVITATION, "hub.invitation")), _secret(Value(_INVITATION), "invitation")),
        deployment(
            AGENT,
            "agent",
            arguments,
            replicas=1,
            strategy={"type": "Recreate"},  # two agents of one cluster would undo each other's work
            mounts=[_with_kubeconfig({"name": "hub", "mountPath": _MOUNTED, "readOnly": True})],
            volumes=[_with_kubeconfig({"name": "hub", "secret": named})],
            environment=When(_INVITATION, [{"name": "ECHELON_INVITATION", "valueFrom": {"secretKeyRef": invited}}]),
            account=AGENT,
        ),
        metrics_service(f"{AGENT}-metrics", "agent"),
        network_policy(AGENT, "agent"),
    ]


def _with_kubeconfig(node: Node) -> Node:
    """Return what is there only for an agent that has a kubeconfig of its hub."""
    return When(AllOf((Not(_INVITATION), _KUBECONFIG)), node)


def _secret(name: Node, key: str) -> Node:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels_of("agent")},
        "type": "Opaque",
        "stringData": {key: Value(f"hub.{key}")},
    }


def _pod_cliques() -> list[Node]:
    arguments = (
        "run",
        f"--controllers={POD_CLIQUES}",
        joined("--namespace=", NAMESPACE),
        f"--metrics-listen=:{PORT}",
        "--log-format=json",
        joined("--log-level=", Value("logLevel")),
        When("podCliques.initImage", joined("--init-image=", Value("podCliques.initImage"))),
    )
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    parts = [
        deployment(_CLIQUES, "pod-cliques", arguments, replicas=2, strategy=rolling, account=_CLIQUES),
        disruption_budget(_CLIQUES, "pod-cliques"),
        metrics_service(f"{_CLIQUES}-metrics", "pod-cliques"),
        network_policy(_CLIQUES, "pod-cliques"),
        monitoring.monitor(f"{_CLIQUES}-metrics", "pod-cliques"),
    ]
    return [When(_POD_CLIQUES, each) for each in parts]


MEMBER: Final = Installation(
    "echelon-agent",
    "The agent of Echelon on a cluster of a fleet: applies what the hub has for it, and reports",
    namespace="echelon-agent",
    settings=(*_SETTINGS, BUDGET, *pod_settings("128Mi", "512Mi"), *monitoring.SETTINGS),
    parts={
        "crds": lambda: definitions(_needed(), "crds.install"),
        "rights": _rights,
        "agent": _agent,
        "pod-cliques": _pod_cliques,
        "monitoring": lambda: monitoring.of_member(f"{AGENT}-metrics", "agent"),
    },
)
