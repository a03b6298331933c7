"""The words of a rollout: where a cluster stands, and what people have told the rollout to do.

Every kind of rollout (work sets, policies, pod sets) speaks of its clusters in these terms, so that one walker, one set
of control verbs and one view serve them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from echelon.engine.placement.decisions import GroupKey


class Phase(StrEnum):
    """Where a cluster stands in a rollout."""

    TO_APPLY = "ToApply"
    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimeOut"
    SKIPPED = "Skip"


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster that has the desired content already, and what is known of it. No `since` is read as now."""

    cluster: str
    phase: Phase
    since: datetime | None = None


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


NO_CONTROL = Control()


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
    NOTHING = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """One cluster in a decision: where it is, what happens next, and why not yet."""

    cluster: str
    group: GroupKey
    phase: Phase
    since: datetime | None = None
    starts: bool = False  # it is to be written now
    wait: Wait = Wait.NOTHING
    message: str = ""  # the same for people: "waits for group canary to soak 3m20s more"
    until: datetime | None = None  # when its soak or its deadline ends, if it has one


@dataclass(frozen=True, slots=True)
class Decision:
    """What a rollout does now. `standings` has every decided cluster, by group and name."""

    standings: tuple[Standing, ...]
    removed: tuple[ClusterStatus, ...]  # known, and in no group any more
    newly_timed_out: tuple[str, ...]
    breach: bool
    failures: Mapping[GroupKey | None, tuple[str, ...]] = field(default_factory=dict)  # those that count, by budget
    recheck_after: timedelta | None = None

    @property
    def to_start(self) -> tuple[Standing, ...]:
        """The clusters that are to be written now."""
        return tuple(standing for standing in self.standings if standing.starts)
