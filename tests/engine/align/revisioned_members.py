"""CloneSets and StatefulSets on a member: they remember the revision that they come from, and keep pods of it."""

from echelon.engine.align.grant import Grant
from echelon.engine.align.stateful_sets import interpret_rolling_status
from echelon.fleet.member.decide import clone_set, stateful_set
from tests.engine.align.members import Counts, Member, Pod, Surroundings


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

    def most_updated(self, spec: Grant) -> int:
        """What comes from a revision makes pods of it whatever its partition says."""
        return spec.replicas if self.current == spec.revision else super().most_updated(spec)

    def _counted(self, revision: str) -> Counts:
        active = self.active
        updated = sum(pod.revision == revision for pod in active)
        return len(active), sum(pod.available for pod in active), updated, None, 0


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
        if spec is None:
            return counts, False
        return counts, not self._beyond(spec.replicas) and not any(
            pod.revision != spec.revision for pod in self._beyond(spec.partition)
        )

    def most(self, spec: Grant) -> int:
        """In order, pods beyond those wanted go when all of these are there."""
        return spec.replicas + len(self._beyond(spec.replicas))

    def most_updated(self, spec: Grant) -> int:
        """Updated ones stay so; others become it from the partition on, or if they are made anew on the way back."""
        have = {int(pod.name.rpartition("-")[2]): pod.revision for pod in self.active}
        back = self.current == spec.revision
        to_come = sum(
            have.get(number) != spec.revision and (number >= spec.partition or (back and number not in have))
            for number in range(spec.replicas)
        )
        return sum(revision == spec.revision for revision in have.values()) + to_come

    def _beyond(self, ordinal: int) -> list[Pod]:
        return [pod for pod in self.active if int(pod.name.rpartition("-")[2]) >= ordinal]

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
        return found.replicas, found.available, found.updated, None, 0


class ParallelStatefulSet(StatefulSet):
    ordered = False
