"""One rollout to the last cluster, one cluster, one placement: what a page asks for when somebody opens it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.placement import PLACEMENT
from echelon.dashboard.drawings import Drawing
from echelon.dashboard.rows import part_row, short
from echelon.dashboard.waves import Waves, object_rows
from echelon.kube.client import Reader
from echelon.rollouts.kinds import RolloutKind
from echelon.rollouts.placements import explain_placement, explanation_document
from echelon.rollouts.reading import Found
from echelon.rollouts.steering import VERBS

_MOST_EXPLAINED = 300


def rollout_details(drawing: Drawing, waves: Waves, after: str, events: Iterable[JSON]) -> JSONObject:
    """Return a rollout with its revisions, what was said of it, and the clusters that changed after a version."""
    found, picture = drawing.found, drawing.picture
    assert found is not None and picture is not None  # noqa: PT018, S101 - it was drawn
    return {
        **drawing.row(),
        "clusters": waves.told(after),
        "parts": [part_row(each) for each in picture.parts],
        "revisions": _revisions(drawing.entry, found),
        "timeline": _timeline(found, events),
        "refused": {verb: found.refused.get(verb, "") for verb in VERBS},
    }


def cluster_in_rollout(drawing: Drawing, cluster: str) -> JSON:
    """Return how a cluster stands in a rollout, with its objects; None if it is not in it."""
    for group in drawing.picture.groups if drawing.picture is not None else ():
        for line in group.clusters:
            if line.name == cluster:
                return {
                    "group": group.title,
                    "placement": group.placement,
                    "state": line.state,
                    "since": line.since,
                    "until": line.until,
                    "message": short(line.said),
                    "objects": object_rows(line),
                }
    return None


async def cluster_details(reader: Reader, name: str) -> JSONObject:
    """Return what a cluster says of itself, and what the hub says of it."""
    cluster = await reader.get(MANAGED_CLUSTER, name)
    told = cluster.status
    return {
        "name": name,
        "labels": dict(cluster.metadata.labels),
        "accepted": cluster.spec.hub_accepts_client,
        "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in cluster.spec.taints],
        "version": told.version.kubernetes,
        "capacity": {key: str(value) for key, value in told.capacity.items()},
        "conditions": [
            {"type": each.type, "status": each.status, "message": short(each.message), "at": each.last_transition_time}
            for each in told.conditions
        ],
    }


async def explained(reader: Reader, namespace: str, name: str, cluster: str) -> JSONObject:
    """Return why a placement selects the clusters that it selects, and no others."""
    placement = await reader.get(PLACEMENT, name, namespace)
    found = await explain_placement(reader, placement, (cluster,) if cluster else ())
    reasons: dict[str, int] = {}
    for each in found:
        reasons[each.reason] = reasons.get(each.reason, 0) + 1
    ordered = sorted(found, key=lambda each: (not each.selected, each.rank is None, each.rank or 0, each.cluster))
    return {
        "reasons": reasons,
        "total": len(found),
        "clusters": [_explanation(explanation_document(each)) for each in ordered[:_MOST_EXPLAINED]],
    }


def _explanation(document: JSONObject) -> JSONObject:
    return {**document, "message": short(document["message"])}


def _revisions(entry: RolloutKind, found: Found) -> list[JSON]:
    present = found.subject.revision
    return [
        {
            "number": each.number,
            "revision": each.revision,
            "present": each.revision == present,
            "completed": each.completed or "",
            "usable": each.content is not None,
            "told": entry.describe(each),
        }
        for each in found.subject.revisions
    ]


def _timeline(found: Found, events: Iterable[JSON]) -> list[JSON]:
    """Return what happened, the newest first: what controllers said, and when revisions were complete."""
    meta = found.subject.metadata
    about = {(found.kind.kind, found.name), (found.subject.kind.kind, meta.name)}
    own: list[Any] = [
        each
        for each in events
        if isinstance(each, dict) and each["namespace"] == meta.namespace and (each["kind"], each["name"]) in about
    ]
    told = [{"at": each["at"], "what": each["reason"], "note": each["note"], "type": each["type"]} for each in own]
    told += [
        {"at": str(each.completed), "what": "Complete", "note": f"revision {each.number}", "type": "Normal"}
        for each in found.subject.revisions
        if each.completed
    ]
    if meta.creation_timestamp:
        told.append({"at": meta.creation_timestamp, "what": "Created", "note": "", "type": "Normal"})
    return sorted(told, key=lambda each: str(each["at"]), reverse=True)[:200]


def encoded(value: JSON) -> bytes:
    """Return a value as JSON."""
    return msgspec.json.encode(value)
