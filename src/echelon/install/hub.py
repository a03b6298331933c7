"""What is installed on a hub: the controllers, what they may do, and the kinds that they need."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from echelon.api.guards import REGISTER_GROUP
from echelon.api.kinds import Kind
from echelon.controllers.running import MULTICLUSTER, NAMES, POLICY_NAMES, WORKLOADS, custom_kinds_of
from echelon.controllers.settings import DEFAULTS
from echelon.engine.rollout.removal import GRACE
from echelon.install import monitoring, web
from echelon.install.definitions import admission_policies, definitions
from echelon.install.installation import Installation
from echelon.install.people import roles_of_people
from echelon.install.pods import (
    BUDGET,
    PORT,
    deployment,
    disruption_budget,
    metrics_service,
    network_policy,
    pod_settings,
)
from echelon.install.rights import hub_rights
from echelon.install.settings import FLAG, TEXT, Setting
from echelon.install.template import NAMESPACE, Each, Node, Value, When, joined

NAME: Final = "echelon-controllers"
_COMPONENT: Final = "controllers"
_POLICIES, _WORKLOADS, _MULTICLUSTER = "capabilities.policies", "capabilities.workloads", "capabilities.multicluster"
_AUTO_ACCEPT: Final = "autoAccept"

_LIMIT = {"type": "string", "pattern": "^[0-9]+%?$"}

_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "replicas",
        2,
        {"type": "integer", "minimum": 1},
        "Processes. One works, with the lease; the others take over when it fails.",
    ),
    Setting(
        _POLICIES, False, FLAG, "Roll policies out. Another controller of policies must not be at work on the hub."
    ),
    Setting(_WORKLOADS, False, FLAG, "Align federated workloads. Karmada's own control plane must not be at work."),
    Setting(_MULTICLUSTER, False, FLAG, "Publish decisions also as the PlacementDecision of multicluster.x-k8s.io."),
    Setting(
        "crds.install",
        True,
        FLAG,
        "Install the definitions of kinds. Where others have some of them, set this to false, and take\n"
        "what is missing from: echelon crds --kubeconfig FILE | kubectl apply --server-side -f -",
    ),
    Setting("admissionPolicies.install", True, FLAG, "Have the server ask who may bind, join and accept."),
    Setting("peopleRoles.install", True, FLAG, "Let view, edit and admin of a namespace see and steer its rollouts."),
    Setting(
        "maxRemovals", "100%", _LIMIT, "Clusters that may lose their content at once, unless an object says otherwise."
    ),
    Setting(
        "removalGraceSeconds",
        int(GRACE.total_seconds()),
        {"type": "integer", "minimum": 0},
        "How long a cluster that cannot be reached keeps its content.",
    ),
    Setting(
        "silentShare",
        DEFAULTS.silent_share,
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "No cluster is tainted unreachable while more than this share of them is silent.",
    ),
    Setting("trustDecisions", False, FLAG, "Only controllers may write decisions on this hub: believe all of them."),
    Setting("allowAll", False, FLAG, "Let policies whose strategy the hub drops go everywhere at once."),
    Setting("adoptBindings", False, FLAG, "Carry out also the ResourceBindings that Karmada's control plane made."),
    Setting(
        _AUTO_ACCEPT,
        "",
        TEXT,
        "Clusters that are accepted without a person when they ask to join: a name, or a pattern such as\n"
        "edge-*. Empty: none.",
    ),
    BUDGET,
)


def _needed() -> dict[str, Iterable[Kind[Any]]]:
    return {
        "": custom_kinds_of(NAMES),
        _POLICIES: custom_kinds_of(POLICY_NAMES),
        _WORKLOADS: custom_kinds_of((WORKLOADS,)),
        _MULTICLUSTER: custom_kinds_of((MULTICLUSTER,)),
    }


def _rights() -> list[Node]:
    return hub_rights(
        {
            "echelon-policy-controllers": _POLICIES,
            "echelon-workload-controllers": _WORKLOADS,
            "echelon-multicluster-controllers": _MULTICLUSTER,
        }
    ) + [When(_AUTO_ACCEPT, each) for each in _right_to_accept()]


def _right_to_accept() -> list[Node]:
    """Return the right to accept clusters, which controllers have only where they are told to accept some."""
    name, rbac = "echelon-auto-accept", "rbac.authorization.k8s.io"
    rule = {"apiGroups": [REGISTER_GROUP], "resources": ["managedclusters/accept"], "verbs": ["update"]}
    return [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        },
    ]


def _arguments() -> Sequence[Node]:
    names = joined(
        "--controllers=",
        ",".join(NAMES),
        When(_POLICIES, "," + ",".join(POLICY_NAMES)),
        When(_WORKLOADS, f",{WORKLOADS}"),
    )
    return (
        "run",
        names,
        joined("--namespace=", NAMESPACE),
        f"--metrics-listen=:{PORT}",
        "--log-format=json",
        joined("--log-level=", Value("logLevel")),
        joined("--max-removals=", Value("maxRemovals")),
        joined("--removal-grace=", Value("removalGraceSeconds")),
        joined("--silent-share=", Value("silentShare")),
        When(_MULTICLUSTER, "--publish-multicluster"),
        When("trustDecisions", "--trust-decisions"),
        When("allowAll", "--allow-all"),
        When("adoptBindings", "--adopt-bindings"),
        When(_AUTO_ACCEPT, joined("--auto-accept=", Value(_AUTO_ACCEPT))),
        Each("extraArgs"),
    )


def _controllers() -> list[Node]:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return [
        deployment(NAME, _COMPONENT, _arguments(), replicas=Value("replicas"), strategy=rolling, account=NAME),
        disruption_budget(NAME, _COMPONENT),
        metrics_service(f"{NAME}-metrics", _COMPONENT),
        network_policy(NAME, _COMPONENT),
    ]


HUB: Final = Installation(
    "echelon",
    "The controllers of Echelon on a hub: progressive rollouts for fleets of Kubernetes clusters",
    namespace="echelon-system",
    settings=(
        *_SETTINGS,
        *pod_settings("256Mi", "2Gi"),
        *monitoring.SETTINGS,
        *monitoring.DASHBOARD,
        *web.SETTINGS,
    ),
    parts={
        "crds": lambda: definitions(_needed(), "crds.install"),
        "admission-policies": lambda: admission_policies(_needed(), "admissionPolicies.install"),
        "rights": _rights,
        "people": lambda: roles_of_people("peopleRoles.install"),
        "controllers": _controllers,
        "web": web.dashboard,
        "monitoring": lambda: monitoring.of_hub(f"{NAME}-metrics", _COMPONENT),
    },
)
