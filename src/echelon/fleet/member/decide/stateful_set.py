"""StatefulSet: pods with numbers, which come in order and are updated from the last to the first.

Pods below the partition keep, and get back, the old revision. Under `OrderedReady` one pod that is not ready stops
everything; `Parallel` only lets go of the order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.pods import PodView


@dataclass(frozen=True)
class StatefulSetView:
    """A StatefulSet and its pods, by ordinal. `unavailable` is None in a Kubernetes that updates one by one."""

    replicas: int
    update_revision: str
    current_revision: str
    pods: Mapping[int, PodView]
    now: float
    start: int = 0
    partition: int = 0
    unavailable: int | None = None
    ordered: bool = True
    on_delete: bool = False
    min_ready_seconds: float = 0.0

    @property
    def wanted(self) -> range:
        """The ordinals that should be there."""
        return range(self.start, self.start + self.replicas)

    def works(self, ordinal: int) -> bool:
        """Tell whether the pod of an ordinal is there to stay, and available."""
        pod = self.pods.get(ordinal)
        return pod is not None and pod.active and pod.available(self.min_ready_seconds, self.now)

    def revision_for(self, ordinal: int) -> str:
        """Return the revision with which the pod of an ordinal is made."""
        kept = not self.on_delete and ordinal < self.start + self.partition
        return self.current_revision if kept else self.update_revision


@dataclass(frozen=True)
class Step:
    """Pods to make, by ordinal, and pods to delete, by name."""

    create: tuple[int, ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def decide(view: StatefulSetView) -> Step:
    """Return the next step; none when there is nothing to do before something else happens."""
    step = _fill(view)
    if step or (view.ordered and not all(view.works(ordinal) for ordinal in view.wanted)):
        return step
    return _shrink(view) or _update(view)


def _fill(view: StatefulSetView) -> Step:
    create: list[int] = []
    delete: list[str] = []
    for ordinal in view.wanted:
        pod = view.pods.get(ordinal)
        if pod is None:
            create.append(ordinal)
        elif pod.ended and not pod.terminating:
            delete.append(pod.name)
        if view.ordered and not view.works(ordinal):
            break
    return Step(tuple(create), tuple(delete))


def _shrink(view: StatefulSetView) -> Step:
    """Remove pods beyond the wanted ones, the last first; in order, the next goes when the one before is gone."""
    beyond = sorted((ordinal for ordinal in view.pods if ordinal not in view.wanted), reverse=True)
    if view.ordered:
        beyond = beyond[:1]
    return Step(delete=tuple(view.pods[n].name for n in beyond if not view.pods[n].terminating))


def _update(view: StatefulSetView) -> Step:
    beyond = any(ordinal not in view.wanted for ordinal in view.pods)
    if view.on_delete or (view.ordered and beyond):
        return Step()
    targets = [n for n in reversed(view.wanted) if n >= view.start + view.partition and n in view.pods]
    if view.unavailable is None:
        return _one_by_one(view, targets)
    budget = view.unavailable - sum(not view.works(ordinal) for ordinal in view.wanted)
    chosen = [n for n in targets if _is_outdated(view, n)]
    broken = [n for n in chosen if not view.works(n)]  # to replace what is down costs nothing
    sound = [n for n in chosen if view.works(n)][: max(0, budget)]
    return Step(delete=tuple(view.pods[n].name for n in broken + sound))


def _one_by_one(view: StatefulSetView, targets: list[int]) -> Step:
    for ordinal in targets:
        if _is_outdated(view, ordinal):
            return Step(delete=(view.pods[ordinal].name,))
        if not view.works(ordinal):
            break
    return Step()


def _is_outdated(view: StatefulSetView, ordinal: int) -> bool:
    pod = view.pods[ordinal]
    return pod.revision != view.update_revision and not pod.terminating


def status(view: StatefulSetView, generation: int, old: JSONObject) -> JSONObject:
    """Report on the pods; an update is complete when every pod has the revision and is ready."""
    pods = [pod for pod in view.pods.values() if not pod.ended]
    alive = [pod for pod in pods if pod.active]
    updated = sum(pod.revision == view.update_revision for pod in alive)
    ready = sum(pod.ready for pod in pods)
    current_revision = view.current_revision
    if not view.on_delete and updated == view.replicas == ready == len(pods):
        current_revision = view.update_revision
    numbers = {
        "readyReplicas": ready,
        "currentReplicas": sum(pod.revision == current_revision for pod in alive),
        "updatedReplicas": updated,
    }
    report = {
        "observedGeneration": generation,
        "replicas": len(pods),
        "availableReplicas": sum(pod.available(view.min_ready_seconds, view.now) for pod in pods),
        **{name: number for name, number in numbers.items() if number},
        "currentRevision": current_revision,
        "updateRevision": view.update_revision,
        "collisionCount": 0,
    }
    return {**report, **{name: old[name] for name in ("collisionCount", "conditions") if name in old}}
