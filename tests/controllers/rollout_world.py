"""A world for rollouts in which everything goes wrong, and an observer who sees each of its committed states.

Six clusters in three groups are upgraded, again and again, while people change everything that can be changed, agents
report good and bad news or nothing, decisions are moved about, and the controller is killed, starved and lied to. The
observer has rules of its own, and knows objects only.

What it holds against a controller: a cluster that was written although the rules forbid it. First it looks at what is
committed. If that forbids the write, it asks whether the controller could have known, which is what had reached it a
moment before it sent the write. The moment is how long a controller may take from its decision to its write: one round
trip, in which it stores the revision. Who is stopped in between, by a pause of the whole process, has that long.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import Controllers
from echelon.engine.work_set.names import PLACEMENT_LABEL as WORK_PLACEMENT_LABEL
from echelon.engine.work_set.names import SET_LABEL
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, Component, Invariant, LifeOutcome, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import ApiError, Forbidden, Invalid, NotFound, TooManyRequests, Unavailable
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.leader import LeaderElection
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS as CLUSTER_CRDS
from tests.controllers.hub import NS
from tests.controllers.placement_world import create
from tests.controllers.rollout_agents import DONE, Agents, conditions
from tests.controllers.rollout_people import CLUSTERS, SEEN, SPARE, People, content_of, drawn_strategy, hash_of
from tests.controllers.rollout_rules import WRITTEN, Attempt, condition
from tests.controllers.rollout_witness import SLIP, Call, Refusal, Register, Watched, Witness
from tests.controllers.rollout_words import seconds
from tests.controllers.work_rules import Scene, version_of
from tests.controllers.work_world import CRDS, TRUSTING, template

SETS, WORKS = MANIFEST_WORK_REPLICA_SET.resource, MANIFEST_WORK.resource
PLACEMENTS, DECISIONS = PLACEMENT.resource, PLACEMENT_DECISION.resource
REVISIONS = CONTROLLER_REVISION.resource
WATCHED = Watched(WORKS, lambda body: version_of(body["spec"]) if "spec" in body else "")
MOMENT = 1.5  # seconds: two ways of half a second each, and something for the queue

CRUEL = Faults(crash=0.1, late_write=0.3, stale=0.2, delay=0.3, conflict=0.1, server_error=0.1, latency=(0.0, 0.3))


ANSWERS: tuple[type[ApiError], ...] = (Forbidden, NotFound, Invalid, TooManyRequests, ApiError, Unavailable)

_KINDS = (
    "Placement",
    "PlacementDecision",
    "ManifestWork",
    "ManifestWorkReplicaSet",
    "ManagedCluster",
    "ManagedClusterSet",
    "ManagedClusterSetBinding",
)


async def furnish(world: World, people: People, strategy: JSONObject, *, upgraded: bool) -> None:
    """Make what is there from the beginning; if it is an upgrade, with works of which all is well."""
    client, store = world.client(), world.clusters[""].store
    for definition in (*CLUSTER_CRDS, *CRDS):
        if definition["spec"]["names"]["kind"] in _KINDS:
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(client, NAMESPACE, NS)
    await create(client, PLACEMENT, "p", NS, spec={})
    for index in range(3):
        await people.decider.make(index)
    await people.decider.publish([CLUSTERS[:2], CLUSTERS[2:4], CLUSTERS[4:]], at_once=True)
    spec = {"manifestWorkTemplate": template("1"), "placementRefs": [{"name": "p", "rolloutStrategy": strategy}]}
    await create(client, MANIFEST_WORK_REPLICA_SET, "web", NS, spec=spec)
    beginning = store.revision
    for name in (*CLUSTERS, *SPARE):
        await create(client, NAMESPACE, name)
    for name in CLUSTERS if upgraded else ():
        annotations = {WRITTEN: "2025-12-31T00:00:00.000000Z"}
        labels = {SET_LABEL: f"{NS}.web", WORK_PLACEMENT_LABEL: "p"}
        metadata = {"labels": labels, "annotations": annotations}
        await create(client, MANIFEST_WORK, "web", name, metadata=metadata, spec=template("1"))
        status = MergePatch({"status": {"conditions": conditions(DONE, 1, "2025-12-31T00:00:00Z")}})
        await client.patch(MANIFEST_WORK, "web", status, name, subresource="status")
    # Replicas that lag must not show a time before the beginning.
    for number in range(beginning + Faults().stale_revisions - store.revision):
        await create(client, CONFIG_MAP, f"filler{number}", NS)


async def controller(client: FaultyClient, *, register: Register, name: str = "", leads: bool = False) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    clock = running().clock

    async def work() -> None:
        # Everything is forgotten between two terms of a leader, also what the witness knows.
        seen = Witness(client, register, WATCHED)
        made = Controllers(
            seen, clock, ["work-sets"], random=chance, metrics=Metrics(), instance=name, settings=TRUSTING
        )
        await made.run()

    if leads:
        await LeaderElection(client, clock, "work-sets", NS, name, random=chance).run(work)
    else:
        await work()


@dataclass
class Observer:
    """Follows the world, one commit after the other."""

    world: World
    register: Register = field(default_factory=Register)
    hashes: dict[str, str] = field(default_factory=dict)  # of all contents that ever had a revision
    started: dict[str, int] = field(default_factory=dict)  # when a work got its content, by cluster
    unselected: dict[str, int] = field(default_factory=dict)  # until when settled decisions were without a cluster
    rewritten: int | None = None  # the last rewriting of decisions that was noticed
    patience: float = MOMENT
    furnished: bool = False  # from then on nobody but controllers writes content

    @property
    def now(self) -> float:
        return running().clock.now().timestamp()

    def scene(self, known: dict[str, int] | None = None) -> Scene:
        """Return what is committed, or what it was when it became known."""
        store = self.world.clusters[""].store

        def at(resource: str) -> list[JSONObject]:
            revision = None if known is None else known.get(resource, 0)
            return [entry.object for entry in store.list(resource, at=revision).entries]

        (work_set,), (placement,) = at(SETS), at(PLACEMENTS)
        works = {work["metadata"]["namespace"]: work for work in at(WORKS)}
        scene = Scene(work_set, placement, tuple(at(DECISIONS)), works, self.hashes, tuple(at(REVISIONS)))
        return replace(scene, attempts=scene.stored if known is not None else self.register.attempts)

    def follow(self, commit: Committed) -> str | None:
        """Take a change; tell what is wrong with it."""
        resource = commit.key.resource
        if self.register.blind:
            return f"{sorted(self.register.blind)} are written again by one who has not seen what it wrote there"
        if resource == REVISIONS and commit.type is EventType.ADDED:
            self.hashes[content_of(commit.object)] = hash_of(commit.object)
        elif resource in (DECISIONS, PLACEMENTS) and self.furnished:
            self._decided(commit)
        elif resource == WORKS:
            return self._work(commit)
        elif resource == SETS and commit.previous is not None:
            before, now = (
                version_of(each["spec"]["manifestWorkTemplate"]) for each in (commit.previous, commit.object)
            )
            if before != now:
                self.register.attempts.clear()
        return None

    def _decided(self, commit: Committed) -> None:
        """Remember who was not selected just now."""
        rewriting, last = self.world.memory.get("rewriting"), self.rewritten
        self.rewritten = rewriting
        if rewriting is not None and rewriting == last:
            return  # what somebody is in the middle of is not settled, whatever numbers say
        before = self.scene(dict.fromkeys(_READ, commit.revision - 1))
        if before.selection.settled:
            self.unselected |= dict.fromkeys({*CLUSTERS, *SPARE} - before.selection.homes.keys(), commit.revision - 1)

    def _work(self, commit: Committed) -> str | None:
        cluster, before = commit.key.namespace, commit.previous
        if commit.key.name != "web":
            return f"the work of {cluster} is called {commit.key.name}"
        gone = commit.type is EventType.DELETED
        if gone or "deletionTimestamp" in commit.object["metadata"]:
            if before is not None and "deletionTimestamp" in before["metadata"]:
                return None
            return self._deleted(cluster)
        if before is not None and before["metadata"]["generation"] == commit.object["metadata"]["generation"]:
            return None
        self.started[cluster] = commit.revision
        return self._started(commit, self.register.arrived(cluster)) if self.furnished else None

    def _deleted(self, cluster: str) -> str | None:
        if self.world.memory.get("lost") == cluster:  # by people
            del self.world.memory["lost"]
            return None
        SEEN["deletion"] += 1
        scene = self.scene()
        settled = scene.selection.settled and self.world.memory.get("rewriting") is None
        if self.unselected.get(cluster, 0) >= self.started[cluster] or (
            settled and cluster not in scene.selection.homes
        ):
            return None
        return f"the work of {cluster} is deleted, and no settled decisions were without it"

    def _started(self, commit: Committed, calls: list[Call]) -> str | None:
        cluster, version = commit.key.namespace, version_of(commit.object["spec"])
        before = dict.fromkeys(_READ, commit.revision - 1)
        # Whose writes failed counts for everybody, whoever tried them and whatever became of that process.
        scene = self.scene(before)
        scene = replace(scene, attempts=_together(scene, self.register.attempts))
        self.register.attempts.pop(cluster, None)
        why = self._why_not(scene, cluster, version, self.now)
        SEEN["start"] += 1
        for call in calls:
            call.life.written[commit.revision] = commit.object
        written = seconds(commit.object["metadata"]["annotations"][WRITTEN])
        if not self.now - self.patience - MOMENT <= written <= self.now:
            return f"{cluster} was written at {written}, and it says {self.now}"
        if why is None:
            return None
        SEEN["start on older knowledge"] += 1
        if any(self._could_not_know(call, cluster, version, commit.revision) for call in calls):
            return None
        return f"{cluster} gets {version} although {why}"

    def _why_not(self, scene: Scene, cluster: str, version: str, now: float) -> str | None:
        why = scene.why_not(cluster, version, now)
        if why is not None and replace(scene, relapsed=True).why_not(cluster, version, now) is None:
            return None  # a relapse is known to whoever saw it before that is written
        if why is None and scene.aborted and not self.is_completed(version):
            return "nobody has completed that, and it was aborted"
        return why

    def is_completed(self, version: str) -> bool:
        stored = self.world.objects(REVISIONS, namespace=NS)
        return any(
            content_of(each) == version and "echelon.dev/completed-at" in each["metadata"].get("annotations", {})
            for each in stored
        )

    def _could_not_know(self, call: Call, cluster: str, version: str, revision: int) -> bool:
        """Whether a controller that sent a write was right to do so by all that had reached it."""
        start = running().clock.now().timestamp() - running().time()
        for known, first, last in call.basis(self.patience):
            if not known.keys() >= _READ:
                continue
            scene = self._with_own(self.scene(known), call, known[WORKS], revision, start + last - SLIP)
            if any(self._why_not(scene, cluster, version, start + moment) is None for moment in (first, last)):
                return True
        return False

    def _with_own(self, scene: Scene, call: Call, known: int, revision: int, until: float) -> Scene:
        """Add what the controller wrote itself and has not heard of yet, and what was not taken from it until then."""
        made = [work for when, work in call.life.written.items() if known < when < revision]
        works = {**scene.works, **{work["metadata"]["namespace"]: work for work in made}}
        attempts = dict(scene.attempts)
        for name, one in call.life.attempts.items():
            before = attempts.get(name)
            if before is not None and _is_older(scene, before, one):
                continue
            if one.since < until - SLIP:  # what another process tried before is stored, and counts from then
                same = before is not None and before.version == one.version
                attempts[name] = replace(one, since=before.since) if before is not None and same else one
        return replace(scene, works=works, attempts=attempts)


_READ = {SETS, WORKS, PLACEMENTS, DECISIONS, REVISIONS}


def _together(scene: Scene, attempts: Mapping[str, Attempt]) -> dict[str, Attempt]:
    """Return what is stored of writes that were not taken, and what else is known of them."""
    stored = scene.stored
    newer = {
        each: one for each, one in attempts.items() if not (each in stored and _is_older(scene, stored[each], one))
    }
    return {**stored, **newer}


def _is_older(scene: Scene, known: Attempt, one: Attempt) -> bool:
    """Whether an attempt brought what nobody wants any more: one who leads no longer may still try that."""
    return known.version == scene.wanted != one.version


def observer_of(world: World) -> Observer:
    if "observer" not in world.memory:
        world.memory["observer"] = Observer(world)
    observer: Observer = world.memory["observer"]
    return observer


def the_rules_are_kept(world: World, commit: Committed) -> str | None:
    return observer_of(world).follow(commit)


def wrongs(world: World) -> Iterator[str]:
    """Tell what is not as it has to be at rest."""
    observer = observer_of(world)
    scene, now = observer.scene(), observer.now
    scene = replace(scene, attempts=scene.stored)  # whoever is not among them and may start has to
    if not scene.selection.settled:
        yield "the decisions are not settled"
    left = [each for each in scene.works.keys() - scene.selection.homes.keys() if not is_ending(scene.works[each])]
    if scene.paused and left:  # while paused nothing is removed, and they are in the status, too
        yield from _not_as_blocked(scene, now)
        return
    for cluster in left:
        yield f"{cluster} has a work and is not selected"
    found = {cluster: scene.found(cluster, now) for cluster in scene.selection.homes}
    if scene.aborted:
        yield from _not_back(observer, scene)
    else:
        for cluster, one in found.items():
            if one.word == "to be written" and scene.why_not(cluster, scene.wanted, now) is None:
                yield f"{cluster} could start"
        yield from _miscounted(scene, [one.word for one in found.values()])
    yield from _not_as_blocked(scene, now)
    done = not scene.aborted and all(one.word == "done" for one in found.values())
    if condition(scene.work_set, "PlacementRolledOut")[0] != str(done):
        yield f"done is {done}, and the set says {condition(scene.work_set, 'PlacementRolledOut')}"


def _not_as_blocked(scene: Scene, now: float) -> Iterator[str]:
    reason = scene.blocked(now)
    if condition(scene.work_set, "RolloutBlocked") != (str(reason != "NotBlocked"), reason):
        yield f"it is {reason}, and the set says {condition(scene.work_set, 'RolloutBlocked')}"


def is_ending(work: JSONObject) -> bool:
    return "deletionTimestamp" in work["metadata"]


def _not_back(observer: Observer, scene: Scene) -> Iterator[str]:
    """An aborted revision is nowhere, if there is anything to go back to."""
    others = [version for version in observer.hashes if version != scene.wanted and observer.is_completed(version)]
    versions = {version_of(work["spec"]) for cluster, work in scene.works.items() if cluster in scene.selection.homes}
    if others and (len(versions) > 1 or scene.wanted in versions):
        yield f"aborted, and there is {sorted(versions)}"


def _miscounted(scene: Scene, words: list[str]) -> Iterator[str]:
    said = scene.work_set.get("status", {}).get("rollout", {})
    names = {
        "toApply": ("to be written",),
        "progressing": ("progressing",),
        "succeeded": ("done", "soaking"),
        "failed": ("failed",),
        "timedOut": ("timed out",),
    }
    counted = {name: sum(words.count(word) for word in meant) for name, meant in names.items()}
    told = {name: said.get(name, 0) for name in names}
    if told != counted:
        yield f"there are {counted}, and the set says {told}"
    if (condition(scene.work_set, "ClustersTimedOut")[0] == "True") != ("timed out" in words):
        yield "the set does not tell who timed out"


def everything_is_as_it_should_be(world: World) -> str | None:
    return "; ".join(wrongs(world)) or None


async def build(world: World) -> None:
    await world.add_cluster()
    client, chance = world.client(), Random(world.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    observer = observer_of(world)
    two = world.scenario is TWO
    observer.patience = MOMENT + world.scenario.pause_seconds[1]
    agents = drawn_agents(world, client, chance)
    observer.register.refusals |= drawn_refusals(chance)
    people = People(world, client, chance, steps=chance.randint(4, 12))
    await furnish(world, people, drawn_strategy(chance), upgraded=chance.random() < 0.8)
    observer.furnished = True
    for number, life in enumerate(agents.lives([*CLUSTERS, *SPARE])):
        world.spawn(life, f"agent {number}")
    world.clusters[""].store.on_commit(agents.follow)
    for name in ("first", "second") if two else ("only",):
        world.start(Component(name, partial(controller, register=observer.register, name=name, leads=two)))
    world.spawn(people.meddle(), "people")


def drawn_refusals(chance: Random) -> dict[str, Refusal]:
    """Draw the clusters for which the server takes no content, for a while or for ever."""
    if chance.random() < 0.6:
        return {}
    return {
        cluster: Refusal(chance.choice(ANSWERS), chance.choice((math.inf, running().time() + chance.uniform(5, 90))))
        for cluster in chance.sample(CLUSTERS, chance.choice((1, 1, 2)))
    }


def drawn_agents(world: World, client: Client, chance: Random) -> Agents:
    dead = frozenset(chance.sample(CLUSTERS, 1) if chance.random() < 0.2 else ())
    offline: dict[str, Any] = {}
    if chance.random() < 0.3:
        offline[chance.choice(CLUSTERS)] = chance.uniform(10, 60)
    return Agents(
        client,
        world.seed,
        trouble=chance.choice((0.0, 0.1, 0.3)),
        finalizers=chance.random() < 0.3,
        restarts_clocks=chance.random() < 0.5,
        dead=dead,
        offline_until=offline,
    )


ONE = Scenario(
    name="rollout",
    build=build,
    goal=everything_is_as_it_should_be,
    invariants=(Invariant("rules", the_rules_are_kept),),
    chaos_seconds=60.0,
    settle_seconds=900.0,
    silence_seconds=90.0,
    kill_seconds=(5.0, 60.0),
    restart_seconds=(0.0, 8.0),
    replay="ECHELON_SEED={seed} python -m pytest -n 0 tests/controllers/test_rollout_simulation.py",
)
TWO = replace(ONE, name="rollout, two leaders", pause_seconds=(0.0, 25.0))


def live(seed: int) -> LifeOutcome:
    """Run the world once: every fourth seed with two leaders, every third with the cruel mixture of faults.

    Whatever blinds a controller passes sooner than usual, because a blind one does nothing that could be wrong.
    """
    drawn = Faults.swarm(Random(f"faults of {seed}"))  # noqa: S311 - repeatable on purpose
    faults = CRUEL if seed % 3 == 0 else drawn
    faults = replace(faults, stall_seconds=(3.0, 25.0), stale_seconds=(1.0, 15.0))
    faults = replace(faults, delay_seconds=(0.0, 4.0), lost_seconds=(0.0, 10.0))
    return simulate(TWO if seed % 4 == 0 else ONE, seed, faults)
