"""Events have two faces: the core group's, which kubectl lists, and events.k8s.io's, which controllers write.

Kubernetes keeps one object for both. So do we: stored as the core group has it, renamed on the way in and out.
"""

from echelon.api.base import JSONObject

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {core: new for new, core in _RENAMED.items()}


def to_core(event: JSONObject) -> JSONObject:
    """Return an events.k8s.io event as the core group shows it."""
    return {_RENAMED.get(key, key): value for key, value in event.items()} | {"apiVersion": "v1"}


def from_core(event: JSONObject) -> JSONObject:
    """Return a core event as events.k8s.io shows it."""
    return {_BACK.get(key, key): value for key, value in event.items()} | {"apiVersion": "events.k8s.io/v1"}
