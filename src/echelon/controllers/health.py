"""Cluster health: notices that a cluster's agent has fallen silent, and keeps placements away from such clusters.

An agent renews a lease in its cluster's namespace. What the lease says about the time is the time of another machine,
whose clock may be wrong by hours; so only the fact that the lease *changed* counts, and the time at which it was seen
to change is taken from our own clock, one that nobody sets back. The price is that after a restart of the controller
every cluster gets the full grace once more. Nothing is polled: each cluster is looked at when its grace would end.

Who is deaf hears no agent, and would take the whole fleet for lost. So while nothing comes from the hub, no bookmark
either, nobody is judged; and when it has come back, every cluster gets the full grace once more, for agents need some
time to find it, too.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, ManagedCluster, Taint
from echelon.api.coordination import LEASE, Lease
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.controllers.conditions import find, timestamp, wire, with_condition
from echelon.controllers.ground import Ground
from echelon.engine.placement.taint_times import with_times
from echelon.engine.plan import NOTHING, Action, Patch, Plan
from echelon.kube.cache import Key
from echelon.kube.controller import Controller
from echelon.kube.informer import DEAF_SECONDS, Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER,)
LEASE_NAME = "managed-cluster-lease"
AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE, UNAVAILABLE = f"{GROUP}/unreachable", f"{GROUP}/unavailable"
WORKERS = 4

_MISSED_RENEWALS = 5
_DEFAULT_LEASE_SECONDS = 60
_EARLY_SECONDS = 0.001  # by which a timer may ring before its time


class HealthReconciler:
    """Plans the Available condition and the health taints of clusters."""

    def __init__(self, clusters: Informer[ManagedCluster], leases: Informer[Lease]) -> None:
        self._clusters = clusters
        self._leases = leases
        self._heard: dict[str, float] = {}  # when a sign of life of each cluster was seen, on our own clock
        self._taints: dict[str, tuple[Taint, ...]] = {}  # with the times that they had last

    def lease_changed(self, delta: Delta[Lease]) -> None:
        """Hear that an agent is alive. What the lease says does not matter, as long as it says something new."""
        if delta.new is not None and (delta.old is None or delta.old.spec != delta.new.spec):
            self._heard[delta.new.metadata.namespace] = asyncio.get_running_loop().time()

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> None:
        """Forget a cluster that is gone. One that was said to be available again is alive, whatever its lease shows."""
        name = delta.object.metadata.name
        if delta.new is None:
            self._heard.pop(name, None)
            self._taints.pop(name, None)
            return
        self._taints[name] = with_times(delta.new.spec.taints, self._taints.get(name, ()), None)
        if delta.old is not None and _available(delta.new) == "True" != _available(delta.old):
            self._heard[name] = asyncio.get_running_loop().time()

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one cluster."""
        cluster = self._clusters.get(key.name)
        if cluster is None or cluster.metadata.deletion_timestamp:
            return NOTHING
        left = self._grace_left(cluster)
        state = _available(cluster)
        actions: list[Action] = []
        silent = left is not None and left < _EARLY_SECONDS
        if silent and state != "Unknown":
            actions.append(_silent(cluster, now))
            state = "Unknown"
        taints = _tainted(with_times(cluster.spec.taints, self._taints.get(key.name, ()), now), state, now)
        if taints != cluster.spec.taints:
            actions.append(_patch(cluster, {"spec": {"taints": [_taint(each) for each in taints]}}))
        again = None if left is None or silent else timedelta(seconds=left)
        return Plan(tuple(actions), look_again_after=again)

    def _grace_left(self, cluster: ManagedCluster) -> float | None:
        """Return for how many seconds a cluster may still be silent; nothing if it has not been let in."""
        if not cluster.spec.hub_accepts_client:
            return None
        now = asyncio.get_running_loop().time()
        heard = max(self._heard.setdefault(cluster.metadata.name, now), self._leases.listening_since)
        every = cluster.spec.lease_duration_seconds
        left = heard + _MISSED_RENEWALS * (every if every > 0 else _DEFAULT_LEASE_SECONDS) - now
        return max(left, DEAF_SECONDS) if self._leases.deaf else left


def cluster_health_controller(ground: Ground) -> Controller:
    """Return a controller of the health of clusters."""
    clusters = ground.informer(MANAGED_CLUSTER)
    leases = ground.informer(LEASE, fields=f"metadata.name={LEASE_NAME}")
    reconciler = HealthReconciler(clusters, leases)
    controller = ground.controller("cluster-health", reconciler, workers=WORKERS)
    clusters.on_change(reconciler.cluster_changed)
    leases.on_change(reconciler.lease_changed)
    controller.watch(clusters, when=_matters)
    # A renewal is no reason to plan: there are hundreds a second, and the plan comes when the grace would have ended.
    controller.watch(leases, keys=lambda _: ())
    return controller


def _available(cluster: ManagedCluster) -> str:
    """Return the status of the Available condition; empty if nobody has said anything yet."""
    said = find(cluster.status.conditions, AVAILABLE)
    return said.status if said is not None else ""


def _matters(delta: Delta[ManagedCluster]) -> bool:
    """Whether a change of a cluster is about its health."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return old.spec != new.spec or old.status.conditions != new.status.conditions


def _silent(cluster: ManagedCluster, now: datetime) -> Patch:
    said = Condition(
        type=AVAILABLE,
        status="Unknown",
        observed_generation=cluster.metadata.generation,
        last_transition_time=timestamp(now),
        reason="ManagedClusterLeaseUpdateStopped",
        message="Registration agent stopped updating its lease.",
    )
    conditions = wire(with_condition(cluster.status.conditions, said))
    return _patch(cluster, {"status": {"conditions": conditions}}, subresource="status")


def _tainted(before: Iterable[Taint], available: str, now: datetime) -> list[Taint]:
    """Return taints with the one that stands for the state, and without the one that doesn't."""
    wanted = {"True": None, "False": UNAVAILABLE}.get(available, UNREACHABLE)
    others = (UNREACHABLE, UNAVAILABLE)
    kept = [taint for taint in before if taint.key not in others or _is(taint, wanted)]
    if wanted is not None and not any(_is(taint, wanted) for taint in kept):
        kept.append(Taint(key=wanted, effect="NoSelect", time_added=timestamp(now)))
    return kept


def _is(taint: Taint, wanted: str | None) -> bool:
    return taint.key == wanted and taint.effect == "NoSelect"


def _taint(taint: Taint) -> JSONObject:
    wire: JSONObject = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in wire.items() if value}


def _patch(cluster: ManagedCluster, body: JSONObject, subresource: str = "") -> Patch:
    meta = cluster.metadata
    return Patch(
        MANAGED_CLUSTER,
        meta.name,
        body,
        uid=meta.uid,
        resource_version=meta.resource_version,
        subresource=subresource,
    )
