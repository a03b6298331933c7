"""How an agent works, beyond where and for which cluster."""

from dataclasses import dataclass
from hashlib import sha256

# From here on a grace period means that nothing is ever evicted.
NEVER_SECONDS = 100 * 365 * 24 * 3600.0

FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"
RECORD_FINALIZER = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"
MANAGER = "work-agent"  # of what is applied to the cluster
HUB_MANAGER = "echelon-agent"
HOME_NAMESPACE = "echelon-agent"  # of the agent on its cluster, as docs/member-rights.yaml has it


@dataclass(frozen=True)
class Settings:
    """Intervals and limits; the defaults are upstream's."""

    status_sync_seconds: float = 10.0
    resync_seconds: float = 240.0
    eviction_grace_seconds: float = 3600.0
    max_watches: int = 50
    max_json_raw_bytes: int | None = None  # None: lists and objects are no feedback
    secret_values: bool = False  # whether feedback may tell what secrets hold
    works_at_once: int = 10
    lease_seconds: int = 60
    evaluation_backoff_seconds: float = 5.0  # between two evaluations of a policy, at least
    kept_namespaces: tuple[str, ...] = ()  # besides kube-* and default: what no work ever deletes
    strict: bool = False  # for tests: make every plan twice, and end where there is a difference


def hub_hash(url: str) -> str:
    """Return the name under which records refer to a hub whose kubeconfig has this server, letter by letter.

    Other agents hash what the file has: a slash more or less would be another hub, with a second owner for everything.
    """
    return sha256(url.encode()).hexdigest()
