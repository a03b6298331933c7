"""Who loses its content now, and who keeps it for the time being.

Taking something away is a change, too, and the one that hurts most when it was not meant: a mistyped label, a binding
that somebody deleted, a control plane that restarts. A fleet that lost its workload is not brought back by correcting
the mistake. So what nobody can have meant waits for a word of a person, what may pass by itself waits for a while, and
the rest goes a few at a time if somebody asked for that.

There is no memory: an approval names the clusters that it covers, so that it still does when half of them are gone, and
never covers others.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from echelon.engine.rollout.control import Annotations, BadControl
from echelon.engine.rollout.revision import revision_of
from echelon.engine.rollout.thresholds import NotAThreshold, Threshold

APPROVED_REMOVAL = "echelon.dev/approved-removal"
MAX_REMOVALS = "echelon.dev/max-removals"
EVERYONE = Threshold(percent=100.0)
GRACE = timedelta(seconds=300)

_MARK = 8  # letters that stand for a cluster in an approval
_MOST_MARKS = 20_000  # annotations of one object may have 256 KiB


class Stay(StrEnum):
    """Why a cluster that nobody selects keeps its content; the reason in a status, for programs."""

    UNSURE = "DecisionsInDoubt"
    HELD = "RemovalHeld"
    PAUSED = "Paused"
    GRACE = "RemovalGrace"
    LIMIT = "WaitingForRemovals"


@dataclass(frozen=True, slots=True)
class Departed:
    """A cluster that has the content and that nobody selects."""

    cluster: str
    ending: bool = False  # its content is being taken away
    hold: str = ""  # why that needs an approval
    until: datetime | None = None  # until when it may come back


@dataclass(frozen=True, slots=True)
class Approval:
    """A word of a person: the clusters with this fingerprint may lose their content."""

    fingerprint: str = ""
    marks: frozenset[str] = frozenset()

    def covers(self, clusters: Collection[str]) -> frozenset[str]:
        """Return those of the clusters whose loss is approved."""
        if not self.fingerprint:
            return frozenset()
        if self.fingerprint == fingerprint(clusters):
            return frozenset(clusters)
        return frozenset(cluster for cluster in clusters if _mark(cluster) in self.marks)


NO_APPROVAL = Approval()


@dataclass(frozen=True, slots=True)
class RemovalControl:
    """What people have told a rollout about removals."""

    paused: bool = False
    approved: Approval = NO_APPROVAL
    limit: Threshold = EVERYONE


@dataclass(frozen=True)
class Removal:
    """Who loses the content now, and why others do not."""

    going: tuple[str, ...] = ()
    stays: Mapping[str, Stay] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)  # those that need an approval, and why
    recheck_after: timedelta | None = None

    @cached_property
    def fingerprint(self) -> str:
        """What an approval of all that is held has to name."""
        return fingerprint(self.held) if self.held else ""

    @property
    def pending(self) -> tuple[str, ...]:
        """Those that will lose the content without anybody's word, and not because they may come back."""
        return tuple(name for name, stay in self.stays.items() if stay in (Stay.PAUSED, Stay.LIMIT))


NO_REMOVAL = Removal()


def remove(departed: Iterable[Departed], having: int, control: RemovalControl, now: datetime) -> Removal:
    """Decide who loses the content now; `having` clusters have it, those that are losing it included."""
    departed = sorted(departed, key=lambda one: one.cluster)
    held = {one.cluster: one.hold for one in departed if one.hold and not one.ending}
    covered = control.approved.covers(held)
    stays: dict[str, Stay] = {}
    ready: list[str] = []
    ends: list[datetime] = []
    for one in departed:
        if one.ending:
            continue
        if one.hold and one.cluster not in covered:
            stays[one.cluster] = Stay.HELD
        elif control.paused:
            stays[one.cluster] = Stay.PAUSED
        elif one.until is not None and one.until > now:
            stays[one.cluster] = Stay.GRACE
            ends.append(one.until)
        else:
            ready.append(one.cluster)
    free = max(0, control.limit.of(having, 0) - sum(one.ending for one in departed))
    stays |= dict.fromkeys(ready[free:], Stay.LIMIT)
    return Removal(
        tuple(ready[:free]),
        stays,
        {cluster: why for cluster, why in held.items() if cluster not in covered},
        min(ends) - now if ends else None,
    )


def read_removal(annotations: Mapping[str, str], *, paused: bool, limit: Threshold = EVERYONE) -> RemovalControl:
    """Read what a rollout was told about removals; `limit` holds where nothing else is said.

    Raises BadControl for the first annotation that cannot be read.
    """
    return RemovalControl(paused, _approval(annotations.get(APPROVED_REMOVAL, "")), _limit(annotations, limit))


def read_limit(value: str) -> Threshold:
    """Read how many clusters may lose their content at once. Raises ValueError."""
    rule = "it must be a number of clusters from 1, or a percentage from 1% to 100%"
    try:
        found = Threshold.read(value.strip())
    except NotAThreshold as mistake:
        raise ValueError(rule) from mistake
    size, most = (found.number, None) if found.percent is None else (found.percent, 100)
    if size <= 0 or (most is not None and size > most):
        raise ValueError(rule)
    return found


def approve_removal(clusters: Collection[str]) -> Annotations:
    """Let these clusters lose their content, whatever becomes of the others meanwhile."""
    marks = "".join(sorted(map(_mark, clusters))) if len(clusters) <= _MOST_MARKS else ""
    return {APPROVED_REMOVAL: f"{fingerprint(clusters)}{':' if marks else ''}{marks}"}


def fingerprint(clusters: Collection[str]) -> str:
    """Return what stands for just these clusters, in any order."""
    return revision_of("\n".join(sorted(clusters)))


def _mark(cluster: str) -> str:
    return hashlib.blake2s(cluster.encode(), digest_size=_MARK // 2).hexdigest()


def _approval(value: str) -> Approval:
    named, separator, marks = value.strip().partition(":")
    if (separator and not named) or len(marks) % _MARK:
        raise BadControl(APPROVED_REMOVAL, value, "it must be what echelon rollout approve --removal writes")
    found = frozenset(marks[at : at + _MARK] for at in range(0, len(marks), _MARK))
    return Approval(named, found)


def _limit(annotations: Mapping[str, str], default: Threshold) -> Threshold:
    value = annotations.get(MAX_REMOVALS)
    if value is None:
        return default
    try:
        return read_limit(value)
    except ValueError as mistake:
        raise BadControl(MAX_REMOVALS, value, str(mistake)) from mistake
