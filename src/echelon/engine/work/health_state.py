"""Whether an object works, as words, and how to read a status that may hold anything.

Statuses come from clusters and from controllers that nobody here controls. A missing number counts as zero and a field
of the wrong type as missing: what is not known to be done is not done.
"""

from typing import TypeAlias

import msgspec

from echelon.api.base import JSON, JSONObject
from echelon.engine.int_or_percent import NotIntOrPercent, kept_by_partition


class Healthy(msgspec.Struct, frozen=True):
    """The object does what its spec asks for."""

    note: str = ""  # what people should know all the same


class Progressing(msgspec.Struct, frozen=True):
    """The object is on its way; time may help."""

    reason: str  # one CamelCase word
    message: str  # for people, without the object's name: "2 of 5 available"


class Degraded(msgspec.Struct, frozen=True):
    """The object does not work, and waiting alone will hardly help."""

    reason: str
    message: str


Health: TypeAlias = Healthy | Progressing | Degraded

HEALTHY = Healthy()
UNOBSERVED = "NotObserved"


def part(obj: JSON, *path: str) -> JSONObject:
    """Return an object inside an object; an empty one if it is not there."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def items(obj: JSON, name: str) -> list[JSONObject]:
    """Return the objects of a list; what is no object is left out."""
    found = obj.get(name) if isinstance(obj, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(obj: JSONObject, name: str) -> str:
    """Return a text; an empty one if there is none."""
    found = obj.get(name)
    return found if isinstance(found, str) else ""


def number(obj: JSONObject, name: str, default: int = 0) -> int:
    """Return a whole number, or the default if there is none."""
    found = obj.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def condition(status: JSONObject, kind: str) -> JSONObject:
    """Return the condition of a type; an empty one if there is none."""
    return next((each for each in items(status, "conditions") if each.get("type") == kind), {})


def unobserved(obj: JSONObject) -> Progressing | None:
    """Tell if the controller has not looked at the present spec; only for kinds that report what they looked at."""
    if number(part(obj, "status"), "observedGeneration") < number(part(obj, "metadata"), "generation"):
        return Progressing(UNOBSERVED, "the controller has not seen the present spec yet")
    return None


def complete(available: int, wanted: int, total: int = 0) -> Health:
    """Judge a set in which every pod that should be new is."""
    if total > wanted:
        return Progressing("TooManyPods", f"{total - wanted} more than {wanted} running")
    if available < wanted:
        return Progressing("Unavailable", f"{available} of {wanted} available")
    return HEALTHY


def kept_old(partition: JSON, replicas: int) -> int:
    """Return how many pods a partition keeps old; none for one that cannot be read."""
    if not isinstance(partition, int | str) or isinstance(partition, bool):
        return 0
    try:
        return kept_by_partition(partition, replicas)
    except NotIntOrPercent:
        return 0
