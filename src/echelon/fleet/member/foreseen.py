"""A workload on a member, as a forecast plays it: controllers act at once, and pods become ready when it is assumed.

What a controller decides is asked of the functions that simulated members decide with. What is left out is everything
that takes time but the start of a pod: caches, ReplicaSets that lag behind, pods that are ending.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from msgspec.structs import replace

from echelon.api.base import JSONObject
from echelon.engine.align import Grant, MemberView
from echelon.engine.align.contract import Family
from echelon.engine.work.health_state import number, part, text
from echelon.fleet.member.decide import clone_set, deployment, replica_set, stateful_set
from echelon.fleet.member.decide.budgets import heeds_unavailable
from echelon.fleet.member.decide.pods import PodView

_BEFORE = "before"  # the revision of pods of which nothing is known but that they are not updated
_MOST_STEPS = 10_000


@dataclass
class _Pods:
    """The pods of one workload, by name."""

    takes: timedelta  # from being made to being available
    broken: str  # the revision of which none becomes ready
    now: datetime
    found: dict[str, PodView]
    due: dict[str, datetime]
    made: int = 0

    def make(self, revision: str, name: str = "") -> None:
        self.made += 1
        name = name or f"pod-{self.made}"
        created = self.now.timestamp()
        self.found[name] = PodView("", name, name, revision=revision, node="node", phase="Running", created=created)
        if revision != self.broken:
            self.due[name] = self.now + self.takes

    def take(self, names: Iterable[str]) -> None:
        for name in names:
            del self.found[name]
            self.due.pop(name, None)

    def end(self, names: Iterable[str]) -> None:
        """Have pods end that have to be gone before something else is done."""
        for name in names:
            self.found[name] = replace(self.found[name], terminating=True)
            self.due.pop(name, None)

    def start(self, name: str) -> None:
        self.found[name] = replace(self.found[name], ready_since=self.now.timestamp())

    def of(self, revision: str) -> list[PodView]:
        return [pod for pod in self.there if pod.revision == revision]

    @property
    def there(self) -> list[PodView]:
        """Those that are not about to go."""
        return [pod for pod in self.found.values() if not pod.terminating]

    @property
    def available(self) -> int:
        return sum(pod.ready for pod in self.there)


class _Controller(Protocol):
    """What a kind does with its pods."""

    def step(self, grant: Grant) -> bool:
        """Do one thing; return whether there was anything to do."""
        ...

    def told(self) -> tuple[int | None, tuple[int, int] | None]:
        """Return how many pods are meant to be, and between which ceilings, where a kind tells."""
        ...


class ForeseenWorkload:
    """A workload on a member: apply what it is sent, let it act, and ask what its agent would say."""

    def __init__(
        self,
        family: Family,
        manifest: JSONObject,
        now: datetime,
        *,
        takes: timedelta,
        broken: str = "",
        version: str = "",
    ) -> None:
        """No pod of the `broken` revision becomes ready; `version` is that of Kubernetes there, where it is known."""
        ready = timedelta(seconds=number(part(manifest, "spec"), "minReadySeconds"))
        self._pods = _Pods(takes + ready, broken, now, {}, {})
        ordered = text(part(manifest, "spec"), "podManagementPolicy") != "Parallel"
        self._controller: _Controller = _CONTROLLERS[family](self._pods, _Ways(ordered, heeds_unavailable(version)))
        self._grant: Grant | None = None
        self._seen = MemberView("planned", 0, 0, 0, 0, 0, 0, 0, 0)

    def begin(self, grant: Grant, seen: MemberView) -> None:
        """Take over what an agent has reported of the last push; what is not there yet is on its way."""
        pods = [grant.revision] * seen.updated + [_BEFORE] * (seen.pods - seen.updated)
        for place, revision in enumerate(reversed(pods)):  # of a StatefulSet, the last ones are updated first
            self._pods.make(revision, f"{place}")
        ready = [*self._pods.of(_BEFORE), *self._pods.of(grant.revision)][: seen.available]
        for pod in ready:
            self._pods.due.pop(pod.name, None)
            self._pods.start(pod.name)
        self._grant, self._seen = grant, seen
        if isinstance(self._controller, _Deployment):
            self._controller.begin(grant, seen)
        elif isinstance(self._controller, _CloneSet | _StatefulSet):
            self._controller.current = _BEFORE if seen.updated < seen.pods else grant.revision

    def apply(self, grant: Grant) -> None:
        """Take a push."""
        self._grant = grant
        self._seen = replace(self._seen, push_id=grant.id, generation=self._seen.generation + 1)

    def act(self, now: datetime) -> None:
        """Let pods start whose time has come, and controllers do all that they would do now."""
        self._pods.now = now
        for name in [name for name, due in self._pods.due.items() if due <= now]:
            del self._pods.due[name]
            self._pods.start(name)
        self.settle()

    def settle(self) -> None:
        """Let controllers do all that they would do now."""
        grant = self._grant
        for _ in range(_MOST_STEPS):
            if grant is None or not self._controller.step(grant):
                return

    def end(self) -> bool:
        """Let pods be gone that are ending, and controllers do what comes then; return whether there are any."""
        ending = [name for name, pod in self._pods.found.items() if pod.terminating]
        self._pods.take(ending)
        if ending:
            self.settle()
        return bool(ending)

    @property
    def due(self) -> datetime | None:
        """When the next pod becomes ready."""
        return min(self._pods.due.values(), default=None)

    @property
    def shape(self) -> Counter[str]:
        """How many pods it has, by revision."""
        return Counter(pod.revision for pod in self._pods.there)

    @property
    def available(self) -> int:
        """How many pods are available."""
        return self._pods.available

    def report(self) -> MemberView:
        """Return what an agent says that can tell that nothing is under way."""
        grant, pods = self._grant, self._pods
        revision, replicas = (grant.revision, grant.replicas) if grant is not None else ("", 0)
        told, resized = self._controller.told()
        found = replace(
            self._seen,
            observed_generation=self._seen.generation,
            replicas=replicas,
            pods=len(pods.there),
            available=pods.available,
            updated=len(pods.of(revision)),
            missing=0,
            told=told,
            resized=resized,
            settled=self._is_settled(),
            drift=None,
        )
        if found != self._seen:
            self._seen = replace(found, version=self._seen.version + 1)
        return self._seen

    def _is_settled(self) -> bool:
        grant, controller = self._grant, self._controller
        if grant is None or isinstance(controller, _Deployment):
            return True
        if isinstance(controller, _CloneSet):
            return not any(pod.condemned for pod in self._pods.there)
        return not any(pod.revision != grant.revision for pod in self._pods.there if int(pod.name) >= grant.partition)


@dataclass(frozen=True)
class _Ways:
    """How a StatefulSet goes about it."""

    ordered: bool
    together: bool  # as many at once as `maxUnavailable` says; else one by one


@dataclass
class _Size:
    """A ReplicaSet of a Deployment."""

    born: int
    size: int
    desired: int
    most: int


class _Deployment:
    def __init__(self, pods: _Pods, _: _Ways) -> None:
        self._pods = pods
        self._sets: dict[str, _Size] = {}

    def begin(self, grant: Grant, seen: MemberView) -> None:
        most = seen.resized[1] if seen.resized is not None else grant.most
        for born, revision in enumerate((_BEFORE, grant.revision)):
            if size := len(self._pods.of(revision)):
                self._sets[revision] = _Size(born, size, grant.replicas, most)

    def step(self, grant: Grant) -> bool:
        unavailable = grant.unavailable if grant.unavailable or grant.surge else 1
        new = self._sets.get(grant.revision)
        view = deployment.DeploymentView(
            replicas=grant.replicas,
            surge=grant.surge,
            unavailable=min(unavailable, grant.replicas),
            paused=grant.paused,
            new=self._seen(grant.revision) if new else None,
            olds=tuple(self._seen(each) for each in self._sets if each != grant.revision),
        )
        step = deployment.decide(view)
        if step.create is not None:
            self._sets[grant.revision] = _Size(1 + max((each.born for each in self._sets.values()), default=0), 0, 0, 0)
            self._resize(grant.revision, step.create, grant)
        for name, size in step.sizes:
            self._resize(name, size, grant)
        return bool(step)

    def told(self) -> tuple[int | None, tuple[int, int] | None]:
        active = [each for each in self._sets.values() if each.size > 0]
        ceilings = [each.most for each in active]
        return sum(each.size for each in active), (min(ceilings), max(ceilings)) if ceilings else None

    def _resize(self, revision: str, size: int, grant: Grant) -> None:
        found = self._sets[revision]
        found.size, found.desired, found.most = size, grant.replicas, grant.most
        correction = replica_set.correct(size, self._pods.of(revision))
        self._pods.take(correction.delete)
        for _ in range(correction.create):
            self._pods.make(revision)

    def _seen(self, revision: str) -> deployment.SetView:
        found, pods = self._sets[revision], self._pods.of(revision)
        available = sum(pod.ready for pod in pods)
        return deployment.SetView(
            revision,
            found.size,
            replicas=len(pods),
            ready=available,
            available=available,
            born=found.born,
            desired=found.desired,
            most=found.most,
        )


class _CloneSet:
    def __init__(self, pods: _Pods, _: _Ways) -> None:
        self._pods = pods
        self.current = ""

    def step(self, grant: Grant) -> bool:
        pods = self._pods
        self.current = self.current or grant.revision
        view = clone_set.CloneSetView(
            replicas=grant.replicas,
            partition=min(grant.partition, grant.replicas),
            unavailable=grant.unavailable,
            surge=0 if grant.paused else grant.surge,
            pods=tuple(pods.found.values()),
            update_revision=grant.revision,
            current_revision=self.current,
            now=pods.now.timestamp(),
            paused=grant.paused,
        )
        if clone_set.promoted(view):
            self.current = grant.revision
        step = clone_set.decide(view)
        for revision, count in ((view.current_revision, step.create_old), (grant.revision, step.create_new)):
            for _ in range(count):
                pods.make(revision)
        pods.take(step.delete)
        for name in step.mark:
            pods.found[name] = replace(pods.found[name], condemned=True)
        return bool(step)

    def told(self) -> tuple[None, None]:
        return None, None


class _StatefulSet:
    def __init__(self, pods: _Pods, ways: _Ways) -> None:
        self._pods = pods
        self._ways = ways
        self.current = ""

    def step(self, grant: Grant) -> bool:
        pods = self._pods
        self.current = self.current or grant.revision
        view = stateful_set.StatefulSetView(
            replicas=grant.replicas,
            update_revision=grant.revision,
            current_revision=self.current,
            pods={int(name): pod for name, pod in pods.found.items()},
            now=pods.now.timestamp(),
            partition=grant.partition,
            unavailable=max(1, grant.unavailable) if self._ways.together else None,
            ordered=self._ways.ordered,
        )
        step = stateful_set.decide(view)
        self.current = str(stateful_set.status(view, 0, {})["currentRevision"])
        pods.end(step.delete)  # its place is free, and the next one's turn, when it is gone
        for ordinal in step.create:
            pods.make(view.revision_for(ordinal), str(ordinal))
        return bool(step)

    def told(self) -> tuple[None, None]:
        return None, None


_CONTROLLERS: dict[Family, Callable[[_Pods, _Ways], _Controller]] = {
    Family.DEPLOYMENT: _Deployment,
    Family.CLONE_SET: _CloneSet,
    Family.STATEFUL_SET: _StatefulSet,
}
