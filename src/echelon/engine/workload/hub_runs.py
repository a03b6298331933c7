"""Whether something on the hub runs a template, so that its pods would run there as well as on the clusters.

A template is a workload that nobody on the hub looks at. Where a controller does look, it says so in the status, under
its own name; and what it makes of the template has the template as its owner. What Echelon and Karmada write into that
status is what clusters report, and is no sign of anything.
"""

from collections.abc import Iterable

from echelon.api.base import JSONObject
from echelon.engine.work.health_state import items, number, part, text

REASON = "HubRunsTemplate"
_ECHELON, _KARMADA = "echelon", "karmada-"  # how those are called, or begin, who sum up what clusters report
_OBSERVED = "observedGeneration"
# What Echelon does not sum up: where these are, a controller has written them.
_OF_CONTROLLERS = ("conditions", "collisionCount", "currentRevision", "updateRevision", "labelSelector")
_SUMMED_UP = ("Job",)  # but for kinds that end, whose conditions are summed up


def hub_runs(template: JSONObject, *, propagated: bool = False, owned: Iterable[JSONObject] = ()) -> str:
    """Return what shows that the hub itself runs a template, as a sentence; empty if nothing does.

    `propagated`: it has been sent to clusters, so that its status may be of them. `owned` is what is known to exist
    beside it on the hub: ReplicaSets, pods.
    """
    metadata, status = part(template, "metadata"), part(template, "status")
    uid = text(metadata, "uid")
    for each in owned:
        references = items(part(each, "metadata"), "ownerReferences")
        if uid and any(owner.get("uid") == uid and owner.get("controller") for owner in references):
            kind, name = text(each, "kind") or "an object", text(part(each, "metadata"), "name")
            return f"{kind} {name} on the hub is owned by it"
    own = _OF_CONTROLLERS if text(template, "kind") not in _SUMMED_UP else ()
    writers = _writers(metadata, (_OBSERVED, *own))
    others = sorted(name for name, fields in writers.items() if not _sums_up(name, fields))
    if others:
        return f"its status is written by {', '.join(others)} on the hub"
    if writers:
        return ""
    # Who wrote it is not told.
    is_new = not propagated and number(status, _OBSERVED)
    return "its status is that of a controller on the hub" if is_new or any(status.get(name) for name in own) else ""


def _sums_up(manager: str, fields: frozenset[str]) -> bool:
    """Whether somebody who wrote some fields of a status wrote what clusters report."""
    return manager.startswith(_KARMADA) or (manager.startswith(_ECHELON) and fields == {_OBSERVED})


def _writers(metadata: JSONObject, fields: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return who wrote which of some fields of the status."""
    wanted = frozenset(fields)
    found: dict[str, frozenset[str]] = {}
    for entry in items(metadata, "managedFields"):
        written = wanted & {name.removeprefix("f:") for name in part(entry, "fieldsV1", "f:status")}
        if written:
            manager = text(entry, "manager")
            found[manager] = found.get(manager, frozenset()) | written
    return found
