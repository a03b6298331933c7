"""What is written on templates, bindings, works and manifests so that everybody finds them again.

Names and labels are Karmada's, so that its tools find works that Echelon made and Echelon takes over works that it
made. The annotations under `echelon.dev/` are Echelon's.
"""

from echelon.api.short_hash import ALPHABET
from echelon.engine.align import PUSH_ID

__all__ = [
    "ALIGN",
    "BINDING_FINALIZER",
    "BINDING_LABEL",
    "BINDING_NAME",
    "BINDING_NAMESPACE",
    "BINDING_UID",
    "CLUSTER_POLICY_NAME",
    "CONFLICT_RESOLUTION",
    "EXECUTION_PREFIX",
    "FINALIZER",
    "HASH_LABEL",
    "LONGEST_CLUSTER_NAME",
    "MADE_BY",
    "MANAGED",
    "PERMANENT_ID",
    "PLACEMENT",
    "POLICY_NAME",
    "POLICY_NAMESPACE",
    "PROPAGATION",
    "PUSH_ID",
    "RETAIN_REPLICAS",
    "STRATEGY",
    "TEMPLATE_GENERATION",
    "TEMPLATE_UID",
    "TEMPLATE_UID_LABEL",
    "WORK_NAME",
    "WORK_NAMESPACE",
    "binding_name",
    "cluster_of",
    "execution_namespace",
    "work_name",
]

FINALIZER = "karmada.io/execution-controller"  # on a work; the agent removes it when the object is gone
BINDING_FINALIZER = "karmada.io/binding-controller"  # on a binding, until its works are gone
EXECUTION_PREFIX = "karmada-es-"
LONGEST_CLUSTER_NAME = 63 - len(EXECUTION_PREFIX)  # a longer one has no execution namespace

# On a binding, on its works and on their manifests.
PERMANENT_ID = "resourcebinding.karmada.io/permanent-id"  # a label

# Annotations of works and of their manifests.
BINDING_NAMESPACE = "resourcebinding.karmada.io/namespace"
BINDING_NAME = "resourcebinding.karmada.io/name"

# On a manifest: a label, and annotations.
MANAGED = "karmada.io/managed"
TEMPLATE_UID = "resourcetemplate.karmada.io/uid"
TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"
WORK_NAMESPACE = "work.karmada.io/namespace"
WORK_NAME = "work.karmada.io/name"
CONFLICT_RESOLUTION = "work.karmada.io/conflict-resolution"
BINDING_UID = "echelon.dev/binding-uid"  # push ids are ordered among those of one binding

# On a template.
RETAIN_REPLICAS = "resourcetemplate.karmada.io/retain-replicas"  # a label; "true": each member owns its replicas
ALIGN = "echelon.dev/align"  # "false": it is passed through, and no budget holds over all clusters

# On a binding: who chose its clusters. The policy's own annotations are copied to it.
POLICY_NAMESPACE = "propagationpolicy.karmada.io/namespace"
POLICY_NAME = "propagationpolicy.karmada.io/name"
CLUSTER_POLICY_NAME = "clusterpropagationpolicy.karmada.io/name"
MADE_BY = "echelon.dev/made-by"
PROPAGATION = "workload-propagation"  # the value of it, on bindings that a policy brought about here
PLACEMENT = "echelon.dev/placement"
STRATEGY = "echelon.dev/rollout-strategy"

# Labels of stored revisions.
BINDING_LABEL = "echelon.dev/binding"  # <namespace>.<name> of the binding
HASH_LABEL = "echelon.dev/template-hash"  # which content it has
TEMPLATE_UID_LABEL = "echelon.dev/template-uid"  # of the template that had it

_OFFSET = 0x811C9DC5
_PRIME = 0x01000193


def execution_namespace(cluster: str) -> str:
    """Return the namespace that holds the works of a cluster."""
    return f"{EXECUTION_PREFIX}{cluster}"


def cluster_of(namespace: str) -> str | None:
    """Return the cluster whose works a namespace holds; None if it is no execution namespace."""
    cluster = namespace.removeprefix(EXECUTION_PREFIX)
    return cluster if cluster and cluster != namespace else None


def binding_name(name: str, kind: str) -> str:
    """Return the name of the binding of a template."""
    return f"{_plain(name)}-{kind}".lower()


def work_name(namespace: str, name: str, kind: str) -> str:
    """Return the name of the works of a template. It is the same in every cluster's namespace."""
    plain = _plain(name)
    whole = "-".join(part for part in (namespace, plain, kind) if part).lower()
    return f"{plain}-{_encoded(_fnv32a(whole.encode()))}"


def _plain(name: str) -> str:
    """Return a name without the colons that some kinds allow."""
    return name.replace(":", ".")


def _fnv32a(data: bytes) -> int:
    found = _OFFSET
    for byte in data:
        found = (found ^ byte) * _PRIME & 0xFFFFFFFF
    return found


def _encoded(number: int) -> str:
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))
