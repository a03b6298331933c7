"""The status of a workload in the words that all kinds share, and the snapshot that an agent makes of it.

Statuses come from clusters and controllers that nobody here controls: what is missing or of the wrong type is zero, so
it counts as not available and not updated. Where a status tells less than it should, more pods are assumed, not fewer.
"""

from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.engine.align.view import MemberView
from echelon.engine.work.health_state import number, part, text

PUSH_ID = "echelon.dev/push-id"


@dataclass(frozen=True, slots=True)
class RollingStatus:
    """Unified rolling status: the counts of one status, and the generation that they belong to."""

    observed_generation: int
    replicas: int
    ready: int
    available: int
    updated: int
    updated_ready: int = 0
    updated_available: int = 0
    told: int | None = None  # pods that its ReplicaSets are told to have, at most


class NoPushId(ValueError):
    """An object on a member that was not pushed by us, or whose id somebody removed."""

    def __init__(self, value: str) -> None:
        super().__init__(f"the annotation {PUSH_ID} is {value!r}, and must be a number")


def counted(status: JSONObject) -> RollingStatus:
    """Read the counts that all kinds spell the same way."""
    return RollingStatus(
        observed_generation=number(status, "observedGeneration"),
        replicas=number(status, "replicas"),
        ready=number(status, "readyReplicas"),
        available=number(status, "availableReplicas"),
        updated=number(status, "updatedReplicas"),
        updated_ready=number(status, "updatedReadyReplicas"),
        updated_available=number(status, "updatedAvailableReplicas"),
    )


def view_of(obj: JSONObject, status: RollingStatus) -> MemberView:
    """Return the snapshot of an object of which nothing more was read. Raises NoPushId."""
    meta = part(obj, "metadata")
    pushed = text(part(meta, "annotations"), PUSH_ID)
    if not pushed.isdecimal():
        raise NoPushId(pushed)
    version = text(meta, "resourceVersion")
    return MemberView(
        uid=text(meta, "uid"),
        version=int(version) if version.isdecimal() else 0,
        push_id=int(pushed),
        generation=number(meta, "generation"),
        observed_generation=status.observed_generation,
        replicas=number(part(obj, "spec"), "replicas", 1),
        pods=max(status.replicas, status.told or 0),
        available=status.available,
        updated=status.updated,
        missing=max(0, (status.told or 0) - status.replicas),
        told=status.told,
    )
