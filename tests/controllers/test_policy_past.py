"""A controller of policies that is born into the past takes nothing from clusters because of what was so then."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from echelon.api.policy import POLICY
from echelon.controllers.running import Controllers
from echelon.engine.policy.raw_policy import RAW_POLICY
from echelon.fleet.loop import running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT
from echelon.kube.client import Client, Event, EventType
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


def begin(world: PolicyWorld, client: Client) -> None:
    """Have a controller work through a client."""
    chance = Random(1)  # noqa: S311 - repeatable on purpose
    made = Controllers(
        client, running().clock, ["policies"], random=chance, metrics=Metrics(), instance="late", settings=TRUSTING
    )
    world.hub.controllers.append(asyncio.create_task(made.run()))


async def work_in(world: PolicyWorld, client: Outdated) -> dict[str, str]:
    """Have a controller begin there, and catch up; return the replicas by their uids after the first of it."""
    begin(world, client)
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


class Hushed(InProcessClient):
    """Keeps back what happens to policies from a change of some type on, until somebody lets it through."""

    through: asyncio.Event
    first: EventType | None = None

    async def watch(self, kind: Any, *args: Any, **options: Any) -> AsyncIterator[Event[Any]]:
        async for event in super().watch(kind, *args, **options):
            if kind is RAW_POLICY and event.type is self.first:
                self.first = None
                self.through.clear()
            if kind is RAW_POLICY:
                await self.through.wait()
            yield event


@pytest.mark.parametrize("what", ["made", "changed", "removed", "removed and made"])
def test_what_was_written_to_a_replica_is_known_before_the_cache_shows_it(what: str) -> None:
    """Each time the cache shows what would be wanted now, or lacks what is there: nobody may go by that."""

    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write(spec={"remediationAction": "inform"})
        await world.bind()
        client = Hushed(world.hub.client._cluster, ROOT)
        client.through = asyncio.Event()
        client.through.set()
        begin(world, client)
        await world.settle(20)
        before = {cluster: each.metadata.uid for cluster, each in (await world.replicas()).items()}
        client.first = {"made": EventType.ADDED, "changed": EventType.MODIFIED}.get(what, EventType.DELETED)
        if what == "made":
            await world.decide([("", ["c1", "c2", "c3"])])
        elif what == "changed":
            await world.rebind(bindingOverrides={"remediationAction": "enforce"})
        else:
            await world.decide([("", ["c2"])])
        await world.settle(5)
        written = await world.replicas()
        assert sorted(written) == {"made": ["c1", "c2", "c3"], "changed": ["c1", "c2"]}.get(what, ["c2"])
        if what == "changed":
            assert await world.enforced() == ["c1", "c2"]
            await world.rebind(bindingOverrides=None)
        elif what == "removed and made":
            await world.decide([("", ["c1", "c2"])])
        else:
            await world.rebind(bindingOverrides={"remediationAction": "enforce"})
        await world.settle(5)
        assert await world.replicas() == written, "nothing more before the cache shows what was written"
        client.through.set()
        await world.settle(60)
        assert await world.reach() == {"made": ["c1", "c2", "c3"], "removed": ["c2"]}.get(what, ["c1", "c2"])
        assert await world.enforced() == ({"made": ["c1", "c2", "c3"], "removed": ["c2"]}.get(what, []))
        uids = {cluster: each.metadata.uid for cluster, each in (await world.replicas()).items()}
        assert uids["c2"] == before["c2"]
        assert (uids.get("c1") == before["c1"]) == (what in ("made", "changed"))
        assert await world.said("PlacementVerified") == ("True", "AsExpected")

    told(story)
