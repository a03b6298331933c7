"""What is asked for: a workload, its budgets, and what each cluster should come to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from echelon.engine.align.budgets import Budgets
from echelon.engine.align.contract import Contract


class OnDeficit(StrEnum):
    """What happens when fewer pods are available than the budget asks for, because some died."""

    RECLAIM = "Reclaim"  # take back as much budget as is missing
    FREEZE = "Freeze"  # stop everything until nothing is missing


@dataclass(frozen=True, slots=True)
class Target:
    """What one cluster should come to. Revisions are hashes of its template after overrides.

    A cluster of a group that is not open yet keeps the stable template. One that cannot be reached, or to which
    nothing is sent, gets no grants and keeps being charged for those that it has.
    """

    replicas: int
    revision: str
    stable: str = ""  # of the template that was last complete everywhere; empty if there is none
    group: int = 0
    open: bool = True
    reachable: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """A federated workload. Clusters that the ledger knows and `targets` does not are ramped down to nothing."""

    template: str  # identifies the template, before overrides
    contract: Contract
    budgets: Budgets
    targets: Mapping[str, Target]
    paused: bool = False
    on_deficit: OnDeficit = OnDeficit.RECLAIM
