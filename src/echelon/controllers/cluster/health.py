"""Cluster health: notices that a cluster's agent has fallen silent, and keeps placements away from such clusters.

Nothing is polled: each cluster is looked at when its grace would end. After a restart of the controller every cluster
gets the full grace once more, because nothing that is known about the time is our own.

While most of the fleet is silent, the hub or its network is the likelier cause, and nobody is tainted unreachable: the
clusters that are silent are Unknown, and the set of all clusters says why. When that is over, all get their full grace
once more. A cluster of which nothing was ever heard is kept away from nevertheless; no placement has it.
"""

from collections.abc import Iterable
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
from echelon.api.coordination import LEASE
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.api.times import format_time
from echelon.controllers.cluster.contacts import LOOK_SECONDS, Contacts
from echelon.controllers.context import ControllerContext
from echelon.engine.cluster_health import AVAILABLE, LEASE_NAME, UNAVAILABLE, UNREACHABLE, Silence, Verdict, judged
from echelon.engine.conditions import conditions_to_wire, find_condition, set_condition
from echelon.engine.placement.taint_times import with_times
from echelon.engine.plan import NOTHING, Action, Emit, Patch, Plan, Reference
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, MANAGED_CLUSTER_SET)
WORKERS = 4

FLEET = Key("", "")  # no cluster has this name: the plan of what is said about all of them
FLEET_SET = "global"  # whose condition and events tell about the fleet
HEARD = "MostClustersHeard"

_STOPPED = "ManagedClusterLeaseUpdateStopped"
_GIVEN_UP = "Registration agent stopped updating its lease."
_HELD = f"{_GIVEN_UP} There is no taint: most of the fleet is silent, so the hub or its network is the likelier cause."
_EARLY_SECONDS = 0.001  # by which a timer may ring before its time
_LOOK_SECONDS = 60.0  # after which the fleet is looked at although nobody is missing
_HELD_LOOK_SECONDS = 5.0  # the same while taints are held


