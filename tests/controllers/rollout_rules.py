"""The rules of a rollout, written down once more, for an observer who sees nothing but objects.

The engine is not asked: what it decides is what is on trial. So the rules are here in their plainest form, for one
cluster at a time: given where all clusters stand, why may this one not start now? What is rolled out, and how to read
where a cluster stands, is not said here.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from echelon.api.base import JSONObject
from tests.controllers.rollout_selection import Group, Selection
from tests.controllers.rollout_words import Words

NEW_CHANCE = 600.0  # seconds, for a retry where there is no deadline
WRITTEN, TURNED, RETRIED = "echelon.dev/written-at", "echelon.dev/turned-bad-at", "echelon.dev/retried-at"


def duration(text: str) -> float | None:
    """Return a duration in the only notations that are used here."""
    return None if text in ("", "None") else float(text.removesuffix("s"))


def count(limit: int | str, total: int, default: int, others: int = 0, moving: int = 0) -> int:
    """Return how many of a total a number or a percentage is. Of `others` nobody can say whether they still count.

    More than there are is as many as there are, those included that somebody is only `moving`.
    """
    total += others if isinstance(limit, str) else 0
    found = math.ceil(int(limit[:-1]) * total / 100) if isinstance(limit, str) else limit
    return min(found if found > 0 else default, total + moving)


@dataclass(frozen=True)
class Stage:
    """Groups that are taken together."""

    groups: tuple[Group, ...]
    slots: int
    tolerated: int


@dataclass(frozen=True)
class Found:
    """Where a cluster stands: done, soaking, progressing, failed, timed out; or to be written."""

    word: str
    since: float = 0.0
    disturbed: bool = False  # it has older content that does not work, and may still come to work

    @property
    def flies(self) -> bool:
        return self.word in ("soaking", "progressing", "failed")

    @property
    def failed(self) -> bool:
        return self.word in ("failed", "timed out")


@dataclass(frozen=True)
class Attempt:
    """The first of a row of writes of a content to a cluster that were not taken, and whether the server said no."""

    version: str
    since: float
    refused: bool

    @property
    def report(self) -> "Report":
        return Report("failed" if self.refused else "progressing", self.since, self.since)


class Report(NamedTuple):
    """What an agent says of the content that a cluster has, since when, and since when it may take so long."""

    word: str
    since: float
    clock: float = 0.0


@dataclass(frozen=True)
class Limits:
    """A strategy, as it is written."""

    strategy: JSONObject
    concurrency: int = 0  # clusters at a time, if nobody says how many

    @property
    def kind(self) -> str:
        kind: str = self.strategy["type"]
        return kind

    @cached_property
    def _said(self) -> JSONObject:
        said: JSONObject = self.strategy.get(self.kind[0].lower() + self.kind[1:], {})
        return said

    @property
    def mandatory(self) -> list[JSONObject]:
        listed: list[JSONObject] = self._said.get("mandatoryDecisionGroups", [])
        return listed

    @property
    def deadline(self) -> float | None:
        return duration(self._said.get("progressDeadline", "None"))

    @property
    def soak(self) -> float:
        return 0.0 if self.kind == "All" else duration(self._said.get("minSuccessTime", "0")) or 0.0

    def stages(self, selection: Selection, others: int = 0, moving: int = 0) -> tuple[Stage, ...]:
        """Return the stages of a rollout; `others` and `moving` clusters have something, and are in no decision."""
        sizes = {group: len(clusters) for group, clusters in selection.groups.items()}
        total = sum(sizes.values())
        if self.kind == "All":
            return (Stage(tuple(sizes), total, total),)
        first = {group for asked in self.mandatory for group in sizes if group.is_meant(asked)}
        failures = self._said.get("maxFailures", 0)
        if self.kind == "ProgressivePerGroup":  # one placement after the other, and there mandatory groups first
            order = sorted(sizes, key=lambda group: (group.placement, group not in first, group.index))
            tolerated = {group: 0 if group in first else count(failures, sizes[group], 0, others) for group in order}
            return tuple(Stage((group,), sizes[group], tolerated[group]) for group in order)
        mandatory = tuple(Stage((group,), sizes[group], 0) for group in sizes if group in first)
        rest = {group: size for group, size in sizes.items() if group not in first}
        slots = count(self._said.get("maxConcurrency", 0), sum(rest.values()), self.concurrency, others, moving)
        return (*mandatory, Stage(tuple(rest), slots, count(failures, total, 0, others)))

    def missing(self, selection: Selection, passed: Collection[str]) -> tuple[str, str] | None:
        """Return what is wrong with a mandatory group that nobody is in, and that has not had this revision."""
        for asked in self.mandatory:
            called = asked.get("groupName") or str(asked["groupIndex"])
            found = [group for group in selection.groups if called in (group.name, str(group.index))]
            is_there = any(selection.groups[group] or group in selection.short for group in found)
            if not is_there and f"{selection.title}/{called}" not in passed:
                known = found or called in selection.planned
                return "EmptyDecisionGroup" if known else "UnknownDecisionGroup", called
        return None


@dataclass(frozen=True)
class Clock:
    """What a report means at a moment."""

    limits: Limits
    words: Words
    now: float

    def is_over(self, begun: float) -> bool:
        """Whether the deadline of what began then has passed."""
        return self.limits.deadline is not None and begun + self.limits.deadline <= self.now

    def good(self, since: float) -> Found:
        promoted = self.words.promoted
        soaked = since + self.limits.soak <= self.now or (promoted is not None and since <= promoted)
        return Found("done" if soaked else "soaking", since)

    def unfinished(self, report: Report) -> Found:
        begun = report.clock
        if (retried := self._chance(report)) is not None:
            report, begun = Report("progressing", retried), retried
        elif (again := self._late_then(report)) is not None:
            begun = again
        return Found("timed out" if self.is_over(begun) else report.word, report.since)

    def _late_then(self, report: Report) -> float | None:
        """Return when somebody asked for a retry, if it had missed its deadline by then."""
        retried, deadline = self.words.retried, self.limits.deadline
        late = retried is not None and deadline is not None and report.clock + deadline <= retried
        return retried if late else None

    def _chance(self, report: Report) -> float | None:
        """Return since when a failure has another chance."""
        retried, deadline = self.words.retried, self.limits.deadline
        if retried is None or (report.word != "failed" and deadline is None):
            return None
        failed_at = report.since if report.word == "failed" else report.clock + (deadline or 0.0)
        if failed_at > retried or (deadline is None and self.now >= retried + NEW_CHANCE):
            return None
        return retried


@dataclass(frozen=True)
class Walk:
    """The way through the stages, with what each selected cluster means to the others."""

    limits: Limits
    selection: Selection
    words: Words
    counts: Mapping[str, Found]
    others: int = 0  # clusters that have something, and are in no decision
    unlisted: frozenset[str] = frozenset()  # those of them that are in flight, and that somebody may only be moving

    def why_not(self, cluster: str, *, again: bool) -> str | None:
        """Return why a cluster must not start; nothing if it may. `again`: it has its place, and is not written yet."""
        home = self.selection.homes[cluster]
        for stage in self._stages:
            here, mine = self._here(stage), home in stage.groups
            if (reason := self._closed(stage, here)) is not None and not (again and mine):
                return reason
            if not mine:
                if any(one.word == "to be written" or (one.flies and not one.failed) for one in here.values()):
                    return f"{stage.groups} are not through"
                if self.selection.short.intersection(stage.groups):
                    return f"{stage.groups} have clusters that are in no decision"
                continue
            if self.words.held(home):
                return "it waits for an approval"
            return None if again else self._crowded(stage, here, cluster)
        return "it is in no stage"

    def blocked(self) -> str:
        """Return the reason that is to be given for not going on."""
        for stage in self._stages:
            here = self._here(stage)
            if self._closed(stage, here):
                return "MaxFailuresExceeded"
            fresh = [each for each, one in here.items() if one.word == "to be written"]
            if any(self.words.held(self.selection.homes[each]) for each in fresh):
                return "AwaitingApproval"
            if fresh or any(one.flies and not one.failed for one in here.values()):
                break
        return "NotBlocked"

    @cached_property
    def _stages(self) -> tuple[Stage, ...]:
        return self.limits.stages(self.selection, self.others, len(self.unlisted))

    def _here(self, stage: Stage) -> dict[str, Found]:
        return {each: self.counts[each] for group in stage.groups for each in self.selection.groups[group]}

    def _closed(self, stage: Stage, here: Mapping[str, Found]) -> str | None:
        failed = sorted(each for each, one in here.items() if one.failed)
        return f"{failed} failed, and {stage.tolerated} may" if len(failed) > stage.tolerated else None

    def _crowded(self, stage: Stage, here: Mapping[str, Found], cluster: str) -> str | None:
        """Tell who has taken the places. One that is disturbed already may be written in the place that it has."""
        flying = {each for each, one in here.items() if each != cluster and one.flies}
        if not here[cluster].disturbed:
            flying |= {each for each, one in here.items() if one.disturbed and each != cluster}
            if self.limits.kind == "Progressive" and stage is self._stages[-1]:
                flying |= self.unlisted
        return f"{sorted(flying)} are in flight, and {stage.slots} may be" if len(flying) >= stage.slots else None


def condition(obj: JSONObject, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found: list[Any] = [each for each in obj.get("status", {}).get("conditions", []) if each["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")
