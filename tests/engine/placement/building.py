"""Fleets and placements in few words, for tests."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from echelon.api.cluster import AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from echelon.api.keys import Key
from echelon.api.placement import Placement
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.balance import DecisionCounter
from echelon.engine.placement.fleet import FleetIndex
from echelon.engine.placement.placement_scheduler import PlacementScheduler
from echelon.engine.placement.schedule import Schedule
from echelon.engine.placement.sets import EVERYTHING, Eligibility

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SET_LABEL = "cluster.open-cluster-management.io/clusterset"


def wire_time(seconds: float) -> str:
    """A time so many seconds after (or, negative, before) now."""
    return (NOW + timedelta(seconds=seconds)).isoformat()


def taint(key: str, effect: str = "NoSelect", value: str = "", added: float | None = None) -> dict[str, Any]:
    return {"key": key, "effect": effect, "value": value, "timeAdded": None if added is None else wire_time(added)}


def cluster(
    name: str,
    labels: dict[str, str] | None = None,
    *,
    claims: dict[str, str] | None = None,
    taints: Iterable[dict[str, Any]] = (),
    cpu: object = None,
    memory: object = None,
    deleting: bool = False,
    **status: Any,
) -> ManagedCluster:
    amounts = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    meta = {"name": name, "labels": labels or {}}
    if deleting:
        meta["deletionTimestamp"] = wire_time(0)
    shown = {
        "allocatable": amounts,
        "capacity": amounts,
        "clusterClaims": [{"name": key, "value": value} for key, value in (claims or {}).items()],
        **status,
    }
    return msgspec.convert({"metadata": meta, "spec": {"taints": list(taints)}, "status": shown}, ManagedCluster)


def fleet_of(*clusters: ManagedCluster) -> FleetIndex:
    fleet = FleetIndex()
    for each in clusters:
        fleet.update(each)
    return fleet


def placement(name: str = "p", namespace: str = "ns", generation: int = 1, **spec: Any) -> Placement:
    meta = {"name": name, "namespace": namespace, "generation": generation, "uid": "u"}
    return msgspec.convert({"metadata": meta, "spec": spec}, Placement)


def selecting(labels: dict[str, Any] | None = None, claims: Any = None, cel: Any = None) -> dict[str, Any]:
    """A predicate."""
    parts = {
        "labelSelector": labels or {},
        "claimSelector": {"matchExpressions": claims or []},
        "celSelector": {"celExpressions": cel or []},
    }
    return {"requiredClusterSelector": parts}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def builtin(name: str, weight: int = 1) -> dict[str, Any]:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def addon(resource: str, score: str, weight: int = 1) -> dict[str, Any]:
    where = {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}}
    return {"scoreCoordinate": where, "weight": weight}


def exactly(*configurations: dict[str, Any]) -> dict[str, Any]:
    return {"mode": "Exact", "configurations": list(configurations)}


def score(cluster_name: str, resource: str, valid_until: float | None = None, **values: int) -> AddOnPlacementScore:
    status: dict[str, Any] = {"scores": [{"name": name, "value": value} for name, value in values.items()]}
    if valid_until is not None:
        status["validUntil"] = wire_time(valid_until)
    return msgspec.convert(
        {"metadata": {"name": resource, "namespace": cluster_name}, "status": status}, AddOnPlacementScore
    )


def cluster_set(name: str, selector: dict[str, Any] | None = None, kind: str = "") -> ManagedClusterSet:
    chosen: dict[str, Any] = {
        "selectorType": kind or ("LabelSelector" if selector is not None else "ExclusiveClusterSetLabel")
    }
    if selector is not None:
        chosen["labelSelector"] = selector
    return msgspec.convert({"metadata": {"name": name}, "spec": {"clusterSelector": chosen}}, ManagedClusterSet)


def binding(name: str, namespace: str = "ns") -> ManagedClusterSetBinding:
    meta = {"name": name, "namespace": namespace}
    return msgspec.convert({"metadata": meta, "spec": {"clusterSet": name}}, ManagedClusterSetBinding)


def schedule(
    wanted: Placement,
    fleet: FleetIndex,
    decisions: DecisionCounter,
    addons: ScoreIndex,
    now: datetime = NOW,
    *,
    eligibility: Eligibility = EVERYTHING,
) -> Schedule:
    """Choose clusters for a placement, from scratch."""
    scheduler = PlacementScheduler(wanted, fleet, decisions, addons)
    scheduler.choose_from(eligibility)
    return scheduler.schedule(now)


def scheduled(
    wanted: Placement,
    fleet: FleetIndex,
    decided: dict[str, Iterable[str]] | None = None,
    scores: Iterable[AddOnPlacementScore] = (),
    now: datetime = NOW,
) -> Schedule:
    """Schedule from all clusters; `decided` maps placements of the namespace ns to what they have."""
    decisions, addons = DecisionCounter(fleet.names), ScoreIndex()
    for name, clusters in (decided or {}).items():
        decisions.replace(Key("ns", name), clusters)
    for each in scores:
        addons.update(each)
    return schedule(wanted, fleet, decisions, addons, now)
