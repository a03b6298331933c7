"""What whoever runs the controllers tells them, beside what objects say."""

from dataclasses import dataclass
from datetime import timedelta

from echelon.engine.rollout.removal import EVERYONE, GRACE
from echelon.engine.rollout.thresholds import Threshold


@dataclass(frozen=True)
class ControllerSettings:
    """Settings of all controllers of a process: the options of `echelon run`, and how tests run them."""

    # While more than this share of the fleet is silent, no cluster is tainted unreachable; 1: whatever the others do.
    silent_share: float = 0.55
    # Only controllers may write decisions on this hub: whoever they list may be written, in a bound set or not.
    trust_decisions: bool = False
    max_removals: Threshold = EVERYONE  # clusters that may lose their content at once, unless an object says otherwise
    removal_grace: timedelta = GRACE  # for which a cluster that is not reachable keeps what it has
    # Policies without a strategy go everywhere at once, also where the hub may have dropped the one that they had.
    allow_all: bool = False
    # Bindings that Karmada's own control plane made are carried out, too; its binding controller has to be off.
    adopt_bindings: bool = False
    # Image of the program that waits for other cliques of a set; without one, a set in which some wait is not accepted.
    init_image: str = ""
    # Names of clusters, or patterns of them, that are accepted without a person when they ask with a bootstrap token.
    auto_accept: tuple[str, ...] = ()
    # For tests: make every plan twice, compare indexes with caches often, and end where there is a difference.
    strict: bool = False

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if not 0 < self.silent_share <= 1:
            raise ValueError(f"silent_share: {self.silent_share}: must be greater than 0 and at most 1")


DEFAULTS = ControllerSettings()
