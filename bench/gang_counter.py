"""Counts the pods of a PodCliqueSet by what its cluster commits, and judges every deletion by the floor.

Nothing here asks the controller or reads a status of its: a unit is a ready pod of a standalone clique, or a replica of
a scaling group of which every clique has its ready pods. Each commit that takes a unit away is compared with what must
be left, deletions before it counted, and with what other replicas of the set lack at that moment.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from echelon.api.base import JSONObject
from echelon.api.core import POD
from echelon.api.grove import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP
from echelon.engine.pod_clique.names import CLIQUE, GROUP, GROUP_INDEX, REPLICA_INDEX
from echelon.hub.storage.store import Change
from echelon.kube.client import EventType

MAX_UNAVAILABLE = 1  # as in sets that do not say


@dataclass
class _Units:
    """A standalone clique or a scaling group: what it wants, and the units that work."""

    replica: str
    replicas: int
    min_available: int
    working: set[str] = field(default_factory=set)

    @property
    def floor(self) -> int:
        return max(0, min(self.min_available, self.replicas - MAX_UNAVAILABLE))


@dataclass
class _Clique:
    """A clique, with its ready pods. Its units are its pods, or it is part of a unit."""

    need: int
    replica: str
    group: str
    unit: str
    ready: set[str] = field(default_factory=set)


class GangCounter:
    """Follows the commits of one cluster."""

    def __init__(self) -> None:
        self.live: dict[str, str] = {}  # the image of each pod that neither goes nor has ended
        self.ready = 0
        self.taken = 0  # units that worked and were taken
        self.below = 0  # of those, beneath the floor
        self.beside = 0  # of those, while another replica of the set lacked something
        self._cliques: dict[str, _Clique] = {}
        self._members: dict[tuple[str, str], list[_Clique]] = defaultdict(list)  # by group and replica of it
        self._units: dict[str, _Units] = {}  # by standalone clique or group
        self._lacking: dict[str, set[str]] = defaultdict(set)  # by replica of the set: what has too few units

    def running(self, image: str) -> int:
        """Return how many pods run an image and are ready."""
        return sum(self.live[pod] == image for clique in self._cliques.values() for pod in clique.ready)

    def committed(self, change: Change) -> None:
        """Follow a change."""
        resource = change.entry.key.resource
        if resource == POD.resource:
            self._pod(change)
        elif change.type is not EventType.DELETED and resource == POD_CLIQUE.resource:
            self._clique(change.entry.key.name, change.entry.object)
        elif change.type is not EventType.DELETED and resource == POD_CLIQUE_SCALING_GROUP.resource:
            self._wants(change.entry.key.name, change.entry.object)

    def _wants(self, name: str, body: JSONObject) -> None:
        spec, replica = body["spec"], body["metadata"]["labels"][REPLICA_INDEX]
        known = self._units.setdefault(name, _Units(replica, 0, 0))
        known.replicas, known.min_available = spec["replicas"], spec.get("minAvailable", spec["replicas"])
        self._note(name, known)

    def _clique(self, name: str, body: JSONObject) -> None:
        spec, labels = body["spec"], body["metadata"]["labels"]
        group = labels.get(GROUP, "")
        if not group:
            self._wants(name, body)
        known = self._cliques.get(name)
        need = min(spec.get("minAvailable", spec["replicas"]), spec["replicas"])
        if known is not None:
            known.need = need
            return
        known = self._cliques[name] = _Clique(need, labels[REPLICA_INDEX], group, labels.get(GROUP_INDEX, ""))
        if group:
            self._members[group, known.unit].append(known)

    def _pod(self, change: Change) -> None:
        pod, name = change.entry.object, change.entry.key.name
        clique = self._cliques[pod["metadata"]["labels"][CLIQUE]]
        status = pod.get("status", {})
        is_live = change.type is not EventType.DELETED and not pod["metadata"].get("deletionTimestamp")
        is_live = is_live and status.get("phase") not in ("Failed", "Succeeded")
        if is_live:
            self.live[name] = pod["spec"]["containers"][0]["image"]
        else:
            self.live.pop(name, None)
        conditions = status.get("conditions", ()) if is_live else ()
        is_ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
        if is_ready == (name in clique.ready):
            return
        self.ready += 1 if is_ready else -1
        (clique.ready.add if is_ready else clique.ready.remove)(name)
        self._count(clique, name, pod["metadata"]["labels"][CLIQUE], taken=not is_live)

    def _count(self, clique: _Clique, pod: str, own: str, *, taken: bool) -> None:
        """Count a unit in or out, and judge it if somebody took it away."""
        units = self._units[clique.group or own]
        unit = clique.unit if clique.group else pod
        parts = self._members[clique.group, clique.unit] if clique.group else ()
        works = all(len(each.ready) >= each.need for each in parts) if clique.group else pod in clique.ready
        if works == (unit in units.working):
            return
        (units.working.add if works else units.working.remove)(unit)
        if taken:
            self.taken += 1
            self.below += len(units.working) < units.floor
            self.beside += any(lacking for replica, lacking in self._lacking.items() if replica != units.replica)
        self._note(clique.group or own, units)

    def _note(self, name: str, units: _Units) -> None:
        lacking = self._lacking[units.replica]
        (lacking.add if len(units.working) < units.replicas else lacking.discard)(name)
