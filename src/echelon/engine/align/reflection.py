"""What an agent tells of an object in the status of its work, and how the hub reads it.

Beside the fields that Karmada's interpreters keep of each kind there is the snapshot, for kinds that are aligned. Spec,
metadata and status in it are of one version of the object; what was found below it was read later, and says so by its
version. The hub reads what a cluster wrote, so what does not fit is no snapshot at all.
"""

from typing import Annotated

import msgspec
from msgspec.structs import replace

from echelon.api.base import JSONObject
from echelon.engine.align.grant import Grant
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.align.rolling_status import NoPushId, view_of
from echelon.engine.align.under_way import UnderWay
from echelon.engine.align.view import MemberView
from echelon.engine.work.health_state import number, part, text

SNAPSHOT = "snapshot"
REFUSED_PUSH_ID = "refusedPushId"
TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"

_MOST_PODS = 1 << 31
_MOST = 1 << 53  # what every reader of JSON takes for a whole number
_LONGEST_TEXT = 253

_PODS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
# Of each kind what can be added up over clusters, and what else is reported of its status.
COUNTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): (*_PODS, "unavailableReplicas"),
    ("apps", "StatefulSet"): (*_PODS, "currentReplicas"),
    ("apps", "DaemonSet"): (
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberAvailable",
        "numberMisscheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberUnavailable",
    ),
    ("batch", "Job"): ("active", "succeeded", "failed"),
    ("apps.kruise.io", "CloneSet"): (*_PODS, "updatedReadyReplicas", "updatedAvailableReplicas"),
}
_BESIDE: dict[tuple[str, str], tuple[str, ...]] = {
    ("apps", "Deployment"): ("observedGeneration",),
    ("apps", "StatefulSet"): ("observedGeneration",),
    ("apps", "DaemonSet"): ("observedGeneration",),
    ("batch", "Job"): ("conditions", "startTime", "completionTime"),
    ("apps.kruise.io", "CloneSet"): (
        "expectedUpdatedReplicas",
        "updateRevision",
        "currentRevision",
        "observedGeneration",
        "labelSelector",
    ),
}
_KEPT = {kind: (*counts, *_BESIDE[kind]) for kind, counts in COUNTS.items()}
_WITHOUT_GENERATION = frozenset({("batch", "Job")})


def reflect(
    obj: JSONObject,
    interpreter: Interpreter | None = None,
    under_way: UnderWay | None = None,
    *,
    drift: Grant | None = None,
) -> JSONObject:
    """Return the status that an agent reports of an object.

    Of a kind without an interpreter that is the object's own status. `under_way` is what was read after the object;
    `drift` is what its spec permits, where that is not what was pushed.
    """
    group, kind = text(obj, "apiVersion").rpartition("/")[0], text(obj, "kind")
    status, meta = part(obj, "status"), part(obj, "metadata")
    kept = _KEPT.get((group, kind))
    reflected = dict(status) if kept is None else {name: status[name] for name in kept if name in status}
    if kept is not None and (group, kind) not in _WITHOUT_GENERATION:
        reflected["generation"] = number(meta, "generation")
        rendered_from = text(part(meta, "annotations"), TEMPLATE_GENERATION)
        if rendered_from.isascii() and rendered_from.isdecimal():
            reflected["resourceTemplateGeneration"] = int(rendered_from)
    if interpreter is None:
        return reflected
    reflected["specReplicas"] = number(part(obj, "spec"), "replicas", 1)
    reflected["templateHash"] = interpreter.template_hash(obj)
    snapshot = snapshot_of(obj, interpreter, under_way, drift=drift)
    if snapshot is not None:
        reflected["rolloutPushId"] = snapshot.push_id
        reflected[SNAPSHOT] = msgspec.to_builtins(snapshot)
    return reflected


def snapshot_of(
    obj: JSONObject, interpreter: Interpreter, under_way: UnderWay | None = None, *, drift: Grant | None = None
) -> MemberView | None:
    """Return the snapshot of an object; None for one that carries no push."""
    try:
        view = view_of(obj, interpreter.interpret_rolling_status(part(obj, "status")))
    except NoPushId:
        return None
    if under_way is not None:
        view = replace(
            view,
            version=max(view.version, under_way.version),
            pods=under_way.pods,
            available=under_way.available,
            updated=under_way.updated,
            missing=0,
            told=under_way.told,
            resized=under_way.resized,
            settled=under_way.settled,
        )
    # A status that contradicts itself is believed where it promises less.
    available, updated = min(view.available, view.pods), min(view.updated, view.pods - view.missing)
    return replace(view, available=available, updated=updated, drift=drift)


_Count = Annotated[int, msgspec.Meta(ge=0, lt=_MOST_PODS)]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=_MOST)]
_Text = Annotated[str, msgspec.Meta(max_length=_LONGEST_TEXT)]


class _ReadGrant(msgspec.Struct, frozen=True, rename="camel"):
    """A `Grant`, as a stranger may have written it."""

    id: _Number
    revision: _Text
    replicas: _Count
    unavailable: _Count = 0
    surge: _Count = 0
    partition: _Count = 0
    paused: bool = False


class _ReadView(msgspec.Struct, frozen=True, rename="camel"):
    """A `MemberView`, as a stranger may have written it."""

    uid: _Text
    version: _Number
    push_id: _Number
    generation: _Number
    observed_generation: _Number
    replicas: _Count
    pods: _Count
    available: _Count
    updated: _Count
    missing: _Count = 0
    told: _Count | None = None
    resized: tuple[_Count, _Count] | None = None
    settled: bool | None = None
    drift: _ReadGrant | None = None


def read_snapshot(status: JSONObject) -> MemberView | None:
    """Return the snapshot in a reported status; None if there is none that makes sense."""
    try:
        found = msgspec.convert(status.get(SNAPSHOT), _ReadView)
    except msgspec.ValidationError:
        return None
    if max(found.available, found.updated + found.missing) > found.pods or not found.uid:
        return None
    return msgspec.convert(msgspec.to_builtins(found), MemberView)


def refused_push(status: JSONObject) -> int | None:
    """Return the push that a member's server has refused for certain; None if there is none."""
    found = number(status, REFUSED_PUSH_ID)
    return found if 0 < found < _MOST else None
