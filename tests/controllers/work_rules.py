"""A state of a work set and of all that belongs to it, read by the rules of rollouts.

What an agent says of a work is read from its conditions, as whoever wrote down their meaning would read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from echelon.api.base import JSONObject
from echelon.engine.rollout.failed_writes import FAILED_WRITES, decode
from tests.controllers.rollout_rules import (
    RETRIED,
    TURNED,
    WRITTEN,
    Attempt,
    Clock,
    Found,
    Limits,
    Report,
    Walk,
)
from tests.controllers.rollout_selection import Selection, selection_of
from tests.controllers.rollout_words import Notes, Words, seconds


def version_of(spec: JSONObject) -> str:
    """Return which content a work has, or a template is."""
    version: str = spec["workload"]["manifests"][0]["data"]["version"]
    return version


def report_of(work: JSONObject) -> Report:
    """Read a work. A deadline runs from the write, from a relapse that somebody noted, or from another try."""
    meta, said = work["metadata"], said_of(work)
    if "deletionTimestamp" in meta:
        return said._replace(clock=said.since)
    notes = meta["annotations"]
    clocks = [seconds(notes[each]) for each in (WRITTEN, TURNED, RETRIED) if each in notes]
    return said._replace(clock=max(clocks))


def said_of(work: JSONObject) -> Report:
    """Read what is said of a work; what nobody has reported is progressing since it was written."""
    meta = work["metadata"]
    if "deletionTimestamp" in meta:
        return Report("progressing", seconds(meta["deletionTimestamp"]))
    said = {each["type"]: each for each in work.get("status", {}).get("conditions", [])}
    now = {name: each for name, each in said.items() if each.get("observedGeneration") == meta["generation"]}
    written = seconds(meta["annotations"][WRITTEN])

    def since(name: str) -> float:
        return max(written, seconds(now[name]["lastTransitionTime"]))

    if "Applied" not in now or (said.keys() & {"Degraded", "Progressing"}) - now.keys():
        if "Applied" in now and now["Applied"]["status"] == "False":
            return Report("failed", since("Applied"))
        return Report("progressing", written)
    if now["Applied"]["status"] == "False":
        return Report("failed", since("Applied"))
    if "Degraded" in now and now["Degraded"]["status"] == "True":
        return Report("failed", since("Degraded"))
    if "Progressing" not in now:
        return Report("progressing", written)
    return Report("done" if now["Progressing"]["status"] == "False" else "progressing", since("Progressing"))


@dataclass(frozen=True)
class Scene:
    """A state of everything that matters, committed or only known to somebody."""

    work_set: JSONObject
    placement: JSONObject
    decisions: tuple[JSONObject, ...]
    works: Mapping[str, JSONObject]  # by cluster
    hashes: Mapping[str, str]  # of the contents that have a revision
    revisions: tuple[JSONObject, ...] = ()
    relapsed: bool = False  # whether somebody has seen what is bad now be good before, and not noted it yet
    attempts: Mapping[str, Attempt] = field(default_factory=dict)  # by cluster

    def failing(self, cluster: str) -> Attempt | None:
        """Return since when a cluster was to get what is wanted and could not, if it still has not."""
        attempt, work = self.attempts.get(cluster), self.works.get(cluster)
        if attempt is None or attempt.version != self.wanted:
            return None
        has_it = work is not None and version_of(work["spec"]) == self.wanted
        return None if has_it else attempt

    @cached_property
    def stored(self) -> dict[str, Attempt]:
        """What the set itself says of writes that failed."""
        versions = {each: version for version, each in self.hashes.items()}
        return {
            cluster: Attempt(versions.get(one.revision, ""), one.since.timestamp(), one.refused)
            for cluster, one in decode(self.words.told.get(FAILED_WRITES, "")).items()
        }

    @cached_property
    def wanted(self) -> str:
        return version_of(self.work_set["spec"]["manifestWorkTemplate"])

    @cached_property
    def words(self) -> Words:
        return Words(self.work_set["metadata"].get("annotations", {}), self.hashes.get(self.wanted))

    @cached_property
    def notes(self) -> Notes:
        wanted = [
            each for each in self.revisions if version_of(each["data"]["spec"]["manifestWorkTemplate"]) == self.wanted
        ]
        return Notes.of(wanted[0] if wanted else None, self.revisions)

    @property
    def paused(self) -> bool:
        return self.words.paused

    @property
    def aborted(self) -> bool:
        return self.words.given_up and not self.notes.was_complete

    def had_it(self, cluster: str) -> bool:
        """Whether a cluster worked with the wanted content when that was complete, and was not written since."""
        work = self.works.get(cluster)
        if work is None or "deletionTimestamp" in work["metadata"]:
            return False
        written = seconds(work["metadata"]["annotations"][WRITTEN])
        return version_of(work["spec"]) == self.wanted and written <= self.notes.completed

    @cached_property
    def selection(self) -> Selection:
        return selection_of(self.placement, self.decisions)

    @cached_property
    def limits(self) -> Limits:
        (ref,) = self.work_set["spec"]["placementRefs"]
        return Limits(ref["rolloutStrategy"])

    @cached_property
    def missing(self) -> tuple[str, str] | None:
        return self.limits.missing(self.selection, self.notes.passed)

    def found(self, cluster: str, now: float) -> Found:
        """Tell where a cluster stands."""
        work, attempt, clock = self.works.get(cluster), self.failing(cluster), Clock(self.limits, self.words, now)
        if attempt is not None:
            return clock.unfinished(attempt.report)
        if work is None:
            return Found("to be written")
        report = report_of(work)
        if self.relapsed or self.had_it(cluster):
            report = report._replace(clock=max(report.since, report.clock if self.relapsed else 0.0))
        if version_of(work["spec"]) != self.wanted and "deletionTimestamp" not in work["metadata"]:
            disturbed = report.word != "done" and not clock.is_over(report.clock)
            return Found("to be written", report.since, disturbed=disturbed)
        if report.word == "done":
            return Found("done", report.since) if self.had_it(cluster) else clock.good(report.since)
        return clock.unfinished(report)

    def counts(self, cluster: str, now: float) -> Found:
        """Tell what a cluster means to the others: who had it when it was complete means nothing any more."""
        return Found("done") if self.had_it(cluster) else self.found(cluster, now)

    def why_not(self, cluster: str, version: str, now: float) -> str | None:
        """Return why a cluster must not get a content now; nothing if it may."""
        if cluster not in self.selection.homes:
            return "it is in no decision"
        if self.aborted:
            return "the revision is aborted" if version == self.wanted else None
        if version != self.wanted:
            return f"{self.wanted} is wanted"
        if self.paused:
            return "it is paused"
        if self.missing is not None:
            return f"nobody is in mandatory group {self.missing[1]}"
        # It has its place, and is a failure only until it is written; unless it missed its deadline meanwhile.
        again = self.failing(cluster) is not None and self.found(cluster, now).flies
        return self._walk(now).why_not(cluster, again=again)

    def blocked(self, now: float) -> str:
        """Return the reason that the set is to give for not going on."""
        if self.aborted:
            return "Aborted"
        if self.paused:
            return "Paused"
        if all(self.found(each, now).word == "done" for each in self.selection.homes):
            return "NotBlocked"
        return self.missing[0] if self.missing is not None else self._walk(now).blocked()

    def _walk(self, now: float) -> Walk:
        counts = {each: self.counts(each, now) for each in self.selection.homes}
        moved = frozenset[str]()
        if not self.selection.settled:
            away = {each: self.counts(each, now) for each in self.works.keys() - self.selection.homes.keys()}
            moved = frozenset(each for each, one in away.items() if one.flies or one.disturbed)
        return Walk(self.limits, self.selection, self.words, counts, unlisted=moved)
