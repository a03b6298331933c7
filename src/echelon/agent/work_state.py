"""How far an agent has come with a work, and what it has reported to the hub."""

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from echelon.agent.manifest_result import ManifestResult
from echelon.api.meta import Condition
from echelon.api.work import ManifestWork, ManifestWorkStatus
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION
from echelon.engine.work.drift import NO_REPAIR, Drift
from echelon.engine.work.ownership import adopts

# For so many tries, some seconds, trouble of the server is not worth a word.
TRANSIENT_TRIES = 5

WorkRequest: TypeAlias = tuple[str, int, str, tuple[tuple[str, str], ...], bool]


class WorkState(msgspec.Struct, frozen=True):
    """How far a work has come.

    `apply_at`: when to apply it again although nothing changed; `tries` since all was well; `reported_at`: when the hub
    last heard of it; `reported` is missing if there is more to tell; `outdated_at`: when a report says something else
    by time alone.
    """

    request: WorkRequest
    results: tuple[ManifestResult, ...]
    apply_at: float
    tries: int = 0
    reported_at: float = -math.inf
    reported: ManifestWorkStatus | None = None
    outdated_at: float = math.inf
    told: ManifestWorkStatus | None = None  # the last report with all that did not fit into it

    def with_results(self, results: Sequence[ManifestResult]) -> "WorkState":
        """Return it with what objects have become; those that differ are said to wait."""
        return replace(self, results=tuple([_with_pending_repair(each) for each in results]))

    def is_reported(self, work: ManifestWork, now: float) -> bool:
        """Whether the hub knows this state already."""
        return work.status == self.reported and now < self.outdated_at

    @property
    def is_applied(self) -> bool:
        """Whether all of its manifests are applied."""
        return all(each.is_applied for each in self.results)

    @property
    def is_inconclusive(self) -> bool:
        """Whether there is nothing to report yet: nobody answered so far, and the next try may go well."""
        return bool(self.results) and all(each.transient and each.observed.applied is None for each in self.results)

    def due_repairs(self, now: float) -> list[int]:
        """Return which objects are to be put back now."""
        return [number for number, each in enumerate(self.results) if each.repair_due <= now]

    @property
    def repair_due(self) -> float:
        """When the next object is to be put back."""
        return min((each.repair_due for each in self.results), default=math.inf)


def request_of(work: ManifestWork) -> WorkRequest:
    """Return what decides whether a work was already applied as it is."""
    meta = work.metadata
    retried, labels = meta.annotations.get(RETRIED_ANNOTATION, ""), tuple(sorted(meta.labels.items()))
    return meta.uid, meta.generation, retried, labels, adopts(meta.annotations)


def previous_results(before: WorkState | None, work: ManifestWork) -> tuple[ManifestResult, ...]:
    """Return what became of a work's manifests the last time; fights over another generation's are over."""
    if before is None:
        return ()
    if before.request[:2] == (work.metadata.uid, work.metadata.generation):
        return before.results
    return tuple([replace(each, differs=False, repair=NO_REPAIR) for each in before.results])


def without_transient_failure(result: ManifestResult, tries: int) -> ManifestResult:
    """Say nothing of a trouble that may be over at the next try."""
    if not result.transient or tries > TRANSIENT_TRIES:
        return result
    return replace(result, observed=replace(result.observed, applied=None))


def differ_in_messages(one: ManifestWorkStatus, other: ManifestWorkStatus) -> bool:
    """Tell whether two reports differ in messages only, and say the same to a program."""
    return _without_messages(one) == _without_messages(other)


def _without_messages(status: ManifestWorkStatus) -> object:
    manifests = [
        (each.resource_meta, each.status_feedback, _said(each.conditions)) for each in status.resource_status.manifests
    ]
    return _said(status.conditions), manifests


def _said(conditions: Sequence[Condition]) -> list[tuple[object, ...]]:
    return [
        (each.type, each.status, each.reason, each.observed_generation, each.last_transition_time)
        for each in conditions
    ]


def _with_pending_repair(result: ManifestResult) -> ManifestResult:
    drift = result.observed.drift
    if result.enforced is None or (drift is not None and drift.waiting == result.differs):
        return result
    drift = Drift(result.repair.count, waiting=result.differs)
    return replace(result, observed=replace(result.observed, drift=drift))
