"""Wherever the agent dies and whatever fails: nothing is enforced before its time, verdicts are about the present."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from echelon.agent.agent import Agent
from echelon.agent.policy.family import policy_controllers
from echelon.agent.settings import Settings
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.policy import GROUP, POLICY
from echelon.fleet.simulation import Committed, Component, Invariant, Scenario, World, simulate
from echelon.kube.client import Client, EventType, MergePatch
from echelon.kube.faults import Faults
from echelon.kube.metrics import Metrics
from tests.agent.policy.world import LABELS, NAME, Looker, template
from tests.agent.test_simulation import add_hub_and_member, crashes
from tests.agent.world import CLUSTER, HUB
from tests.budgets import Lives

HELD = "echelon.dev/held"
PASSING = "policies.passing"


@dataclass(frozen=True)
class Step:
    """What the hub has for the cluster: values by template, and whether the cluster waits for its turn."""

    values: dict[str, str]
    held: bool


# Every change is held first; the last step is what it comes to.
CHANGES = ({"a": "1", "b": "1"}, {"a": "2", "c": "2"}, {"a": "3", "b": "3", "c": "2"}, {"a": "3", "d": "4"})
STEPS = [Step(values, held) for values in CHANGES for held in (True, False)]


async def write(hub: Client, name: str, step: Step, *, new: bool = False) -> None:
    """Write a replica and then the status of its rollout, as the hub does."""
    kind, listed = POLICY.untyped(), [template(each, value) for each, value in step.values.items()]
    action = "inform" if step.held else "enforce"
    spec = {"disabled": False, "policy-templates": listed, "remediationAction": action}
    notes = {HELD: "true" if step.held else None}
    if new:
        meta = {"name": name, "labels": {**LABELS, f"{GROUP}/root-policy": name}, "annotations": {HELD: "true"}}
        await hub.create(kind, {**POLICY.type_meta, "metadata": meta, "spec": spec}, CLUSTER)
    else:
        await hub.patch(kind, name, MergePatch({"metadata": {"annotations": notes}, "spec": spec}), CLUSTER)
    said = {"rolloutStatus": "ToApply" if step.held else "Progressing"}
    await hub.patch(kind, name, MergePatch({"status": said}), CLUSTER, subresource="status")


async def build(world: World) -> None:
    hub = await add_hub_and_member(world, POLICY)
    world.memory["looker"] = looker = Looker()
    family = partial(policy_controllers, evaluators=(looker.evaluator(),))

    async def start(hub_client: Client, member: Client) -> None:
        agent = Agent(
            hub_client,
            member,
            CLUSTER,
            server=world.client(CLUSTER),
            clock=world.loop.clock,
            random=world.random,
            metrics=Metrics(),
            hub_hash=HUB,
            settings=Settings(strict=True),
            families=(family,),
        )
        await agent.run()

    world.start(Component("agent", start, ("", CLUSTER)))

    async def rollout() -> None:
        for step in STEPS:
            await write(hub, NAME, step, new=step is STEPS[0])
            await asyncio.sleep(world.random.choice((0.0, 0.5, 5.0, world.random.uniform(0, 80))))

    async def passing() -> None:
        await write(hub, PASSING, Step({"p": "1"}, held=True), new=True)
        await write(hub, PASSING, Step({"p": "1"}, held=False))
        await asyncio.sleep(world.random.uniform(0, 200))
        await hub.delete(POLICY, PASSING, CLUSTER)

    world.spawn(rollout(), "rollout")
    world.spawn(passing(), "passing policy")


def children(world: World) -> dict[str, tuple[str, str]]:
    """Return action and value of the objects of templates, by name."""
    found = world.objects(CONFIGURATION_POLICY.resource, CLUSTER, CLUSTER)
    return {each["metadata"]["name"]: (each["spec"]["remediationAction"], value_of(each)) for each in found}


def value_of(child: JSONObject) -> str:
    value: str = child["spec"]["object-templates"][0]["objectDefinition"]["data"]["value"]
    return value


def values_of(policy: JSONObject) -> dict[str, str]:
    listed = (each["objectDefinition"] for each in policy["spec"]["policy-templates"])
    return {each["metadata"]["name"]: value_of(each) for each in listed}


def is_held(policy: JSONObject) -> bool:
    return bool(policy["metadata"].get("annotations", {}).get(HELD) == "true")


def goal(world: World) -> str | None:
    wanted = {name: ("enforce", value) for name, value in STEPS[-1].values.items()}
    if children(world) != wanted:
        return f"there is {children(world)}, and {wanted} is wanted"
    copies = world.objects(POLICY.resource, CLUSTER, CLUSTER)
    (replica,) = world.objects(POLICY.resource, "", CLUSTER)
    if [each["spec"] for each in copies] != [replica["spec"]]:
        return f"there are the copies {[each['metadata']['name'] for each in copies]}"
    status = replica.get("status", {})
    said = status.get("rolloutStatus"), status.get("compliant"), status.get("observedGeneration")
    expected = "Succeeded", "Compliant", replica["metadata"]["generation"]
    if said != expected:
        return f"the hub knows {said}, and {expected} is true"
    return None if copies[0]["status"] == status else "copy and replica say different things"


def in_turn(world: World, commit: Committed) -> str | None:
    """Nothing is enforced that the hub has not released."""
    released = world.memory.setdefault("released", set())
    if commit.key.resource == POLICY.resource and not commit.cluster and not is_held(commit.object):
        released |= set(values_of(commit.object).items())
    if commit.key.resource != CONFIGURATION_POLICY.resource or commit.type is EventType.DELETED:
        return None
    child = commit.object
    enforced = child["spec"]["remediationAction"] == "enforce"
    found = child["metadata"]["name"], value_of(child)
    return f"{found} was never released" if enforced and found not in released else None


def never_back(world: World, commit: Committed) -> str | None:
    """No content comes back after its time, however far in the past a new life of the agent begins."""
    if commit.cluster != CLUSTER or commit.key.resource != POLICY.resource or commit.key.name != NAME:
        return None
    now = STEPS.index(Step(values_of(commit.object), is_held(commit.object)))
    before, world.memory["step"] = world.memory.get("step", 0), now
    return f"step {now} comes after step {before}" if now < before else None


def nothing_begins_or_ends_while_held(world: World, commit: Committed) -> str | None:
    """While the copy on the cluster is held, no object of its templates begins to enforce, and none goes."""
    held = world.memory.setdefault("held", {})
    if commit.cluster == CLUSTER and commit.key.resource == POLICY.resource:
        held[commit.key.name] = is_held(commit.object)
    if commit.key.resource != CONFIGURATION_POLICY.resource or not held.get(NAME):
        return None
    if commit.object["metadata"]["labels"][f"{GROUP}/policy"] != NAME:
        return None
    (enforced, ending), before = _phase(commit.object), _phase(commit.previous or {})
    if ending and not before[1]:
        return "it goes while its policy is held"
    return "it is enforced while its policy is held" if enforced and not before[0] else None


def _phase(child: JSONObject) -> tuple[bool, bool]:
    enforced = child.get("spec", {}).get("remediationAction") == "enforce"
    return enforced, bool(child.get("metadata", {}).get("deletionTimestamp"))


def verdicts(world: World, commit: Committed) -> str | None:
    """A verdict is about the present content, after all of it was enforced and found in order."""
    fine = world.memory.setdefault("fine", set())
    if commit.key.resource == CONFIGURATION_POLICY.resource and commit.type is not EventType.DELETED:
        child, status = commit.object, commit.object.get("status", {})
        evaluated = status.get("lastEvaluatedGeneration") == child["metadata"]["generation"]
        if evaluated and status.get("compliant") == "Compliant" and child["spec"]["remediationAction"] == "enforce":
            fine.add((child["metadata"]["name"], value_of(child)))
    if commit.cluster or commit.key.resource != POLICY.resource or commit.previous is None:
        return None
    said = commit.object.get("status", {}).get("rolloutStatus")
    before = commit.previous.get("status", {}).get("rolloutStatus")
    if said == before or said not in ("Succeeded", "Failed"):
        return None
    if said == "Failed" or before != "Progressing" or is_held(commit.object):
        return f"from {before} it became {said}"
    missing = set(values_of(commit.object).items()) - fine
    return f"nobody found {missing} in order" if missing else None


INVARIANTS = (
    Invariant("everything in its turn", in_turn),
    Invariant("no content comes back", never_back),
    Invariant("nothing begins or ends while held", nothing_begins_or_ends_while_held),
    Invariant("verdicts are about the present", verdicts),
)
SCENARIO = Scenario("policies under faults", build, goal, INVARIANTS, chaos_seconds=500.0)


@pytest.mark.lives("policies on a cluster")
def test_policies_get_through_chaos(lives: Lives) -> None:
    for seed in lives:
        lives.note(simulate(SCENARIO, seed))


CALM: Any = {"kill_seconds": None, "restart_seconds": (0.0, 100.0), "chaos_seconds": 600.0}
ONE_CRASH = Scenario("one crash", build, goal, INVARIANTS, **CALM)


@pytest.mark.lives("crashes of policies on a cluster")
def test_an_agent_can_die_at_any_write_of_a_policy(lives: Lives) -> None:
    moments = crashes(80)
    for number in lives.below(len(moments)):
        lives.note(simulate(ONE_CRASH, number, moments[number]))


@pytest.mark.parametrize("where", [Faults(crash_before=40), Faults(crash_after=40)])
def test_an_agent_has_much_to_write(where: Faults) -> None:
    assert simulate(ONE_CRASH, 1, where).injected == {"crash": 1}
