"""What can be relied on of a kind of workload, in a few words.

There are three families. Which numbers a member of each may reach under a set of grants is in the modules of bounds;
here is what a grant must look like for the member's API server to take it, and for the member to stand still.
"""

from dataclasses import dataclass
from enum import StrEnum


class Family(StrEnum):
    """Whose rules the pods of a kind follow."""

    DEPLOYMENT = "Deployment"  # stands still when paused; acts through ReplicaSets, some time after it decided
    CLONE_SET = "CloneSet"  # stands still by its partition; marks pods before it deletes them
    STATEFUL_SET = "StatefulSet"  # stands still only if its partition is all of its replicas; has no surge


@dataclass(frozen=True, slots=True)
class Contract:
    """A family, and the least `maxUnavailable` with which an update may run."""

    family: Family
    least_unavailable: int = 0

    @property
    def has_surge(self) -> bool:
        """Whether there is a `maxSurge`."""
        return self.family is not Family.STATEFUL_SET

    @property
    def has_partition(self) -> bool:
        """Whether there is a `partition`."""
        return self.family is not Family.DEPLOYMENT

    def may_run(self, unavailable: int, surge: int) -> bool:
        """Tell whether an update moves under these numbers, and the API takes them."""
        return unavailable >= self.least_unavailable and unavailable + surge > 0


DEPLOYMENT = Contract(Family.DEPLOYMENT)
CLONE_SET = Contract(Family.CLONE_SET)
# The validation of this version refuses `maxUnavailable: 0` even where there is a surge.
CLONE_SET_V1BETA1 = Contract(Family.CLONE_SET, least_unavailable=1)
STATEFUL_SET = Contract(Family.STATEFUL_SET, least_unavailable=1)
