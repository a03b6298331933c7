"""Counts the pods of one workload on several clusters, by their own watch events and nothing else.

The servers store in one etcd, so the versions of objects put the events of all clusters into one order. After each
event the pods are counted over all clusters: those that are there, and those that are available. Pods that are ending
count as neither, as in Kubernetes itself.

A Deployment's own controller can leave its limits, because what it knows of its ReplicaSets is old. So the Deployments
are watched, too: a step by which a member leaves the limits of its own spec is the member's, and counted apart.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPResponse
from types import TracebackType
from typing import Any, Self
from urllib.request import Request, urlopen

import msgspec

from tests.environment import Administrator


@dataclass(frozen=True, order=True)
class Event:
    """One change on one cluster. `version` orders the changes of all of them."""

    version: int
    cluster: str = field(compare=False)
    kind: str = field(compare=False)  # of the object
    gone: bool = field(compare=False)
    object: dict[str, Any] = field(compare=False)


@dataclass(frozen=True)
class Count:
    """The pods of all clusters after an event, and whether it took a member further beyond the limits of its spec."""

    event: Event
    available: int
    pods: int
    by_image: Mapping[str, int]
    by_the_member_alone: bool

    def __str__(self) -> str:
        what, name = self.event.kind, self.event.object["metadata"]["name"]
        return f"{self.event.version} {self.event.cluster} {what}/{name}: {self.available} of {self.pods} available"


@dataclass
class _Member:
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    deployment: dict[str, Any] = field(default_factory=dict)

    def follow(self, event: Event) -> None:
        name = event.object["metadata"]["name"]
        if event.kind == "Deployment":
            self.deployment = {} if event.gone else event.object["spec"]
        elif event.gone:
            self.pods.pop(name, None)
        else:
            self.pods[name] = event.object

    @property
    def there(self) -> list[dict[str, Any]]:
        return [pod for pod in self.pods.values() if is_there(pod)]

    @property
    def available(self) -> int:
        return sum(map(is_available, self.there))

    @property
    def beyond(self) -> tuple[int, int]:
        """How many pods are missing by the Deployment's own spec, and how many there are too many."""
        spec = self.deployment
        if not spec or spec.get("paused"):
            return 0, 0
        rolling = spec["strategy"]["rollingUpdate"]
        least, most = spec["replicas"] - rolling["maxUnavailable"], spec["replicas"] + rolling["maxSurge"]
        return max(0, least - self.available), max(0, len(self.there) - most)


def count(events: Iterable[Event]) -> list[Count]:
    """Return the counts after each event, in the order in which they happened."""
    members: dict[str, _Member] = {}
    counts: list[Count] = []
    for event in sorted(events):
        member = members.setdefault(event.cluster, _Member())
        before, (missing, spare) = member.pods.copy(), member.beyond
        member.follow(event)
        further = member.beyond[0] > missing or member.beyond[1] > spare
        there = [pod for each in members.values() for pod in each.there]
        images: dict[str, int] = {}
        for pod in there:
            image = pod["spec"]["containers"][0]["image"]
            images[image] = images.get(image, 0) + 1
        available = sum(each.available for each in members.values())
        own = further and member.pods != before
        counts.append(Count(event, available, len(there), images, own))
    return counts


def breaches(counts: Iterable[Count], least: int, most: int, *, native: bool = False) -> list[str]:
    """Return each step that took a pod below a limit or made one above it; those of members alone, or the others."""
    found: list[str] = []
    available, pods = 0, 0  # what is there when the watch begins is nobody's step
    for each in counts:
        worse = each.available < min(available, least) or each.pods > max(pods, most)
        if worse and each.by_the_member_alone == native:
            found.append(str(each))
        available, pods = each.available, each.pods
    return found


def is_there(pod: Mapping[str, Any]) -> bool:
    """Whether a pod counts: it has not ended, and is not about to."""
    return "deletionTimestamp" not in pod["metadata"] and pod.get("status", {}).get("phase") not in (
        "Failed",
        "Succeeded",
    )


def is_available(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is ready; the workloads that are watched have no `minReadySeconds`."""
    said = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
    return said.get("Ready") == "True"


class PodWatch:
    """Watches the pods and Deployments of one namespace on several clusters; use it as a context manager."""

    def __init__(self, clusters: Mapping[str, Administrator], namespace: str) -> None:
        self._clusters = clusters
        self._namespace = namespace
        self._events: list[Event] = []
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._ended = False

    def __enter__(self) -> Self:
        paths = {"Pod": "/api/v1", "Deployment": "/apis/apps/v1"}
        for cluster, server in self._clusters.items():
            for kind, path in paths.items():
                listed = f"{path}/namespaces/{self._namespace}/{kind.lower()}s"
                found = server.request("GET", listed)
                version = found["metadata"]["resourceVersion"]
                self._events += [_event(cluster, kind, each) for each in found["items"]]
                asked = Request(f"{server.url}{listed}?watch=1&resourceVersion={version}")  # noqa: S310 - always https
                answer = urlopen(asked, context=server.tls)  # noqa: S310
                self._threads.append(threading.Thread(target=self._follow, args=(cluster, kind, answer), daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True  # whoever reads cannot be interrupted, and ends with its server

    def counts(self) -> list[Count]:
        """Return all counts until now; raises what ended a watch, of which nobody knows what it missed."""
        if self._failure is not None:
            raise self._failure
        return count(list(self._events))

    def wait(self, until: Callable[[Count], bool], fleet_until: Callable[[Callable[[], object], str], None]) -> None:
        """Wait until the last count is as wanted."""
        fleet_until(lambda: (found := self.counts()) and until(found[-1]), "the pods are not as they should be")

    def _follow(self, cluster: str, kind: str, answer: HTTPResponse) -> None:
        try:
            for line in answer:
                self._events.append(_event(cluster, kind, **msgspec.json.decode(line)))
            raise EOFError(f"the watch of {kind} on {cluster} ended")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to hear of it
            if not self._ended:
                self._failure = error


def _event(cluster: str, kind: str, object: dict[str, Any], type: str = "ADDED") -> Event:  # noqa: A002 - as on the wire
    if type not in ("ADDED", "MODIFIED", "DELETED"):
        raise ValueError(f"{cluster} answered {type}: {object}")
    return Event(int(object["metadata"]["resourceVersion"]), cluster, kind, type == "DELETED", object)
