"""Whatever fails, and wherever the agent dies: nothing changes while held, and the end is as the policies say."""

import asyncio
from random import Random
from typing import Any

import pytest

from echelon.agent.configuration_policy.controllers import configuration_policy_controllers
from echelon.agent.context import AgentContext
from echelon.agent.running import run_families
from echelon.agent.settings import Settings
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP
from echelon.api.crd import crd
from echelon.api.namespaces import NAMESPACE
from echelon.engine.work.identity import Identity
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.errors import AlreadyExists, NotFound
from echelon.kube.metrics import Metrics
from tests.agent.configuration_policy.world import PARENT, template
from tests.agent.test_simulation import crashes
from tests.agent.world import CLUSTER, config_map
from tests.budgets import Lives

HELD, BEFORE = "echelon.dev/held", "echelon.dev/enforced-before"
HEARD_SECONDS = 100.0  # longer than any cache is behind
THEIRS = "theirs"  # made by somebody else, and changed by the policies
# What each policy lists, one step after the other, and whether the cluster is held meanwhile. The last step is what it
# comes to; a policy that lists nothing is deleted.
STEPS: dict[str, list[tuple[dict[str, str], bool]]] = {
    "one": [
        ({"a": "1", THEIRS: "1"}, False),
        ({"b": "1", THEIRS: "2"}, True),
        ({"b": "2", "c": "1", THEIRS: "2"}, True),
        ({"b": "2", "c": "1", THEIRS: "2"}, False),
        ({"c": "2", "d": "1", THEIRS: "2"}, False),
    ],
    "two": [({"e": "1"}, False), ({"f": "1"}, True), ({}, True)],
    "three": [({"g": "1"}, True), ({"g": "1"}, False), ({"h": "1"}, False), ({}, False)],
}
FINALLY = {"c": "2", "d": "1", THEIRS: "2"}


async def ask(client: Client, name: str, step: tuple[dict[str, str], bool], *, enforced: bool) -> None:
    """Write a policy as template sync would: one patch for the spec and the marks."""
    wanted, held = step
    if not wanted:
        await client.delete(CONFIGURATION_POLICY, name, CLUSTER)
        return
    templates = [template(config_map(each, value=value)) for each, value in wanted.items()]
    spec = {
        "remediationAction": "inform" if held else "enforce",
        "object-templates": templates,
        "pruneObjectBehavior": "DeleteIfCreated",
    }
    marks = {HELD: "true" if held else None, BEFORE: "true" if held and enforced else None}
    try:
        said = {key: value for key, value in marks.items() if value is not None}
        metadata = {"name": name, "ownerReferences": [PARENT], "annotations": said}
        body = {**CONFIGURATION_POLICY.type_meta, "metadata": metadata, "spec": spec}
        await client.create(CONFIGURATION_POLICY.untyped(), body, CLUSTER)
    except AlreadyExists:
        change = MergePatch({"spec": spec, "metadata": {"annotations": marks}})
        await client.patch(CONFIGURATION_POLICY.untyped(), name, change, CLUSTER)


