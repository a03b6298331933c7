"""The words of a rollout: where a cluster stands, and what people have told the rollout to do.

Every kind of rollout (work sets, policies, pod sets) speaks of its clusters in these terms, so that one walker, one set
of control verbs and one view serve them all.

A decision is made over the whole fleet, and often. What it says of each cluster is therefore small, and the sentence
for people is made when somebody reads it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, TypeAlias

import msgspec

from echelon.engine.placement.decisions import GroupKey


class Phase(StrEnum):
    """Where a cluster stands in a rollout."""

    TO_APPLY = "ToApply"
    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimeOut"
    SKIPPED = "Skip"


class ClusterStatus(msgspec.Struct, frozen=True, gc=False):
    """A cluster that has the desired content already, and what is known of it. No `since` is read as now.

    There are two clocks. A soak runs from `since`, which moves with every report that says something else. A deadline
    must not: a cluster that flaps would never miss it. So it runs from `deadline_from`, where that is known.
    """

    cluster: str
    phase: Phase
    since: datetime | None = None
    deadline_from: datetime | None = None


class Wait(StrEnum):
    """Why a cluster is not moving; the reason in a status, for programs."""

    SLOT = "WaitingForSlot"
    GROUP = "WaitingForGroup"
    MANDATORY = "WaitingForMandatoryGroup"
    SOAK = "Soaking"
    REPORT = "WaitingForReport"
    BREACH = "TooManyFailures"
    PAUSED = "Paused"
    APPROVAL = "AwaitingApproval"
    ABORTED = "Aborted"
    HELD = "Held"
    INSPECTION = "WaitingForInspection"  # others have yet to get what they are to look at first
    NOTHING = ""


class Hold(NamedTuple):
    """Why nothing new starts, whatever the clusters say: a stop that is final, or something that does not add up."""

    wait: Wait
    message: str


@dataclass(frozen=True, slots=True)
class Control:
    """What people have told a rollout to do, read from its annotations.

    Times instead of switches, because a switch that nobody turns back would act on the next revision too: what a
    cluster did after the time is not covered by the word that was given before.
    """

    paused: bool = False
    promoted: datetime | None = None  # a success that is as old as this has soaked enough
    retried: datetime | None = None  # a failure that is as old as this gets a new chance, from this time on
    gated: frozenset[str] | None = frozenset()  # groups (names or indexes) that need an approval; None for all of them
    approved: frozenset[str] = frozenset()  # groups (names or indexes) that have one, for this revision
    aborted: bool = False
    resumed: datetime | None = None  # a stop that is as old as this is over
    stop_is_final: bool = False  # too many failures stop the rollout for good, also if they are mended
    allow_empty: bool = False  # mandatory groups without clusters hold nothing up
    hold: Hold | None = None  # found out by whoever knows more than annotations

    def holds_back(self, group: GroupKey) -> bool:
        """Whether a group needs an approval and has none."""
        called = group_names(group)
        return (self.gated is None or not called.isdisjoint(self.gated)) and called.isdisjoint(self.approved)

    def within(self, placement: str) -> "Control":
        """Return what is said about the groups of one placement, which are called `placement/group` or just `group`."""
        gated = self.gated if self.gated is None else _names_within(placement, self.gated)
        return replace(self, gated=gated, approved=_names_within(placement, self.approved))


NO_CONTROL = Control()


def group_names(group: GroupKey) -> frozenset[str]:
    """Return what people may call a group: by name or index, and with its placement where there are several."""
    names = {group.name, str(group.index)} - {""}
    return frozenset(names | {f"{group.placement}/{name}" for name in names} if group.placement else names)


def _names_within(placement: str, names: frozenset[str]) -> frozenset[str]:
    prefix = f"{placement}/"
    return frozenset(name.removeprefix(prefix) for name in names if "/" not in name or name.startswith(prefix))


_IN_FLIGHT = frozenset((Wait.REPORT, Wait.SOAK))
_FAILED = frozenset((Phase.FAILED, Phase.TIMED_OUT))


class ClusterDecision(msgspec.Struct, frozen=True, gc=False):
    """One cluster in a decision: where it is, what happens next, and why not yet."""

    cluster: str
    group: GroupKey
    phase: Phase
    since: datetime | None = None
    starts: bool = False  # it is to be written now
    wait: Wait = Wait.NOTHING
    until: datetime | None = None  # when its soak or its deadline ends, or when the deadline was; if it has one
    reason: "Callable[[ClusterDecision], str] | None" = None  # makes the message; many clusters share one

    @property
    def message(self) -> str:
        """The same for people, such as "waits for group canary (0): c3 soaks 3m20s more"."""
        return self.reason(self) if self.reason else ""

    @property
    def in_flight(self) -> bool:
        """Whether it takes a slot: it progresses, it failed and may recover before its deadline, or it soaks."""
        return self.wait in _IN_FLIGHT

    @property
    def failed(self) -> bool:
        """Whether it counts as a failure."""
        return self.phase in _FAILED


Reason: TypeAlias = Callable[[ClusterDecision], str]


@dataclass(frozen=True)
class Decision:
    """What a rollout does now. `cluster_decisions` has every decided cluster, by group and name."""

    cluster_decisions: tuple[ClusterDecision, ...]
    removed: tuple[ClusterStatus, ...]  # known, and in no group any more
    newly_timed_out: tuple[str, ...]
    breach: bool
    failures: Mapping[GroupKey | None, tuple[str, ...]] = field(default_factory=dict)  # those that count, by budget
    recheck_after: timedelta | None = None
    blocked: Wait = Wait.NOTHING  # why nothing more starts, or not in some groups, until somebody does something
    blocked_message: str = ""
    active: tuple[GroupKey, ...] = ()  # where the rollout is: the groups in which clusters may start or are in flight
    reached: frozenset[GroupKey] = frozenset()  # those and the groups before them
    free: int | None = None  # slots that nobody takes; None where nobody waits for one

    @property
    def to_start(self) -> tuple[ClusterDecision, ...]:
        """The clusters that are to be written now."""
        return tuple(entry for entry in self.cluster_decisions if entry.starts)

    @cached_property
    def _by_cluster(self) -> dict[str, ClusterDecision]:
        return {entry.cluster: entry for entry in self.cluster_decisions}

    def of(self, cluster: str) -> ClusterDecision | None:
        """One cluster's entry, if it is in any group."""
        return self._by_cluster.get(cluster)

    def explain(self, cluster: str) -> str:
        """What happens next with a cluster and why not yet, for people."""
        found = self.of(cluster)
        return found.message if found else "is in no decision group"
