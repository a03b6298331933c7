"""Which pods a clique lacks, and what becomes of pods that have ended.

A pod that is being deleted is replaced at once: on a dead node it may take for ever to go, and only live pods hold an
index. A pod that has ended (evicted, or a program that returned) keeps its index for a while, so that one which ends
again and again does not do so in a tight loop; its replacement is made before it is deleted and notes on itself how
many have ended before it, so that the count survives everything. One that ran for longer than any wait ends the row.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from echelon.engine.pod_clique.pod_facts import PodFacts
from echelon.engine.pod_clique.pods import free_indices
from echelon.engine.pod_clique.standing import CliqueStanding

FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=5)
RAN_WELL = timedelta(minutes=10)


@dataclass(frozen=True)
class NewPod:
    """A pod to make."""

    index: int
    predecessor: str = ""  # the uid of the pod that had the index before
    ended_before: int = 0
    instead_of: PodFacts | None = None  # a pod that has ended, and goes once this one is there


@dataclass(frozen=True)
class Refill:
    """What a clique lacks."""

    pods: tuple[NewPod, ...] = ()
    cleared: tuple[PodFacts, ...] = ()  # pods that have ended and are not to be replaced, or were
    due: datetime | None = None  # when the next pod that has ended may be replaced

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.pods and not self.cleared and self.due is None


NOTHING_LACKS = Refill()


def refill(clique: CliqueStanding, now: datetime) -> Refill:
    """Return what a clique lacks."""
    view, tally = clique.view, clique.tally
    if view is None or (tally.live == clique.replicas and not tally.ended):
        return NOTHING_LACKS
    room = clique.replicas - tally.live if not tally.doubled else 0
    new: list[NewPod] = []
    cleared: list[PodFacts] = []
    taken = set(tally.indices)
    due: datetime | None = None
    for pod in sorted(tally.ended, key=_by_index):
        if room <= 0 or pod.index is None or pod.index in taken:
            cleared.append(pod)
            continue
        room -= 1
        taken.add(pod.index)
        streak = _streak(pod)
        ready_at = (pod.ended_at or pod.created) + wait_after(streak)
        if ready_at > now:
            due = ready_at if due is None else min(due, ready_at)
        else:
            new.append(NewPod(pod.index, pod.uid, streak + 1, pod))
    if tally.doubled:
        cleared = [pod for pod in cleared if pod.index in tally.indices]
    before = _predecessors(view.pods)
    new += [
        NewPod(index, before[index].uid if index in before else view.gone.get(index, ""))
        for index in free_indices(taken, room)
    ]
    return Refill(tuple(new), tuple(cleared), due)


def wait_after(streak: int) -> timedelta:
    """Return how long to wait when that many pods have ended in a row before this one."""
    return min(FIRST_WAIT * (1 << min(streak, 10)), LONGEST_WAIT)


def _streak(pod: PodFacts) -> int:
    ran = (pod.ended_at or pod.created) - pod.created
    return 0 if ran >= RAN_WELL else pod.ended_before


def _by_index(pod: PodFacts) -> tuple[int, float, str]:
    """The youngest pod of an index comes first: it knows how many ended before it."""
    return (-1 if pod.index is None else pod.index, -pod.created.timestamp(), pod.name)


def _predecessors(pods: Iterable[PodFacts]) -> dict[int, PodFacts]:
    """Return of each index the youngest pod that had it and is not live any more."""
    dead = [(pod.index, pod) for pod in pods if pod.index is not None and not pod.live]
    return dict(sorted(dead, key=lambda each: (each[1].created, each[1].uid)))
