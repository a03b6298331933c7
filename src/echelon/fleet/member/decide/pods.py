"""A pod as controllers see it: the few facts that decisions need, read once when the pod changes."""

from collections.abc import Iterable

import msgspec

from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.fleet.member.decide.scheduling import NOTHING_SPECIAL, Demand

HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"
GANG_LABEL = "grove.io/podgang"
CLIQUE_LABEL = "grove.io/podclique"
SPECIFIED_DELETE = "apps.kruise.io/specified-delete"
_ENDED = ("Failed", "Succeeded")


class PodView(msgspec.Struct, frozen=True, gc=False):
    """Facts about a pod. Times are seconds since 1970; `ready_since` is None for a pod that is not ready."""

    namespace: str
    name: str
    uid: str
    owner: str = ""  # uid of the controller
    revision: str = ""
    node: str = ""
    phase: str = "Pending"
    ready_since: float | None = None
    terminating: bool = False
    condemned: bool = False  # marked for deletion by an update or a user
    created: float = 0.0
    restarts: int = 0
    demand: Demand = NOTHING_SPECIAL
    gated: bool = False
    gang: str = ""
    clique: str = ""
    priority: int = 0
    priority_class: str = ""
    order: int = 0  # when it was created, counted in writes

    @property
    def active(self) -> bool:
        """Whether it counts: neither ended nor ending."""
        return not self.terminating and self.phase not in _ENDED

    @property
    def ended(self) -> bool:
        """Whether it has run to its end."""
        return self.phase in _ENDED

    @property
    def placeable(self) -> bool:
        """Whether it waits for a node, and nothing keeps it from getting one."""
        return not self.node and not self.gated and self.active

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        return self.ready_since is not None

    @property
    def serves(self) -> bool:
        """Whether it is ready, and not about to go."""
        return self.ready_since is not None and not self.terminating

    def available(self, min_ready_seconds: float, now: float) -> bool:
        """Tell whether it has been ready for long enough."""
        return self.ready_since is not None and self.ready_since + min_ready_seconds <= now


def seconds(timestamp: str | None) -> float:
    """Read a time of the wire."""
    moment = parse_time(timestamp)
    return moment.timestamp() if moment else 0.0


def read_pod(pod: JSONObject, demand: Demand = NOTHING_SPECIAL, order: int = 0) -> PodView:
    """Take the facts from a pod."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    labels = meta.get("labels") or {}
    owner = next((ref["uid"] for ref in meta.get("ownerReferences") or () if ref.get("controller")), "")
    ready = next((c for c in status.get("conditions") or () if c["type"] == "Ready" and c["status"] == "True"), None)
    return PodView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        owner=owner,
        revision=labels.get(REVISION_LABEL) or labels.get(HASH_LABEL) or "",
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        ready_since=seconds(ready.get("lastTransitionTime")) if ready else None,
        terminating="deletionTimestamp" in meta,
        condemned=labels.get(SPECIFIED_DELETE) == "true",
        created=seconds(meta["creationTimestamp"]),
        restarts=sum(c.get("restartCount", 0) for c in status.get("containerStatuses") or ()),
        demand=demand,
        gated=bool(spec.get("schedulingGates")),
        gang=labels.get(GANG_LABEL) or "",
        clique=labels.get(CLIQUE_LABEL) or "",
        priority=spec.get("priority") or 0,
        priority_class=spec.get("priorityClassName") or "",
        order=order,
    )


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def least_missed_first(pods: Iterable[PodView]) -> list[PodView]:
    """Sort pods as a ReplicaSet deletes them: those first that do the least.

    Without a node, not running, not ready, ready for the shortest time, often restarted, young. The name only breaks
    ties, so that a simulation can be repeated.
    """
    return sorted(
        pods,
        key=lambda pod: (
            bool(pod.node),
            _PHASES.get(pod.phase, 1),
            pod.ready,
            -(pod.ready_since or 0.0),
            -pod.restarts,
            -pod.created,
            pod.name,
        ),
    )


def next_availability(pods: Iterable[PodView], min_ready_seconds: float, now: float) -> float | None:
    """Return when the next ready pod becomes available by the mere passing of time."""
    times = [pod.ready_since + min_ready_seconds for pod in pods if pod.ready_since is not None and pod.active]
    return min((moment for moment in times if moment > now), default=None)
