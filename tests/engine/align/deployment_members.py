"""A Deployment on a member: it decides, and its ReplicaSets act some time after they were told."""

from collections import Counter
from dataclasses import dataclass

from echelon.engine.align.grant import Grant
from echelon.fleet.member.decide import deployment, replica_set
from tests.engine.align.members import Counts, Member, Pod, Surroundings


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
    told_by: int = 0  # id of the grant under which it got its size


class Deployment(Member):
    annotations_count = True

    def __init__(self, name: str, surroundings: Surroundings) -> None:
        super().__init__(name, surroundings)
        self.sets: dict[str, Set] = {}
        self.raced: int | None = None  # the limit below which it went by itself

    def count(self) -> Counts:
        spec = self.spec
        assert spec is not None
        sets = self.sets.values()
        available = sum(each.available for each in sets)
        new = self.sets.get(spec.revision)
        intended = sum(each.size for each in sets)
        # As an interpreter reads it: there is no telling of fewer than are available.
        told = max(available, intended)
        existing = sum(each.replicas for each in sets)
        return max(existing, told), available, new.replicas if new else 0, told, max(0, told - existing)

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
        rolls = not spec.paused and all(each.desired in (None, spec.replicas) for each in view.sets if each.size > 0)
        least = min(self.committed, view.least)
        step = deployment.decide(view)
        if step.create is not None:
            self.sets[spec.revision] = Set(spec.revision, born=len(self.sets) + self.generation * 1000)
            self._resize(self.sets[spec.revision], step.create, spec)
        for name, size in step.sizes:
            self._resize(self.sets[name], size, spec)
        if rolls and self.committed < least:
            # It trusted statuses that lag, and takes more than it may: neither a pause nor a resize made it do so.
            self.raced = max(self.raced or 0, least)
        return bool(step)

    @property
    def is_updating(self) -> bool:
        return sum(each.size > 0 for each in self.sets.values()) > 1

    @property
    def committed(self) -> int:
        """Pods that are available, and will be when its ReplicaSets have done what they were told."""
        have = Counter(pod.revision for pod in self.pods if pod.available)
        return sum(min(each.size, have[each.revision]) for each in self.sets.values())

    def _resize(self, each: Set, size: int, spec: Grant) -> None:
        each.desired, each.most, each.told_by = spec.replicas, spec.most, spec.id
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

    def decided_by(self, pod: Pod) -> int:
        """A ReplicaSet does what it was told, though another grant has come since."""
        return self.sets[pod.revision].told_by

    def _pods_changed(self, pod: Pod) -> None:
        self.version += 1
        self._wake_set(self.sets[pod.revision])

    @property
    def resized(self) -> tuple[int, int] | None:
        ceilings = [each.most for each in self.sets.values() if each.size > 0 and each.most is not None]
        return (min(ceilings), max(ceilings)) if ceilings else None

    def read(self) -> tuple[Counts, bool]:
        sets = self.sets.values()
        # Which ReplicaSet is the new one is a matter of the generation that was observed.
        observed = self.observed_spec
        new = self.sets.get(observed.revision) if observed else None
        quiet = all(each.observed == each.generation and each.replicas == each.size for each in sets)
        pods = sum(max(each.replicas, each.size) for each in sets)
        told = sum(each.size for each in sets)
        updated = max(new.replicas, new.size) if new else 0
        return (pods, sum(each.available for each in sets), updated, told, 0), quiet

    @property
    def limit(self) -> int:
        """A pod that its ReplicaSet was told to remove counts for nothing: so counts the Deployment itself."""
        have: dict[str, int] = {}
        for pod in self.active:
            have[pod.revision] = have.get(pod.revision, 0) + 1
        return sum(min(number, self.sets[revision].size) for revision, number in have.items())

    def most(self, spec: Grant) -> int:
        """What its ReplicaSets were told to have, they make."""
        return max(spec.most, sum(each.size for each in self.sets.values()))

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
