"""How far an agent has come with a work, and what it has told the hub about it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from echelon.agent.handled import Handled
from echelon.agent.settings import RETRIED_AT
from echelon.api.work import ManifestWork, ManifestWorkStatus
from echelon.engine.work.drift import NO_REPAIR, Drift

# For so many tries, some seconds, trouble of the server is not worth a word.
PASSING_TRIES = 5

Asked: TypeAlias = tuple[str, int, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Standing:
    """How far a work has come.

    `due`: when to apply it again although nothing changed; `tries` since all was well; `told`: when the hub last heard
    of it; `reported` is missing if there is more to tell; `stale`: when a report says something else by time alone.
    """

    asked: Asked
    handled: tuple[Handled, ...]
    due: float
    tries: int = 0
    told: float = -math.inf
    reported: ManifestWorkStatus | None = None
    stale: float = math.inf

    def seeing(self, handled: Sequence[Handled]) -> "Standing":
        """Return it with what objects have become; those that differ are said to wait."""
        return replace(self, handled=tuple([_waiting(each) for each in handled]))

    def is_told(self, work: ManifestWork, now: float) -> bool:
        """Whether the hub knows already where the work stands."""
        return work.status == self.reported and now < self.stale

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to tell of, because nobody answered so far and the next try may go well."""
        return bool(self.handled) and all(each.passing and each.outcome.applied is None for each in self.handled)

    def repairs(self, now: float) -> list[int]:
        """Return which objects are to be put back now."""
        return [number for number, each in enumerate(self.handled) if each.repair_due <= now]

    @property
    def repair_due(self) -> float:
        """When the next object is to be put back."""
        return min((each.repair_due for each in self.handled), default=math.inf)


def asked_of(work: ManifestWork) -> Asked:
    """Return what decides whether a work was already applied as it is."""
    meta = work.metadata
    return meta.uid, meta.generation, meta.annotations.get(RETRIED_AT, ""), tuple(sorted(meta.labels.items()))


def known_to(before: Standing | None, work: ManifestWork) -> tuple[Handled, ...]:
    """Return what became of a work's manifests the last time; fights over another generation's are over."""
    if before is None:
        return ()
    if before.asked[:2] == (work.metadata.uid, work.metadata.generation):
        return before.handled
    return tuple([replace(each, differs=False, repair=NO_REPAIR) for each in before.handled])


def patient(handled: Handled, tries: int) -> Handled:
    """Say nothing of a trouble that may be over at the next try."""
    if not handled.passing or tries > PASSING_TRIES:
        return handled
    return replace(handled, outcome=replace(handled.outcome, applied=None))


def differ_in_words(one: ManifestWorkStatus, other: ManifestWorkStatus) -> bool:
    """Tell whether two reports say the same to a program."""
    return one.resource_status == other.resource_status and _wordless(one) == _wordless(other)


def _wordless(status: ManifestWorkStatus) -> list[tuple[object, ...]]:
    return [
        (each.type, each.status, each.reason, each.observed_generation, each.last_transition_time)
        for each in status.conditions
    ]


def _waiting(handled: Handled) -> Handled:
    drift = handled.outcome.drift
    if handled.held is None or (drift is not None and drift.waiting == handled.differs):
        return handled
    drift = Drift(handled.repair.count, waiting=handled.differs)
    return replace(handled, outcome=replace(handled.outcome, drift=drift))
