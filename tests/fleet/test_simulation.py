"""The runner: it passes controllers that are right under every seed, and finds the ones that are not."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from echelon.api.base import JSONObject
from echelon.api.coordination import LEASE
from echelon.api.core import CONFIG_MAP, ConfigMap
from echelon.api.keys import Key
from echelon.engine.plan import Create, Delete, Emit, Patch, Plan
from echelon.fleet.loop import running
from echelon.fleet.simulation import (
    Committed,
    Component,
    Invariant,
    Scenario,
    SimulationFailed,
    World,
    seeds,
    simulate,
)
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.controller import Controller
from echelon.kube.faults import NO_FAULTS, Faults, FaultyClient
from echelon.kube.informer import Delta, Informer
from tests.budgets import Lives

PARENT_LABEL = "example.com/parent"
RESOURCE = "configmaps"


class Silent:
    """Takes events and writes none: they would only be noise here."""

    async def emit(self, event: Emit) -> None: ...


class Replicas:
    """Keeps as many children of a ConfigMap as its data says, each with the text that it says."""

    strict = True

    def __init__(self, maps: Informer[ConfigMap]) -> None:
        self.maps = maps
        self.names: set[str] = set()

    def changed(self, delta: Delta[ConfigMap]) -> list[Key]:
        """Keep the names of all objects, and plan the parent of the one that changed."""
        name = delta.object.metadata.name
        (self.names.discard if delta.new is None else self.names.add)(name)
        return [_parent_key(obj) for obj in (delta.old, delta.new) if obj is not None]

    def verify(self) -> Iterator[str]:
        rebuilt = {each.metadata.name for each in self.maps.values()}
        yield from sorted(rebuilt ^ self.names)
        self.names = rebuilt

    def plan(self, key: Key, now: datetime) -> Plan:
        del now
        parent = self.maps.get(key)
        if parent is None or PARENT_LABEL in parent.metadata.labels:
            return Plan()
        children = {child.metadata.name: child for child in self.maps.by_index("parent", key.name)}
        wanted = [f"{key.name}-{number}" for number in range(int(parent.data.get("count", "0")))]
        text = parent.data.get("text", "")
        actions: list[Create | Patch | Delete] = [
            self.create(parent, name, text) for name in wanted if name not in children
        ]
        for name, child in children.items():
            if name not in wanted:
                actions.append(self.delete(child))
            elif child.data.get("text", "") != text:
                actions.append(self.patch(child, text))
        return Plan(tuple(actions))

    def create(self, parent: ConfigMap, name: str, text: str) -> Create:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": parent.metadata.name, "uid": parent.metadata.uid}
        metadata = {"name": name, "labels": {PARENT_LABEL: parent.metadata.name}, "ownerReferences": [owner]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}
        return Create(CONFIG_MAP, body, parent.metadata.namespace)

    def delete(self, child: ConfigMap) -> Delete:
        meta = child.metadata
        return Delete(CONFIG_MAP, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)

    def patch(self, child: ConfigMap, text: str) -> Patch:
        meta = child.metadata
        body = {"data": {"text": text}}
        return Patch(CONFIG_MAP, meta.name, body, meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


class NamesByChance(Replicas):
    """Broken: makes a new name for each child, so a stale cache or a lost answer leads to one too many for a while."""

    strict = False

    def plan(self, key: Key, now: datetime) -> Plan:
        del now
        parent = self.maps.get(key)
        if parent is None or PARENT_LABEL in parent.metadata.labels:
            return Plan()
        children = self.maps.by_index("parent", key.name)
        count, text = int(parent.data.get("count", "0")), parent.data.get("text", "")
        missing = [f"{key.name}-{running().random.getrandbits(32):08x}" for _ in range(count - len(children))]
        created = [self.create(parent, name, text) for name in missing]
        return Plan((*created, *(self.delete(child) for child in children[count:])))


class PlansByChance(NamesByChance):
    """Broken in the same way, and found by planning twice."""

    strict = True


class MissesDeletions(Replicas):
    """Broken: what it keeps does not follow what it is kept of."""

    def changed(self, delta: Delta[ConfigMap]) -> list[Key]:
        keys = super().changed(delta)
        self.names.add(delta.object.metadata.name)
        return keys


class ForgetsDeletions(Replicas):
    """Broken: only ever adds."""

    def plan(self, key: Key, now: datetime) -> Plan:
        plan = super().plan(key, now)
        return Plan(tuple(action for action in plan.actions if not isinstance(action, Delete)))


class DeletesWithoutPrecondition(Replicas):
    """Broken: deletes whatever has the name by now, and not the object that it decided on."""

    def delete(self, child: ConfigMap) -> Delete:
        return Delete(CONFIG_MAP, child.metadata.name, child.metadata.namespace)


class NeverRests(Replicas):
    """Broken: writes down when it last looked."""

    def plan(self, key: Key, now: datetime) -> Plan:
        plan = super().plan(key, now)
        parent = self.maps.get(key)
        if parent is None or PARENT_LABEL in parent.metadata.labels:
            return plan
        meta = parent.metadata
        note = {"metadata": {"annotations": {"example.com/seen": now.isoformat()}}}
        looked = Patch(CONFIG_MAP, meta.name, note, meta.namespace)
        return Plan((*plan.actions, looked), look_again_after=timedelta(minutes=1))


def controller_of(kind: type[Replicas]) -> Component:
    async def start(client: FaultyClient) -> None:
        loop = running()
        chance = Random(loop.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
        maps = Informer(client, CONFIG_MAP, "default", indexers={"parent": _parent_of}, random=chance)
        made = kind(maps)
        controller = Controller(
            "replicas",
            made,
            client,
            loop.clock,
            recorder=Silent(),
            random=chance,
            workers=2,
            verify=made.verify,
            strict=kind.strict,
        )
        controller.follow(maps, made.changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(maps.run(), name="informer")
            group.create_task(controller.run(), name="controller")

    return Component("replicas", start)


def _parent_of(obj: ConfigMap) -> list[str]:
    return [obj.metadata.labels[PARENT_LABEL]] if PARENT_LABEL in obj.metadata.labels else []


def _parent_key(obj: ConfigMap) -> Key:
    return Key(obj.metadata.namespace, next(iter(_parent_of(obj)), obj.metadata.name))


async def edit_parents(client: Client) -> None:
    """Change counts and texts, and delete and recreate parents, for four minutes."""
    chance = running().random
    for _ in range(25):
        name = f"parent{chance.randrange(3)}"
        data = {"count": str(chance.randrange(6)), "text": f"text {chance.randrange(100)}"}
        exists = any(item.metadata.name == name for item in (await client.list(CONFIG_MAP, "default")).items)
        if not exists:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
            await client.create(CONFIG_MAP, body, "default")
        elif chance.random() < 0.2:
            await client.delete(CONFIG_MAP, name, "default")
        else:
            await client.patch(CONFIG_MAP, name, MergePatch({"data": data}), "default")
        await asyncio.sleep(chance.choice((0, 0.01, 1, 20)))


def children_are_as_wanted(world: World) -> str | None:
    parents = {obj["metadata"]["name"]: obj for obj in world.objects(RESOURCE) if _is_parent(obj)}
    children = [obj for obj in world.objects(RESOURCE) if _parent_name(obj)]
    for name, parent in parents.items():
        data = parent["data"]
        texts = [child["data"].get("text") for child in children if _parent_name(child) == name]
        if texts != [data["text"]] * int(data["count"]):
            return f"{name} wants {data} and has {texts}"
    orphans = [child["metadata"]["name"] for child in children if _parent_name(child) not in parents]
    return f"orphans: {orphans}" if orphans else None


def _is_parent(obj: JSONObject) -> bool:
    return obj["metadata"]["name"].startswith("parent") and not _parent_name(obj)


def _parent_name(obj: JSONObject) -> str:
    name: str = obj["metadata"].get("labels", {}).get(PARENT_LABEL, "")
    return name


def not_too_many(world: World, commit: Committed) -> str | None:
    """There are never more children than any parent ever asked for."""
    if commit.key.resource == RESOURCE and commit.type is EventType.ADDED and (parent := _parent_name(commit.object)):
        count = sum(_parent_name(obj) == parent for obj in world.objects(RESOURCE))
        if count > 5:
            return f"{parent} has {count} children, and at most 5 were ever wanted"
    return None


def deleted_as_decided(world: World, commit: Committed) -> str | None:
    """A child that its parent wants is not deleted: whoever wanted it gone decided on an older state of it."""
    if commit.key.resource != RESOURCE or commit.type is not EventType.DELETED:
        return None
    name, parent_name = commit.key.name, _parent_name(commit.object)
    parent = next((obj for obj in world.objects(RESOURCE) if obj["metadata"]["name"] == parent_name), None)
    if parent is None or commit.object["metadata"]["ownerReferences"][0]["uid"] != parent["metadata"]["uid"]:
        return None
    born = world.memory.get(f"wanted since {parent_name}", {})
    if name in born and born[name] < int(commit.previous["metadata"]["resourceVersion"]):  # type: ignore[index]
        return f"{name} has been wanted since revision {born[name]}, and was written after that"
    return None


def remember_wishes(world: World, commit: Committed) -> str | None:
    """Note since which revision each child is wanted without a break."""
    if commit.key.resource == RESOURCE and _is_parent(commit.object):
        wanted = world.memory.setdefault(f"wanted since {commit.key.name}", {})
        count = 0 if commit.type is EventType.DELETED else int(commit.object["data"]["count"])
        names = [f"{commit.key.name}-{number}" for number in range(count)]
        for name in [name for name in wanted if name not in names]:
            del wanted[name]
        for name in names:
            wanted.setdefault(name, commit.revision)
    return None


def scenario_of(kind: type[Replicas], **changes: object) -> Scenario:
    async def build(world: World) -> None:
        await world.add_cluster()
        world.start(controller_of(kind))
        world.spawn(edit_parents(world.client()), "user")

    scenario = Scenario(
        name=kind.__name__,
        build=build,
        goal=children_are_as_wanted,
        invariants=(
            Invariant("wishes", remember_wishes),
            Invariant("not too many", not_too_many),
            Invariant("deleted as decided", deleted_as_decided),
        ),
    )
    return replace(scenario, **changes)  # type: ignore[arg-type]


@pytest.mark.lives("runtime")
def test_a_level_based_controller_survives_every_mixture_of_faults(lives: Lives) -> None:
    for seed in lives:
        outcome = lives.note(simulate(scenario_of(Replicas), seed))
        assert outcome.commits > 25
        assert outcome.seconds >= 900


@pytest.mark.full
def test_the_seeds_have_met_every_kind_of_fault() -> None:
    met: Counter[str] = Counter()
    for seed in range(24):
        met.update(simulate(scenario_of(Replicas), seed).injected)
    requests = {"conflict", "lost_answer", "server_error", "stale", "too_many_requests"}
    streams = {"close", "delay", "gone", "repeat", "stall"}
    assert {"crash", "kill"} | requests | streams <= set(met)


@pytest.mark.full
@pytest.mark.parametrize("where", ["crash_before", "crash_after"])
def test_a_crash_at_any_write_is_survived(where: str) -> None:
    """Every write of the run has its turn: the last one is known when there was no crash any more."""
    scenario = scenario_of(Replicas, kill_seconds=None)
    for number in range(1, 500):
        outcome = simulate(scenario, 5, Faults(**{where: number}))  # type: ignore[arg-type]
        if not outcome.injected:
            break
        assert outcome.injected == {"crash": 1}
    assert 20 < number < 400


STALE = Faults(stale=0.5, delay=0.2, lost_answer=0.2, gone=0.3, close=0.7, crash=0.05)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "faults", "why"),
    [
        (NamesByChance, None, "not too many"),
        (ForgetsDeletions, NO_FAULTS, "the goal is not reached"),
        (DeletesWithoutPrecondition, STALE, "deleted as decided"),
        (NeverRests, NO_FAULTS, "nobody should write"),
        (PlansByChance, NO_FAULTS, "was planned twice: action 0 is Create("),
        (MissesDeletions, NO_FAULTS, "indexes were not what the caches say: parent"),
    ],
)
def test_a_broken_controller_is_found(kind: type[Replicas], faults: Faults | None, why: str) -> None:
    for seed in seeds(60):
        try:
            simulate(scenario_of(kind), seed, faults)
        except SimulationFailed as failure:
            if why in failure.text:
                return
    pytest.fail("it got through")


def test_a_failure_says_what_when_and_how_to_see_it_again() -> None:
    with pytest.raises(SimulationFailed) as caught:
        simulate(scenario_of(ForgetsDeletions), 3, NO_FAULTS)
    text = str(caught.value)
    assert "scenario 'ForgetsDeletions', seed 3, at 2705.000 s: the goal is not reached: parent" in text
    here = "tests/fleet/test_simulation.py::test_a_failure_says_what_when_and_how_to_see_it_again"
    assert f"ECHELON_SEED=3 python -m pytest {here}" in text
    command = scenario_of(ForgetsDeletions, replay="echelon simulate forgets --seed {seed}")
    with pytest.raises(SimulationFailed, match="run it again: echelon simulate forgets --seed 3"):
        simulate(command, 3, NO_FAULTS)


def test_the_environment_chooses_the_seed_of_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHELON_SEED", "1234")
    assert list(seeds(10)) == [1234]
    monkeypatch.delenv("ECHELON_SEED")
    assert list(seeds(3, first=5)) == [5, 6, 7]


def failure_of_seed(seed: int) -> SimulationFailed | None:
    try:
        simulate(scenario_of(NamesByChance), seed)
    except SimulationFailed as failure:
        return failure
    return None


def test_a_seed_fails_in_the_same_way_each_time() -> None:
    first = next(filter(None, map(failure_of_seed, range(20))))
    for _ in range(2):
        with pytest.raises(SimulationFailed) as caught:
            simulate(scenario_of(NamesByChance), first.seed)
        assert caught.value.text == first.text


@pytest.mark.full
def test_same_seed_same_outcome_whatever_strings_hash_to() -> None:
    code = (
        "from tests.fleet.test_simulation import Replicas, scenario_of, simulate\n"
        "print([simulate(scenario_of(Replicas), seed) for seed in range(6)])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(["src", "."])},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert printed == {f"{[simulate(scenario_of(Replicas), seed) for seed in range(6)]}\n"}


def test_an_invariant_is_checked_at_every_change_of_every_cluster() -> None:
    seen: list[str] = []

    def check(_: World, commit: Committed) -> str | None:
        seen.append(str(commit))
        return "this is the one" if commit.key.name == "second" else None

    async def write(world: World) -> None:
        for cluster, name in (("", "first"), ("member", "second"), ("", "third")):
            await asyncio.sleep(1)
            await world.client(cluster).create(CONFIG_MAP, {"metadata": {"name": name}}, "default")

    async def build(world: World) -> None:
        await world.add_cluster()
        await world.add_cluster("member")
        world.spawn(write(world), "writer")

    scenario = Scenario("two clusters", build, lambda _: None, (Invariant("never second", check),))
    with pytest.raises(SimulationFailed, match=r"seed 1, at 2\.000 s: never second: this is the one"):
        simulate(scenario, 1, NO_FAULTS)
    assert [line.split(" at ")[0] for line in seen] == [
        "ADDED configmaps/default/first",
        "ADDED member/configmaps/default/second",
    ]


def failing(what: str) -> Scenario:
    async def fails(*_: object) -> None:
        await asyncio.sleep(5)
        raise ValueError("a mistake")

    async def forgets(*_: object) -> None:
        kept.append(asyncio.create_task(fails()))
        await asyncio.Event().wait()

    kept: list[asyncio.Task[None]] = []

    async def build(world: World) -> None:
        await world.add_cluster()
        if what == "load":
            world.spawn(fails(), "load")
        else:
            world.start(Component(what, fails if what == "component" else forgets))

    return Scenario(what, build, lambda _: None)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("load", r"load failed: ValueError\('a mistake'\)"),
        ("component", r"component ended with ValueError\('a mistake'\)"),
        ("forgotten task", r"died unnoticed: ValueError\('a mistake'\)"),
    ],
)
def test_whatever_fails_by_itself_fails_the_run(what: str, why: str) -> None:
    with pytest.raises(SimulationFailed, match=why):
        simulate(failing(what), 0, NO_FAULTS)


def test_two_instances_without_an_election_do_no_harm_because_writes_have_preconditions() -> None:
    async def build(world: World) -> None:
        await world.add_cluster()
        component = controller_of(Replicas)
        world.start(replace(component, name="one"))
        world.start(replace(component, name="two"))
        world.spawn(edit_parents(world.client()), "user")

    scenario = scenario_of(Replicas, build=build, pause_seconds=(1.0, 60.0))
    for seed in seeds(8):
        simulate(scenario, seed)


async def renew_lease(client: Client) -> None:
    """Be an agent that says every ten seconds that its cluster is alive."""
    clock = running().clock
    if not (await client.list(LEASE, "default")).items:
        await client.create(LEASE, {"metadata": {"name": "cluster"}, "spec": {"holderIdentity": "agent"}}, "default")
    while True:
        alive = {"spec": {"renewTime": clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
        await client.patch(LEASE, "cluster", MergePatch(alive), "default")
        await asyncio.sleep(running().random.uniform(9, 11))


async def follow_leases(*clients: Client) -> None:
    """Be a controller that knows which clusters are alive."""
    loop = running()
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(Informer(client, LEASE, "default", random=loop.random).run())


def test_heartbeats_of_a_fleet_are_no_unrest() -> None:
    async def build(world: World) -> None:
        names = [f"cluster{number}" for number in range(10)]
        for name in names:
            await world.add_cluster(name)
            world.start(Component(f"agent of {name}", renew_lease, (name,)))
        world.start(Component("controller", follow_leases, tuple(names)))

    fleet = Scenario("fleet", build, lambda _: None, silence_seconds=120, chaos_seconds=120)
    outcome = simulate(fleet, 1, Faults(delay=0.1, stall=0.2, latency=(0.0, 0.1)))
    assert outcome.commits > 10 * 240 / 11 * 0.7
    restless = replace(fleet, heartbeat=lambda _: False, settle_seconds=300)
    with pytest.raises(SimulationFailed, match="nobody should write"):
        simulate(restless, 1, NO_FAULTS)
