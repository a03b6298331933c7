"""An observer who sees each committed state of a world with a policy, and holds against the hub what it should not do.

First it looks at what is committed. If that forbids a write, it asks whether the controller could have known, which is
what had reached it a moment before it sent the write. Whether a release follows a stored `ToApply`, and whether a
status is about the spec that it stands beside, needs no knowledge: such a write is made to one version of a replica.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.policy import POLICY
from echelon.api.policy_binding import PLACEMENT_BINDING, POLICY_SET
from echelon.engine.policy.names import HELD_ANNOTATION
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, World
from echelon.kube.client import EventType
from tests.controllers.hub import NS
from tests.controllers.policy_chronicle import Chronicle, Course, Soak, course_of
from tests.controllers.policy_content import (
    MARK,
    Content,
    content_of,
    is_ending,
    is_enforceable,
    is_held,
    notes_of,
    said_of,
    state_of,
    verdict_of,
    written_at,
)
from tests.controllers.policy_people import REPLICA, hash_of
from tests.controllers.policy_promises import HUB_WORDS, broken_by_agent, broken_by_release, broken_by_words
from tests.controllers.policy_rules import HELD, Scene
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_rules import Attempt
from tests.controllers.rollout_witness import SLIP, Call, Life, Register, Watched

POLICIES, BINDINGS, SETS = POLICY.resource, PLACEMENT_BINDING.resource, POLICY_SET.resource
PLACEMENTS, DECISIONS = PLACEMENT.resource, PLACEMENT_DECISION.resource
REVISIONS = CONTROLLER_REVISION.resource
READ = {POLICIES, BINDINGS, SETS, PLACEMENTS, DECISIONS, REVISIONS}
MOMENT = 1.5  # seconds: two ways of half a second each, and something for the queue


def _version(body: JSONObject) -> str:
    notes = body.get("metadata", {}).get("annotations", {}) if "spec" in body else {}
    version: str = notes.get("echelon.dev/revision") or ""
    return f"{version}{HELD}" if version and notes.get(HELD_ANNOTATION) else version


WATCHED = Watched(POLICIES, _version, home=NS)


@dataclass
class Observer:
    """Follows the world, one commit after the other."""

    world: World
    clusters: list[str]
    register: Register = field(default_factory=Register)
    chronicle: Chronicle = field(default_factory=Chronicle)
    hashes: dict[Content, str] = field(default_factory=dict)  # of all contents that ever had a revision
    started: dict[str, int] = field(default_factory=dict)  # when a replica got its content, by cluster
    unwanted: dict[str, int] = field(default_factory=dict)  # until when it was certain that a cluster should have none
    rewritten: int | None = None  # the last rewriting of decisions that was noticed
    patience: float = MOMENT
    furnished: bool = False  # from then on nobody but controllers, agents and people with a mark writes replicas

    @property
    def now(self) -> float:
        return running().clock.now().timestamp()

    def scene(self, known: Mapping[str, int] | None = None) -> Scene:
        """Return what is committed, or what it was at some revisions, with clocks as if everybody had seen it."""
        store = self.world.clusters[""].store

        def at(resource: str) -> list[JSONObject]:
            revision = None if known is None else known.get(resource, 0)
            return [entry.object for entry in store.list(resource, at=revision).entries]

        policies = at(POLICIES)
        newest = known[POLICIES] if known is not None else store.revision
        replicas = {each["metadata"]["namespace"]: each for each in policies if each["metadata"]["namespace"] != NS}
        scene = Scene(
            next((each for each in policies if each["metadata"]["namespace"] == NS), None),
            tuple(at(BINDINGS)),
            {each["metadata"]["name"]: each for each in at(SETS)},
            {each["metadata"]["name"]: each for each in at(PLACEMENTS)},
            tuple(at(DECISIONS)),
            replicas,
            tuple(at(REVISIONS)),
            self.hashes,
            lambda cluster, soak: course_of(self.chronicle.until(cluster, newest), soak),
        )
        return replace(scene, attempts=scene.stored(self.register.failures))

    def scene_at_rest(self) -> Scene:
        """Return what is committed, as whoever tells about it could know it.

        Who is bad may have been good while nobody looked, or could note that, or for less than a soak since somebody
        did. Then it has failed, for all that the hub knows.
        """
        scene, life = self.scene(), self.register.latest
        entries = scene.policy.get("status", {}).get("status", []) if scene.policy is not None else []
        failed = {each["clustername"] for each in entries if each.get("rolloutStatus") in ("Failed", "TimeOut")}
        waiting = {each["clustername"] for each in entries if each.get("rolloutStatus") == "Progressing"}
        log = self._log(life) if life is not None else []

        def course(cluster: str, soak: Soak) -> Course:
            found, replica = scene.course(cluster, soak), scene.replicas[cluster]
            verdict = verdict_of(replica)
            if cluster in waiting and verdict == "late" and not self.chronicle.was_noted(cluster, replica):
                return Course()  # its success is of before a write that is no content, and its agent says nothing since
            if cluster not in failed or found.good_since is None or verdict == "good":
                return found
            if self.chronicle.was_noted(cluster, replica):
                known = self.chronicle.course_as_known(cluster, replica, log, soak.to_the_second)
                return known if known.good_since is None else found
            return Course(bad=found.bad)

        return replace(scene, course=course)

    def follow(self, commit: Committed) -> str | None:
        """Take a change; tell what is wrong with it."""
        resource = commit.key.resource
        if self.register.blind:
            return f"{sorted(self.register.blind)} are written again by one who has not seen what it wrote there"
        if resource == REVISIONS and commit.type is EventType.ADDED:
            self.hashes[content_of(commit.object["data"]["spec"])] = hash_of(commit.object)
        elif resource in (DECISIONS, PLACEMENTS, BINDINGS, SETS):
            self._decided(commit)
        elif resource == POLICIES and commit.key.namespace == NS:
            return self._policy(commit)
        elif resource == POLICIES:
            return self._replica(commit)
        return None

    def _decided(self, commit: Committed) -> None:
        """Remember who was not to have the policy just now."""
        rewriting, last = self.world.memory.get("rewriting"), self.rewritten
        self.rewritten = rewriting
        if not self.furnished:
            return
        before = self.scene(dict.fromkeys(READ, commit.revision - 1))
        if not before.is_wanted:
            self.unwanted |= dict.fromkeys(self.clusters, commit.revision - 1)
        elif rewriting is not None and rewriting == last:
            return  # what somebody is in the middle of is not settled, whatever numbers say
        elif before.selection.settled:
            without = set(self.clusters) - before.selection.homes.keys()
            self.unwanted |= dict.fromkeys(without, commit.revision - 1)

    def _policy(self, commit: Committed) -> str | None:
        before, now = commit.previous, commit.object
        if commit.type is EventType.DELETED or before is None:
            self._decided(commit)
            self.register.attempts.clear()
        elif before["metadata"]["generation"] != now["metadata"]["generation"]:
            self._decided(commit)
            if content_of(before["spec"]) != content_of(now["spec"]):
                self.register.attempts.clear()
        self.chronicle.record(commit.revision, now)
        for entry in now.get("status", {}).get("status", ()) if self.furnished else ():
            if (wrong := self.chronicle.belied(entry)) is not None:
                return f"the policy says that {entry['clustername']} has succeeded, and {wrong}"
        return None

    def _replica(self, commit: Committed) -> str | None:
        cluster, before, now = commit.key.namespace, commit.previous, commit.object
        if commit.key.name != REPLICA:
            return f"the replica of {cluster} is called {commit.key.name}"
        gone = commit.type is EventType.DELETED
        self.chronicle.note(cluster, commit.revision, self.now, None if gone else now)
        if gone or is_ending(now):
            return None if before is not None and is_ending(before) else self._deleted(cluster)
        is_new = before is None or state_of(before).identity != state_of(now).identity
        if is_new:
            self.started[cluster] = commit.revision
        if not self.furnished:
            return None
        if before is not None and notes_of(now).get(MARK, "") not in ("", notes_of(before).get(MARK)):
            return None  # people did it
        if before is None or _is_rewritten(before, now):
            calls = self.register.arrived(cluster)
            self._own(calls, commit)
            released = is_enforceable(now["spec"]) and before is not None and is_held(before) and not is_held(now)
            if is_new and not self.now - self.patience - MOMENT <= written_at(now) <= self.now:
                return f"{cluster} was written at {written_at(now)}, and it says {self.now}"
            return self._written(commit, calls) if is_new or released else None
        if before.get("status") == now.get("status"):
            return None  # somebody only holds the object
        if not _is_told_by_hub(before, now):
            return broken_by_agent(before, now)
        self._own(self.register.arrived(cluster, status=True), commit)
        return broken_by_words(before, now)

    def _own(self, calls: list[Call], commit: Committed) -> None:
        for call in calls:
            call.life.written[commit.revision] = commit.object

    def _deleted(self, cluster: str) -> str | None:
        if self.world.memory.get("lost") == cluster:  # by people
            del self.world.memory["lost"]
            return None
        SEEN["deletion"] += 1
        scene = self.scene()
        settled = scene.selection.settled and self.world.memory.get("rewriting") is None
        if self.unwanted.get(cluster, 0) >= self.started[cluster] or not scene.is_wanted:
            return None
        if settled and cluster not in scene.selection.homes:
            return None
        return f"the replica of {cluster} is deleted, and it was never certain that it should be"

    def _written(self, commit: Committed, calls: list[Call]) -> str | None:
        """Judge a write that brings content to a cluster."""
        cluster = commit.key.namespace
        scene = self.scene(dict.fromkeys(READ, commit.revision - 1))
        # Whose writes failed counts for everybody, whoever tried them and whatever became of that process.
        scene = replace(scene, attempts={**scene.attempts, **scene.meant(self.register.attempts)})
        self.register.attempts.pop(cluster, None)
        why = self._why_not(scene, commit, self.now)
        self._count(scene, commit)
        SEEN["write on older knowledge"] += why is not None
        if why is not None and not any(self._could_not_know(call, commit) for call in calls):
            return (
                f"{cluster} gets {content_of(commit.object['spec'])}{' held' * is_held(commit.object)} although {why}"
            )
        return None

    def _count(self, scene: Scene, commit: Committed) -> None:
        """Remember what was written, and beside whom."""
        if is_held(commit.object):
            SEEN["hold"] += 1
        elif scene.puts_back:
            SEEN["put back"] += 1
        elif not scene.in_turn:
            SEEN["start"] += 1
        else:
            others = scene.selection.homes.keys() - {commit.key.namespace}
            SEEN["release"] += 1
            SEEN.update({f"release beside one that is {scene.found(each, self.now).word}" for each in others})

    def _why_not(self, scene: Scene, commit: Committed, now: float) -> str | None:
        cluster, replica = commit.key.namespace, commit.object
        content = content_of(replica["spec"])
        waits = scene.is_wanted and scene.in_turn and content == scene.wanted.held and not scene.puts_back
        if waits is not is_held(replica):
            return f"it {'should' if waits else 'should not'} be held"
        released = scene.is_wanted and scene.in_turn and not waits and not scene.puts_back
        if released and (broken := broken_by_release(commit.previous, replica)) is not None:
            return broken
        return scene.why_not(cluster, content, now)

    def _could_not_know(self, call: Call, commit: Committed) -> bool:
        """Whether a controller that sent a write was right to do so by all that had reached it."""
        start = running().clock.now().timestamp() - running().time()
        for known, first, last in call.basis(self.patience):
            if not known.keys() >= READ:
                continue
            # What failed in the same moment may have been known, or not yet.
            for until in (start + last - SLIP, start + last + 3 * SLIP):
                scene = self._as_known(call, known, commit.revision, until)
                if any(self._why_not(scene, commit, start + moment) is None for moment in (first, last)):
                    return True
        return False

    def _as_known(self, call: Call, known: Mapping[str, int], revision: int, until: float) -> Scene:
        """Return what a controller knew, with what it wrote itself and has not heard of yet, and what was not taken."""
        scene, life = self.scene(known), call.life
        made = [each for when, each in life.written.items() if known[POLICIES] < when < revision]
        replicas = {**scene.replicas, **{each["metadata"]["namespace"]: each for each in made}}
        log = [each for each in self._log(life) if each[0] <= until + SLIP]

        def course(cluster: str, soak: Soak) -> Course:
            return self.chronicle.course_as_known(cluster, replicas[cluster], log, soak)

        attempts = dict(_merged(scene.attempts, scene.meant(life.attempts), until))
        untold = frozenset(life.untold)
        return replace(scene, replicas=replicas, attempts=attempts, course=course, untold=untold)

    def _log(self, life: Life) -> list[tuple[float, int]]:
        """Return how far a process had come with policies, and when."""
        start = running().clock.now().timestamp() - running().time()
        return [(start + when, each[POLICIES]) for when, each in life.log if POLICIES in each]


def _merged(stored: Mapping[str, Attempt], own: Mapping[str, Attempt], until: float) -> Iterator[tuple[str, Attempt]]:
    """Return the attempts that somebody knows of: what another process tried before is stored, and counts from then."""
    yield from stored.items()
    for name, one in own.items():
        if one.since < until - SLIP:
            before = stored.get(name)
            same = before is not None and before.version == one.version
            yield name, replace(one, since=before.since) if before is not None and same else one


def _is_rewritten(before: JSONObject, now: JSONObject) -> bool:
    """Whether more than the status, and what holds an object, has changed."""

    def parts(replica: JSONObject) -> tuple[object, ...]:
        return replica["spec"], notes_of(replica), replica["metadata"].get("labels", {})

    return parts(before) != parts(now)


def _is_told_by_hub(before: JSONObject, now: JSONObject) -> bool:
    """Whether a status was written by the hub, which has a word to say and nothing to report."""

    def reported(replica: JSONObject) -> list[object]:
        return [replica.get("status", {}).get(each) for each in ("compliant", "details", "observedGeneration")]

    return reported(before) == reported(now) and said_of(now) in HUB_WORDS
