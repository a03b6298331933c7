"""A state of a policy and of all that belongs to it, read by the rules of rollouts and by those of policies.

Every cluster gets the content to look at before anybody is enforced, a release follows a stored `ToApply`, and who was
released stays so until there is other content. The engine is not asked.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from echelon.api.base import JSONObject
from echelon.engine.rollout.failed_writes import FAILED_WRITES, decode
from tests.controllers.policy_chronicle import Course, Soak
from tests.controllers.policy_content import (
    Content,
    content_of,
    is_ending,
    is_enforceable,
    is_held,
    is_of_another_agent,
    notes_of,
    said_of,
    verdict_of,
    written_at,
)
from tests.controllers.policy_ways import Way, ways_of
from tests.controllers.rollout_rules import RETRIED, TURNED, Attempt, Clock, Found, Limits, Report, Walk
from tests.controllers.rollout_selection import Selection, joined, selection_of
from tests.controllers.rollout_words import Notes, Words, seconds

EVERYWHERE: JSONObject = {"type": "All"}
HELD = " held"  # ends the version of an attempt to give something to look at


@dataclass(frozen=True)
class Scene:
    """A state of everything that matters, committed or only known to somebody."""

    policy: JSONObject | None
    bindings: tuple[JSONObject, ...]
    sets: Mapping[str, JSONObject]  # policy sets, by name
    placements: Mapping[str, JSONObject]
    decisions: tuple[JSONObject, ...]
    replicas: Mapping[str, JSONObject]  # by cluster
    revisions: tuple[JSONObject, ...]
    hashes: Mapping[Content, str]  # of the contents that have a revision
    course: Callable[[str, Soak], Course]  # what a cluster has come to with what it has
    relapsed: bool = False  # whether somebody has seen what is bad now be good before, and not noted it yet
    lasting: bool = False  # whether it is noted that what nobody has reported on since was bad
    attempts: Mapping[str, Attempt] = field(default_factory=dict)  # by cluster; a version is a hash here
    untold: frozenset[str] = frozenset()  # clusters that could not be told that they have to wait

    @property
    def spec(self) -> JSONObject:
        spec: JSONObject = self.policy["spec"] if self.policy is not None else {}
        return spec

    @property
    def is_wanted(self) -> bool:
        """Whether the policy is to be anywhere."""
        return self.policy is not None and not self.spec.get("disabled")

    @cached_property
    def wanted(self) -> Content:
        return content_of(self.spec) if self.policy is not None else Content("[]", "")

    @cached_property
    def asked(self) -> JSONObject:
        asked: JSONObject = self.spec.get("rolloutStrategy") or EVERYWHERE
        return asked

    @cached_property
    def in_turn(self) -> bool:
        """Whether clusters look first, and are enforced one after the other."""
        return self.asked["type"] != "All" and self._enforceable

    @cached_property
    def limits(self) -> Limits:
        return Limits(self.asked if self._enforceable else EVERYWHERE, concurrency=1)

    @property
    def _enforceable(self) -> bool:
        return self.policy is not None and is_enforceable(self.spec)

    @cached_property
    def words(self) -> Words:
        told = self.policy["metadata"].get("annotations", {}) if self.policy is not None else {}
        return Words(told, self.hashes.get(self.wanted))

    @cached_property
    def notes(self) -> Notes:
        wanted = [each for each in self.revisions if content_of(each["data"]["spec"]) == self.wanted]
        return Notes.of(wanted[0] if wanted else None, self.revisions)

    @property
    def aborted(self) -> bool:
        return self.words.given_up and not self.notes.was_complete

    @cached_property
    def back(self) -> Content | None:
        """What an abort goes back to: of the other contents that reached every cluster, the last one to do so."""
        others = [
            (seconds(notes["echelon.dev/completed-at"]), each["revision"], content_of(each["data"]["spec"]))
            for each in self.revisions
            if "echelon.dev/completed-at" in (notes := each["metadata"].get("annotations", {}))
        ]
        done = [each for each in others if each[2] != self.wanted]
        return max(done, key=lambda each: each[:2])[2] if done else None

    @property
    def puts_back(self) -> bool:
        """Whether an abort puts something back, everywhere at once."""
        return self.aborted and self.back is not None

    @cached_property
    def ways(self) -> list[Way]:
        return ways_of(self.bindings, self.sets)

    @cached_property
    def selection(self) -> Selection:
        """Who is to have the policy."""
        left_out: dict[str, frozenset[str]] = {}
        for way in self.ways if self.is_wanted else ():
            if not way.restricted:
                left_out[way.placement] = left_out.get(way.placement, way.excluded) & way.excluded
        found = (self._selected(name).without(excluded) for name, excluded in left_out.items())
        first = self.limits.mandatory if self.is_wanted and self.limits.kind == "Progressive" else ()
        return joined(found, first)

    @cached_property
    def _overrides(self) -> dict[str, str]:
        """The action that bindings set on clusters; those that place win over restricted ones."""
        if self.asked["type"] != "All":
            return {}
        found: dict[str, str] = {}
        for way in sorted(self.ways, key=lambda each: not each.restricted):
            there = self._selected(way.placement).homes.keys() - way.excluded
            found |= dict.fromkeys(there & self.selection.homes.keys() if way.override else (), way.override)
        return found

    def _selected(self, placement: str) -> Selection:
        return selection_of(self.placements[placement], self.decisions)

    def full(self, cluster: str, content: Content | None = None) -> Content:
        """Return a content as it is in force on a cluster."""
        content = self.wanted if content is None else content
        return replace(content, action=self._overrides.get(cluster, content.action))

    def is_released(self, cluster: str) -> bool:
        """Whether a cluster has what is wanted in force, and not because somebody has edited what was held."""
        replica = self.replicas.get(cluster)
        if replica is None or content_of(replica["spec"]) != self.full(cluster):
            return False
        return not (self.in_turn and is_held(replica))

    def is_waiting(self, cluster: str) -> bool:
        """Whether a cluster has what is wanted to look at."""
        replica = self.replicas.get(cluster)
        return self.in_turn and replica is not None and content_of(replica["spec"]) == self.wanted.held

    def is_ready(self, cluster: str) -> bool:
        """Whether it says so, too; agents of others would not let it."""
        replica = self.replicas[cluster]
        return said_of(replica) == "ToApply" or is_of_another_agent(replica)

    def stored(self, failures: Collection[tuple[str, str]]) -> dict[str, Attempt]:
        """Return what the policy itself says of writes that failed, as far as it is true.

        Who has got it to look at, and says so, has failed only if its release was not taken.
        """
        found = decode(self.words.told.get(FAILED_WRITES, ""))
        return {
            cluster: Attempt(one.revision, one.since.timestamp(), one.refused)
            for cluster, one in found.items()
            if (cluster, one.revision) in failures or not self.is_waiting(cluster) or not self.is_ready(cluster)
        }

    def meant(self, attempts: Mapping[str, Attempt]) -> dict[str, Attempt]:
        """Return those of some attempts that were to bring what is wanted; who has it to look at has got that."""
        return {
            name: replace(one, version=one.version.removesuffix(HELD))
            for name, one in attempts.items()
            if one.version.removesuffix(HELD) == self.words.revision
            and not (one.version.endswith(HELD) and self.is_waiting(name))
        }

    def failing(self, cluster: str) -> Attempt | None:
        """Return since when a cluster was to get what is wanted and could not, if it still has not."""
        attempt = self.attempts.get(cluster)
        if attempt is None or attempt.version != self.words.revision or self.is_released(cluster):
            return None
        return attempt

    def had_it(self, cluster: str) -> bool:
        """Whether a cluster worked with the wanted content when that was complete, and was not written since."""
        replica = self.replicas.get(cluster)
        if replica is None or is_ending(replica) or not self.is_released(cluster):
            return False
        return written_at(replica) <= self.notes.completed

    def found(self, cluster: str, now: float) -> Found:
        """Tell where a cluster stands."""
        replica, attempt, clock = self.replicas.get(cluster), self.failing(cluster), Clock(self.limits, self.words, now)
        if attempt is not None:
            return clock.unfinished(attempt.report)
        if replica is not None and is_ending(replica):
            since = seconds(replica["metadata"]["deletionTimestamp"])
            return clock.unfinished(Report("progressing", since, since))
        if replica is None or not self.is_released(cluster):
            return Found("to be written")
        course = self.course(cluster, Soak(self.limits.soak, self.words.promoted))
        if course.good_since is not None:
            return Found("done", course.good_since) if self.had_it(cluster) else clock.good(course.good_since)
        return clock.unfinished(self._report(cluster, bad=course.bad and self.lasting))

    def _report(self, cluster: str, *, bad: bool) -> Report:
        """Read a replica that is not good. A deadline runs from the write, a relapse that is noted, or another try."""
        replica = self.replicas[cluster]
        notes, since = notes_of(replica), written_at(replica)
        clock = max([since, *(seconds(notes[each]) for each in (TURNED, RETRIED) if each in notes)])
        if verdict_of(replica) != "bad" and not bad:
            return Report("progressing", since, clock)
        said = replica["status"].get("rolloutLastTransitionTime")
        since = max(since, seconds(said)) if said is not None else since
        if self.relapsed or self.had_it(cluster):
            clock = max(since, clock if self.relapsed else 0.0)
        return Report("failed", since, clock)

    def counts(self, cluster: str, now: float) -> Found:
        """Tell what a cluster means to the others: who had it when it was complete means nothing any more."""
        return Found("done") if self.had_it(cluster) else self.found(cluster, now)

    @cached_property
    def missing(self) -> tuple[str, str] | None:
        return self.limits.missing(self.selection, self.notes.passed)

    def why_not(self, cluster: str, content: Content, now: float) -> str | None:
        """Return why a cluster must not get a content now; nothing if it may by what anybody may have noted."""
        reasons = [
            replace(self, relapsed=relapsed, lasting=lasting)._why_not(cluster, content, now)
            for relapsed, lasting in product((False, True), repeat=2)
        ]
        return reasons[0] if all(reasons) else None

    def _why_not(self, cluster: str, content: Content, now: float) -> str | None:
        if not self.is_wanted or cluster not in self.selection.homes:
            return "nobody wants it there"
        if self.aborted and self.back is not None:
            return None if content == self.full(cluster, self.back) else f"{self.back} is put back"
        if self.in_turn and content == self.wanted.held:
            return "it is in force there" if self.is_released(cluster) and not self.aborted else None
        if self.aborted:
            return "the revision is aborted"
        if content != self.full(cluster):
            return f"{self.full(cluster)} is wanted"
        if self.words.paused:
            return "it is paused"
        if self.missing is not None:
            return f"nobody is in mandatory group {self.missing[1]}"
        if self.in_turn and (others := self.unprepared):
            return f"{others} have nothing to look at yet"
        # It has its place, and is a failure only until it is written; unless it missed its deadline meanwhile.
        again = self.failing(cluster) is not None and self.found(cluster, now).flies
        return self.walk(now).why_not(cluster, again=again)

    @cached_property
    def unprepared(self) -> list[str]:
        """The clusters that have yet to get what is wanted to look at, and to say so; unless they do not take it."""
        return [
            each
            for each in self.selection.homes
            if not self.is_released(each)
            and not (self.is_waiting(each) and (each in self.untold or self.is_ready(each)))
            and self.failing(each) is None
        ]

    def blocked(self, now: float) -> str:
        """Return the reason that the policy is to give for not going on."""
        if self.aborted:
            return "Aborted"
        if self.words.paused:
            return "Paused"
        if all(self.found(each, now).word == "done" for each in self.selection.homes):
            return "NotBlocked"
        return self.missing[0] if self.missing is not None else self.walk(now).blocked()

    def walk(self, now: float) -> Walk:
        """Return the way through the groups."""
        counts = {each: self.counts(each, now) for each in self.selection.homes}
        away = {each: self.counts(each, now) for each in self.replicas.keys() - self.selection.homes.keys()}
        moved = frozenset(each for each, one in away.items() if one.flies and not self.selection.settled)
        return Walk(self.limits, self.selection, self.words, counts, len(away), moved)
