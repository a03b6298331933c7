"""What a server can store of a work: how long a record's name may be, and how much a report may say.

A server refuses an object that is too large as a whole, and a report that is refused tells nobody anything, for ever.
So a report that would be is made shorter: what needs a look stays, what is fine is counted. A record cannot be made
shorter, because what is not listed there is never removed; a work whose record could not be stored is not begun.
"""

from collections.abc import Sequence

import msgspec

from echelon.api.base import JSONObject
from echelon.api.meta import Condition
from echelon.api.work import ManifestCondition, ManifestResourceStatus, ManifestWork, ManifestWorkStatus
from echelon.engine.conditions import ConditionStamp, set_condition
from echelon.engine.work.order import is_readable

SHORTENED = "ReportShortened"
LONGEST_NAME = 253
# etcd takes a megabyte and a half with everything that the server adds, such as who wrote which field.
MAX_BYTES = 1_200_000
_LISTED_BYTES = 180  # of a recorded object, besides its names
_SMALL = 64_000  # of a report that is not worth a comparison
_MESSAGE = 256
_ENTRY_BYTES = 2  # comma and space for more


class Unrecordable(Exception):
    """No record of a work could be stored on the cluster, so nothing of it is applied."""


def check_record(name: str, manifests: Sequence[JSONObject]) -> None:
    """Raise `Unrecordable` if the record of a work cannot be stored."""
    if len(name) > LONGEST_NAME:
        over = len(name) - LONGEST_NAME
        raise Unrecordable(
            f"its record on the cluster would be called {name}, which has {over} characters more than the "
            f"{LONGEST_NAME} that a name may have: give the work a shorter name, or the agent a shorter --hub-hash"
        )
    size = sum(_listed_bytes(each) for each in manifests)
    if size > MAX_BYTES:
        raise Unrecordable(
            f"the record of its {len(manifests)} manifests on the cluster would have about {size} bytes, and no more "
            f"than {MAX_BYTES} can be relied on: divide it into several works"
        )


def fitted(work: ManifestWork, status: ManifestWorkStatus, stamp: ConditionStamp) -> ManifestWorkStatus:
    """Return a status as it is, or a shorter one that a server can store with the work and that says so."""
    conditions = [each for each in status.conditions if each.type != SHORTENED]
    status = msgspec.structs.replace(status, conditions=conditions)
    manifests = status.resource_status.manifests
    if _size(manifests) <= _SMALL:
        return status
    room = MAX_BYTES - len(msgspec.json.encode(msgspec.structs.replace(work, status=ManifestWorkStatus())))
    room -= len(msgspec.json.encode(conditions))
    if _size(manifests) <= room:
        return status
    kept = _worst(manifests, room - _MESSAGE * 4)
    left = len(manifests) - len(kept)
    fine = sum(_is_fine(each) for each in manifests) - sum(_is_fine(each) for each in kept)
    rest = "all are applied and available" if fine == left else f"{fine} are applied and available"
    message = f"{len(kept)} of {len(manifests)} manifests are listed, as many as fit; of the other {left} {rest}"
    said = set_condition(conditions, stamp.condition(SHORTENED, "True", "TooLarge", message))
    return ManifestWorkStatus(conditions=said, resource_status=ManifestResourceStatus(manifests=kept))


def whole_report(status: ManifestWorkStatus, told: ManifestWorkStatus | None) -> ManifestWorkStatus:
    """Return a report with what was left out of it, if it is a shorter one and whoever made it still knows."""
    if told is None or all(each.type != SHORTENED for each in status.conditions):
        return status
    return msgspec.structs.replace(status, resource_status=told.resource_status)


def _worst(manifests: Sequence[ManifestCondition], room: int) -> list[ManifestCondition]:
    """Return as many as there is room for, in their order: first those that need a look or must be remembered."""
    chosen: dict[int, ManifestCondition] = {}
    for number, each in sorted(enumerate(manifests), key=lambda one: (_is_plain(one[1]), one[0])):
        shown = each if _is_plain(each) else _with_short_messages(each)
        room -= _size([shown])
        if room < 0:
            break
        chosen[number] = shown
    return [chosen[number] for number in sorted(chosen)]


def _is_plain(manifest: ManifestCondition) -> bool:
    """Whether nothing is lost if a manifest is only counted. What is complete is remembered: it is not run again."""
    plain = all(each.type in ("Applied", "Available", "StatusFeedbackSynced") for each in manifest.conditions)
    return plain and _is_fine(manifest) and not manifest.status_feedback.values


def _is_fine(manifest: ManifestCondition) -> bool:
    found = {each.type: each.status for each in manifest.conditions}
    return found.get("Applied") == found.get("Available") == "True"


def _with_short_messages(manifest: ManifestCondition) -> ManifestCondition:
    conditions = [_cut(each) for each in manifest.conditions]
    return msgspec.structs.replace(manifest, conditions=conditions)


def _cut(condition: Condition) -> Condition:
    return msgspec.structs.replace(condition, message=condition.message[:_MESSAGE])


def _size(manifests: Sequence[ManifestCondition]) -> int:
    return len(msgspec.json.encode(manifests)) + _ENTRY_BYTES * len(manifests)


def _listed_bytes(manifest: JSONObject) -> int:
    if not is_readable(manifest):
        return 0
    meta = manifest["metadata"]
    named = (manifest["apiVersion"], manifest["kind"], meta["name"], meta.get("namespace") or "")
    return _LISTED_BYTES + sum(map(len, named))
