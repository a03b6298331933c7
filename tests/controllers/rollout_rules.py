"""The rules of a rollout, written down once more, for an observer who sees nothing but objects.

The engine is not asked: what it decides is what is on trial. So the rules are here in their plainest form, for one
cluster at a time: given the set, the decisions and the works, why may this cluster not be written now?
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from echelon.api.base import JSONObject
from echelon.engine.rollout.failed_writes import FAILED_WRITES, decode
from tests.controllers.hub import INDEX_LABEL, NAME_LABEL

NEW_CHANCE = 600.0  # seconds, for a retry where there is no deadline
WRITTEN, TURNED, RETRIED = "echelon.dev/written-at", "echelon.dev/turned-bad-at", "echelon.dev/retried-at"


def seconds(text: str) -> float:
    """Return a time as the API writes it, as seconds."""
    return datetime.fromisoformat(text).timestamp()


def duration(text: str) -> float | None:
    """Return a duration in the only notations that are used here."""
    return None if text in ("", "None") else float(text.removesuffix("s"))


def version_of(spec: JSONObject) -> str:
    """Return which content a work has, or a template is."""
    version: str = spec["workload"]["manifests"][0]["data"]["version"]
    return version


def clusters_of(decision: JSONObject) -> list[str]:
    return [entry["clusterName"] for entry in decision.get("status", {}).get("decisions", [])]


@dataclass(frozen=True, order=True)
class Group:
    """A decision group."""

    index: int
    name: str


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


class Report(NamedTuple):
    """What an agent says of the content that a work has, since when, and since when it may take so long."""

    word: str
    since: float
    clock: float = 0.0


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
            for cluster, one in decode(self.told.get(FAILED_WRITES, "")).items()
        }

    @cached_property
    def wanted(self) -> str:
        return version_of(self.work_set["spec"]["manifestWorkTemplate"])

    @cached_property
    def told(self) -> Mapping[str, str]:
        annotations: dict[str, str] = self.work_set["metadata"].get("annotations", {})
        return annotations

    @property
    def paused(self) -> bool:
        return self.told.get("echelon.dev/paused", "false") != "false"

    @property
    def aborted(self) -> bool:
        named = self.told.get("echelon.dev/aborted") == self.hashes.get(self.wanted, "not stored")
        return named and not self.was_complete

    @cached_property
    def _noted(self) -> Mapping[str, str]:
        """What is noted on the revision of the wanted content."""
        for each in self.revisions:
            if version_of(each["data"]["spec"]["manifestWorkTemplate"]) == self.wanted:
                notes: dict[str, str] = each["metadata"].get("annotations", {})
                return {**notes, "number": str(each["revision"])}
        return {}

    @cached_property
    def _number(self) -> str:
        """The number of the wanted revision, if it is the newest; what was noted under an older one is history."""
        newest = max((each["revision"] for each in self.revisions), default=0)
        return self._noted["number"] if self._noted.get("number") == str(newest) else "none"

    @property
    def was_complete(self) -> bool:
        """Whether the wanted revision had reached everybody."""
        return self._noted.get("echelon.dev/completed-number") == self._number

    def had_it(self, cluster: str) -> bool:
        """Whether a cluster worked with the wanted content when that was complete, and was not written since."""
        work, completed = self.works.get(cluster), self._noted.get("echelon.dev/completed-at")
        if work is None or completed is None or "deletionTimestamp" in work["metadata"]:
            return False
        written = seconds(work["metadata"]["annotations"][WRITTEN])
        return version_of(work["spec"]) == self.wanted and written <= seconds(completed)

    @cached_property
    def missing(self) -> tuple[str, str] | None:
        """Return what is wrong with a mandatory group that nobody is in, and that has not had this revision."""
        of, _, names = self._noted.get("echelon.dev/completed-groups", "").partition(":")
        passed = names.split(",") if of == self._number else []
        for asked in self.limits.get("mandatoryDecisionGroups", []):
            called = asked.get("groupName") or str(asked["groupIndex"])
            found = [group for group in self.groups if called in (group.name, str(group.index))]
            if not any(self.groups[group] or group in self.short for group in found) and f"p/{called}" not in passed:
                planned = self.placement["spec"].get("decisionStrategy", {}).get("groupStrategy", {})
                known = found or called in [each["groupName"] for each in planned.get("decisionGroups", [])]
                return "EmptyDecisionGroup" if known else "UnknownDecisionGroup", called
        return None

    @cached_property
    def homes(self) -> dict[str, Group]:
        """The group of each cluster: of several, the one with the highest index."""
        homes: dict[str, Group] = {}
        for decision in self.decisions:
            labels = decision["metadata"]["labels"]
            group = Group(int(labels[INDEX_LABEL]), labels.get(NAME_LABEL, ""))
            for cluster in clusters_of(decision):
                homes[cluster] = max(homes.get(cluster, group), group)
        return homes

    @cached_property
    def groups(self) -> dict[Group, list[str]]:
        """The clusters of each group, by index."""
        found: dict[Group, list[str]] = {}
        for decision in self.decisions:
            labels = decision["metadata"]["labels"]
            found[Group(int(labels[INDEX_LABEL]), labels.get(NAME_LABEL, ""))] = []
        for cluster, group in sorted(self.homes.items()):
            found[group].append(cluster)
        for group in self.short:
            found.setdefault(group, [])
        return dict(sorted(found.items()))

    @cached_property
    def short(self) -> set[Group]:
        """The groups of which the status says that there are more clusters than are listed, while they disagree."""
        counted = Counter(self.homes.values())
        said = {
            Group(each["decisionGroupIndex"], each["decisionGroupName"]): each["clusterCount"]
            for each in self.placement.get("status", {}).get("decisionGroups", [])
        }
        return {group for group, count in said.items() if not self.settled and counted[group] < count}

    @cached_property
    def settled(self) -> bool:
        """Whether every decision is there that the status names, and no other, each as large as it says."""
        status = self.placement.get("status", {})
        sizes = {each["metadata"]["name"]: len(clusters_of(each)) for each in self.decisions}
        groups = status.get("decisionGroups", [])
        named = [name for group in groups for name in group["decisions"]]
        if not named or sorted(named) != sorted(sizes) or len(self.homes) != status["numberOfSelectedClusters"]:
            return False
        return all(sum(sizes[name] for name in group["decisions"]) == group["clusterCount"] for group in groups)

    @cached_property
    def strategy(self) -> JSONObject:
        (ref,) = self.work_set["spec"]["placementRefs"]
        strategy: JSONObject = ref["rolloutStrategy"]
        return strategy

    @cached_property
    def limits(self) -> JSONObject:
        kind: str = self.strategy["type"]
        limits: JSONObject = self.strategy.get(kind[0].lower() + kind[1:], {})
        return limits

    @cached_property
    def deadline(self) -> float | None:
        return duration(self.limits.get("progressDeadline", "None"))

    @cached_property
    def soak(self) -> float:
        return 0.0 if self.strategy["type"] == "All" else duration(self.limits.get("minSuccessTime", "0")) or 0.0

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        sizes = {group: len(clusters) for group, clusters in self.groups.items()}
        total = sum(sizes.values())
        if self.strategy["type"] == "All":
            return (Stage(tuple(sizes), total, total),)
        first = {
            group
            for asked in self.limits.get("mandatoryDecisionGroups", [])
            for group in sizes
            if (group.name == asked["groupName"] if asked.get("groupName") else group.index == asked["groupIndex"])
        }
        mandatory = tuple(Stage((group,), sizes[group], 0) for group in sizes if group in first)
        rest = {group: size for group, size in sizes.items() if group not in first}
        failures = self.limits.get("maxFailures", 0)
        if self.strategy["type"] == "ProgressivePerGroup":
            return mandatory + tuple(Stage((group,), size, min(failures, size)) for group, size in rest.items())
        return (*mandatory, Stage(tuple(rest), self.limits["maxConcurrency"], min(failures, total)))

    def found(self, cluster: str, now: float) -> Found:
        """Tell where a cluster stands."""
        work, attempt = self.works.get(cluster), self.failing(cluster)
        if attempt is not None:
            word = "failed" if attempt.refused else "progressing"
            return self._unfinished(Report(word, attempt.since, attempt.since), now)
        if work is None:
            return Found("to be written")
        report = report_of(work)
        if self.relapsed or self.had_it(cluster):
            report = report._replace(clock=max(report.since, report.clock if self.relapsed else 0.0))
        expired = self.deadline is not None and report.clock + self.deadline <= now
        if version_of(work["spec"]) != self.wanted and "deletionTimestamp" not in work["metadata"]:
            return Found("to be written", report.since, disturbed=report.word != "done" and not expired)
        if report.word == "done":
            promoted = self.told.get("echelon.dev/promoted-at")
            soaked = report.since + self.soak <= now or (promoted is not None and report.since <= seconds(promoted))
            return Found("done" if soaked or self.had_it(cluster) else "soaking", report.since)
        return self._unfinished(report, now)

    def _unfinished(self, report: Report, now: float) -> Found:
        clock = report.clock
        if (retried := self._chance(report, now)) is not None:
            report, clock = Report("progressing", retried), retried
        elif (again := self._late_then(report)) is not None:
            clock = again
        expired = self.deadline is not None and clock + self.deadline <= now
        return Found("timed out" if expired else report.word, report.since)

    def counts(self, cluster: str, now: float) -> Found:
        """Tell what a cluster means to the others: who had it when it was complete means nothing any more."""
        return Found("done") if self.had_it(cluster) else self.found(cluster, now)

    def _late_then(self, report: Report) -> float | None:
        """Return when somebody asked for a retry, if it had missed its deadline by then."""
        retried = seconds(self.told["echelon.dev/retried-at"]) if "echelon.dev/retried-at" in self.told else None
        late = retried is not None and self.deadline is not None and report.clock + self.deadline <= retried
        return retried if late else None

    def _chance(self, report: Report, now: float) -> float | None:
        """Return since when a failure has another chance."""
        retried = seconds(self.told["echelon.dev/retried-at"]) if "echelon.dev/retried-at" in self.told else None
        if retried is None or (report.word != "failed" and self.deadline is None):
            return None
        failed_at = report.since if report.word == "failed" else report.clock + (self.deadline or 0.0)
        if failed_at > retried or (self.deadline is None and now >= retried + NEW_CHANCE):
            return None
        return retried

    def held(self, group: Group) -> bool:
        """Whether a group waits for an approval."""
        called = {group.name, str(group.index)} - {""}
        gated = set(self.told.get("echelon.dev/approval", "").split(",")) - {""}
        of, _, names = self.told.get("echelon.dev/approved", "").partition(":")
        given = set(names.split(",")) if of == self.hashes.get(self.wanted) else set()
        return ("all" in gated or bool(called & gated)) and not called & given

    def why_not(self, cluster: str, version: str, now: float) -> str | None:
        """Return why a cluster must not get a content now; nothing if it may."""
        home = self.homes.get(cluster)
        if home is None:
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
        for stage in self.stages:
            here = {each: self.counts(each, now) for group in stage.groups for each in self.groups[group]}
            mine = home in stage.groups
            if (reason := self._closed(stage, here)) is not None and not (again and mine):
                return reason
            if not mine:
                if any(one.word == "to be written" or (one.flies and not one.failed) for one in here.values()):
                    return f"{stage.groups} are not through"
                if self.short.intersection(stage.groups):
                    return f"{stage.groups} have clusters that are in no decision"
                continue
            if self.held(home):
                return "it waits for an approval"
            return None if again else self._crowded(stage, here, cluster, now)
        return "it is in no stage"

    def _closed(self, stage: Stage, here: Mapping[str, Found]) -> str | None:
        failed = sorted(each for each, one in here.items() if one.failed)
        return f"{failed} failed, and {stage.tolerated} may" if len(failed) > stage.tolerated else None

    def _crowded(self, stage: Stage, here: Mapping[str, Found], cluster: str, now: float) -> str | None:
        """Tell who has taken the places. One that is disturbed already may be written in the place that it has."""
        flying = {each for each, one in here.items() if each != cluster and one.flies}
        if not here[cluster].disturbed:
            flying |= {each for each, one in here.items() if one.disturbed and each != cluster}
            if self.strategy["type"] == "Progressive" and stage is self.stages[-1] and not self.settled:
                flying |= set(self._unlisted(now))
        return f"{sorted(flying)} are in flight, and {stage.slots} may be" if len(flying) >= stage.slots else None

    def _unlisted(self, now: float) -> Iterator[str]:
        """Return the clusters that are in flight and in no decision at the moment, because somebody moves them."""
        for cluster in self.works.keys() - self.homes.keys():
            one = self.counts(cluster, now)
            if one.flies or one.disturbed:
                yield cluster

    def blocked(self, now: float) -> str:
        """Return the reason that the set is to give for not going on."""
        if self.aborted:
            return "Aborted"
        if self.paused:
            return "Paused"
        if all(self.found(each, now).word == "done" for each in self.homes):
            return "NotBlocked"
        if self.missing is not None:
            return self.missing[0]
        for stage in self.stages:
            here = {each: self.counts(each, now) for group in stage.groups for each in self.groups[group]}
            if self._closed(stage, here):
                return "MaxFailuresExceeded"
            fresh = [each for each, one in here.items() if one.word == "to be written"]
            if any(self.held(self.homes[each]) for each in fresh):
                return "AwaitingApproval"
            if fresh or any(one.flies and not one.failed for one in here.values()):
                break
        return "NotBlocked"


def condition(obj: JSONObject, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition."""
    found: list[Any] = [each for each in obj.get("status", {}).get("conditions", []) if each["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")
