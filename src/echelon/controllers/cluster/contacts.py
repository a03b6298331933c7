"""Who was heard when: what is known of signs of life, and whether most of the fleet is silent.

An agent renews a lease in its cluster's namespace. What the lease says about the time is the time of another machine,
whose clock may be wrong by hours; so only the fact that the lease *changed* counts, and the time at which it was seen
to change is taken from our own clock, one that nobody sets back. What a lease says counts only for leases that were
there when we came, and only to tell whether most of the fleet is silent: a restart must not forget that.

Who is deaf hears no agent, and would take the whole fleet for lost. So while nothing comes from the hub, no bookmark
either, nothing is concluded; and when it has come back, agents have their time to come back, too.
"""

import asyncio
import logging
from math import inf

from echelon.api.cluster import ManagedCluster
from echelon.api.coordination import Lease
from echelon.engine.cluster_health import Contact, Silence, silence
from echelon.engine.placement.taints import instant
from echelon.kube.clock import Clock
from echelon.kube.informer import DEAF_SECONDS, Delta, Informer
from echelon.kube.metrics import Metrics

# A share is of all clusters. So it is not worked out more often than this, however many are to be judged at once.
LOOK_SECONDS = 1.0

_GRACE = 5  # renewals that may be missed
_SILENT = 2  # missed renewals after which a cluster counts as silent
_DEFAULT_LEASE_SECONDS = 60

_log = logging.getLogger(__name__)


class Contacts:
    """Hears the agents of all clusters."""

    def __init__(
        self,
        clusters: Informer[ManagedCluster],
        leases: Informer[Lease],
        clock: Clock,
        metrics: Metrics,
        silent_share: float,
    ) -> None:
        self._clusters = clusters
        self._leases = leases
        self._clock = clock
        self._share = silent_share
        self._heard: dict[str, float] = {}  # when a sign of life of each cluster was seen, on our own clock
        self._known: dict[str, float] = {}  # since when a cluster is known to be let in
        self._began: float | None = None  # when we first listened
        self._silence = Silence()
        self._looked = -inf
        self._calm_since = -inf  # when most of the fleet was last silent, and no longer is
        self._gauges = (
            metrics.gauge("echelon_clusters_heard", "Clusters that were heard in the last day."),
            metrics.gauge("echelon_clusters_silent", "Those of them that have missed two renewals of their lease."),
            metrics.gauge("echelon_unreachable_taints_held", "1 while so many are silent that none is tainted."),
        )

    def lease_changed(self, delta: Delta[Lease]) -> None:
        """Hear that an agent is alive. What the lease says does not matter, as long as it says something new."""
        if delta.new is None or (delta.old is not None and delta.old.spec == delta.new.spec):
            return
        age = 0.0
        if delta.initial:
            age = max((self._clock.now() - instant(delta.new.spec.renew_time)).total_seconds(), 0.0)
        self._heard[delta.new.metadata.namespace] = _now() - age

    def cluster_changed(self, delta: Delta[ManagedCluster], *, recovered: bool) -> None:
        """Forget a cluster that is gone. One that was said to be available again is alive, whatever its lease shows."""
        name, old, new = delta.object.metadata.name, delta.old, delta.new
        if new is None or not new.spec.hub_accepts_client:
            self._known.pop(name, None)
            self._heard.pop(name, None)
            return
        if old is None or not old.spec.hub_accepts_client:
            self._known[name] = _now()
        if recovered:
            self._heard[name] = _now()

    def grace(self, cluster: ManagedCluster) -> float:
        """Return for how many seconds a cluster may be silent."""
        return _GRACE * _every(cluster)

    def grace_left(self, cluster: ManagedCluster) -> float | None:
        """Return for how many seconds a cluster may still be silent; nothing if it has not been let in."""
        name = cluster.metadata.name
        if not cluster.spec.hub_accepts_client:
            return None
        listening = self._leases.listening_since
        since = max(self._heard.get(name, -inf), self._known.get(name, -inf), listening, self._calm_since)
        left = since + self.grace(cluster) - _now()
        return max(left, DEAF_SECONDS) if self._leases.deaf else left

    @property
    def begins_in(self) -> float:
        """In how many seconds most of the fleet is silent if nobody is heard until then."""
        begins = self._silence.begins
        return inf if begins is None else begins - _now()

    def look(self) -> Silence:
        """Tell how much of the fleet is silent, a moment ago at most."""
        now = _now()
        if self._leases.deaf or now - self._looked < LOOK_SECONDS:
            return self._silence
        before, self._silence, self._looked = self._silence, silence(self._contacts(), now, self._share), now
        found = self._silence
        for gauge, value in zip(self._gauges, (found.heard, found.silent, int(found.most)), strict=True):
            gauge.set(value)
        if found.most and not before.most:
            _log.warning("%d of %d clusters are silent: none is tainted unreachable", found.silent, found.heard)
        elif before.most and not found.most:
            self._calm_since = now
            _log.info("%d of %d clusters are silent: all get their full grace again", found.silent, found.heard)
        return found

    def _contacts(self) -> list[Contact]:
        if self._began is None:
            self._began = self._leases.listening_since
        since = self._leases.listening_since
        back = since if since > self._began else -inf  # after a break of ours agents have to find the hub again
        found = []
        for cluster in self._clusters.values():
            heard = self._heard.get(cluster.metadata.name)
            if heard is not None and not cluster.metadata.deletion_timestamp:
                found.append(Contact(heard, max(heard, back) + _SILENT * _every(cluster)))
        return found


def _every(cluster: ManagedCluster) -> int:
    """Return after how many seconds a lease is to be renewed."""
    every = cluster.spec.lease_duration_seconds
    return every if every > 0 else _DEFAULT_LEASE_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()
