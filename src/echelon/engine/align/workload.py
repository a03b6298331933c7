"""What is asked for: a workload, its budgets, and what each cluster should come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from echelon.engine.align.budgets import Budgets
from echelon.engine.align.contract import Contract


class OnDeficit(StrEnum):
    """What happens when fewer pods are available than the budget asks for, because some died."""

    RECLAIM = "Reclaim"  # take back as much budget as is missing
    FREEZE = "Freeze"  # stop whoever could take a pod, until nothing is missing


@dataclass(frozen=True, slots=True)
class Target:
    """What one cluster should come to. Revisions are hashes of its template after overrides.

    A cluster of a group that is not open yet keeps the stable template. One that cannot be reached, or to which
    nothing is sent for another reason (dispatching is suspended, its last push was refused and is tried again later),
    gets no grants and keeps being charged for those that it has.
    """

    replicas: int
    revision: str
    stable: str = ""  # of the template that was last complete everywhere; empty if there is none
    group: int = 0
    open: bool = True
    reachable: bool = True
    reason: str = ""  # why nothing is sent, for people, where it is not that the cluster cannot be reached
    first: str = ""  # of the template that the workload began with, until one was complete everywhere

    @property
    def old(self) -> str:
        """The template that a partition keeps pods of."""
        return self.stable or self.first


@dataclass(frozen=True, slots=True)
class Workload:
    """A federated workload. Clusters that the ledger knows and `targets` does not are ramped down to nothing."""

    template: str  # identifies the template, before overrides
    contract: Contract
    budgets: Budgets
    targets: Mapping[str, Target]
    paused: bool = False
    unreachable: frozenset[str] = frozenset()  # of the clusters that are ramped down
    on_deficit: OnDeficit = OnDeficit.RECLAIM

    def reaches(self, cluster: str) -> bool:
        """Tell whether anything can be sent to a cluster, and is heard of it."""
        found = self.targets.get(cluster)
        return found.reachable if found else cluster not in self.unreachable
