"""CloneSet: pods that are exchanged one by one while `partition` of them stay old.

One step does one kind of thing. Scaling comes before updating, and an update only marks a pod: that it is deleted is
a matter of a later step, which asks again whether the limits of that moment allow it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.pods import PodView, least_missed_first


@dataclass(frozen=True)
class CloneSetView:
    """A CloneSet with its limits resolved, and its pods. `creation_limit` is how many may be unavailable for it still
    to create more; None for any number."""

    replicas: int
    partition: int
    unavailable: int
    surge: int
    pods: tuple[PodView, ...]
    update_revision: str
    current_revision: str
    now: float
    paused: bool = False
    min_ready_seconds: float = 0.0
    creation_limit: int | None = None
    named: frozenset[str] = frozenset()  # pods that the user wants deleted

    @property
    def active(self) -> list[PodView]:
        """The pods that count."""
        return [pod for pod in self.pods if pod.active]

    def is_new(self, pod: PodView) -> bool:
        """Tell whether a pod has the revision that is to be reached."""
        return pod.revision == self.update_revision

    def is_available(self, pod: PodView) -> bool:
        """Tell whether a pod counts as available."""
        return pod.available(self.min_ready_seconds, self.now)

    def is_condemned(self, pod: PodView) -> bool:
        """Tell whether a pod is to be deleted as soon as the limits allow."""
        return pod.condemned or pod.name in self.named


@dataclass(frozen=True)
class Step:
    """What one sync does."""

    create_old: int = 0
    create_new: int = 0
    delete: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create_old or self.create_new or self.delete or self.mark)


def decide(view: CloneSetView) -> Step:
    """Return the next step; none when there is nothing to do before something else happens."""
    return _scale(view) or _update(view)


def promoted(view: CloneSetView) -> bool:
    """Tell whether the current revision becomes the update revision: all pods are new; ready they need not be."""
    active = view.active
    return len(active) == view.replicas and all(view.is_new(pod) for pod in active)


def _need(view: CloneSetView, active: Sequence[PodView]) -> int:
    """Return how many pods are still to be updated."""
    new = sum(view.is_new(pod) for pod in active)
    old = len(active) - new
    return max(0, min(old - view.partition, view.replicas - view.partition - new))


def _scale(view: CloneSetView) -> Step:
    active = view.active
    condemned = [pod for pod in active if view.is_condemned(pod)]
    unavailable = sum(not view.is_available(pod) for pod in active)
    expected = view.replicas + _surge(view, active, condemned, unavailable)
    missing = expected - len(active)
    if missing > 0:
        return _grow(view, active, missing, unavailable)
    # Ready pods go only as far as what is left stays within the limit.
    spare = max(0, view.unavailable + len(active) - view.replicas - unavailable)
    doomed = _limited(view, least_missed_first(condemned), spare)
    if doomed or missing == 0:
        return Step(delete=tuple(pod.name for pod in doomed))
    return Step(delete=tuple(pod.name for pod in _limited(view, _surplus(view, active, -missing), spare)))


def _surge(view: CloneSetView, active: Sequence[PodView], condemned: Sequence[PodView], unavailable: int) -> int:
    ready_condemned = sum(view.is_available(pod) for pod in condemned)
    beyond = ready_condemned - max(0, view.unavailable - unavailable)
    return max(0, min(view.surge, max(_need(view, active), beyond)))


def _grow(view: CloneSetView, active: Sequence[PodView], missing: int, unavailable: int) -> Step:
    if view.creation_limit is not None:
        missing = max(0, min(missing, view.creation_limit - unavailable))
    old = sum(not view.is_new(pod) for pod in active)
    outdated = 0
    if view.current_revision != view.update_revision:
        outdated = max(0, min(missing, view.partition - old))
    return Step(create_old=outdated, create_new=missing - outdated)


def _surplus(view: CloneSetView, active: Sequence[PodView], count: int) -> list[PodView]:
    """Choose pods that are too many: old ones beyond the partition, then new ones, then the rest."""
    old = least_missed_first(pod for pod in active if not view.is_new(pod))
    new = least_missed_first(pod for pod in active if view.is_new(pod))
    beyond = max(0, len(old) - view.partition)
    return (old[:beyond] + new + old[beyond:])[:count]


def _limited(view: CloneSetView, pods: Iterable[PodView], spare: int) -> list[PodView]:
    chosen = []
    for pod in pods:
        if view.is_available(pod):
            if spare <= 0:
                continue
            spare -= 1
        chosen.append(pod)
    return chosen


def _update(view: CloneSetView) -> Step:
    active = view.active
    if view.paused:
        return Step()
    old = [pod for pod in active if not view.is_new(pod)]
    left = _need(view, active) - sum(view.is_condemned(pod) for pod in old)
    # What is marked already is as good as gone.
    lost = [pod for pod in active if view.is_condemned(pod) or not view.is_available(pod)]
    allowed = view.unavailable + len(active) - view.replicas
    unavailable, outdated = len(lost), sum(view.is_new(pod) for pod in lost)
    marked: list[str] = []
    for pod in least_missed_first(pod for pod in old if not view.is_condemned(pod)):
        working = view.is_available(pod)
        if len(marked) >= left or outdated + len(marked) >= allowed or (working and unavailable >= allowed):
            break
        unavailable += working
        marked.append(pod.name)
    return Step(mark=tuple(marked))


def status(view: CloneSetView, generation: int, selector: str, old: JSONObject) -> JSONObject:
    """Report on the pods."""
    active = view.active
    new = [pod for pod in active if view.is_new(pod)]
    report = {
        "observedGeneration": generation,
        "replicas": len(active),
        "readyReplicas": sum(pod.ready for pod in active),
        "availableReplicas": sum(view.is_available(pod) for pod in active),
        "updatedReplicas": len(new),
        "updatedReadyReplicas": sum(pod.ready for pod in new),
        "updatedAvailableReplicas": sum(view.is_available(pod) for pod in new),
        "expectedUpdatedReplicas": view.replicas - view.partition,
        "updateRevision": view.update_revision,
        "currentRevision": view.update_revision if promoted(view) else view.current_revision,
        "labelSelector": selector,
    }
    return {**report, **{name: old[name] for name in ("collisionCount", "conditions") if name in old}}