class HealthReconciler:
    """Plans the Available condition and the health taints of clusters, and what is said about the fleet."""

    def __init__(
        self, clusters: Informer[ManagedCluster], sets: Informer[ManagedClusterSet], contacts: Contacts
    ) -> None:
        self._clusters = clusters
        self._sets = sets
        self._contacts = contacts
        self._taints: dict[str, tuple[Taint, ...]] = {}  # with the times that they had last

    def cluster_changed(self, delta: Delta[ManagedCluster]) -> None:
        """Follow a cluster."""
        name, old, new = delta.object.metadata.name, delta.old, delta.new
        back = old is not None and new is not None and _available(new) == "True" != _available(old)
        self._contacts.cluster_changed(delta, recovered=back)
        if new is None:
            self._taints.pop(name, None)
        else:
            self._taints[name] = with_times(new.spec.taints, self._taints.get(name, ()), None)

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one cluster, or what is said about the fleet."""
        if key == FLEET:
            return self._plan_fleet(now)
        cluster = self._clusters.get(key)
        if cluster is None or cluster.metadata.deletion_timestamp:
            return NOTHING
        said, left, most = (
            find_condition(cluster.status.conditions, AVAILABLE),
            self._contacts.grace_left(cluster),
            False,
        )
        if _is_over(left) or (said is not None and said.status == "Unknown"):
            most = self._contacts.look().most
            left = self._contacts.grace_left(cluster)  # which began anew if most have been heard again
        taints = with_times(cluster.spec.taints, self._taints.get(key.name, ()), now)
        verdict = judged(
            said.status if said is not None else "",
            lease_stopped=left is not None and said is not None and (said.status, said.reason) == ("Unknown", _STOPPED),
            over=_is_over(left),
            unreachable=any(_is(taint, UNREACHABLE) for taint in taints),
            most=most,
        )
        actions: list[Action] = []
        if (text := _to_say(said, verdict, most=most)) is not None:
            actions.append(_say(cluster, text, now))
        wanted = list(taints) if verdict.held else _tainted(taints, verdict.available, now)
        if wanted != cluster.spec.taints:
            actions.append(_patch(cluster, {"spec": {"taints": [_taint(each) for each in wanted]}}))
        if verdict.held and most:  # at the earliest when most are heard from now on
            left = self._contacts.grace(cluster)
        again = None if left is None or _is_over(left) else timedelta(seconds=left)
        return Plan(tuple(actions), look_again_after=again)

    def _plan_fleet(self, now: datetime) -> Plan:
        """Plan what the set of all clusters says about the silence of most of them: nothing, if that never was."""
        silence = self._contacts.look()
        soon = _HELD_LOOK_SECONDS if silence.most else min(self._contacts.begins_in, _LOOK_SECONDS)
        look_again = timedelta(seconds=max(soon, LOOK_SECONDS))
        found = self._sets.get(Key("", FLEET_SET))
        if found is None or found.metadata.deletion_timestamp:
            return Plan(look_again_after=look_again)
        known = find_condition(found.status.conditions, HEARD)
        status = "False" if silence.most else "True"
        if (known is None and not silence.most) or (known is not None and known.status == status):
            return Plan(look_again_after=look_again)
        meta = found.metadata
        said = _about_fleet(silence, meta.generation, now)
        body: JSONObject = {"status": {"conditions": conditions_to_wire(set_condition(found.status.conditions, said))}}
        patch = Patch(
            MANAGED_CLUSTER_SET,
            meta.name,
            body,
            uid=meta.uid,
            resource_version=meta.resource_version,
            subresource="status",
        )
        regarding = Reference(MANAGED_CLUSTER_SET, meta.name, uid=meta.uid)
        kind, action = ("Warning", "HoldTaints") if silence.most else ("Normal", "JudgeClusters")
        return Plan((patch, Emit(regarding, said.reason, action, said.message, kind)), look_again_after=look_again)


def cluster_health_controller(context: ControllerContext) -> Controller:
    """Return a controller of the health of clusters."""
    clusters, sets = context.informer(MANAGED_CLUSTER), context.informer(MANAGED_CLUSTER_SET)
    leases = context.informer(LEASE, fields=f"metadata.name={LEASE_NAME}")
    contacts = Contacts(clusters, leases, context.clock, context.metrics, context.settings.silent_share)
    reconciler = HealthReconciler(clusters, sets, contacts)
    controller = context.controller("cluster-health", reconciler, workers=WORKERS)
    clusters.on_change(reconciler.cluster_changed)
    leases.on_change(contacts.lease_changed)
    controller.watch(clusters, when=_matters)
    controller.watch(sets, keys=lambda _: ())
    # A renewal is no reason to plan: there are hundreds a second, and the plan comes when the grace would have ended.
    controller.watch(leases, keys=lambda _: ())
    controller.queue.add(FLEET)
    return controller


def _is_over(left: float | None) -> bool:
    return left is not None and left < _EARLY_SECONDS


def _available(cluster: ManagedCluster) -> str:
    """Return the status of the Available condition; empty if nobody has said anything yet."""
    said = find_condition(cluster.status.conditions, AVAILABLE)
    return said.status if said is not None else ""


def _matters(delta: Delta[ManagedCluster]) -> bool:
    """Whether a change of a cluster is about its health."""
    old, new = delta.old, delta.new
    if old is None or new is None:
        return True
    return old.spec != new.spec or old.status.conditions != new.status.conditions


def _to_say(said: Condition | None, verdict: Verdict, *, most: bool) -> str | None:
    """Return what the Available condition of a silent cluster has to say; nothing if that has been said."""
    if verdict.available != "Unknown":
        return None
    text = _HELD if verdict.held and most else _GIVEN_UP
    if said is None or said.status != "Unknown":
        return text
    if said.reason != _STOPPED or said.message == text or (verdict.held and not most):
        return None  # others said it, or it has been said, or nobody has been given up yet
    return text


def _say(cluster: ManagedCluster, text: str, now: datetime) -> Patch:
    said = Condition(
        type=AVAILABLE,
        status="Unknown",
        observed_generation=cluster.metadata.generation,
        last_transition_time=format_time(now),
        reason=_STOPPED,
        message=text,
    )
    conditions = conditions_to_wire(set_condition(cluster.status.conditions, said))
    return _patch(cluster, {"status": {"conditions": conditions}}, subresource="status")


def _about_fleet(silence: Silence, generation: int, now: datetime) -> Condition:
    """Say whether most of the fleet is silent."""
    counted = f"{silence.silent} of the {silence.heard} clusters that were heard in the last day"
    text = f"{counted} have missed two renewals of their lease; all clusters have their full grace again."
    if silence.most:
        text = (
            f"{counted} have missed two renewals of their lease. The hub or its network is the likelier cause: "
            "no cluster is tainted unreachable until fewer are silent."
        )
    return Condition(
        type=HEARD,
        status="False" if silence.most else "True",
        observed_generation=generation,
        last_transition_time=format_time(now),
        reason="FleetSilent" if silence.most else "FleetHeard",
        message=text,
    )


def _tainted(before: Iterable[Taint], available: str, now: datetime) -> list[Taint]:
    """Return taints with the one that stands for the state, and without the one that doesn't."""
    wanted = {"True": None, "False": UNAVAILABLE}.get(available, UNREACHABLE)
    others = (UNREACHABLE, UNAVAILABLE)
    kept = [taint for taint in before if taint.key not in others or _is(taint, wanted)]
    if wanted is not None and not any(_is(taint, wanted) for taint in kept):
        kept.append(Taint(key=wanted, effect="NoSelect", time_added=format_time(now)))
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
