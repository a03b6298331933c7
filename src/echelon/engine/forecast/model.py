"""A forecast: the waves of a rollout in their order, when each may begin at the earliest, and how it all ends."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from echelon.engine.align.budgets import Budgets
from echelon.engine.placement.decisions import GroupKey


class Ending(StrEnum):
    """How a forecast ends."""

    COMPLETE = "complete"  # every cluster has the content, works and has soaked
    FINISHED = "finished"  # nobody moves any more, and whatever failed is tolerated
    STOPPED = "stopped"  # more clusters failed than are tolerated
    BLOCKED = "blocked"  # nothing goes on until somebody says or corrects something
    WAITING = "waiting"  # a cluster that never reports is waited for, and nothing ends that
    EMPTY = "no clusters"
    CUT_SHORT = "cut short"  # there are more waves than were looked at


@dataclass(frozen=True)
class Assumptions:
    """What is assumed of the clusters. Without anything said, all of them work at once."""

    takes: timedelta = timedelta()  # from the write of a content to the cluster's verdict
    failing: frozenset[str] = frozenset()  # clusters that report a failure
    silent: frozenset[str] = frozenset()  # clusters that never report anything
    approving: bool = True  # that approvals are given as soon as somebody waits for them


ALL_WELL = Assumptions()


@dataclass(frozen=True, slots=True)
class Start:
    """A cluster that gets the content."""

    cluster: str
    placement: str
    group: GroupKey


@dataclass(frozen=True)
class Wave:
    """Clusters that start together; of a PodCliqueSet, replicas whose pods are replaced."""

    after: timedelta  # at the earliest, from the moment that the forecast is made for
    starts: tuple[Start, ...] = ()
    removals: tuple[str, ...] = ()  # clusters that lose what they have
    approvals: tuple[str, ...] = ()  # groups that somebody has to approve before
    replicas: tuple[int, ...] = ()  # of a PodCliqueSet: whose pods go or come
    gone: tuple[str, ...] = ()  # the pods of today that go
    made: int = 0  # pods that come

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters that start."""
        return tuple(each.cluster for each in self.starts)

    @property
    def groups(self) -> tuple[tuple[str, GroupKey], ...]:
        """The groups, each with its placement, to which these clusters belong, in the order of the walk."""
        return tuple(dict.fromkeys((each.placement, each.group) for each in self.starts))


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The pods of a federated workload on a cluster: as they are, and as they are in the end."""

    cluster: str
    before: int
    pods: int
    updated: int
    available: int
    wait: str = ""  # why it is not further in the end; nothing if it is complete
    message: str = ""


@dataclass(frozen=True)
class Pods:
    """The pods of a federated workload over all clusters."""

    budgets: Budgets
    lowest: int  # of available pods on this way
    highest: int  # of pods
    clusters: tuple[ClusterPods, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """What a rollout will do if the clusters do what is assumed of them."""

    revision: str  # that the clusters come to have
    waves: tuple[Wave, ...] = ()
    ends: timedelta = timedelta()  # when nothing happens any more
    ending: Ending = Ending.COMPLETE
    message: str = ""  # why it does not go on, where it does not
    inspected: tuple[str, ...] = ()  # clusters that look at the content before anybody starts
    waiting: tuple[str, ...] = ()  # clusters that never start
    failed: tuple[str, ...] = ()
    held: tuple[str, ...] = field(default=())  # clusters that lose what they have when somebody approves of that
    pods: Pods | None = None  # of a federated workload
    outdated: tuple[str, ...] = ()  # pods of a PodCliqueSet that have an older template in the end

    @property
    def changes(self) -> bool:
        """Whether any cluster gets or loses anything, or has pods that come to be outdated."""
        return bool(self.waves or self.inspected or self.held or self.outdated)

    @property
    def starting(self) -> frozenset[str]:
        """The clusters that get something."""
        return frozenset(cluster for wave in self.waves for cluster in wave.clusters)

    @property
    def removed(self) -> tuple[str, ...]:
        """The clusters that lose what they have, in that order."""
        return tuple(cluster for wave in self.waves for cluster in wave.removals)


def sizes(waves: Iterable[Wave]) -> list[int]:
    """Return how many clusters start in each wave."""
    return [len(wave.starts) for wave in waves]
