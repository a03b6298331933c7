"""What one cluster's report means at this moment: how long it still soaks, whether its deadline has passed.

Times that are equal count as passed. A word of people given at a time (promote, retry) covers what was so at that time
and nothing later.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.model import ClusterDecision, ClusterStatus, Control, Phase, Reason, Wait
from echelon.engine.rollout.strategy import Strategy

NEW_CHANCE = timedelta(minutes=10)  # how long a retry may take where there is no deadline

_LAST = datetime.max.replace(tzinfo=UTC)

# Of two reports on one cluster the more worrying one counts, whatever their order.
_WORRY = {Phase.SKIPPED: 0, Phase.SUCCEEDED: 1, Phase.TO_APPLY: 2, Phase.FAILED: 4, Phase.TIMED_OUT: 5}
_WORRY_OF_THE_UNKNOWN = 3  # as of Progressing

# Looking up a member of an enumeration takes ten times as long as looking up a name, and this is done for each cluster.
_PROGRESSING, _SUCCEEDED, _FAILED = Phase.PROGRESSING, Phase.SUCCEEDED, Phase.FAILED
_TIMED_OUT, _SKIPPED = Phase.TIMED_OUT, Phase.SKIPPED
_NOTHING, _SOAK, _REPORT = Wait.NOTHING, Wait.SOAK, Wait.REPORT


class Judge:
    """Judges reports by one strategy, at one moment, under one word of people."""

    def __init__(self, strategy: Strategy, now: datetime, control: Control, reason: Reason) -> None:
        self._now = now
        self._soak = strategy.soak
        self._deadline = strategy.deadline
        self._soaked = now - strategy.soak  # a success that is as old as this has soaked
        self._expired = None if strategy.deadline is None else now - strategy.deadline
        self._control = control
        self._reason = reason

    def __call__(self, status: ClusterStatus, group: GroupKey) -> ClusterDecision:
        """Tell where a cluster stands that has the content."""
        phase, since = status.phase, status.since
        if phase is _SUCCEEDED:
            base = since or self._now
            promoted = self._control.promoted
            if base <= self._soaked or (promoted is not None and base <= promoted):
                return ClusterDecision(status.cluster, group, phase, since, False, _NOTHING, None, self._reason)
            end = _after(base, self._soak)
            return ClusterDecision(status.cluster, group, phase, since, False, _SOAK, end, self._reason)
        if phase is _SKIPPED:
            return ClusterDecision(status.cluster, group, phase, since, reason=self._reason)
        return self._unfinished(status, group)

    def _unfinished(self, status: ClusterStatus, group: GroupKey) -> ClusterDecision:
        cluster, phase, since = status.cluster, status.phase, status.since
        begun = status.deadline_from or since or self._now
        late = self._was_late(begun)
        chance = self._chance(phase, since or self._now, late=late)
        if chance is not None:
            phase, since = _PROGRESSING, self._control.retried
        elif phase is _TIMED_OUT:
            return ClusterDecision(cluster, group, phase, since, reason=self._reason)
        elif phase is not _FAILED:
            phase = _PROGRESSING  # a word that we don't know is no reason to go on
        if self._deadline is None:
            return ClusterDecision(cluster, group, phase, since, wait=_REPORT, until=chance, reason=self._reason)
        if (late or chance is not None) and self._control.retried is not None:
            begun = self._control.retried
        end = _after(begun, self._deadline)
        if self._expired is not None and begun <= self._expired:
            return ClusterDecision(cluster, group, _TIMED_OUT, since, until=end, reason=self._reason)
        return ClusterDecision(cluster, group, phase, since, wait=_REPORT, until=end, reason=self._reason)

    def _was_late(self, begun: datetime) -> bool:
        """Whether it had missed its deadline when somebody asked for a retry."""
        retried = self._control.retried
        return retried is not None and self._deadline is not None and _after(begun, self._deadline) <= retried

    def _chance(self, phase: Phase, since: datetime, *, late: bool) -> datetime | None:
        """When the new chance of a retried failure ends; None if it has none, or had it."""
        retried = self._control.retried
        if retried is None or not (since <= retried if phase is _FAILED or phase is _TIMED_OUT else late):
            return None
        end = _after(retried, NEW_CHANCE if self._deadline is None else self._deadline)
        return end if self._deadline is not None or self._now < end else None


def most_worrying(statuses: Iterable[ClusterStatus], now: datetime) -> dict[str, ClusterStatus]:
    """Keep one report a cluster."""
    known: dict[str, ClusterStatus] = {}
    for status in statuses:
        other = known.get(status.cluster)
        if other is None or _worry(status, now) > _worry(other, now):
            known[status.cluster] = status
    return known


def _worry(status: ClusterStatus, now: datetime) -> tuple[int, timedelta, bool]:
    """Failures and progress that last longer worry more; successes do if they are fresh. No time says less than now."""
    age = now - (status.since or now)
    worry = _WORRY.get(status.phase, _WORRY_OF_THE_UNKNOWN)
    return worry, -age if status.phase is _SUCCEEDED else age, status.since is not None


def _after(base: datetime, duration: timedelta) -> datetime:
    try:
        return base + duration
    except OverflowError:
        return _LAST
