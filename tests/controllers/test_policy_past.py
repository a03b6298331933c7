"""A controller of policies that is born into the past takes nothing from clusters because of what was so then."""

import asyncio
from random import Random

from echelon.api.policy import POLICY
from echelon.controllers.running import Controllers
from echelon.engine.policy.raw_policy import RAW_POLICY
from echelon.fleet.loop import running
from echelon.hub.server import ROOT
from echelon.kube.metrics import Metrics
from tests.controllers.hub import NS
from tests.controllers.policy_world import PolicyWorld, template, told
from tests.controllers.test_stale_caches import Outdated
from tests.controllers.work_world import TRUSTING


async def spread(world: PolicyWorld) -> None:
    await world.place([("", ["c1", "c2"])])
    await world.write()
    await world.bind()
    world.start()
    await world.settle()


async def past(world: PolicyWorld) -> Outdated:
    """Return a client of a server for which policies stay as they are now."""
    client = Outdated(world.hub.client._cluster, ROOT)
    client.kind, client.caught_up = RAW_POLICY, asyncio.Event()
    client.view = await world.hub.client.list(RAW_POLICY)
    return client


async def work_in(world: PolicyWorld, client: Outdated) -> dict[str, str]:
    """Have a controller begin there, and catch up; return the replicas by their uids after the first of it."""
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client, running().clock, ["policies"], random=chance, metrics=Metrics(), instance="late", settings=TRUSTING
    )
    world.hub.controllers.append(asyncio.create_task(made.run()))
    await world.settle(20)
    found = {cluster: each.metadata.uid for cluster, each in (await world.replicas()).items()}
    client.caught_up.set()
    await world.settle(60)
    return found


def test_a_policy_that_is_enabled_again_is_taken_off_by_nobody_who_sees_it_disabled() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        before = {cluster: each.metadata.uid for cluster, each in (await world.replicas()).items()}
        await world.hub.stop()
        await world.change(disabled=True)
        client = await past(world)
        await world.change(disabled=False)
        assert await work_in(world, client) == before
        assert await world.count("PolicyPropagation", "disabled") == 0

    told(story)


def test_replicas_that_were_written_for_a_policy_made_anew_are_not_left_over_from_the_one_before() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.hub.stop()
        world.hub.controllers.clear()
        await world.hub.delete(POLICY, "audit", NS)
        client = await past(world)
        await world.write(spec={"policy-templates": [template("2")]})
        world.start()
        await world.settle()
        before = {cluster: each.metadata.uid for cluster, each in (await world.replicas()).items()}
        await world.hub.stop()
        assert await work_in(world, client) == before

    told(story)


def test_a_replica_that_was_written_since_goes_only_when_that_is_known() -> None:
    async def story(world: PolicyWorld) -> None:
        await spread(world)
        await world.hub.stop()
        world.hub.controllers.clear()
        await world.decide([("", ["c2"])])
        client = await past(world)
        await world.hub.patch(POLICY, f"{NS}.audit", {"metadata": {"annotations": {"written": "since"}}}, "c1")
        assert set(await work_in(world, client)) == {"c1", "c2"}
        assert await world.reach() == ["c2"]

    told(story)
