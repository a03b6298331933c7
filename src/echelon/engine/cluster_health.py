"""The health of clusters, and when the hub, or its network, is a likelier cause of their silence than they are.

A cluster that stays silent is given up, and loses its workloads. For one cluster that is right; but when most of a
fleet falls silent in the same minutes, giving them up one after the other turns an outage of the hub into an outage of
everything. Graces end at different times, so when many clusters have been given up it is too late to notice: what
counts is who has missed renewals. Clusters that were given up long ago say nothing about what happens now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from math import floor
from typing import NamedTuple

from echelon.api.cluster import GROUP, Taint
from echelon.api.times import format_time

LEASE_NAME = "managed-cluster-lease"
AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE, UNAVAILABLE = f"{GROUP}/unreachable", f"{GROUP}/unavailable"

RECENT_SECONDS = 86_400.0  # who was not heard for longer is no longer counted
FEWEST = 3  # silent clusters that are a fleet's matter, and not their own

_ROUNDING = 1e-9  # 0.55 of 20 clusters are 11, whatever floating point says


class Heartbeat(NamedTuple):
    """When a cluster was last heard, and from when on it counts as silent, on any one clock."""

    at: float
    silent_from: float


@dataclass(frozen=True)
class Silence:
    """How much of a fleet is silent."""

    heard: int = 0  # clusters that were heard recently
    silent: int = 0  # those of them that have missed two renewals
    of_most: bool = False  # more of them than the clusters' own troubles explain
    of_most_at: float | None = None  # when most of them are silent if nobody is heard until then


def silence(heartbeats: Iterable[Heartbeat], now: float, share: float) -> Silence:
    """Tell whether more than a share of the clusters, and not only a few, are silent; with a share of 1, never."""
    silent_from = sorted(each.silent_from for each in heartbeats if now - each.at < RECENT_SECONDS)
    needed = max(floor(share * len(silent_from) + _ROUNDING) + 1, FEWEST)
    of_most_at = silent_from[needed - 1] if needed <= len(silent_from) else None
    silent = sum(each <= now for each in silent_from)
    return Silence(len(silent_from), silent, of_most=silent >= needed, of_most_at=of_most_at)


@dataclass(frozen=True)
class HealthDecision:
    """What is to be said of a cluster: the status of Available, and whether its taints are kept as they are."""

    available: str
    keep_taints: bool


def decide_health(
    available: str, *, lease_stopped: bool, grace_over: bool, unreachable: bool, most_silent: bool
) -> HealthDecision:
    """Decide about a cluster that is said to be available so, or Unknown because its `lease_stopped`.

    `unreachable`: it has that taint. Who was not given up while most were silent gets a full grace when they no longer
    are, although it is said to be Unknown already.
    """
    status = "Unknown" if grace_over else available
    keep = status == "Unknown" and not unreachable and (most_silent or (lease_stopped and not grace_over))
    return HealthDecision(status, keep)


def health_taints(before: Iterable[Taint], available: str, now: datetime) -> list[Taint]:
    """Return taints with the one that stands for the status of Available, and without the one that doesn't."""
    wanted = {"True": None, "False": UNAVAILABLE}.get(available, UNREACHABLE)
    kept = [taint for taint in before if taint.key not in (UNREACHABLE, UNAVAILABLE) or is_taint(taint, wanted)]
    if wanted is not None and not any(is_taint(taint, wanted) for taint in kept):
        kept.append(Taint(key=wanted, effect="NoSelect", time_added=format_time(now)))
    return kept


def is_taint(taint: Taint, key: str | None) -> bool:
    """Whether a taint is the one that stands for a state of health."""
    return taint.key == key and taint.effect == "NoSelect"
