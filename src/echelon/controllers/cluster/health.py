"""Cluster health: notices that a cluster's agent has fallen silent, and keeps placements away from such clusters.

Nothing is polled: each cluster is looked at when its grace would end. After a restart of the controller every cluster
gets the full grace once more, because nothing that is known about the time is our own.

While most of the fleet is silent, the hub or its network is the likelier cause, and nobody is tainted unreachable: the
clusters that are silent are Unknown, and the set of all clusters says why. When that is over, all get their full grace
once more. A cluster of which nothing was ever heard is kept away from nevertheless; no placement has it.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import (
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    ManagedCluster,
    ManagedClusterSet,
    Taint,
)
from echelon.api.coordination import LEASE, Lease
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.controllers.cluster.fleet_silence import LOOK_SECONDS, FleetSilence
from echelon.controllers.cluster.heartbeats import Heartbeats, SteadyClock
from echelon.controllers.cluster.patches import condition_patch, patch_of
from echelon.controllers.cluster.taint_times import TaintTimes
from echelon.controllers.context import ControllerContext
from echelon.engine.cluster_health import (
    AVAILABLE,
    LEASE_NAME,
    UNREACHABLE,
    HealthDecision,
    Silence,
    decide_health,
    health_taints,
    is_taint,
)
from echelon.engine.conditions import condition_stamp, find_condition
from echelon.engine.plan import NOTHING, Action, Emit, Patch, Plan, Reference
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, MANAGED_CLUSTER_SET)
NAME = "cluster-health"
WORKERS = 4

FLEET = Key("", "")  # no cluster has this name: the plan of what is said about all of them
FLEET_SET = "global"  # whose condition and events tell about the fleet
HEARD = "MostClustersHeard"

_LEASE_STOPPED = "ManagedClusterLeaseUpdateStopped"
_GIVEN_UP = "Registration agent stopped updating its lease."
_HELD = f"{_GIVEN_UP} There is no taint: most of the fleet is silent, so the hub or its network is the likelier cause."
_EARLY_SECONDS = 0.001  # by which a timer may ring before its time


class HealthReconciler:
    """Plans the Available condition and the health taints of clusters, and what is said about the fleet."""

    def __init__(
        self,
        clusters: Informer[ManagedCluster],
        sets: Informer[ManagedClusterSet],
        heartbeats: Heartbeats,
        taint_times: TaintTimes,
        fleet: FleetSilence,
    ) -> None:
        self._clusters = clusters
        self._sets = sets
        self._heartbeats = heartbeats
        self._taint_times = taint_times
        self._fleet = fleet

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one cluster, or what is said about the fleet."""
        silence = self._fleet.silence
        if silence is None:  # nothing is said of anybody before the fleet was looked at once
            return Plan(look_again_after=timedelta(seconds=LOOK_SECONDS))
        if key == FLEET:
            return self._plan_fleet(silence, now)
        cluster = self._clusters.get(key)
        if cluster is None or cluster.metadata.deletion_timestamp:
            return NOTHING
        known = find_condition(cluster.status.conditions, AVAILABLE)
        left = self._heartbeats.grace_left(cluster, now, self._fleet.over_since)
        taints = self._taint_times.taints(cluster, now)
        decision = decide_health(
            known.status if known is not None else "",
            lease_stopped=left is not None
            and known is not None
            and (known.status, known.reason) == ("Unknown", _LEASE_STOPPED),
            grace_over=_is_over(left),
            unreachable=any(is_taint(taint, UNREACHABLE) for taint in taints),
            most_silent=silence.of_most,
        )
        actions: list[Action] = []
        if (text := _message(known, decision, most_silent=silence.of_most)) is not None:
            actions.append(_unknown(cluster, text, now))
        wanted = list(taints) if decision.keep_taints else health_taints(taints, decision.available, now)
        if wanted != cluster.spec.taints:
            actions.append(patch_of(cluster, {"spec": {"taints": [_taint_to_wire(each) for each in wanted]}}))
        if decision.keep_taints and silence.of_most:  # at the earliest when most are heard from now on
            left = self._heartbeats.grace(cluster)
        again = None if left is None or _is_over(left) else timedelta(seconds=left)
        return Plan(tuple(actions), look_again_after=again)

    def verify(self) -> Iterator[str | None]:
        """Compare what is remembered with the caches; what differs is taken from them anew, and told."""
        for state in (self._heartbeats, self._taint_times):
            if found := state.differences():
                state.rebuild()
            yield from found
            yield None

    def _plan_fleet(self, silence: Silence, now: datetime) -> Plan:
        """Plan what the set of all clusters says about the silence of most of them: nothing, if that never was."""
        found = self._sets.get(Key("", FLEET_SET))
        if found is None or found.metadata.deletion_timestamp:
            return NOTHING
        known = find_condition(found.status.conditions, HEARD)
        status = "False" if silence.of_most else "True"
        if (known is None and not silence.of_most) or (known is not None and known.status == status):
            return NOTHING
        meta = found.metadata
        heard = _fleet_condition(silence, meta.generation, now)
        regarding = Reference(MANAGED_CLUSTER_SET, meta.name, uid=meta.uid)
        kind, action = ("Warning", "HoldTaints") if silence.of_most else ("Normal", "JudgeClusters")
        return Plan((condition_patch(found, heard), Emit(regarding, heard.reason, action, heard.message, kind)))


