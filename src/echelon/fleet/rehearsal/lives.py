"""One life of a rehearsal by a seed: things go wrong as drawn, the change is made, and what came of it is told."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import POD
from echelon.api.work import MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.settings import DEFAULTS, ControllerSettings
from echelon.engine.work_set.names import SET_LABEL, set_of
from echelon.fleet.rehearsal.chronicle import Chronicle, Counts, RolloutName, Story
from echelon.fleet.rehearsal.hazards import Hazard, script_of
from echelon.fleet.rehearsal.world import Rehearsal, Write
from echelon.hub.storage.store import Change
from echelon.kube.client import EventType, MergePatch

_LOOK_SECONDS = 30.0
_AFTERWARDS = 600.0  # seconds for which a rollout that has ended is looked at
_STOPPED = "MaxFailuresExceeded"
_SILENT_SECONDS = 300.0  # after which a hub gives up on a cluster that it does not hear of


@dataclass(frozen=True)
class Trial:
    """What is tried: a change, what goes wrong, and for how long it is looked at."""

    writes: tuple[Write, ...]
    rollouts: tuple[RolloutName, ...]
    hazards: tuple[Hazard, ...] = ()
    most_seconds: float = 7 * 24 * 3600.0
    slots: Mapping[RolloutName, int] = field(default_factory=dict)  # clusters that may be in flight at once, at most
    settings: ControllerSettings = DEFAULTS


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one rollout in one life. Times are seconds since the change."""

    rollout: RolloutName
    ending: str  # done, stopped, blocked: with its reason, or unfinished
    seconds: float
    clusters: int  # that got the change before it ended
    pods: int  # of what is new, on them
    failed: int
    starts: list[tuple[float, str]] = []
    told: list[tuple[float, Counts]] = []


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What happened under one seed."""

    seed: int
    struck: int = 0  # clusters in which something goes wrong
    fates: list[Fate] = []
    violations: list[str] = []
    error: str = ""


@dataclass
class _Guard:
    """Looks at every commit whether a rollout goes on that was stopped, or has more in flight than it may."""

    chronicle: Chronicle
    slots: Mapping[RolloutName, int]
    broken: list[str] = field(default_factory=list)
    _moving: dict[RolloutName, set[str]] = field(default_factory=dict)  # that have got the change, and do not work yet
    _worked: set[tuple[RolloutName, str]] = field(default_factory=set)  # who turns bad later was let go before
    _many: dict[RolloutName, int] = field(default_factory=dict)  # most in flight, since a status was told

    def committed(self, change: Change) -> None:
        before = {
            name: len(story.starts) for name, story in self.chronicle.stories.items() if story.blocked == _STOPPED
        }
        self.chronicle.committed(change)
        for name, count in before.items():
            story = self.chronicle.stories[name]
            if len(story.starts) > count and story.blocked == _STOPPED:
                cluster = next(reversed(story.starts))
                self.broken.append(f"{name.name}: {cluster} started after too many had failed")
        self._count(change)

    def _count(self, change: Change) -> None:
        """Count works from what agents say of them, and not from what a controller makes of that."""
        key = change.entry.key
        if RolloutName(*key) in self.slots:
            self.judge(RolloutName(*key))
        if key.resource != MANIFEST_WORK.resource:
            return
        meta = change.entry.object["metadata"]
        found = set_of(str((meta.get("labels") or {}).get(SET_LABEL) or ""))
        name = RolloutName(MANIFEST_WORK_REPLICA_SET.resource, *found) if found is not None else None
        if name is None or name not in self.slots:
            return
        moving, cluster = self._moving.setdefault(name, set()), meta["namespace"]
        began = cluster in self.chronicle.of(name).starts
        if not began or change.type is EventType.DELETED:
            moving.discard(cluster)
        elif _works(change.entry.object):
            moving.discard(cluster)
            self._worked.add((name, cluster))
        elif cluster not in moving and (name, cluster) not in self._worked:
            moving.add(cluster)
            self._many[name] = max(self._many.get(name, 0), len(moving))

    def judge(self, name: RolloutName) -> None:
        """Compare with what may be in flight. Who has failed gives way to others, and is told of after they started."""
        many, told = self._many.pop(name, 0), self.chronicle.of(name).told
        if many > self.slots[name] + (told[-1][1].bad if told else 0):
            self.broken.append(f"{name.name}: {many} in flight, and {self.slots[name]} may be")


async def live(world: Rehearsal, trial: Trial, seed: int) -> Life:
    """Live one life."""
    random = Random(f"life {seed}")  # noqa: S311 - repeatable on purpose
    images = new_images(trial.writes)
    struck = _strike(world, trial.hazards, images, random)
    chronicle = Chronicle(world.loop.time, trial.rollouts)
    chronicle.know(entry.object for entry in world.hub.store.list("rolloutledgers.echelon.dev").entries)
    guard = _Guard(chronicle, trial.slots)
    world.hub.store.on_commit(guard.committed)
    began = world.loop.time()
    await world.apply(trial.writes)
    await _until_over(world, trial, chronicle, began)
    for name in trial.slots:
        guard.judge(name)  # if nobody told anything since
    fates = [_fate(world, name, chronicle.of(name), images, world.loop.time() - began) for name in trial.rollouts]
    return Life(seed=seed, struck=len(struck), fates=fates, violations=guard.broken[:20])


def _works(work: JSONObject) -> bool:
    """Whether an agent says that what a work has now is there, and works."""
    generation = work["metadata"].get("generation")
    said = {each["type"]: each for each in (work.get("status") or {}).get("conditions") or ()}
    available = said.get("Available")
    return (
        available is not None and available["status"] == "True" and available.get("observedGeneration") == generation
    ) and said.get("Progressing", {}).get("status") != "True"


def _strike(world: Rehearsal, hazards: Sequence[Hazard], images: Iterable[str], random: Random) -> set[str]:
    """Let things go wrong in clusters that are drawn."""
    clusters = sorted(world.fleet.members)
    by_cluster: dict[str, list[Hazard]] = {}
    for hazard in hazards:
        for name in hazard.struck(clusters, random):
            by_cluster.setdefault(name, []).append(hazard)
    for name, member in world.fleet.members.items():
        member.context.random.seed(f"{random.random()} {name}")
        found = by_cluster.get(name, [])
        if found:
            member.let_fail(script_of(found, images, member.context.elapsed()))
        for hazard in found:
            if hazard.kind == "offline":
                world.loop.call_later(hazard.after + _SILENT_SECONDS, _give_up, world, name)
    return set(by_cluster)


def _give_up(world: Rehearsal, cluster: str) -> None:
    """Have the hub see that nobody has heard of a cluster: its lease is over."""
    body = {"spec": {"leaseDurationSeconds": 1}}
    world.spawn(_patch(world, cluster, body), f"the lease of {cluster}")


async def _patch(world: Rehearsal, cluster: str, body: JSONObject) -> None:
    await world.client.patch(MANAGED_CLUSTER.untyped(), cluster, MergePatch(body))


async def _until_over(world: Rehearsal, trial: Trial, chronicle: Chronicle, began: float) -> None:
    latest = max((each.after for each in trial.hazards), default=0.0)
    ended: float | None = None
    while (now := world.loop.time() - began) < trial.most_seconds:
        if all(_is_over(chronicle.of(name)) for name in trial.rollouts):
            ended = now if ended is None else ended
            if now - ended >= _AFTERWARDS + latest:
                return
        else:
            ended = None
        await asyncio.sleep(_LOOK_SECONDS)


def _is_over(story: Story) -> bool:
    moving = story.told[-1][1].progressing if story.told else 0
    return story.done is not None or bool(story.blocked) or (not moving and bool(story.told) and _all_ended(story))


def _all_ended(story: Story) -> bool:
    counts = story.told[-1][1]
    return not counts.to_apply and not counts.progressing


def _fate(world: Rehearsal, name: RolloutName, story: Story, images: Sequence[str], now: float) -> Fate:
    counts = story.told[-1][1] if story.told else Counts()
    ending, seconds = "unfinished", now
    if story.blocked:
        ending = "stopped" if story.blocked == _STOPPED else f"blocked: {story.blocked}"
        seconds = story.blocked_at
    elif story.done is not None:
        ending, seconds = "done", story.done
    elif story.told and _all_ended(story):
        ending, seconds = "done, some failed", story.told[-1][0]
    return Fate(
        rollout=name,
        ending=ending,
        seconds=seconds,
        clusters=len(story.starts),
        pods=sum(_pods(world, cluster, images) for cluster in story.starts),
        failed=counts.bad,
        starts=sorted((at, cluster) for cluster, at in story.starts.items()),
        told=story.told,
    )


def _pods(world: Rehearsal, cluster: str, images: Sequence[str]) -> int:
    member = world.fleet.members.get(cluster)
    if member is None:
        return 0
    pods = (entry.object for entry in member.cluster.store.list(POD.resource).entries)
    return sum(any(each.get("image") in images for each in pod["spec"]["containers"]) for pod in pods)


def new_images(writes: Iterable[Write]) -> list[str]:
    """Return the images that are in a change and were not there before."""
    before, after = Counter[str](), Counter[str]()
    for each in writes:
        before.update(_images(each.before))
        after.update(_images(each.after))
    return sorted(set(after) - set(before))


def _images(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "image" and isinstance(each, str):
                yield each
            else:
                yield from _images(each)
    elif isinstance(value, list):
        for each in value:
            yield from _images(each)
