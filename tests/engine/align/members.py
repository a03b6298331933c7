"""Members for tests: workload controllers that act late, see old statuses, and tell less than they know.

What they decide in one sync is what the simulated fleet's controllers decide (`echelon.fleet.member.decide`). Around
that is what makes federated rollouts hard: ReplicaSets that act some time after they were told, statuses that are
those of before the sync that publishes them, marks that outlive a spec, pods that take their time to start and to end.

A member tells its `watcher` of every pod that comes, goes, or becomes available. It knows nothing of grants but the
numbers in them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from echelon.engine.align.grant import Grant
from echelon.engine.align.view import MemberView
from echelon.fleet.member.decide.pods import PodView


@dataclass
class Pod:
    name: str
    revision: str
    created: float
    ready_since: float | None = None
    terminating: bool = False
    condemned: bool = False
    condemned_at: float | None = None

    @property
    def available(self) -> bool:
        return self.ready_since is not None and not self.terminating

    @property
    def view(self) -> PodView:
        return PodView(
            "ns",
            self.name,
            self.name,
            revision=self.revision,
            node="n",
            phase="Running" if self.ready_since is not None else "Pending",
            ready_since=self.ready_since,
            terminating=self.terminating,
            condemned=self.condemned,
            created=self.created,
        )


class Watcher(Protocol):
    """Who is told about pods, right after it happened."""

    def made(self, member: "Member", pod: Pod) -> None: ...
    def taken(self, member: "Member", pod: Pod, *, available: bool) -> None: ...
    def became_available(self, member: "Member", pod: Pod) -> None: ...
    def died(self, member: "Member", pod: Pod, *, available: bool) -> None: ...


@dataclass
class Pace:
    """How slow things are on a member, in seconds."""

    sync: float = 0.3
    lag: float = 0.0  # of ReplicaSets
    start: tuple[float, float] = (2.0, 10.0)
    end: float = 1.0
    broken: set[str] = field(default_factory=set)  # revisions whose pods never become available


Counts = tuple[int, int, int, int | None, int]  # pods, available, updated; and told and missing, of a Deployment
At = Callable[[float, Callable[[], None]], None]


@dataclass
class Surroundings:
    """What a member lives in: chance, time, and who watches it."""

    rng: Random
    pace: Pace
    at: At
    clock: Callable[[], float]
    watcher: Watcher


class Member(ABC):
    """What all kinds have in common: an object with generations, pods, and an agent that looks at them."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        self.name = name
        self.rng = surroundings.rng
        self.pace = surroundings.pace
        self.at = surroundings.at
        self.clock = surroundings.clock
        self.watcher = surroundings.watcher
        self.spec: Grant | None = None
        self.version = 0  # of anything on the member
        self.object_version = 0
        self.generation = self.observed = 0
        self.observed_spec: Grant | None = None
        self.counts: Counts = (0, 0, 0, None, 0)
        self.pods: list[Pod] = []
        self._number = 0
        self._syncing = False
        self.changed: Callable[[], None] = lambda: None  # the agent looks

    # The object.

    def apply(self, grant: Grant) -> None:
        """Take a push, unless a later one was taken."""
        if self.spec is not None and grant.id <= self.spec.id:
            return
        if self.spec is None or self.annotations_count or not grant.permits_as_much_as(self.spec):
            self.generation += 1
        self.spec = grant
        self._touch(of_object=True)
        self.wake()

    annotations_count = False  # whether an annotation alone makes a new generation

    def _touch(self, *, of_object: bool = False) -> None:
        self.version += 1
        if of_object:
            self.object_version = self.version
        self.changed()

    def wake(self) -> None:
        if not self._syncing:
            self._syncing = True
            self.at(self.rng.uniform(0, self.pace.sync), self._run)

    def _run(self) -> None:
        self._syncing = False
        if self.spec is None:
            return
        counts = self.count()
        spec, generation = self.spec, self.generation
        acted = self.sync(spec)
        if (counts, generation) != (self.counts, self.observed):
            self.counts, self.observed, self.observed_spec = counts, generation, spec
            self._touch(of_object=True)
        if acted:
            self.wake()

    @abstractmethod
    def count(self) -> Counts:
        """What a status says; it is read before the sync acts."""

    @abstractmethod
    def sync(self, spec: Grant) -> bool: ...

    @abstractmethod
    def read(self) -> tuple[Counts, bool]:
        """What an agent finds that looks behind the status, and whether nothing is under way."""

    @property
    def resized(self) -> tuple[int, int] | None:
        """What an agent finds that ReplicaSets remember, where there are any."""
        return None

    # Pods.

    @property
    def active(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.terminating]

    def make(self, revision: str, name: str = "") -> Pod:
        self._number += 1
        pod = Pod(name or f"{self.name}-{self._number:05d}", revision, self.clock())
        self.pods.append(pod)
        self.watcher.made(self, pod)
        if revision not in self.pace.broken:
            self.at(self.rng.uniform(*self.pace.start), lambda: self._ready(pod))
        self._pods_changed(pod)
        return pod

    def _ready(self, pod: Pod) -> None:
        if pod in self.pods and not pod.terminating and pod.ready_since is None:
            pod.ready_since = self.clock()
            self.watcher.became_available(self, pod)
            self._pods_changed(pod)

    def take(self, pod: Pod) -> None:
        """Delete a pod, as a controller."""
        available = pod.available
        pod.terminating = True
        self.watcher.taken(self, pod, available=available)
        self._end(pod)

    def die(self, pod: Pod) -> None:
        """Lose a pod for good: it has to be made again."""
        available = pod.available
        pod.terminating = True
        self.watcher.died(self, pod, available=available)
        self._end(pod)

    def fail(self, pod: Pod, until: float) -> None:
        """A pod stops working for some time."""
        available = pod.available
        pod.ready_since = None
        self.watcher.died(self, pod, available=available)
        self.at(until, lambda: self._ready(pod))
        self._pods_changed(pod)

    def _end(self, pod: Pod) -> None:
        self.at(self.rng.uniform(0, self.pace.end), lambda: self._gone(pod))
        self._pods_changed(pod)

    def _gone(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self._pods_changed(pod)

    def _pods_changed(self, pod: Pod) -> None:
        del pod
        self.version += 1
        self.wake()

    def named(self, name: str) -> Pod:
        return next(pod for pod in self.pods if pod.name == name)

    # The agent.

    def snapshot(self, *, telling: bool) -> MemberView | None:
        """What an agent reports: with what it read besides, if it can tell what is under way."""
        spec = self.spec
        if spec is None:
            return None
        counts, settled, version = self.counts, None, self.object_version
        if telling:
            counts, quiet = self.read()
            settled = quiet and self.observed == self.generation
            version = self.version
        pods, available, updated, told, missing = counts
        return MemberView(
            uid=f"uid-{self.name}",
            version=version,
            push_id=spec.id,
            generation=self.generation,
            observed_generation=self.observed,
            replicas=spec.replicas,
            pods=pods,
            available=available,
            updated=updated,
            missing=missing,
            told=told,
            resized=self.resized if telling else None,
            settled=settled,
        )

    def decided_by(self, pod: Pod) -> int:
        """Return the id of the grant under which it is decided that a pod goes."""
        del pod
        return self.spec.id if self.spec else 0

    @property
    def limit(self) -> int:
        """The pods that count against a ceiling."""
        return len(self.active)

    def most(self, spec: Grant) -> int:
        """The pods that it may come to have under a spec."""
        return spec.most

    def most_updated(self, spec: Grant) -> int:
        """The pods that may come to have the revision of a spec."""
        return spec.replicas - spec.partition

    @property
    def at_rest(self) -> bool:
        return self.observed == self.generation and not self._syncing
