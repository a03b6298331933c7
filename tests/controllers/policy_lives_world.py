"""A world in which a policy is rolled out and everything goes wrong, drawn from a seed.

Three to eight clusters in groups of one or two placements, people who change everything, agents of all kinds, servers
that refuse, and controllers that are killed, starved, lied to, or two at a time. An observer sees each committed state
(`policy_observer`), and at the end everything must be as it should be (`policy_goal`), and silent.
"""

import math
from dataclasses import replace
from functools import partial
from random import Random

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT
from echelon.api.policy import POLICY
from echelon.api.policy_binding import POLICY_SET
from echelon.controllers.running import Controllers
from echelon.engine.policy.names import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, ROOT_LABEL
from echelon.fleet.loop import running
from echelon.fleet.simulation import Committed, Component, Invariant, LifeOutcome, Scenario, World, simulate
from echelon.kube.client import MergePatch
from echelon.kube.faults import Faults, FaultyClient
from echelon.kube.leader import LeaderElection, WorkDidNotStop
from echelon.kube.metrics import Metrics
from tests.controllers.hub import CRDS as CLUSTER_CRDS
from tests.controllers.hub import NS
from tests.controllers.placement_world import cluster, create
from tests.controllers.policy_agents import Agents
from tests.controllers.policy_goal import counted, everything_is_as_it_should_be, observer_of
from tests.controllers.policy_observer import MOMENT, WATCHED, Observer
from tests.controllers.policy_people import ACTIONS, OTHER, REPLICA, People, drawn_strategy, templates
from tests.controllers.policy_ways import POLICY_NAME
from tests.controllers.policy_world import CRDS
from tests.controllers.rollout_people import SEEN
from tests.controllers.rollout_rules import WRITTEN
from tests.controllers.rollout_witness import Refusal, Register, Witness
from tests.controllers.rollout_world import ANSWERS, CRUEL
from tests.controllers.work_world import TRUSTING

BEFORE = "2025-12-31T00:00:00.000000Z"


async def furnish(world: World, people: People, chance: Random, *, upgraded: bool) -> None:
    """Make what is there from the beginning; if it is an upgrade, with replicas of which all is well."""
    client, store = world.client(), world.clusters[""].store
    for definition in (*CLUSTER_CRDS, *CRDS):
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await create(client, NAMESPACE, NS)
    for name in people.clusters:
        await create(client, NAMESPACE, name)
        await cluster(client, name)
    for decider in people.deciders:
        await create(client, PLACEMENT, decider.placement, NS, spec={})
        for index in range(3):
            await decider.make(index)
        await decider.publish(drawn_groups(people.clusters, chance), at_once=True)
    await create(client, POLICY_SET, "all", NS, spec={"policies": [POLICY_NAME]})
    await people.make_binding("first", "p", ("Policy", POLICY_NAME))
    if chance.random() < 0.4:
        await people.make_binding("second", OTHER, ("Policy", POLICY_NAME))
    action, wanted = chance.choice(ACTIONS), templates(1, chance)
    spec: JSONObject = {"disabled": False, "policy-templates": wanted}
    spec |= {"remediationAction": action} if action is not None else {}
    strategy = drawn_strategy(chance)
    spec |= {"rolloutStrategy": strategy} if strategy is not None else {}
    await create(client, POLICY, POLICY_NAME, NS, spec=spec)
    beginning = store.revision
    for name in people.deciders[0].there if upgraded else ():
        labels = {ROOT_LABEL: REPLICA, CLUSTER_NAME_LABEL: name, CLUSTER_NAMESPACE_LABEL: name}
        metadata = {"labels": labels, "annotations": {WRITTEN: BEFORE}}
        await create(client, POLICY, REPLICA, name, metadata=metadata, spec=spec)
        status = {"rolloutStatus": "Succeeded", "observedGeneration": 1, "compliant": "Compliant"}
        await client.patch(POLICY, REPLICA, MergePatch({"status": status}), name, subresource="status")
    # Replicas that lag must not show a time before the beginning.
    for number in range(beginning + Faults().stale_revisions - store.revision):
        await create(client, CONFIG_MAP, f"filler{number}", NS)


def drawn_groups(clusters: list[str], chance: Random) -> list[list[str]]:
    """Deal clusters out among three groups; not all have to be selected."""
    names = chance.sample(clusters, chance.randint(max(2, len(clusters) - 2), len(clusters)))
    groups: list[list[str]] = [[], [], []]
    for number, name in enumerate(names):
        groups[number if number < 2 else chance.randrange(3)].append(name)
    return groups


