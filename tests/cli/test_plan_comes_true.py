"""What a plan says is what then happens: waves, removals and the end, over fleets and changes drawn by chance.

The fleet is the real one but for its machines: hub, controllers, agents and simulated clusters in virtual time. The
plan is made from a capture of it, which is what somebody without a hub has, and from the hub; both have to agree.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import pytest
from tests.budgets import Lives
from tests.cli.plan_world import (
    APART,
    NS,
    START_SECONDS,
    PlanWorld,
    cluster,
    documents,
    fleet,
    loop_of,
    plan_world,
    policy,
    strategy_of,
    work_set,
)

from echelon.api.base import JSONObject
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import POLICY
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.plan_document import document_of
from echelon.cli.plan_rollouts import RolloutPlan
from echelon.engine.forecast.model import Assumptions, Ending
from echelon.fleet.member.trouble import ImageError, Script
from echelon.fleet.rehearsal.chronicle import Chronicle, RolloutName, Story, waves_of

_EVERYWHERE: JSONObject = {"type": "All"}
_REST = 600.0  # seconds: longer than a rollout everywhere at once


@dataclass(frozen=True)
class Draw:
    """A fleet, a change of it, and which clusters do not take that well."""

    before: list[JSONObject]
    change: list[JSONObject]
    bad: frozenset[str]
    rollout: RolloutName


def draw(seed: int) -> Draw:
    random = Random(f"plan {seed}")  # noqa: S311 - repeatable on purpose
    names = [f"c{number}" for number in range(random.randint(3, 7))]
    labels: dict[str, dict[str, str]] = {name: {"ring": random.choice("ab"), "in": "yes"} for name in names}
    for name in random.sample(names, random.randint(0, 2)):
        labels[name]["in"] = "no"
    predicates = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"in": "yes"}}}}]
    grouped: JSONObject = {"clustersPerDecisionGroup": random.choice([1, 2, 3, "50%"])}
    if random.random() < 0.5:
        ring = {"groupName": "first", "groupClusterSelector": {"labelSelector": {"matchLabels": {"ring": "a"}}}}
        grouped["decisionGroups"] = [ring]
    before = fleet(labels, predicates=predicates, decisionStrategy={"groupStrategy": grouped})
    moved: list[JSONObject] = []
    for name in random.sample(names, random.choice([0, 0, 1, 2])):
        other = {**labels[name], "in": "no" if labels[name]["in"] == "yes" else "yes"}
        moved.append(cluster(name, **other))
    bad = frozenset(random.sample(names, random.choice([0, 0, 1, 2])))
    if random.random() < 0.6:
        strategy = strategy_of(random)
        rollout = RolloutName(MANIFEST_WORK_REPLICA_SET.resource, NS, "web")
        new = [work_set("web:2", strategy)] if random.random() < 0.85 else []
        return Draw(
            [*before, work_set("web:1", _EVERYWHERE)], [*moved, *new] or [work_set("web:2", strategy)], bad, rollout
        )
    strategy = strategy_of(random, soak="2m")
    rollout = RolloutName(POLICY.resource, NS, "audit")
    return Draw([*before, *policy("1", _EVERYWHERE)], [*moved, policy("2", strategy)[0]], bad, rollout)


async def lived(drawn: Draw) -> tuple[RolloutPlan | None, Story, PlanWorld]:
    """Plan a change, make it, and wait for what comes of it."""
    scripts = {name: Script((ImageError(image="*:2"),)) for name in drawn.bad}
    async with plan_world(drawn.before, scripts) as here:
        for name, member in here.rehearsal.fleet.members.items():
            if name not in drawn.bad:
                await member.client().create(NAMESPACE.untyped(), {"metadata": {"name": "apart"}})
        await here.rehearsal.start_controllers()
        await asyncio.sleep(_REST)
        fails = drawn.rollout.resource == POLICY.resource
        assumed = Assumptions(
            timedelta(seconds=START_SECONDS + 5 if not fails else 5),
            failing=drawn.bad if fails else frozenset(),
            silent=frozenset() if fails else drawn.bad,
        )
        change = documents(*drawn.change)
        plan = await here.plan(change, assumed)
        assert document_of(plan) == document_of(await here.plan_with_hub(change, assumed))
        found = [each for each in plan.rollouts if (each.kind.resource, each.namespace, each.name) == drawn.rollout]
        chronicle = Chronicle(here.rehearsal.loop.time, [drawn.rollout])
        here.rehearsal.hub.store.on_commit(chronicle.committed)
        await here.make(plan)
        foreseen = max((each.forecast.ends for each in plan.rollouts), default=timedelta())
        await asyncio.sleep(foreseen.total_seconds() + 2 * _REST)
        return found[0] if found else None, chronicle.of(drawn.rollout), here


def predicted_waves(plan: RolloutPlan | None) -> Sequence[frozenset[str]]:
    if plan is None:
        return []
    starts: Mapping[str, float] = {
        name: wave.after.total_seconds() for wave in reversed(plan.forecast.waves) for name in wave.clusters
    }
    return waves_of(starts, APART)


@pytest.mark.lives("plans")
def test_the_predicted_waves_are_the_waves_that_happen(lives: Lives) -> None:
    for seed in lives:
        drawn = draw(seed)
        loop = loop_of(seed)
        try:
            plan, story, _ = loop.run_until_complete(lived(drawn))
        finally:
            loop.close()
        told = f"seed {seed}"
        # Whom the change itself takes out may get the new content in the moment before the placement has decided.
        starts = {name: at for name, at in story.starts.items() if name not in story.removals}
        assert list(predicted_waves(plan)) == waves_of(starts, APART), told
        assert set(plan.forecast.removed if plan is not None else ()) == set(story.removals), told
        if plan is not None and plan.forecast.waves:
            ending = plan.forecast.ending
            assert (ending is Ending.COMPLETE) == (story.done is not None and not story.blocked), (told, ending)
            assert (ending is Ending.STOPPED) == (story.blocked == "MaxFailuresExceeded"), (told, ending)
