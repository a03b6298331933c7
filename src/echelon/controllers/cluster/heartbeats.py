"""When the agent of each cluster was last seen to be alive.

An agent renews a lease in its cluster's namespace. What the lease says about the time is the time of another machine,
whose clock may be wrong by hours; so only the fact that the lease *changed* counts, and the time at which it was seen
to change is taken from our own clock, one that nobody sets back. What a lease says counts only for leases that were
there when we came, and only to tell whether most of the fleet is silent: a restart must not forget that.

Who is deaf hears no agent, and would take the whole fleet for lost. So while nothing comes from the hub, no bookmark
either, nothing is concluded; and when it has come back, agents have their time to come back, too.

All of this is fed by changes of leases and clusters. Which renewal was the last one seen can be compared with the
caches; if one was missed, it counts as seen when that is noticed.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from echelon.api.cluster import ManagedCluster
from echelon.api.coordination import Lease, LeaseSpec
from echelon.api.keys import Key
from echelon.engine.cluster_health import LEASE_NAME, Heartbeat
from echelon.engine.placement.taints import instant
from echelon.kube.clock import Clock
from echelon.kube.informer import DEAF_SECONDS, Delta, Informer

_GRACE = 5  # renewals that may be missed
_SILENT = 2  # missed renewals after which a cluster counts as silent
_DEFAULT_LEASE_SECONDS = 60


class SteadyClock:
    """A clock that also tells how much time has passed, whatever somebody has set it to meanwhile."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: datetime  # when the event loop's time was 0, by this clock
        self.now()

    def now(self) -> datetime:
        """Return the present moment."""
        now = self._clock.now()
        self._began = now - timedelta(seconds=asyncio.get_running_loop().time())
        return now

    def steady(self, now: datetime) -> float:
        """Return the event loop's time at a moment which this clock has just told."""
        return (now - self._began).total_seconds()


@dataclass(frozen=True)
class _Seen:
    """The last sign of life of a cluster, on the steady clock, and its lease as it was last seen."""

    at: float
    lease: LeaseSpec | None = None


class Heartbeats:
    """Follows the leases of all clusters. `clock` has to be the one that planners get `now` from."""

    def __init__(self, clusters: Informer[ManagedCluster], leases: Informer[Lease], clock: SteadyClock) -> None:
        self._clusters = clusters
        self._leases = leases
        self._clock = clock
        self._seen: dict[str, _Seen] = {}  # by cluster
        self._accepted: dict[str, float] = {}  # since when each cluster is known to be accepted
        self._began: float | None = None  # when we first listened

    def lease_changed(self, delta: Delta[Lease]) -> None:
        """Note that an agent is alive. What the lease says does not matter, as long as it says something new."""
        name, new = delta.object.metadata.namespace, delta.new
        if new is None:
            if name not in self._accepted:
                self._seen.pop(name, None)
            return
        if delta.old is not None and delta.old.spec == new.spec:
            return
        now = self._clock.now()
        age = max((now - instant(new.spec.renew_time)).total_seconds(), 0.0) if delta.initial else 0.0
        self._seen[name] = _Seen(self._clock.steady(now) - age, new.spec)

    def cluster_changed(self, delta: Delta[ManagedCluster], *, recovered: bool) -> None:
        """Forget a cluster that is gone. One that was said to be available again is alive, whatever its lease shows."""
        name, old, new = delta.object.metadata.name, delta.old, delta.new
        if new is None or not new.spec.hub_accepts_client:
            self._accepted.pop(name, None)
            self._forget(name)
            return
        now = self._clock.steady(self._clock.now())
        if old is None or not old.spec.hub_accepts_client:
            self._accepted[name] = now
        if recovered:
            self._seen[name] = _Seen(now, self._lease(name))

    def grace(self, cluster: ManagedCluster) -> float:
        """Return for how many seconds a cluster may be silent."""
        return _GRACE * _renewal_seconds(cluster)

    def grace_left(self, cluster: ManagedCluster, now: datetime, since: float) -> float | None:
        """Return for how many seconds a cluster may still be silent; nothing if it has not been accepted.

        Every grace begins `since` then at the earliest, on the steady clock.
        """
        name = cluster.metadata.name
        if not cluster.spec.hub_accepts_client:
            return None
        begins = max(self._seen_at(name), self._accepted.get(name, -inf), self._leases.listening_since, since)
        left = begins + self.grace(cluster) - self._clock.steady(now)
        return max(left, DEAF_SECONDS) if self._leases.deaf else left

    def last(self) -> list[Heartbeat]:
        """Return the last heartbeat of every cluster that has had one."""
        since = self._leases.listening_since
        if self._began is None:
            self._began = since
        back = since if since > self._began else -inf  # after a break of ours agents have to find the hub again
        found = []
        for name, seen in self._seen.items():
            cluster = self._clusters.get(Key("", name)) if seen.at > -inf else None
            if cluster is not None and not cluster.metadata.deletion_timestamp:
                found.append(Heartbeat(seen.at, max(seen.at, back) + _SILENT * _renewal_seconds(cluster)))
        return found

    def differences(self) -> list[str]:
        """Say where this is not what the caches show; it always should be."""
        found = []
        accepted = self._accepted_now()
        if accepted != self._accepted.keys():
            found.append(f"accepted are {sorted(accepted)}, and not {sorted(self._accepted)}")
        leases = self._leases_now()
        missed = [name for name, spec in leases.items() if self._lease(name) != spec]
        if missed:
            found.append(f"renewals of {sorted(missed)} were missed")
        gone = self._seen.keys() - leases.keys() - accepted
        if gone:
            found.append(f"{sorted(gone)} are not forgotten")
        return found

    def rebuild(self) -> None:
        """Take everything from the caches. What was missed counts as seen now."""
        now, accepted, leases = self._clock.steady(self._clock.now()), self._accepted_now(), self._leases_now()
        self._accepted = {name: self._accepted.get(name, now) for name in accepted}
        self._seen = {name: seen for name, seen in self._seen.items() if name in accepted or name in leases}
        for name, spec in leases.items():
            if self._lease(name) != spec:
                self._seen[name] = _Seen(now, spec)

    def _accepted_now(self) -> set[str]:
        return {each.metadata.name for each in self._clusters.values() if each.spec.hub_accepts_client}

    def _leases_now(self) -> dict[str, LeaseSpec]:
        return {lease.metadata.namespace: lease.spec for lease in self._leases.values()}

    def _seen_at(self, name: str) -> float:
        seen = self._seen.get(name)
        return seen.at if seen is not None else -inf

    def _lease(self, name: str) -> LeaseSpec | None:
        seen = self._seen.get(name)
        return seen.lease if seen is not None else None

    def _forget(self, name: str) -> None:
        """Forget when a cluster was seen; its lease, if there is one, says something new only when it changes."""
        seen = self._seen.pop(name, None)
        if seen is not None and seen.lease is not None and self._leases.get(Key(name, LEASE_NAME)) is not None:
            self._seen[name] = _Seen(-inf, seen.lease)


def _renewal_seconds(cluster: ManagedCluster) -> int:
    """Return after how many seconds a lease is to be renewed."""
    seconds = cluster.spec.lease_duration_seconds
    return seconds if seconds > 0 else _DEFAULT_LEASE_SECONDS
