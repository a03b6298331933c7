"""Since when each cluster is good with what it has: seen by everybody at once, or as it reached one who was told later.

A soak runs by the hub's clock: from when the hub could first see a success, not from when an agent says that it was.
Whoever was good for the whole soak stays so until there is other content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from echelon.api.base import JSONObject
from tests.controllers.policy_content import State, state_of, written_at
from tests.controllers.rollout_witness import SLIP
from tests.controllers.rollout_words import seconds

# Times with what a replica was then, and since when it was recorded to be good, as far as somebody knew.
Timeline: TypeAlias = Iterable[tuple[float, State, float | None]]


@dataclass(frozen=True)
class Soak:
    """When a success has lasted long enough."""

    lasts: float
    promoted: float | None = None  # a success that is as old as this has

    def is_over(self, since: float, now: float) -> bool:
        return since + self.lasts <= now or (self.promoted is not None and since <= self.promoted <= now)

    @property
    def to_the_second(self) -> "Soak":
        """As it is to somebody who knows of a failure only in which second it was."""
        return replace(self, lasts=self.lasts + 1.0) if self.lasts else self


class Course(NamedTuple):
    """What a cluster has come to with what it has: since when it counts as good, and whether it was bad at last."""

    good_since: float | None = None
    bad: bool = False


def course_of(timeline: Timeline, soak: Soak) -> Course:
    """Return what a cluster has come to at the end of a timeline."""
    identity: object = None
    since, bad = None, False
    for time, state, noted in timeline:
        if state.identity != identity:
            since, bad, identity = None, False, state.identity
        if state.verdict == "bad":
            since = since if since is not None else noted
            since = since if since is not None and soak.is_over(since, time) else None
        elif noted is not None:
            since = noted
        elif since is None and state.verdict == "good":
            since = time
        bad = state.verdict == "bad" or (bad and state.verdict == "late")
    return Course(since, bad)


@dataclass(frozen=True)
class Moment:
    """A committed state of a replica; None when it is gone."""

    revision: int
    time: float
    state: State | None


@dataclass
class Chronicle:
    """All that was committed of replicas, by cluster, and what the policy's own status said of them."""

    moments: dict[str, list[Moment]] = field(default_factory=dict)
    records: list[tuple[int, dict[str, float]]] = field(default_factory=list)  # by revision: good since when

    def record(self, revision: int, policy: JSONObject) -> None:
        entries = policy.get("status", {}).get("status", [])
        self.records.append((revision, {each["clustername"]: since for each in entries if (since := _noted(each))}))

    def belied(self, entry: JSONObject) -> str | None:
        """Tell what is wrong with a success that the policy's status claims."""
        since = _noted(entry)
        if since is None:
            return None
        before = [each for each in self.moments.get(entry["clustername"], ()) if each.time <= since + SLIP]
        if any(each.state is not None and each.state.verdict == "good" for each in before):
            return None
        return "its agent had not said so"

    def was_noted(self, cluster: str, replica: JSONObject) -> bool:
        """Whether the policy's status ever said that a cluster is good with what it has."""
        written = written_at(replica)
        return any(since >= written for _, said in self.records if (since := said.get(cluster)) is not None)

    def note(self, cluster: str, revision: int, time: float, replica: JSONObject | None) -> None:
        state = state_of(replica) if replica is not None else None
        self.moments.setdefault(cluster, []).append(Moment(revision, time, state))

    def until(self, cluster: str, revision: int) -> Timeline:
        """Return the states of a cluster's replica up to a revision, as they were committed."""
        for each in self.moments.get(cluster, ()):
            if each.revision <= revision and each.state is not None:
                yield each.time, each.state, None

    def as_known(self, cluster: str, log: Iterable[tuple[float, int]], soak: Soak) -> Timeline:
        """Return the states as they reached somebody who came to some revisions at some times.

        What was before that is known by what was recorded of it then, if it was true.
        """
        for time, revision in log:
            known = [each for each in self.moments.get(cluster, ()) if each.revision <= revision]
            if not known or (state := known[-1].state) is None:
                continue
            noted = next((said.get(cluster) for at, said in reversed(self.records) if at <= revision), None)
            true = noted is not None and noted >= seconds(state.identity[1])
            if true and course_of(self.until(cluster, revision), soak).good_since is None:
                true = False
            # A success counts from when somebody hears of it; a failure is as old as it is.
            when = min(time, _turned(known).time) if state.verdict == "bad" else time
            yield when, state, noted if true else None

    def course_as_known(self, cluster: str, replica: JSONObject, log: list[tuple[float, int]], soak: Soak) -> Course:
        """Return what a cluster has come to, by the clock of somebody who came to some revisions at some times."""
        timeline = list(self.as_known(cluster, log, soak))
        if not timeline or timeline[-1][1].identity != state_of(replica).identity:
            return Course()
        return course_of(timeline, soak)


def _turned(known: Sequence[Moment]) -> Moment:
    """Return the first of the latest moments that were like the last one."""
    last = known[-1]
    return list(takewhile(lambda each: each.state == last.state, reversed(known)))[-1]


def _noted(entry: JSONObject) -> float | None:
    """Return since when a cluster is good, as an entry of a policy's status says."""
    if entry.get("rolloutStatus") != "Succeeded" or "rolloutLastTransitionTime" not in entry:
        return None
    return seconds(entry["rolloutLastTransitionTime"])