async def controller(client: FaultyClient, *, register: Register, name: str = "", leads: bool = False) -> None:
    chance = Random(running().random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    clock = running().clock

    async def work() -> None:
        # Everything is forgotten between two terms of a leader, also what the witness knows.
        seen = Witness(client, register, WATCHED)
        made = Controllers(
            seen, clock, ["policies"], random=chance, metrics=Metrics(), instance=name, settings=TRUSTING
        )
        await made.run()

    if not leads:
        return await work()
    try:
        await LeaderElection(client, clock, "policies", NS, name, random=chance).run(work)
    except WorkDidNotStop:
        # It stood still while it stopped. The program ends then, and is started again.
        SEEN["work that did not stop"] += 1
        client.process.die()


async def build(world: World) -> None:
    await world.add_cluster()
    chance = Random(world.random.getrandbits(64))  # noqa: S311 - repeatable on purpose
    clusters = [f"c{number}" for number in range(chance.randint(3, 8))]
    agents = drawn_agents(world, clusters, chance)
    await begin(world, clusters, chance, upgraded=chance.random() < 0.6)
    for number, life in enumerate(agents.lives(clusters)):
        world.spawn(life, f"agent {number}")
    world.clusters[""].store.on_commit(agents.follow)


async def begin(world: World, clusters: list[str], chance: Random, *, upgraded: bool) -> None:
    """Furnish the hub, and let controllers and people loose on it."""
    observer = world.memory["observer"] = Observer(world, clusters)
    two = bool(world.scenario.pause_seconds[1])
    observer.patience = MOMENT + world.scenario.pause_seconds[1]
    people = People(world, world.client(), chance, steps=chance.randint(4, 12), clusters=clusters)
    await furnish(world, people, chance, upgraded=upgraded)
    observer.register.refusals |= drawn_refusals(clusters, chance)
    observer.furnished = True
    for name in ("first", "second") if two else ("only",):
        world.start(Component(name, partial(controller, register=observer.register, name=name, leads=two)))
    world.spawn(people.meddle(), "people")


def drawn_refusals(clusters: list[str], chance: Random) -> dict[str, Refusal]:
    """Draw the clusters for which the server takes no content, for a while or for ever."""
    if chance.random() < 0.6:
        return {}
    return {
        cluster: Refusal(
            chance.choice(ANSWERS),
            chance.choice((math.inf, running().time() + chance.uniform(5, 90))),
            chance.choice((("spec",), ("spec",), ("spec", "status"), ("status",))),
        )
        for cluster in chance.sample(clusters, chance.choice((1, 1, 2)))
    }


def drawn_agents(world: World, clusters: list[str], chance: Random) -> Agents:
    dead = frozenset(chance.sample(clusters, 1) if chance.random() < 0.2 else ())
    offline = {chance.choice(clusters): chance.uniform(10, 60)} if chance.random() < 0.3 else {}
    strangers = frozenset(chance.sample(clusters, chance.choice((1, 2)))) if chance.random() < 0.25 else frozenset()
    return Agents(
        world.client(),
        world.seed,
        trouble=chance.choice((0.0, 0.1, 0.3)),
        restarts=chance.choice((0.0, 0.05)),
        restless_until=world.scenario.chaos_seconds,
        finalizers=chance.random() < 0.2,
        strangers=strangers,
        dead=dead,
        offline_until=offline,
    )


def all_is_said(world: World) -> str | None:
    """Tell what is not as it has to be at rest, and remember how it is."""
    return counted(world, everything_is_as_it_should_be(world))


def the_rules_are_kept(world: World, commit: Committed) -> str | None:
    return observer_of(world).follow(commit) if "observer" in world.memory and not commit.cluster else None


ONE = Scenario(
    name="policy",
    build=build,
    goal=all_is_said,
    invariants=(Invariant("rules", the_rules_are_kept),),
    chaos_seconds=60.0,
    settle_seconds=900.0,
    silence_seconds=90.0,
    kill_seconds=(5.0, 60.0),
    restart_seconds=(0.0, 8.0),
    replay="ECHELON_SEED={seed} python -m pytest -n 0 tests/controllers/test_policy_simulation.py",
)
TWO = replace(ONE, name="policy, two leaders", pause_seconds=(0.0, 25.0))


def live(seed: int) -> LifeOutcome:
    """Run the world once: every fourth seed with two leaders, every third with the cruel mixture of faults.

    Whatever blinds a controller passes sooner than usual, because a blind one does nothing that could be wrong.
    """
    drawn = Faults.swarm(Random(f"faults of {seed}"))  # noqa: S311 - repeatable on purpose
    faults = CRUEL if seed % 3 == 0 else drawn
    faults = replace(faults, stall_seconds=(3.0, 25.0), stale_seconds=(1.0, 15.0))
    faults = replace(faults, delay_seconds=(0.0, 4.0), lost_seconds=(0.0, 10.0))
    return simulate(TWO if seed % 4 == 0 else ONE, seed, faults)
