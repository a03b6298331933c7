"""A plan for programs: the document that `echelon plan -o json` prints, as docs/planning.md describes it."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from echelon.api.base import JSONObject
from echelon.cli.change_admission import Changed
from echelon.cli.plan_making import ChangePlan
from echelon.cli.plan_rollouts import ContentChange, RolloutPlan
from echelon.cli.plan_views import as_yaml
from echelon.engine.forecast.difference import difference
from echelon.engine.forecast.membership import MembershipChange
from echelon.engine.forecast.model import Forecast, Pods, Wave
from echelon.engine.forecast.placements import PlacementForecast
from echelon.engine.placement.decisions import GroupKey


def document_of(plan: ChangePlan) -> JSONObject:
    """Return a plan for programs."""
    return {
        "apiVersion": "echelon.dev/v1alpha1",
        "kind": "ChangePlan",
        "changes": plan.differs,
        "refused": len(plan.refused),
        "notes": list(plan.notes),
        "objects": [_object(each) for each in plan.changed]
        + [{**_names(each.body), "file": each.file, "change": "unknown"} for each in plan.unknown],
        "placements": [_placement(each) for each in plan.placements if each.membership],
        "rollouts": [_rollout(each) for each in plan.rollouts],
    }


def _names(body: JSONObject) -> JSONObject:
    meta = body["metadata"]
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "namespace": meta.get("namespace") or "",
        "name": meta["name"],
    }


def _object(each: Changed) -> JSONObject:
    change = "refused" if each.refusal is not None else "none"
    if each.refusal is None and each.differs:
        change = "create" if each.is_new else "update"
    refusal = {} if each.refusal is None else {"refusal": {"code": each.refusal.code, "message": str(each.refusal)}}
    return {**_names(each.document.body), "file": each.document.file, "change": change, **refusal}


def _placement(each: PlacementForecast) -> JSONObject:
    meta = each.placement.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "clusters": len(each.after.clusters),
        **membership(each.membership),
    }


def membership(change: MembershipChange) -> JSONObject:
    """Return who comes, goes and moves."""
    return {
        "coming": [{"cluster": name, "group": _group(key)} for name, key in change.coming.items()],
        "going": [{"cluster": name, "group": _group(key)} for name, key in change.going.items()],
        "moving": [
            {"cluster": each.cluster, "from": _group(each.before), "to": _group(each.after)} for each in change.moving
        ],
    }


def _rollout(plan: RolloutPlan) -> JSONObject:
    return {
        "kind": plan.kind.kind,
        "namespace": plan.namespace,
        "name": plan.name,
        "changes": plan.differs,
        "revisionBefore": plan.before.revision if plan.before is not None else None,
        "note": plan.note,
        **membership(plan.membership),
        **forecast(plan.forecast),
        "atMostSeconds": _seconds(plan.longest),
        "obstacles": [
            {"kind": each.kind.value, "stopsNow": each.stops_now, "message": each.message} for each in plan.obstacles
        ],
        "contents": [_content(each) for each in plan.contents],
    }


def forecast(foreseen: Forecast) -> JSONObject:
    """Return a forecast for programs."""
    return {
        "revision": foreseen.revision,
        "inspected": list(foreseen.inspected),
        "waves": [_wave(each) for each in foreseen.waves],
        "ending": foreseen.ending.value,
        "message": foreseen.message,
        "atLeastSeconds": _seconds(foreseen.ends),
        "removed": list(foreseen.removed),
        "removalsHeld": list(foreseen.held),
        "waiting": list(foreseen.waiting),
        "failed": list(foreseen.failed),
        "pods": None if foreseen.pods is None else _pods(foreseen.pods),
        "outdatedPods": list(foreseen.outdated),
    }


def _pods(pods: Pods) -> JSONObject:
    budgets = pods.budgets
    return {
        "total": budgets.total,
        "leastAvailable": budgets.least_available,
        "most": budgets.most_pods,
        "keptOld": budgets.partition,
        "lowestAvailable": pods.lowest,
        "highest": pods.highest,
        "clusters": [
            {
                "cluster": each.cluster,
                "podsBefore": each.before,
                "pods": each.pods,
                "updated": each.updated,
                "available": each.available,
                "wait": each.wait,
                "message": each.message,
            }
            for each in pods.clusters
        ],
    }


def _wave(wave: Wave) -> JSONObject:
    return {
        "afterSeconds": _seconds(wave.after),
        "approvals": list(wave.approvals),
        "clusters": [
            {"cluster": each.cluster, "placement": each.placement, "group": _group(each.group)} for each in wave.starts
        ],
        "removals": list(wave.removals),
        "replicas": list(wave.replicas),
        "podsGone": list(wave.gone),
        "podsMade": wave.made,
    }


def _content(each: ContentChange) -> JSONObject:
    lines: Iterable[str] = difference(each.before, each.after, as_yaml) if each.known else ()
    return {"clusters": list(each.clusters), "revision": each.revision, "known": each.known, "difference": list(lines)}


def _group(key: GroupKey) -> JSONObject:
    found: dict[str, Any] = {"index": key.index, "name": key.name}
    return {**found, "placement": key.placement} if key.placement else found


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()
