"""DaemonSet: one pod on every node that wants one; for a moment two, if it may surge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelon.api.base import JSONObject
from echelon.fleet.member.decide.pods import PodView


@dataclass(frozen=True)
class DaemonSetView:
    """A DaemonSet with its limits resolved, the nodes that should run it, and its pods by the node they are for."""

    nodes: tuple[str, ...]
    pods: Mapping[str, tuple[PodView, ...]]
    update_revision: str
    now: float
    surge: int = 0
    unavailable: int = 1
    on_delete: bool = False
    min_ready_seconds: float = 0.0

    def on(self, node: str) -> list[PodView]:
        """Return the pods of a node that count."""
        return [pod for pod in self.pods.get(node, ()) if pod.active]

    def is_available(self, pod: PodView) -> bool:
        """Tell whether a pod counts as available."""
        return pod.available(self.min_ready_seconds, self.now)

    def is_new(self, pod: PodView) -> bool:
        """Tell whether a pod has the present revision."""
        return pod.revision == self.update_revision


@dataclass(frozen=True)
class Step:
    """Nodes that get a pod, and pods that go."""

    create: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def decide(view: DaemonSetView) -> Step:
    """Return the next step; none when there is nothing to do before something else happens."""
    return _context(view) or (Step() if view.on_delete else _surge(view) if view.surge else _replace(view))


def _context(view: DaemonSetView) -> Step:
    """Run one pod on each node, and none elsewhere. A pod that ended is replaced; one that is ending is waited for."""
    gone = [pod.name for pods in view.pods.values() for pod in pods if pod.ended and not pod.terminating]
    gone += [pod.name for node in view.pods if node not in view.nodes for pod in view.on(node)]
    missing = [node for node in view.nodes if not view.pods.get(node)]
    return Step(tuple(missing), tuple(gone))


def _replace(view: DaemonSetView) -> Step:
    """Delete old pods first. Those that are down already cost nothing."""
    down = [node for node in view.nodes if not any(view.is_available(pod) for pod in view.on(node))]
    old = [pod for node in view.nodes for pod in view.on(node) if not view.is_new(pod)]
    broken = [pod.name for pod in old if not view.is_available(pod)]
    sound = [pod.name for pod in old if view.is_available(pod)]
    return Step(delete=(*broken, *sound[: max(0, view.unavailable - len(down))]))


def _surge(view: DaemonSetView) -> Step:
    """Start new pods first; an old one goes when the new one beside it is available, or when it is down itself."""
    outdated: list[str] = []
    gone: list[str] = []
    doubled = 0
    for node in view.nodes:
        pods = view.on(node)
        old = [pod for pod in pods if not view.is_new(pod)]
        new = [pod for pod in pods if view.is_new(pod)]
        if old and new:
            doubled += 1
            gone += [p.name for p in old if not view.is_available(p) or any(map(view.is_available, new))]
        elif old:
            outdated.append(node)
    return Step(tuple(outdated[: max(0, view.surge - doubled)]), tuple(gone))


def status(view: DaemonSetView, generation: int, old: JSONObject) -> JSONObject:
    """Report on the nodes."""
    settled: Sequence[list[PodView]] = [view.on(node) for node in view.nodes]
    ready = sum(any(pod.ready for pod in pods) for pods in settled)
    available = sum(any(view.is_available(pod) for pod in pods) for pods in settled)
    numbers = {
        "updatedNumberScheduled": sum(any(view.is_new(pod) for pod in pods) for pods in settled),
        "numberAvailable": available,
        "numberUnavailable": len(view.nodes) - available,
    }
    report = {
        "currentNumberScheduled": sum(bool(pods) for pods in settled),
        "numberMisscheduled": sum(bool(view.on(node)) for node in view.pods if node not in view.nodes),
        "desiredNumberScheduled": len(view.nodes),
        "numberReady": ready,
        "observedGeneration": generation,
        **{name: number for name, number in numbers.items() if number},
    }
    return {**report, **{name: old[name] for name in ("collisionCount", "conditions") if name in old}}
