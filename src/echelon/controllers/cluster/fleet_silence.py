"""Watches whether most of the fleet is silent.

It looks all the time, and not when a cluster is to be judged: whoever judges ten thousand clusters at once must not
count the fleet for each of them, and that most were silent has to be noticed even if nobody is judged meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from math import inf

from prometheus_client import CollectorRegistry, Gauge

from echelon.api.cluster import ManagedCluster
from echelon.api.coordination import Lease
from echelon.controllers.cluster.heartbeats import Heartbeats
from echelon.engine.cluster_health import Silence, silence
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics

LOOK_SECONDS = 1.0  # from one look to the next at least
CALM_SECONDS = 5.0  # and at most: who is silent may become most of the fleet because others leave

_log = logging.getLogger(__name__)


class SilenceMetrics:
    """How much of the fleet is silent, for Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, what: str) -> Gauge:
            return Gauge(name, what, registry=registry)

        self._heard = gauge("echelon_clusters_heard", "Clusters that were heard in the last day.")
        self._silent = gauge("echelon_clusters_silent", "Those of them that have missed two renewals of their lease.")
        self._held = gauge("echelon_unreachable_taints_held", "1 while so many are silent that none is tainted.")

    def show(self, found: Silence) -> None:
        """Show what was found."""
        self._heard.set(found.heard)
        self._silent.set(found.silent)
        self._held.set(found.of_most)


class FleetSilence:
    """How much of the fleet is silent (nothing before the first look), and when most of it no longer was.

    `changed` is called when most of the fleet has fallen silent, and when that is over.
    """

    def __init__(
        self,
        clusters: Informer[ManagedCluster],
        leases: Informer[Lease],
        heartbeats: Heartbeats,
        metrics: Metrics,
        *,
        share: float,
        changed: Callable[[], None],
    ) -> None:
        self.silence: Silence | None = None
        self.over_since = -inf  # on the event loop's clock
        self._clusters = clusters
        self._leases = leases
        self._heartbeats = heartbeats
        self._share = share
        self._changed = changed
        self._metrics = metrics.own(SilenceMetrics)

    async def run(self) -> None:
        """Look at the fleet until cancelled."""
        await self._clusters.wait_synced()
        await self._leases.wait_synced()
        while True:
            now = asyncio.get_running_loop().time()
            if not self._leases.deaf:
                self._look(now)
            await asyncio.sleep(self._pause(now))

    def _look(self, now: float) -> None:
        before, found = self.silence, silence(self._heartbeats.last(), now, self._share)
        self.silence = found
        self._metrics.show(found)
        if found.of_most == (before is not None and before.of_most):
            return
        if found.of_most:
            _log.warning("%d of %d clusters are silent: none is tainted unreachable", found.silent, found.heard)
        else:
            self.over_since = now
            _log.info("%d of %d clusters are silent: all get their full grace again", found.silent, found.heard)
        self._changed()

    def _pause(self, now: float) -> float:
        if self.silence is None or self.silence.of_most:
            return LOOK_SECONDS
        begins = self.silence.of_most_at
        return CALM_SECONDS if begins is None else min(max(begins - now, LOOK_SECONDS), CALM_SECONDS)
