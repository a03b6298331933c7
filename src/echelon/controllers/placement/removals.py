"""Nothing is taken out of a decision on knowledge that is older than the decision.

Caches can be behind: a replica of the server lags, a process starts on it, or a server that seemed to lag was believed
in the end because it might have been restored from a backup. A fleet as it was before most of its clusters came looks
like a fleet that has lost them, and following that would evict everything. So clusters leave a decision only when the
caches know at least what its writer knew.

The same holds for what nobody can read: a cluster, a set or a binding that does not fit its type is there, and while it
is not known what it says, nothing leaves because of it, however long that takes.

After a restore the decisions are of the past, too, and nothing is held longer than it takes to notice. Should versions
never come together, for a reason that nobody has thought of, the wait ends after a time and what is seen is believed.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.engine.plan import Plan
from echelon.kube.act import Written
from echelon.kube.cache import identity_of
from echelon.kube.freshness import Freshness
from echelon.kube.informer import Informer

LOOK_AGAIN = timedelta(seconds=2)
# Idle caches hear how far they have come about once a minute.
LONGEST = timedelta(minutes=5)

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemovalCheck:
    """Whether a plan has to wait for the caches, and what they know if not."""

    must_wait: bool
    asked: datetime
    era: int | None = None  # of the caches, if they know what the writers of the decisions knew
    believed: bool = False  # they do not, but it has been waited for long enough


@dataclass(frozen=True)
class RemovalPlan(Plan):
    """A plan that may take clusters out of decisions, and why it may."""

    verdict: RemovalCheck | None = None


class RemovalBarrier(Generic[T]):
    """What may be concluded from caches about decisions of a kind, and what not yet."""

    def __init__(self, kind: Kind[T], listed: Callable[[T], Iterable[str]], sources: Sequence[Informer[Any]]) -> None:
        """`listed` tells the clusters of a decision; `sources` are the caches that decisions follow from."""
        self._kind = kind
        self._listed = listed
        self._sources = tuple(sources)
        self._freshness = Freshness(self._sources)
        self._eras: dict[Key, int] = {}  # in which the plan of a placement that is carried out knew enough
        self._since: dict[Key, datetime] = {}  # when the wait of a placement began

    def judge(
        self, placement: Key, decisions: Iterable[T], wanted: Collection[str], now: datetime, *, hidden: bool = False
    ) -> RemovalCheck:
        """Tell whether a plan for these decisions, which keeps only what is wanted, has to wait.

        `hidden`: there are decisions that cannot be read.
        """
        decisions = tuple(decisions)
        leaving = {cluster for decision in decisions for cluster in self._listed(decision) if cluster not in wanted}
        if hidden or (leaving and self._is_hidden(placement, leaving)):
            return RemovalCheck(must_wait=True, asked=now)
        if not any(map(self._is_behind, decisions)):
            return RemovalCheck(must_wait=False, asked=now, era=self._freshness.era)
        waited = now - self._since.get(placement, now)
        return RemovalCheck(
            must_wait=bool(leaving) and waited < LONGEST, asked=now, believed=bool(leaving) and waited >= LONGEST
        )

    def waits(self, placement: Key) -> bool:
        """Whether a placement waits already."""
        return placement in self._since

    def begin(self, placement: Key, verdict: RemovalCheck | None) -> None:
        """Hear that a plan begins to be carried out; none was asked for if it writes no decision."""
        self._eras.pop(placement, None)
        if verdict is not None and verdict.must_wait:
            self._since.setdefault(placement, verdict.asked)
            return
        self._since.pop(placement, None)
        if verdict is not None and verdict.era is not None:
            self._eras[placement] = verdict.era
        if verdict is not None and verdict.believed:
            _log.warning("the decisions of placement %s are newer than what is known; that is believed now", placement)

    def wrote(self, placement: Key, written: Written) -> None:
        """Hear of a write for a placement."""
        if written.kind.resource != self._kind.resource:
            return
        era = self._eras.get(placement)
        if era is not None and written.resource_version is not None:
            self._freshness.wrote(written.uid, era)
        else:
            self._freshness.forget(written.uid)

    def gone(self, decision: T) -> None:
        """Forget a decision."""
        self._freshness.forget(identity_of(decision).uid)

    def _is_behind(self, decision: T) -> bool:
        _, uid, version = identity_of(decision)
        return self._freshness.is_behind(version, uid)

    def _is_hidden(self, placement: Key, leaving: Collection[str]) -> bool:
        """Whether clusters seem to leave because of something that is there and was never readable."""
        return any(
            source.get(key) is None
            and (
                key.namespace in (placement.namespace, *leaving)
                or (not key.namespace and (source.kind.resource != MANAGED_CLUSTER.resource or key.name in leaving))
            )
            for source in self._sources
            for key in source.unreadable
        )
