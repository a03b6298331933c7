"""In which order the manifests of a work are applied.

What others need goes first: a namespace before what is in it, a role before its holder starts. Nothing waits for what
came before it to work, and nothing is left out because something before it failed; the order only spares the first
pass failures that the second one would heal. Reports keep the order of the spec.
"""

from collections.abc import Sequence
from typing import Any

_RANKS: tuple[tuple[str, ...], ...] = (
    (
        "PriorityClass",
        "Namespace",
        "CustomResourceDefinition",
        "StorageClass",
        "PersistentVolume",
        "PodSecurityPolicy",
    ),
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ("NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"),
    ("Secret", "ConfigMap", "PersistentVolumeClaim"),
    ("Service",),
    (
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "StatefulSet",
        "Job",
        "CronJob",
    ),
    (
        "APIService",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
)
_RANK_OF = {kind: rank for rank, kinds in enumerate(_RANKS) for kind in kinds}
OTHERS = 1000
UNREADABLE = 1001


def is_readable(manifest: Any) -> bool:
    """Whether a manifest says what it is and what it is called."""
    if not isinstance(manifest, dict):
        return False
    metadata = manifest.get("metadata")
    fields = (
        manifest.get("apiVersion"),
        manifest.get("kind"),
        metadata.get("name") if isinstance(metadata, dict) else "",
    )
    return all(isinstance(each, str) and each for each in fields)


def rank(manifest: Any) -> int:
    """Return how early a manifest is applied; the lowest goes first."""
    return _RANK_OF.get(manifest["kind"], OTHERS) if is_readable(manifest) else UNREADABLE


def apply_order(manifests: Sequence[Any]) -> tuple[int, ...]:
    """Return the places of manifests in the spec, in the order in which they are applied."""
    return tuple(sorted(range(len(manifests)), key=lambda place: rank(manifests[place])))
