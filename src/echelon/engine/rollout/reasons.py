"""Why a cluster is not moving, in words that people would use.

The question behind every stuck rollout is "what is it waiting for, and for how long?". Each answer here names the one
thing that has to happen first. Thousands of clusters share an answer, and most are never read, so an answer is a small
value that makes its sentence on demand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from echelon.engine.placement.decisions import GroupKey
from echelon.engine.rollout.durations import elapsed, remaining
from echelon.engine.rollout.model import ClusterDecision, Phase, Wait

_NAMED = 3  # so many clusters are named before the rest is counted


@dataclass(frozen=True, slots=True)
class ByStatus:
    """Nothing but the cluster itself decides what comes next."""

    now: datetime

    def __call__(self, entry: ClusterDecision) -> str:
        """Say how far the cluster is."""
        if entry.starts:
            return "starts now"
        match entry.phase:
            case Phase.SUCCEEDED if entry.wait is Wait.SOAK and entry.until:
                return f"soaks {remaining(entry.until - self.now)} more"
            case Phase.SUCCEEDED:
                return f"succeeded {elapsed(self.now - entry.since)} ago" if entry.since else "succeeded"
            case Phase.TIMED_OUT:
                return f"timed out {elapsed(self.now - entry.until)} ago" if entry.until else "timed out"
            case Phase.SKIPPED:
                return "is skipped"
            case Phase.FAILED:
                return f"failed{self._clocks(entry)}"
        return f"progressing{self._clocks(entry)}"

    def _clocks(self, entry: ClusterDecision) -> str:
        since = f" since {elapsed(self.now - entry.since)}" if entry.since else ""
        end = f"deadline in {remaining(entry.until - self.now)}" if entry.until else "no deadline"
        return f"{since}, {end}"


@dataclass(frozen=True, slots=True)
class NoSlot:
    """As many clusters as allowed are in flight."""

    slots: int
    in_flight: int
    failed: int = 0

    def __call__(self, entry: ClusterDecision) -> str:
        """Say how many slots there are, and how many of them wait for a failed cluster to recover."""
        del entry
        failed = f", {self.failed} of them failed" if self.failed else ""
        return f"waits for a slot: {self.in_flight} of {self.slots} are in flight{failed}"


@dataclass(frozen=True, slots=True)
class EarlierGroup:
    """Another group has to be through first."""

    group: GroupKey
    mandatory: bool
    in_flight: tuple[ClusterDecision, ...]
    starting: tuple[str, ...]
    held_back: bool  # the group awaits an approval
    now: datetime

    def __call__(self, entry: ClusterDecision) -> str:
        """Say which group, and what holds that one."""
        del entry
        return f"waits for {'mandatory ' if self.mandatory else ''}{title(self.group)}: {self._what()}"

    def _what(self) -> str:
        """Tell of what takes longest: a decision of people, then a report, then the last soak."""
        if self.held_back:
            return "awaits approval"
        moving = [one.cluster for one in self.in_flight if one.phase is Phase.PROGRESSING]
        if moving:
            return f"{names(moving)} progressing"
        if self.starting:
            return f"{names(self.starting)} starting"
        soaks = [(one.until, one.cluster) for one in self.in_flight if one.wait is Wait.SOAK and one.until]
        end, cluster = max(soaks)
        return f"{cluster} soaks {remaining(end - self.now)} more"


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Clusters of an earlier group are in no decision at the moment."""

    group: GroupKey

    def __call__(self, entry: ClusterDecision) -> str:
        """Say of which group."""
        del entry
        return f"waits for {title(self.group)}: some of its clusters are in no decision"


@dataclass(frozen=True, slots=True)
class TooManyFailures:
    """More clusters failed than the user tolerates; `group` is the one whose limit that is, if it is not everyone's."""

    failures: tuple[str, ...]
    tolerated: int
    group: GroupKey | None

    def __call__(self, entry: ClusterDecision | None = None) -> str:
        """Say who failed, and how many are tolerated."""
        del entry
        count = f"{len(self.failures)} failure{'s' if len(self.failures) > 1 else ''}"
        where = f" in {title(self.group)}" if self.group else ""
        return (
            f"no further cluster starts: {count}{where} ({names(self.failures)}), {self.tolerated or 'none'} tolerated"
        )


@dataclass(frozen=True, slots=True)
class NoApproval:
    """The clusters' groups need an approval."""

    groups: tuple[GroupKey, ...]

    def __call__(self, entry: ClusterDecision | None = None) -> str:
        """Say which groups."""
        del entry
        return f"awaits approval of {', '.join(map(title, self.groups))}"


@dataclass(frozen=True, slots=True)
class ByOperator:
    """Somebody said stop."""

    word: str

    def __call__(self, entry: ClusterDecision | None = None) -> str:
        """Say what was said."""
        del entry
        return self.word


def title(group: GroupKey) -> str:
    """A group as people know it: by its name, with its place in the order, and its placement if there are several."""
    of = f"{group.placement}/" if group.placement else ""
    return f"group {of}{group.name} ({group.index})" if group.name else f"group {of}{group.index}"


def names(clusters: Sequence[str]) -> str:
    """Name the first clusters and count the others."""
    more = len(clusters) - _NAMED
    listed = ", ".join(sorted(clusters)[:_NAMED])
    return f"{listed} and {more} more" if more > 0 else listed
