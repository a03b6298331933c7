"""What became of the writes of decisions that failed, between one plan and the next.

A right may be missing, a quota or a policy in the way, a webhook down. The server tells only the one who asks, so that
one takes notes, and the next plan has them as facts: it tells of them in the placement's status. The writes of one
placement wait for each other, so all that are left are tried again together, later each time. When other decisions are
wanted meanwhile, that is news, and they are tried soon. A later process finds out what fails by trying.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from echelon.api.keys import Key
from echelon.api.placement import PLACEMENT_DECISION
from echelon.engine.placement.desired import DesiredSlices
from echelon.engine.plan import Create
from echelon.engine.rollout.write_retries import FIRST, wait_before
from echelon.kube.act import Failed, Written
from echelon.kube.clock import Clock
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

# Somebody was faster, and the cache will show it. If it never does, that is a failure like any other.
CONFLICTS_IN_A_ROW = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retry:
    """Decisions that could not be written, by name and with the server's words, and when that is tried again."""

    failures: dict[str, str]
    at: datetime


@dataclass(frozen=True)
class _Failure:
    code: int  # of the server's answer, 0 without one
    words: str


@dataclass
class _Notes:
    """What failed when the decisions of one placement were written last."""

    desired: DesiredSlices
    tried: datetime
    next_try: datetime
    failures: dict[str, _Failure] = field(default_factory=dict)  # by name of decision
    before: dict[str, _Failure] = field(default_factory=dict)  # the same of the try before
    conflicts: Counter[str] = field(default_factory=Counter)
    tries: int = 0


class DecisionFailures:
    """Takes notes for all placements."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes: dict[Key, _Notes] = {}

    def retry(self, key: Key, desired: DesiredSlices, now: datetime) -> Retry | None:
        """Return what failed and has to wait; None if decisions can be written now."""
        notes = self._notes.get(key)
        if notes is None or not notes.failures:
            return None
        at = notes.next_try if desired == notes.desired else notes.tried + FIRST
        return Retry({name: one.words for name, one in notes.failures.items()}, at) if now < at else None

    def begin(self, key: Key, desired: DesiredSlices) -> None:
        """Hear that decisions begin to be written: if something fails once more, that is noted once more."""
        now = self._clock.now()
        notes = self._notes.setdefault(key, _Notes(desired, now, now))
        if desired != notes.desired:
            notes.desired, notes.tries = desired, 0
        notes.before, notes.failures = notes.failures, {}

    def failed(self, key: Key, failed: Failed) -> bool:
        """Take a note of a failure. False if somebody was only faster, and for a status, of which no plan can tell."""
        write, error = failed.write, failed.error
        notes = self._notes.get(key)
        if notes is None or write.kind.resource != PLACEMENT_DECISION.resource:
            return False
        if isinstance(error, Conflict | AlreadyExists) or (
            isinstance(error, NotFound) and not isinstance(write, Create)
        ):
            notes.conflicts[write.name] += 1
            if notes.conflicts[write.name] < CONFLICTS_IN_A_ROW:
                return False
        code, at_least = (error.status_code, error.retry_after) if isinstance(error, ApiError) else (0, 0.0)
        if not notes.failures:
            notes.tried = self._clock.now()
            notes.next_try = notes.tried + wait_before(notes.tries, timedelta(seconds=at_least))
            notes.tries += 1
        known = notes.before.get(write.name)
        if known is None or known.code != code:  # words may differ each time; all that is told is written
            known = _Failure(code, str(error) or repr(error))
            extra = {"key": str(key), "object": f"{write.namespace}/{write.name}"}
            _log.warning("placement %s: decision %s: %s", key, write.name, known.words, extra=extra)
        notes.failures[write.name] = known
        return True

    def written(self, key: Key, written: Written) -> None:
        """Hear of a write: whoever was faster is known by now."""
        if (notes := self._notes.get(key)) is not None:
            notes.conflicts.pop(written.name, None)

    def forget(self, key: Key) -> None:
        """Forget a placement: its decisions are as they should be, or it is gone."""
        self._notes.pop(key, None)
