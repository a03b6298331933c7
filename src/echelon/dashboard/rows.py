"""What the page shows of each object, as small JSON values; all of it is text of others, and bounded."""

from typing import Any

from echelon.api.base import JSONObject
from echelon.api.cluster import SET_LABEL, ManagedCluster
from echelon.api.events import Event
from echelon.api.placement import Placement, PlacementDecision
from echelon.api.podgangs import PodGang
from echelon.api.rollout_ledger import RolloutLedger
from echelon.engine.cluster_health import AVAILABLE
from echelon.engine.conditions import find_condition
from echelon.engine.placement.current import PLACEMENT_LABEL
from echelon.engine.placement.slices import read_slice
from echelon.engine.policy.raw_policy import RawPolicy
from echelon.rollouts.glance import NOTE, Glance
from echelon.rollouts.picture import Line, Picture
from echelon.rollouts.policy_reading import whole_status
from echelon.rollouts.policy_state import COMPLIANT, NON_COMPLIANT, PENDING, UNKNOWN, counted

LONGEST = 1000  # characters of a message; of more, nobody reads the rest
_SATISFIED = "PlacementSatisfied"
_REGIONS = ("region", "topology.kubernetes.io/region")
_OK, _ILL, _SILENT, _NEW = "ok", "ill", "silent", "new"
_MOST_GRANTS = 500


def short(text: str) -> str:
    """Return a text that is no longer than anybody reads."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def cluster_row(cluster: ManagedCluster) -> list[Any]:
    """Return a cell of the map: name, health, set, region, environment, version, taints."""
    labels, available = cluster.metadata.labels, find_condition(cluster.status.conditions, AVAILABLE)
    if not cluster.spec.hub_accepts_client or available is None:
        health = _NEW
    else:
        health = {"True": _OK, "False": _ILL}.get(available.status, _SILENT)
    region = next((labels[each] for each in _REGIONS if labels.get(each)), "")
    return [
        cluster.metadata.name,
        health,
        labels.get(SET_LABEL, ""),
        region,
        labels.get("environment", ""),
        short(cluster.status.version.kubernetes),
        short(", ".join(f"{each.key}:{each.effect}" for each in cluster.spec.taints)),
    ]


def placement_row(placement: Placement) -> JSONObject:
    """Return a placement: what it selected, in which groups, and what is wrong with it."""
    meta, status = placement.metadata, placement.status
    told = find_condition(status.conditions, _SATISFIED)
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "selected": status.number_of_selected_clusters,
        "groups": [
            [each.decision_group_index, each.decision_group_name, each.cluster_count] for each in status.decision_groups
        ],
        "satisfied": told.status if told is not None else "",
        "reason": told.reason if told is not None else "",
        "message": short(told.message) if told is not None else "",
        "sets": list(placement.spec.cluster_sets),
        "made": meta.creation_timestamp or "",
    }


def decision_row(decision: PlacementDecision) -> JSONObject:
    """Return a part of a group: of which placement, which group, and its clusters."""
    found = read_slice(decision)
    return {
        "placement": f"{decision.metadata.namespace}/{decision.metadata.labels.get(PLACEMENT_LABEL, '')}",
        "group": [found.group_index, found.group_name],
        "clusters": list(found.clusters),
    }


def policy_row(policy: RawPolicy) -> JSONObject:
    """Return a policy: what it does, and how many clusters comply."""
    meta, status = policy.metadata, whole_status(policy)
    counts = counted(status)
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "action": "disabled" if policy.spec.get("disabled") else str(policy.spec.get("remediationAction") or ""),
        "compliant": status.compliant,
        "rollout": status.rollout_status,
        "counts": {each: counts.get(each, 0) for each in (COMPLIANT, NON_COMPLIANT, PENDING, UNKNOWN)},
        "clusters": [[each.clustername, each.compliant or UNKNOWN] for each in status.status],
    }


def ledger_row(ledger: RolloutLedger) -> JSONObject:
    """Return a federated workload: its budgets, what is left of them, and what each cluster was granted."""
    meta, status = ledger.metadata, ledger.status
    budget, left = status.budget, status.left
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "total": budget.total if budget is not None else 0,
        "available": status.available,
        "updated": status.updated,
        "complete": status.complete,
        "stalled": status.stalled_since,
        "partition": budget.partition if budget is not None else 0,
        # Whoever lost pods has spent more than there was.
        "unavailable": [budget.unavailable - left.unavailable, budget.unavailable] if budget and left else None,
        "surge": [budget.surge - left.surge, budget.surge] if budget and left else None,
        "clusters": [
            [each.name, each.updated, each.available, each.replicas, each.pods, each.wait, short(each.message)]
            for each in status.clusters[:_MOST_GRANTS]
        ],
    }


def gang_row(gang: PodGang) -> JSONObject:
    """Return a gang: how far it is, and the groups of pods that have to start together."""
    meta = gang.metadata
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "phase": gang.status.phase,
        "owner": next((each.name for each in meta.owner_references), ""),
        "groups": [[each.name, len(each.pod_references), each.min_replicas] for each in gang.spec.pod_groups[:100]],
    }


def event_row(event: Event) -> JSONObject:
    """Return an event: when, about what, and what was said."""
    about = event.regarding
    at = event.series.last_observed_time if event.series is not None else ""
    return {
        "at": at or event.event_time or event.deprecated_last_timestamp or event.metadata.creation_timestamp or "",
        "count": max(event.series.count if event.series is not None else event.deprecated_count, 1),
        "type": event.type,
        "reason": short(event.reason),
        "kind": about.kind,
        "namespace": about.namespace or event.metadata.namespace,
        "name": about.name,
        "note": short(event.note),
        "by": short(event.reporting_controller or event.deprecated_source.component),
    }


def rollout_row(picture: Picture, made: str) -> JSONObject:
    """Return a rollout: how far it is, wave by wave, and what it waits for."""
    return {
        "kind": picture.kind,
        "namespace": picture.namespace,
        "name": picture.name,
        "state": picture.state,
        "over": picture.over,
        "message": short(picture.message),
        "note": picture.note,
        "counts": dict(picture.counts),
        "total": picture.total,
        "noun": picture.noun,
        "number": picture.number,
        "revision": picture.revision,
        "budget": picture.budget,
        "made": made,
        "groups": [
            {
                "placement": each.placement,
                "title": each.title,
                "counts": dict(each.counts),
                "total": each.total,
                "active": each.active,
                "message": short(each.message),
            }
            for each in picture.groups
        ],
    }


def glance_row(kind: str, namespace: str, name: str, told: Glance, made: str) -> JSONObject:
    """Return a rollout as its status tells of it, while its clusters are being read."""
    picture = Picture(namespace, name, "", 0, "", told.state, told.message, told.counts, (), kind, NOTE)
    return rollout_row(picture, made)


def unread_row(kind: str, namespace: str, name: str, why: str, made: str) -> JSONObject:
    """Return a rollout that cannot be read, and why."""
    picture = Picture(namespace, name, "", 0, "", "cannot be read", why, {}, (), kind)
    return {**rollout_row(picture, made), "over": True}


def part_row(line: Line) -> JSONObject:
    """Return a part of a rollout within one cluster, with its parts."""
    return {
        "title": line.title,
        "state": line.state,
        "text": line.text,
        "message": short(line.message),
        "parts": [part_row(each) for each in line.parts],
    }
