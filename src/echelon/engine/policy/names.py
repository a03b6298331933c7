"""What is written on policies and their replicas so that everybody finds them again: names, labels, annotations.

Names and labels are upstream's. The annotations are Echelon's, and are never copied from a policy to its replicas.
"""

from echelon.api import policy
from echelon.api.keys import Key
from echelon.api.policy import GROUP
from echelon.engine.rollout import annotations as rollout_annotations
from echelon.engine.rollout.annotations import (
    RETRIED_ANNOTATION,
    REVISION_ANNOTATION,
    TURNED_ANNOTATION,
    WRITTEN_ANNOTATION,
)

ROOT_LABEL = policy.ROOT_LABEL  # on a replica: <namespace>.<name> of its policy
ROOTS = f"!{ROOT_LABEL}"  # the label selector of policies that are no replicas
CLUSTER_NAME_LABEL = f"{GROUP}/cluster-name"
CLUSTER_NAMESPACE_LABEL = f"{GROUP}/cluster-namespace"
PARENT_LABEL = f"{GROUP}/policy"  # on a template's object on a cluster: the name of the replica
# Tells Argo CD that replicas are nobody's mistake.
COMPARE_OPTIONS = ("argocd.argoproj.io/compare-options", "IgnoreExtraneous")
TRIGGER_ANNOTATION = f"{GROUP}/trigger-update"  # on a policy, to have it looked at; of no use on a replica
HUB_TEMPLATES_ERROR = f"{GROUP}/hub-templates-error"  # on a template: why it cannot be filled in

HELD_ANNOTATION = rollout_annotations.HELD_ANNOTATION  # on a replica, and on what is made from it
# On what is made from a replica: it was enforced before it was held, so its end still prunes.
ENFORCED_BEFORE_ANNOTATION = "echelon.dev/enforced-before"
EVENTS_ANNOTATION = "echelon.dev/events-at-release"  # on a replica: the latest report of each template at its release
STRATEGY_ANNOTATION = "echelon.dev/rollout-strategy"  # on a policy, where the hub does not keep spec.rolloutStrategy
OWN_PREFIX = "echelon.dev/"
# What the hub notes on replicas, and an annotation that others keep there.
NOTES = frozenset(
    (
        REVISION_ANNOTATION,
        WRITTEN_ANNOTATION,
        RETRIED_ANNOTATION,
        TURNED_ANNOTATION,
        HELD_ANNOTATION,
        EVENTS_ANNOTATION,
        f"{GROUP}/encryption-iv",
    )
)

POLICY_LABEL = "echelon.dev/policy"  # on a stored revision: <namespace>.<name> of its policy
HASH_LABEL = "echelon.dev/policy-hash"  # on a stored revision: which content it has


def replica_name(root: Key) -> str:
    """Return what the replicas of a policy are called."""
    return f"{root.namespace}.{root.name}"


def root_of(name: str) -> Key | None:
    """Return the policy that a replica of this name is of. A namespace has no dots, a name may have some."""
    namespace, _, of = name.partition(".")
    return Key(namespace, of) if namespace and of else None
