"""What is rolled out, whatever kind it is of: the object, its placements, and what each cluster holds of it.

A kind of rollout (work sets, policies, ...) reads its own objects into these values. All else about a rollout (who is
next, what it waits for, what is told, what is stored) is decided from them, in this package, for all kinds alike. A new
kind has to say what a cluster gets and how to tell what it made of it, and nothing more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.rollout import RolloutSummary
from echelon.engine.rollout.failed_writes import FailedWrite
from echelon.engine.rollout.model import ClusterStatus, Hold
from echelon.engine.rollout.references import PlacementReference
from echelon.engine.rollout.removal import EVERYONE
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.rollout.thresholds import Threshold


class Holding(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a cluster holds, and how it does with that.

    Its status has the two clocks: a soak runs from the last success, a deadline from the write.
    """

    cluster: str
    revision: str  # the hash of the content that it has; empty if it has none that is in force
    status: ClusterStatus
    reason: str = ""
    message: str = ""
    placement: str = ""  # the reference through which it has it, if that is known
    written: datetime | None = None
    terminating: bool = False  # it is being taken away
    before_removal: ClusterStatus | None = None  # of one that is being taken away: where it stood when that began


@dataclass(frozen=True)
class UnreadableHolding:
    """What a cluster holds cannot be read."""

    since: datetime | None  # when it was written
    message: str


@dataclass(frozen=True)
class WriteOutcomes:
    """What became of earlier writes, of those that failed."""

    content: Mapping[str, FailedWrite] = field(default_factory=dict)  # by cluster: it did not get a revision
    other: Mapping[str, str] = field(default_factory=dict)  # by cluster: why what it holds was not changed or deleted
    own: str = ""  # why the object itself, or a revision of it, could not be written
    tried: datetime | None = None  # when something failed last
    next_try: datetime | None = None  # until then nothing of it is tried again


ALL_WRITTEN = WriteOutcomes()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """All that a rollout is decided from, besides the time."""

    kind: Kind[Any]
    metadata: ObjectMeta
    noun: str  # what people call that which a cluster gets: work, replica, ...
    revision: str  # the hash of the content that is wanted
    content: JSONObject = field(default_factory=dict)  # the fields of the spec that are rolled out, to be stored
    problem: str = ""  # why no cluster could take the content
    references: Sequence[PlacementReference] = ()
    holdings: Mapping[str, Holding] = field(default_factory=dict)  # by cluster
    unreadable: Mapping[str, UnreadableHolding] = field(default_factory=dict)  # by cluster
    conditions: Sequence[Condition] = ()  # as its status has them
    reported: RolloutSummary | None = None  # what its status says of its clusters
    revisions: Sequence[StoredRevision] = ()
    cause: str = ""  # why the content is wanted, in the words of whoever changed it
    revision_labels: Mapping[str, str] = field(default_factory=dict)  # that a stored revision of the content gets
    history_limit: int | None = None
    in_use: frozenset[str] = frozenset()  # revisions that clusters may get once more, and that are not forgotten
    default_concurrency: int | None = None  # clusters at a time, if nobody says how many; None: as a group has
    outcomes: WriteOutcomes = ALL_WRITTEN
    stale: frozenset[str] = frozenset()  # clusters with a holding that may be newer than all else that is known
    unbound: frozenset[str] = frozenset()  # clusters that are in no cluster set which is bound to the namespace
    leaving: frozenset[str] = frozenset()  # clusters that are on their way out of the fleet
    spared: Mapping[str, datetime] = field(default_factory=dict)  # clusters that may come back, and until when
    max_removals: Threshold = EVERYONE  # clusters that may lose what they hold at once, if nothing else is said
    hold: Hold | None = None  # why nothing starts, whatever the clusters say

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return self.metadata.namespace
