"""Nothing is taken out of a decision on knowledge that is older than the decision.

Caches can be behind: a replica of the server lags, a process starts on it, or a server that seemed to lag was believed
in the end because it might have been restored from a backup. A fleet as it was before most of its clusters came looks
like a fleet that has lost them, and following that would evict everything. Whoever wrote a decision had seen a state
that was older than the write. So clusters leave a decision only when all caches have come at least to its version, or
when we wrote it ourselves, knowing that much, and no cache has gone back since.

The same holds for what nobody can read: a cluster, a set or a binding that does not fit its type is there, and while it
is not known what it says, nothing leaves because of it, however long that takes.

After a restore the decisions are of the past, too, and nothing is held longer than it takes to notice. Should versions
never come together, for a reason that nobody has thought of, the wait ends after a time and what is seen is believed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.kube.act import Written
from echelon.kube.cache import identity_of, newer
from echelon.kube.informer import Informer

LOOK_AGAIN = timedelta(seconds=2)
# Idle caches hear how far they have come about once a minute.
LONGEST_SECONDS = 300.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Doubt(Generic[T]):
    """What a controller may conclude from caches about decisions of a kind, and what not yet."""

    def __init__(self, kind: Kind[T], listed: Callable[[T], Iterable[str]], sources: Sequence[Informer[Any]]) -> None:
        """`listed` tells the clusters of a decision; `sources` are the caches that decisions follow from."""
        self._kind = kind
        self._listed = listed
        self._sources = tuple(sources)
        self._backs = 0
        self._own: set[str] = set()  # uids of decisions that were last written with enough knowledge, by us
        self._informed: set[Key] = set()  # placements whose last plan knew enough
        self._since: dict[Key, float] = {}  # when the wait of a placement began

    def about(self, placement: Key, decisions: Iterable[T], wanted: Collection[str], *, hidden: bool = False) -> bool:
        """Whether a plan for these decisions, which keeps only what is wanted, has to wait.

        `hidden`: there are decisions that cannot be read.
        """
        decisions = tuple(decisions)
        self._notice_backs()
        leaving = {cluster for decision in decisions for cluster in self._listed(decision) if cluster not in wanted}
        if hidden or (leaving and self._is_hidden(placement, leaving)):
            self._since.setdefault(placement, asyncio.get_running_loop().time())
            return True
        if all(map(self._covered, decisions)):
            self._informed.add(placement)
            self._since.pop(placement, None)
            return False
        self._informed.discard(placement)
        if not leaving:
            return False
        now = asyncio.get_running_loop().time()
        if now - self._since.setdefault(placement, now) < LONGEST_SECONDS:
            return True
        _log.warning("the decisions of placement %s are newer than what is known; that is believed now", placement)
        return False

    def waits(self, placement: Key) -> bool:
        """Whether a placement waits already."""
        return placement in self._since

    def wrote(self, placement: Key, written: Written) -> None:
        """Hear of a write for a placement."""
        if written.kind.resource != self._kind.resource:
            return
        if placement in self._informed and written.resource_version is not None:
            self._own.add(written.uid)
        else:
            self._own.discard(written.uid)

    def forget(self, placement: Key) -> None:
        """Forget a placement."""
        self._informed.discard(placement)
        self._since.pop(placement, None)

    def gone(self, decision: T) -> None:
        """Forget a decision."""
        self._own.discard(identity_of(decision).uid)

    def _notice_backs(self) -> None:
        backs = sum(source.went_back for source in self._sources)
        if backs != self._backs:
            self._backs = backs
            self._own.clear()

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

    def _covered(self, decision: T) -> bool:
        """Whether all caches know at least what the writer of a decision knew."""
        _, uid, version = identity_of(decision)
        if uid in self._own or not version.isdigit():
            return True
        return not any(newer(version, source.reached) for source in self._sources)