def cluster_health_controller(context: ControllerContext) -> Controller:
    """Return a controller of the health of clusters."""
    clusters, sets = context.informer(MANAGED_CLUSTER), context.informer(MANAGED_CLUSTER_SET)
    leases = context.informer(LEASE, fields=f"metadata.name={LEASE_NAME}")
    clock = SteadyClock(context.clock)
    heartbeats, taint_times = Heartbeats(clusters, leases, clock), TaintTimes(clusters)
    fleet = FleetSilence(
        clusters,
        leases,
        heartbeats,
        context.metrics,
        share=context.settings.silent_share,
        changed=lambda: controller.queue.add(FLEET),
    )
    reconciler = HealthReconciler(clusters, sets, heartbeats, taint_times, fleet)
    controller = context.controller(NAME, reconciler, clock=clock, workers=WORKERS, verify=reconciler.verify)

    def cluster_changed(delta: Delta[ManagedCluster]) -> Iterable[Key]:
        heartbeats.cluster_changed(delta, recovered=_is_recovery(delta))
        taint_times.cluster_changed(delta)
        return ()

    def lease_changed(delta: Delta[Lease]) -> Iterable[Key]:
        # A renewal is no reason to plan: there are hundreds a second, and the plan comes when the grace would end.
        heartbeats.lease_changed(delta)
        return ()

    controller.follow(clusters, cluster_changed)
    controller.follow(leases, lease_changed)
    controller.watch(clusters, when=_is_relevant)
    controller.watch(sets, keys=lambda found: (FLEET,) if found.metadata.name == FLEET_SET else ())
    context.background.append(fleet.run)
    return controller


def _is_over(left: float | None) -> bool:
    return left is not None and left < _EARLY_SECONDS


def _is_recovery(delta: Delta[ManagedCluster]) -> bool:
    """Whether a cluster is said to be available again."""
    old, new = delta.old, delta.new
    return old is not None and new is not None and _available(new) == "True" != _available(old)


def _available(cluster: ManagedCluster) -> str:
    """Return the status of the Available condition; empty if nobody has said anything yet."""
    said = find_condition(cluster.status.conditions, AVAILABLE)
    return said.status if said is not None else ""


def _is_relevant(delta: Delta[ManagedCluster]) -> bool:
    """Whether a change of a cluster is about its health."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return old.spec != new.spec or old.status.conditions != new.status.conditions


def _message(known: Condition | None, decision: HealthDecision, *, most_silent: bool) -> str | None:
    """Return what the Available condition of a silent cluster has to say; nothing if that has been said."""
    if decision.available != "Unknown":
        return None
    text = _HELD if decision.keep_taints and most_silent else _GIVEN_UP
    if known is None or known.status != "Unknown":
        return text
    if known.reason != _LEASE_STOPPED or known.message == text or (decision.keep_taints and not most_silent):
        return None  # others said it, or it has been said, or nobody has been given up yet
    return text


def _unknown(cluster: ManagedCluster, message: str, now: datetime) -> Patch:
    stamp = condition_stamp(cluster.metadata.generation, now)
    return condition_patch(cluster, stamp.condition(AVAILABLE, "Unknown", _LEASE_STOPPED, message))


def _fleet_condition(silence: Silence, generation: int, now: datetime) -> Condition:
    """Say whether most of the fleet is silent."""
    counted = f"{silence.silent} of the {silence.heard} clusters that were heard in the last day"
    text = f"{counted} have missed two renewals of their lease; all clusters have their full grace again."
    if silence.of_most:
        text = (
            f"{counted} have missed two renewals of their lease. The hub or its network is the likelier cause: "
            "no cluster is tainted unreachable until fewer are silent."
        )
    reason = "FleetSilent" if silence.of_most else "FleetHeard"
    return condition_stamp(generation, now).condition(HEARD, not silence.of_most, reason, text)


def _taint_to_wire(taint: Taint) -> JSONObject:
    wire: JSONObject = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in wire.items() if value}
