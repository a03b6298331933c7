"""Who has to leave a node because of its taints, and when."""

from collections.abc import Mapping, Sequence
from math import inf

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.scheduling import NOT_READY, UNREACHABLE, Taint, tolerates

_BY_READINESS = {"True": (), "False": (NOT_READY,)}


def failure_taints(ready: str) -> tuple[Taint, ...]:
    """Return the taints of a node by its condition `Ready`; empty text for a node that never said anything."""
    keys = _BY_READINESS.get(ready, (UNREACHABLE,) if ready else (NOT_READY,))
    return tuple((key, "", effect) for key in keys for effect in ("NoSchedule", "NoExecute"))


def leaves_at(tolerations: Sequence[JSONObject], taints: Mapping[Taint, float]) -> float:
    """Return when a pod has to leave a node with these taints, each with its beginning; never is infinite."""
    return min((since + _bears(tolerations, taint) for taint, since in taints.items()), default=inf)


def _bears(tolerations: Sequence[JSONObject], taint: Taint) -> float:
    """Return for how many seconds a pod bears a taint; of several tolerations the shortest holds."""
    if taint[2] != "NoExecute":
        return inf
    about = [each for each in tolerations if tolerates(each, taint)]
    seconds = [each["tolerationSeconds"] for each in about if each.get("tolerationSeconds") is not None]
    return max(0.0, min(seconds, default=inf)) if about else -inf
