"""Counts the pods of one workload over all members, at every change that any of them commits.

It reads what the members' stores commit and nothing else: no work, no ledger, no status of a workload. Pods that are
ending count as neither there nor available, as in Kubernetes. A pod that dies by itself is not taken away by anybody;
how many did lately is kept, because nobody can know of them in time.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from echelon.api.base import JSONObject
from echelon.hub.storage.store import Change
from echelon.kube.client import EventType

_PODS = "pods"
_Place: TypeAlias = tuple[str, str]  # cluster and name


@dataclass(frozen=True)
class Limits:
    """What must hold over all clusters together."""

    available: int
    pods: int
    updated: int | None = None  # at most so many of the newest image, if somebody keeps old ones


@dataclass(frozen=True)
class Breach:
    """A step over a limit. Excused: by no more than pods have died within one loop before it."""

    at: float
    text: str
    excused: bool


@dataclass
class PodCounter:
    """Counts; `limits` may change, and hold from the moment on at which they do."""

    clock: Callable[[], float]
    namespace: str
    limits: Limits
    newest: str = ""  # the image that is being rolled out
    loop_seconds: float = 0.0  # how long anything takes from a cluster to a decision and back
    breaches: list[Breach] = field(default_factory=list)
    lowest: int = 1 << 30
    highest: int = 0
    _pods: dict[_Place, JSONObject] = field(default_factory=dict)
    _deaths: deque[float] = field(default_factory=deque)

    def follow(self, cluster: str) -> Callable[[Change], None]:
        """Return what a member's store is to call."""

        def committed(change: Change) -> None:
            key = change.entry.key
            if key.resource == _PODS and key.namespace == self.namespace:
                self._committed((cluster, key.name), change)

        return committed

    @property
    def available(self) -> int:
        """The pods that are available now."""
        return sum(map(_is_available, self._pods.values()))

    @property
    def pods(self) -> int:
        """The pods that are there now."""
        return sum(map(_is_there, self._pods.values()))

    @property
    def images(self) -> Mapping[str, int]:
        """How many pods there are of each image."""
        return Counter(map(_image, filter(_is_there, self._pods.values())))

    def in_cluster(self, cluster: str) -> Mapping[str, int]:
        """Return how many pods a cluster has of each image."""
        there = (pod for (where, _), pod in self._pods.items() if where == cluster and _is_there(pod))
        return Counter(map(_image, there))

    def measure(self) -> None:
        """Forget the lowest and highest numbers so far."""
        self.lowest, self.highest = self.available, self.pods

    def _committed(self, place: _Place, change: Change) -> None:
        before = self.available, self.pods, self.images.get(self.newest, 0)
        old, new = self._pods.get(place), change.entry.object
        if change.type is EventType.DELETED:
            self._pods.pop(place, None)
        else:
            self._pods[place] = new
        after = self.available, self.pods, self.images.get(self.newest, 0)
        self.lowest, self.highest = min(self.lowest, after[0]), max(self.highest, after[1])
        now = self.clock()
        if after[0] < before[0] and old is not None and _is_there(old) and _is_there(new):
            self._deaths.append(now)  # nobody took it away: it stopped to be ready
            return
        self._judge(now, before, after, f"{place[0]}/{place[1]} {change.type}")

    def _judge(self, now: float, before: tuple[int, int, int], after: tuple[int, int, int], what: str) -> None:
        limits = self.limits
        while self._deaths and self._deaths[0] < now - self.loop_seconds:
            self._deaths.popleft()
        if after[0] < before[0] and after[0] < limits.available:
            excused = limits.available - after[0] <= len(self._deaths)
            self.breaches.append(Breach(now, f"{what}: {after[0]} available, not {limits.available}", excused))
        if after[1] > before[1] and after[1] > limits.pods:
            self.breaches.append(Breach(now, f"{what}: {after[1]} pods, not {limits.pods}", excused=False))
        if limits.updated is not None and after[2] > before[2] and after[2] > limits.updated:
            text = f"{what}: {after[2]} of {self.newest}, not {limits.updated}"
            self.breaches.append(Breach(now, text, excused=False))


def _is_there(pod: Mapping[str, Any]) -> bool:
    ended = pod.get("status", {}).get("phase") in ("Failed", "Succeeded")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def _is_available(pod: Mapping[str, Any]) -> bool:
    said = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
    return _is_there(pod) and said.get("Ready") == "True"


def _image(pod: Mapping[str, Any]) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image
