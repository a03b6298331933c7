"""Which clusters a template goes to: those that its policy means, or those that a placement has decided on.

What is certain decides; what is not changes nothing. A cluster that may be back in a moment keeps what it has, and so
does one that the people of the namespace have no say about any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from echelon.api.cluster import ManagedCluster, Taint
from echelon.api.scheduling import Toleration
from echelon.engine.cluster_health import UNAVAILABLE, UNREACHABLE
from echelon.engine.placement.fleet import Cluster
from echelon.engine.placement.taints import judge
from echelon.engine.plan import ReadRequest
from echelon.engine.workload.affinity import can_have_works

UNSETTLED = "DecisionsUnsettled"  # a doubt that passes by itself
_AWAY = (UNREACHABLE, UNAVAILABLE)


@dataclass(frozen=True)
class Chosen:
    """The clusters that get a template, and what people should know of them."""

    clusters: tuple[ManagedCluster, ...] = ()  # by name
    kept: frozenset[str] = frozenset()  # these have it and stay as they are, because they are in no bound set
    barred: frozenset[str] = frozenset()  # these were named, and are in no bound set, or cannot have works
    unbound: int = 0  # so many were meant and are in no bound set
    missing: tuple[str, ...] = ()  # these were named, and there are no such clusters
    none_meant: bool = False  # that nobody is meant is what was asked for
    doubt: str = ""  # why nothing is certain at the moment, as one word; then nothing changes
    why: str = ""  # and as a sentence
    again: timedelta | None = None  # after which time it may be different
    read: ReadRequest | None = None
    restless: timedelta | None = None  # so long the placement may still be about to decide on what changed just now


@dataclass(frozen=True)
class Standing:
    """What is known of the clusters that have a template already."""

    having: frozenset[str] = frozenset()
    strange: frozenset[str] = frozenset()  # of these and those that are meant: in no set bound to the namespace
    spared: Mapping[str, datetime] | None = None  # those that are away, and until when they keep what they have

    @property
    def kept(self) -> frozenset[str]:
        """Those that have it and stay as they are, because nobody here has a say about them."""
        return self.strange & self.having

    def until(self, name: str, now: datetime) -> datetime | None:
        """Return until when a cluster keeps what it has, if it does although it is away."""
        until = (self.spared or {}).get(name) if name in self.having else None
        return until if until is not None and until > now else None


def choose(
    meant: Iterable[ManagedCluster],
    tolerations: Sequence[Toleration],
    standing: Standing,
    now: datetime,
    *,
    named: Collection[str] = (),
    missing: Iterable[str] = (),
) -> Chosen:
    """Choose among the clusters that an affinity means; it names some, and `missing` of these are not there."""
    clusters, barred, unbound = [], set(), 0
    ends: list[datetime] = []
    for each in sorted(meant, key=_name):
        name = each.metadata.name
        if name in standing.strange or not can_have_works(each):
            unbound += name in standing.strange
            if name in named:
                barred.add(name)
            continue
        if not each.spec.taints:
            clusters.append(each)
            continue
        spared = standing.until(name, now)
        taints = [taint for taint in each.spec.taints if spared is None or taint.key not in _AWAY]
        verdict = judge(_tainted(each, taints), tolerations, decided=name in standing.having, now=now)
        if verdict.tolerated:
            clusters.append(each)
            ends += [until for until in (verdict.until, spared) if until is not None]
    again = min(ends) - now if ends else None
    found = frozenset(barred) - standing.kept
    return Chosen(tuple(clusters), standing.kept, found, unbound, tuple(sorted(missing)), again=again)


def follow(listed: frozenset[str], there: Mapping[str, ManagedCluster], standing: Standing, now: datetime) -> Chosen:
    """Take the clusters that a placement has decided on; `there` are those of them, and of the others, that exist."""
    clusters, barred, ends = [], set(), []
    for name in sorted(listed | standing.having):
        cluster, spared = there.get(name), standing.until(name, now)
        if cluster is None or (name not in listed and spared is None):
            continue
        if name in standing.strange or not can_have_works(cluster):
            barred.add(name)
            continue
        clusters.append(cluster)
        if name not in listed and spared is not None:
            ends.append(spared)
    again = min(ends) - now if ends else None
    missing = tuple(sorted(listed - there.keys()))
    unbound = len(listed & standing.strange)
    return Chosen(tuple(clusters), standing.kept, frozenset(barred) - standing.kept, unbound, missing, again=again)


def _tainted(cluster: ManagedCluster, taints: Sequence[Taint]) -> Cluster:
    return Cluster(0, cluster.metadata.name, {}, {}, tuple(taints), {}, False, cluster)


def _name(cluster: ManagedCluster) -> str:
    return cluster.metadata.name