async def build(world: World) -> None:
    held_since: dict[str, float] = world.memory.setdefault("held since", {})
    await world.add_cluster(CLUSTER)
    member = world.client(CLUSTER)
    await member.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(CONFIGURATION_POLICY))
    await member.create(NAMESPACE.untyped(), {"metadata": {"name": CLUSTER}})
    await member.create(CONFIG_MAP.untyped(), config_map(THEIRS, value="0"), "default")

    async def start(client: Client) -> None:
        context = AgentContext(
            client,
            client,
            world.client(CLUSTER),
            CLUSTER,
            identity=Identity("hub", "hub"),
            clock=world.loop.clock,
            random=Random(world.random.getrandbits(64)),  # noqa: S311 - repeatable on purpose
            metrics=Metrics(),
            settings=Settings(strict=True),
        )
        await run_families(context, [configuration_policy_controllers(context)])

    world.start(Component("agent", start, (CLUSTER,)))

    async def user(name: str) -> None:
        enforced = False
        for step in STEPS[name]:
            if not step[1] or not step[0]:  # the end of a policy is no change that waits
                held_since.pop(name, None)
            await ask(member, name, step, enforced=enforced)
            if step[1] and step[0]:
                held_since.setdefault(name, world.loop.time())
            enforced = enforced or not step[1]
            # Long enough for an evaluation now and then, and not always.
            await asyncio.sleep(world.random.choice((0.0, 1.0, 20.0, world.random.uniform(0, 240))))
        held_since.pop(name, None)

    async def meddler() -> None:
        for _ in range(6):
            await asyncio.sleep(world.random.uniform(5, 60))
            names = [each["metadata"]["name"] for each in world.objects("configmaps", CLUSTER, "default")]
            name = world.random.choice(sorted(set(names) | {THEIRS}))
            world.memory["meddling"] = True
            try:
                if name != THEIRS and world.random.random() < 0.3:
                    await member.delete(CONFIG_MAP, name, "default")
                else:
                    await member.patch(CONFIG_MAP, name, MergePatch({"data": {"value": "meddled"}}), "default")
            except NotFound:
                pass
            finally:
                world.memory["meddling"] = False

    for name in STEPS:
        world.spawn(user(name), f"user of {name}")
    world.spawn(meddler(), "somebody else")


def objects(world: World) -> dict[str, Any]:
    found = {each["metadata"]["name"]: each for each in world.objects("configmaps", CLUSTER, "default")}
    return {name: each["data"].get("value") for name, each in found.items() if name != "kube-root-ca.crt"}


def goal(world: World) -> str | None:
    policies = world.objects(CONFIGURATION_POLICY.resource, CLUSTER)
    if [each["metadata"]["name"] for each in policies] != ["one"]:
        return f"there are policies {[each['metadata']['name'] for each in policies]}"
    if objects(world) != FINALLY:
        return f"there is {objects(world)}, and {FINALLY} is wanted"
    metadata, status = policies[0]["metadata"], policies[0].get("status", {})
    if status.get("compliant") != "Compliant" or status.get("lastEvaluatedGeneration") != metadata["generation"]:
        return f"the policy is told as {status.get('compliant')}"
    listed = sorted(each["object"]["metadata"]["name"] for each in status["relatedObjects"])
    return None if listed == sorted(FINALLY) else f"the policy lists {listed}"


def waits(world: World, commit: Committed) -> str | None:
    """Nothing of a policy changes while it is held, once everybody has heard of that."""
    if commit.key.resource != CONFIG_MAP.resource or world.memory.get("meddling"):
        return None
    listing = [name for name, steps in STEPS.items() if any(commit.key.name in wanted for wanted, _ in steps)]
    since = world.memory["held since"].get(listing[0]) if listing else None
    if since is None or world.loop.time() - since < HEARD_SECONDS:
        return None
    return f"{listing[0]} is held since {since}"


def stays(_: World, commit: Committed) -> str | None:
    """What somebody else made is never pruned."""
    gone = commit.type is EventType.DELETED and commit.key.resource == CONFIG_MAP.resource
    return "it was deleted" if gone and commit.key.name == THEIRS else None


INVARIANTS = (Invariant("others' objects stay", stays), Invariant("what is held waits", waits))
SCENARIO = Scenario("policies under faults", build, goal, INVARIANTS, chaos_seconds=600.0)


@pytest.mark.lives("configuration policies")
def test_policies_get_through_chaos(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))


CALM: Any = {"kill_seconds": None, "restart_seconds": (0.0, 100.0), "chaos_seconds": 600.0}
ONE_CRASH = Scenario("one crash", build, goal, INVARIANTS, **CALM)


@pytest.mark.lives("crashes of configuration policies")
def test_an_agent_can_die_at_any_write(lives: Lives) -> None:
    moments = crashes(60)
    for number in lives.below(len(moments)):
        lives.note(simulate(ONE_CRASH, number, moments[number]))
