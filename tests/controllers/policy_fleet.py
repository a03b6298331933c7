"""A policy with everything real: controllers on the hub, and an agent and a cluster for each of three to five.

People, servers and faults are those of the world in which agents only pretend; what is watched is what agents do on
their clusters, too. On some clusters a namespace is missing, for a while or for ever, so that one template cannot be
carried out there; on some, somebody changes or deletes what policies look after.
"""

import asyncio
import math
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from echelon.agent.agent import Agent
from echelon.agent.policy.family import policy_controllers
from echelon.agent.settings import Settings, hub_hash
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.fleet.loop import running
from echelon.fleet.member.clone import clone_cluster
from echelon.fleet.simulation import Committed, Component, Invariant, LifeOutcome, World, simulate
from echelon.kube.client import MergePatch
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.metrics import Metrics
from tests.controllers.placement_world import create
from tests.controllers.policy_content import MARK, is_enforceable
from tests.controllers.policy_goal import counted, everything_is_as_it_should_be, observer_of
from tests.controllers.policy_lives_world import ONE, begin, the_rules_are_kept
from tests.controllers.policy_members import MAPS, Members, wrongs_of
from tests.controllers.rollout_people import SEEN

HUB = hub_hash("https://hub.example")


async def build(world: World) -> None:
    await world.add_cluster()
    chance = Random(world.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    clusters = [f"c{number}" for number in range(chance.randint(3, 5))]
    world.memory["members"] = Members(world)
    for number, name in enumerate(clusters):
        made = await clone_cluster(name, clock=world.loop.clock.now, seed=number, groups=())
        await world.add_cluster(name, made)
        member = Member(world, name, Random(chance.getrandbits(64)))  # noqa: S311 - repeatable on purpose
        await member.furnish()
        world.spawn(member.live(), f"people of {name}")
    await begin(world, clusters, chance, upgraded=False)
    for name in clusters:
        away = chance.uniform(5, 60) if chance.random() < 0.2 else 0.0
        world.start(Component(f"agent {name}", partial(agent, world, name, away), ("", name)))


async def agent(world: World, name: str, away: float, hub: FaultyClient, member: FaultyClient) -> None:
    """Run the agent of a cluster, which cannot be reached until some time."""
    await asyncio.sleep(max(0.0, away - running().time()))
    made = Agent(
        hub,
        member,
        name,
        server=world.client(name),
        clock=running().clock,
        random=Random(running().random.getrandbits(64)),  # noqa: S311 - repeatable on purpose
        metrics=Metrics(),
        hub_hash=HUB,
        settings=Settings(strict=True),
        families=(policy_controllers,),
    )
    await made.run()


@dataclass
class Member:
    """A cluster, and those who do something on it themselves."""

    world: World
    name: str
    chance: Random

    async def furnish(self) -> None:
        # A template that wants something in this namespace cannot be carried out before that is there.
        self.late = self.chance.choice((0.0, 0.0, 0.0, 0.0, self.chance.uniform(10, 90), math.inf))
        if not self.late:
            await self._make_namespace()

    async def live(self) -> None:
        """Make the namespace when it is time, and meddle with objects until then and for a while after."""
        end = self.world.scenario.chaos_seconds
        while running().time() < end:
            await asyncio.sleep(self.chance.uniform(5, 40))
            if self.late and running().time() >= self.late:
                self.late = 0.0
                await self._make_namespace()
            await self._meddle()
        if self.late and not math.isinf(self.late):
            await self._make_namespace()

    async def _make_namespace(self) -> None:
        await create(self.world.client(self.name), NAMESPACE, "late")

    async def _meddle(self) -> None:
        there = [each for each in self.world.objects(MAPS, self.name) if "version" in each.get("data", {})]
        if not there or self.chance.random() < 0.5:
            return
        SEEN["drift"] += 1
        meta = self.chance.choice(there)["metadata"]
        client = self.world.client(self.name)
        if self.chance.random() < 0.5:
            self.world.memory[f"lost {self.name} {meta['name']}"] = True
            await client.delete(CONFIG_MAP, meta["name"], meta["namespace"])
        else:
            mark = {MARK: str(running().time())}
            body = MergePatch({"metadata": {"annotations": mark}, "data": {"version": "drift"}})
            await client.patch(CONFIG_MAP, meta["name"], body, meta["namespace"])


def nothing_is_changed_before_its_turn(world: World, commit: Committed) -> str | None:
    members: Members | None = world.memory.get("members")
    return members.follow(commit) if members is not None else None


def all_is_well(world: World) -> str | None:
    """Tell what is not as it has to be at rest, on the hub and on clusters."""
    observer = observer_of(world)
    scene = observer.scene_at_rest()
    enforcing = [name for name, each in scene.replicas.items() if is_enforceable(each["spec"])]
    done = {name for name in enforcing if scene.is_released(name) and scene.found(name, observer.now).word == "done"}
    fine = {name for name in done if scene.replicas[name]["status"].get("compliant") == "Compliant"}
    wrongs = [*wrongs_of(world, dict(scene.replicas), fine, observer.clusters)]
    return counted(world, "; ".join(filter(None, [everything_is_as_it_should_be(world), *wrongs])) or None)


REAL = replace(
    ONE,
    name="policy on real members",
    build=build,
    goal=all_is_well,
    invariants=(
        Invariant("rules", the_rules_are_kept),
        Invariant("members", nothing_is_changed_before_its_turn),
    ),
    settle_seconds=1200.0,
    silence_seconds=150.0,
    kill_seconds=(10.0, 90.0),
    replay="ECHELON_SEED={seed} python -m pytest -n 0 tests/controllers/test_policy_simulation.py -k real",
)


def live_for_real(seed: int) -> LifeOutcome:
    """Run the world with real agents once."""
    faults = Faults.swarm(Random(f"faults of {seed}"))  # noqa: S311 - repeatable on purpose
    faults = replace(faults, stall_seconds=(3.0, 25.0), stale_seconds=(1.0, 15.0))
    return simulate(REAL, seed, replace(faults, delay_seconds=(0.0, 4.0), lost_seconds=(0.0, 10.0)))
