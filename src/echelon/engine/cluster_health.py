"""When so many clusters are silent at once that the hub, or its network, is a likelier cause than they are.

A cluster that stays silent is given up, and loses its workloads. For one cluster that is right; but when most of a
fleet falls silent in the same minutes, giving them up one after the other turns an outage of the hub into an outage of
everything. Graces end at different times, so when many clusters have been given up it is too late to notice: what
counts is who has missed renewals. Clusters that were given up long ago say nothing about what happens now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from echelon.api.cluster import GROUP

LEASE_NAME = "managed-cluster-lease"
AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE, UNAVAILABLE = f"{GROUP}/unreachable", f"{GROUP}/unavailable"

RECENT_SECONDS = 86_400.0  # who was not heard for longer is no longer counted
FEWEST = 3  # silent clusters that are a fleet's matter, and not their own

_ROUNDING = 1e-9  # 0.55 of 20 clusters are 11, whatever floating point says


class Contact(NamedTuple):
    """When a cluster was last heard, and when it will have missed two renewals, on any one clock."""

    heard: float
    missed: float


@dataclass(frozen=True)
class Silence:
    """How much of a fleet is silent."""

    heard: int = 0  # clusters that were heard recently
    silent: int = 0  # those of them that have missed two renewals
    most: bool = False  # more of them than the clusters' own troubles explain
    begins: float | None = None  # when most of them are silent if nobody is heard until then


def silence(contacts: Iterable[Contact], now: float, share: float) -> Silence:
    """Tell whether more than a share of the clusters, and not only a few, are silent; with a share of 1, never."""
    missed = sorted(contact.missed for contact in contacts if now - contact.heard < RECENT_SECONDS)
    needed = max(floor(share * len(missed) + _ROUNDING) + 1, FEWEST)
    begins = missed[needed - 1] if needed <= len(missed) else None
    silent = sum(each <= now for each in missed)
    return Silence(len(missed), silent, most=silent >= needed, begins=begins)


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a cluster: the status of Available, and whether its taints are held as they are."""

    available: str
    held: bool


def judged(available: str, *, lease_stopped: bool, over: bool, unreachable: bool, most: bool) -> Verdict:
    """Judge a cluster that is said to be available so, or Unknown because its `lease_stopped`.

    `over`: its grace is. `unreachable`: it has that taint. `most`: most of the fleet is silent. Who was not given up
    while most were silent gets a full grace when they no longer are, although it is said to be Unknown already.
    """
    status = "Unknown" if over else available
    held = status == "Unknown" and not unreachable and (most or (lease_stopped and not over))
    return Verdict(status, held)
