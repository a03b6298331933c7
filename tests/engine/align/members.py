"""Members for tests: workload controllers that act late, see old statuses, and tell less than they know.

What they decide in one sync is what the simulated fleet's controllers decide (`echelon.fleet.member.decide`). Around
that is what makes federated rollouts hard: ReplicaSets that act some time after they were told, statuses that are
those of before the sync that publishes them, marks that outlive a spec, pods that take their time to start and to end.

A member tells its `watcher` of every pod that comes, goes, or becomes available. It knows nothing of grants but the
numbers in them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from echelon.engine.align.grant import Grant
from echelon.engine.align.stateful_sets import interpret_rolling_status
from echelon.engine.align.view import MemberView
from echelon.fleet.member.decide import clone_set, deployment, replica_set, stateful_set
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


Counts = tuple[int, int, int, int | None]  # pods, available, updated; and told, of a Deployment
At = Callable[[float, Callable[[], None]], None]


@dataclass
class Surroundings:
    """What a member lives in: chance, time, and who watches it."""

    rng: Random
    pace: Pace
    at: At
    clock: Callable[[], float]
    watcher: Watcher


class Member:
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
        self.counts: Counts = (0, 0, 0, None)
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

    def count(self) -> Counts:
        """What a status says; it is read before the sync acts."""
        raise NotImplementedError

    def sync(self, spec: Grant) -> bool:
        raise NotImplementedError

    def read(self) -> tuple[Counts, bool]:
        """What an agent finds that looks behind the status, and whether nothing is under way."""
        raise NotImplementedError

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
        pods, available, updated, told = counts
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
            told=told,
            settled=settled,
        )

    @property
    def limit(self) -> int:
        """The pods that count against a ceiling."""
        return len(self.active)

    @property
    def at_rest(self) -> bool:
        return self.observed == self.generation and not self._syncing


@dataclass
class Set:
    """A ReplicaSet. Its status is what it last published."""

    revision: str
    born: int
    size: int = 0
    desired: int | None = None
    most: int | None = None
    generation: int = 1
    observed: int = 0
    replicas: int = 0
    available: int = 0
    waking: bool = False


class Deployment(Member):
    annotations_count = True

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings)
        self.sets: dict[str, Set] = {}
        self.recent: list[Grant] = []  # specs under which something may have been decided that has not happened yet

    def apply(self, grant: Grant) -> None:
        super().apply(grant)
        if self.spec is grant:
            self.recent.append(grant)

    def count(self) -> Counts:
        spec = self.spec
        assert spec is not None
        sets = self.sets.values()
        available = sum(each.available for each in sets)
        new = self.sets.get(spec.revision)
        intended = sum(each.size for each in sets)
        # As an interpreter reads it: there is no telling of fewer than are available.
        told = max(available, intended)
        return max(sum(each.replicas for each in sets), told), available, new.replicas if new else 0, told

    def sync(self, spec: Grant) -> bool:
        unavailable = spec.unavailable
        if unavailable == 0 and spec.surge == 0:
            unavailable = 1
        new = self.sets.get(spec.revision)
        view = deployment.DeploymentView(
            replicas=spec.replicas,
            surge=spec.surge,
            unavailable=min(unavailable, spec.replicas),
            paused=spec.paused,
            new=_seen(new) if new else None,
            olds=tuple(_seen(each) for each in self.sets.values() if each is not new),
        )
        if self.read()[1]:
            self.recent = [spec]
        step = deployment.decide(view)
        if step.create is not None:
            self.sets[spec.revision] = Set(spec.revision, born=len(self.sets) + self.generation * 1000)
            self._resize(self.sets[spec.revision], step.create, spec)
        for name, size in step.sizes:
            self._resize(self.sets[name], size, spec)
        return bool(step)

    def _resize(self, each: Set, size: int, spec: Grant) -> None:
        each.desired, each.most = spec.replicas, spec.most
        each.generation += 1
        each.size = size
        self.version += 1
        self._wake_set(each)

    def _wake_set(self, each: Set) -> None:
        if not each.waking:
            each.waking = True
            lag = self.pace.lag if self.rng.random() < 0.5 else self.pace.lag / 10
            self.at(self.rng.uniform(0, self.pace.sync / 2 + lag), lambda: self._sync_set(each))

    def _sync_set(self, each: Set) -> None:
        each.waking = False
        pods = [pod for pod in self.pods if pod.revision == each.revision]
        active = [pod for pod in pods if not pod.terminating]
        status = (each.generation, len(active), sum(pod.available for pod in active))
        correction = replica_set.correct(each.size, [pod.view for pod in pods])
        for _ in range(correction.create):
            self.make(each.revision)
        for name in correction.delete:
            self.take(self.named(name))
        if status != (each.observed, each.replicas, each.available):
            each.observed, each.replicas, each.available = status
            self._touch()
            self.wake()

    def _pods_changed(self, pod: Pod) -> None:
        self.version += 1
        self._wake_set(self.sets[pod.revision])

    def read(self) -> tuple[Counts, bool]:
        sets = self.sets.values()
        # Which ReplicaSet is the new one is a matter of the generation that was observed.
        observed = self.observed_spec
        new = self.sets.get(observed.revision) if observed else None
        quiet = all(each.observed == each.generation and each.replicas == each.size for each in sets)
        pods = sum(max(each.replicas, each.size) for each in sets)
        told = sum(each.size for each in sets)
        return (pods, sum(each.available for each in sets), new.replicas if new else 0, told), quiet

    @property
    def limit(self) -> int:
        """A pod that its ReplicaSet was told to remove counts for nothing: so counts the Deployment itself."""
        have: dict[str, int] = {}
        for pod in self.active:
            have[pod.revision] = have.get(pod.revision, 0) + 1
        return sum(min(number, self.sets[revision].size) for revision, number in have.items())

    @property
    def at_rest(self) -> bool:
        return super().at_rest and not any(each.waking for each in self.sets.values())


def _seen(each: Set) -> deployment.SetView:
    return deployment.SetView(
        each.revision,
        each.size,
        replicas=each.replicas,
        ready=each.available,
        available=each.available,
        born=each.born,
        desired=each.desired,
        most=each.most,
    )


class Revisioned(Member):
    """A workload that remembers the revision that it comes from."""

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings)
        self.current = ""

    def count(self) -> Counts:
        assert self.spec is not None
        return self._counted(self.spec.revision)

    def read(self) -> tuple[Counts, bool]:
        observed = self.observed_spec
        return self._counted(observed.revision if observed else ""), not any(pod.condemned for pod in self.active)

    def _counted(self, revision: str) -> Counts:
        active = self.active
        updated = sum(pod.revision == revision for pod in active)
        return len(active), sum(pod.available for pod in active), updated, None


class CloneSet(Revisioned):
    def sync(self, spec: Grant) -> bool:
        self.current = self.current or spec.revision
        view = clone_set.CloneSetView(
            replicas=spec.replicas,
            partition=min(spec.partition, spec.replicas),
            unavailable=spec.unavailable,
            surge=0 if spec.paused else spec.surge,
            pods=tuple(pod.view for pod in self.pods),
            update_revision=spec.revision,
            current_revision=self.current,
            now=self.clock(),
            paused=spec.paused,
        )
        if clone_set.promoted(view):
            self.current = spec.revision
        step = clone_set.decide(view)
        for _ in range(step.create_old):
            self.make(view.current_revision)
        for _ in range(step.create_new):
            self.make(spec.revision)
        for name in step.delete:
            self.take(self.named(name))
        for name in step.mark:
            pod = self.named(name)
            pod.condemned, pod.condemned_at = True, self.clock()
            self.version += 1
        return bool(step)


class StatefulSet(Revisioned):
    ordered = True

    def sync(self, spec: Grant) -> bool:
        self.current = self.current or spec.revision
        view = self._view(spec)
        step = stateful_set.decide(view)
        self.current = stateful_set.status(view, self.generation, {})["currentRevision"]
        for ordinal in step.create:
            self.make(view.revision_for(ordinal), f"{self.name}-{ordinal}")
        for name in step.delete:
            self.take(self.named(name))
        return bool(step)

    def read(self) -> tuple[Counts, bool]:
        counts, _ = super().read()
        spec = self.observed_spec
        outdated = (
            spec and pod.revision != spec.revision and int(pod.name.rpartition("-")[2]) >= spec.partition
            for pod in self.active
        )
        return counts, not any(outdated)

    def _view(self, spec: Grant) -> stateful_set.StatefulSetView:
        return stateful_set.StatefulSetView(
            replicas=spec.replicas,
            update_revision=spec.revision,
            current_revision=self.current or spec.revision,
            pods={int(pod.name.rpartition("-")[2]): pod.view for pod in self.pods},
            now=self.clock(),
            partition=spec.partition,
            unavailable=max(1, spec.unavailable),
            ordered=self.ordered,
        )

    def count(self) -> Counts:
        """Read from the status, where a pod that is being deleted still counts as available."""
        assert self.spec is not None
        status = stateful_set.status(self._view(self.spec), self.generation, {})
        found = interpret_rolling_status(status)
        return found.replicas, found.available, found.updated, None


class ParallelStatefulSet(StatefulSet):
    ordered = False
