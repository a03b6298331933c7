"""What the present revision has gone through, noted on the object that stores it.

Some of what a rollout has to know cannot be seen on the clusters: that it was complete before a cluster fell ill, that
a group has had the revision and lost its clusters afterwards, that too many clusters had failed before they were
mended. These facts are written when they become facts, once, and whoever leads next reads them. They are about the
revision as it is wanted now. When somebody goes back to it later it has another number, and what was noted with the old
one is history.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from echelon.api.times import format_micro_time, parse_time
from echelon.engine.rollout.stored_revision import (
    COMPLETED_ANNOTATION,
    COMPLETED_NUMBER_ANNOTATION,
    PASSED_ANNOTATION,
    STOPPED_ANNOTATION,
    StoredRevision,
)


@dataclass(frozen=True, slots=True)
class Milestones:
    """What has been noted of the present revision."""

    complete: bool = False  # it had reached every cluster
    passed: frozenset[str] = frozenset()  # placement/group, by name or index: groups that have had it
    stopped: datetime | None = None


NO_MILESTONES = Milestones()


def read_milestones(revision: StoredRevision | None, number: int) -> Milestones:
    """Read what was noted of a revision under its present number."""
    if revision is None:
        return NO_MILESTONES
    passed = _noted(revision.passed, number)
    return Milestones(
        bool(revision.completed) and revision.completed_number == str(number),
        frozenset(passed.split(",")) - {""},
        parse_time(_noted(revision.stopped, number)),
    )


def notes(
    number: int,
    *,
    completed: datetime | None = None,
    passed: Iterable[str] | None = None,
    stopped: datetime | None = None,
) -> dict[str, str]:
    """Return annotations that note what has become a fact."""
    found: dict[str, str] = {}
    if completed is not None:
        found |= {COMPLETED_ANNOTATION: format_micro_time(completed), COMPLETED_NUMBER_ANNOTATION: str(number)}
    if passed is not None:
        found[PASSED_ANNOTATION] = f"{number}:{','.join(sorted(passed))}"
    if stopped is not None:
        found[STOPPED_ANNOTATION] = f"{number}:{format_micro_time(stopped)}"
    return found


def _noted(text: str, number: int) -> str:
    of, _, what = text.partition(":")
    return what if of == str(number) else ""
