"""Of two agents for one cluster the second says so and stops. A restart is no second, nor a cluster made anew."""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from echelon.agent.agent import Agent
from echelon.agent.cluster_lease import AnotherAgent
from echelon.agent.settings import Settings
from echelon.api.coordination import LEASE, Lease
from echelon.api.core import CONFIG_MAP
from echelon.engine.cluster_health import LEASE_NAME
from echelon.fleet.loop import running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch
from echelon.kube.metrics import Metrics
from tests.agent.world import CLUSTER, HUB, World, config_map, told

CHANCE = Random(1)  # noqa: S311 - jitter is no secret


def agent_of(here: World, instance: str, member: InProcessClient | None = None) -> asyncio.Task[None]:
    agent = Agent(
        here.hub.client,
        member or here.member.client,
        CLUSTER,
        server=member or here.member.client,
        clock=running().clock,
        random=CHANCE,
        metrics=Metrics(),
        hub_hash=HUB,
        settings=Settings(strict=True),
        instance=instance,
    )
    return asyncio.create_task(agent.run(), name=instance)


async def lease(here: World) -> Lease:
    return await here.hub.client.get(LEASE, LEASE_NAME, CLUSTER)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def stopped_because(task: asyncio.Task[None], words: str) -> None:
    async with asyncio.timeout(600):
        await asyncio.wait([task])
    with pytest.raises((AnotherAgent, ExceptionGroup)) as raised:
        await task
    error: BaseException = raised.value
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, AnotherAgent)
    assert words in str(error)


def test_the_second_of_two_stops_and_the_first_goes_on() -> None:
    async def story(here: World) -> None:
        first = agent_of(here, "first")
        await here.settle()
        assert (await lease(here)).spec.holder_identity.endswith("/first")  # type: ignore[union-attr]  # it is held
        second = agent_of(here, "second")
        await stopped_because(second, "another agent works for c1, first on this cluster; this one stops")
        assert not first.done()
        await here.work(config_map("one"))
        await here.settle()
        assert await here.member.has(CONFIG_MAP, "one")
        assert str((await lease(here)).spec.holder_identity).endswith("/first")
        again = agent_of(here, "third")  # and whoever restarts it does not wear the first one down
        await stopped_because(again, "another agent works for c1, first")
        assert not first.done()
        await ended(first)

    told(story, started=False)


def test_a_restart_works_at_once_whether_the_former_life_said_goodbye_or_not() -> None:
    async def story(here: World) -> None:
        first = agent_of(here, "first")
        await here.settle()
        await ended(first)
        assert (await lease(here)).spec.holder_identity == ""
        second = agent_of(here, "second")
        await asyncio.sleep(3)
        held = (await lease(here)).spec
        assert str(held.holder_identity).endswith("/second")
        crashed = MergePatch({"spec": {"holderIdentity": f"{str(held.holder_identity).split('/')[0]}/crashed"}})
        await ended(second)
        await here.hub.client.patch(LEASE, LEASE_NAME, crashed, CLUSTER)
        third = agent_of(here, "third")
        await asyncio.sleep(3)
        assert str((await lease(here)).spec.holder_identity).endswith("/third")
        await asyncio.sleep(600)
        assert not third.done()
        await ended(third)

    told(story, started=False)


def test_another_cluster_of_the_same_name_does_nothing_and_stops() -> None:
    async def story(here: World) -> None:
        first = agent_of(here, "first")
        await here.settle()
        await here.work(config_map("one"))
        await here.settle()
        other = memory_cluster("other", clock=running().clock.now, seed=5)
        await bootstrap(other)
        stranger = InProcessClient(other, ROOT)
        second = agent_of(here, "second", stranger)
        await stopped_because(second, "first on another cluster")
        assert (await stranger.list(CONFIG_MAP, "default")).items == []
        assert not first.done()
        await ended(first)

    told(story, started=False)


def test_a_cluster_that_was_made_anew_takes_over_when_its_former_life_is_silent() -> None:
    async def story(here: World) -> None:
        first = agent_of(here, "first")
        await here.settle()
        held = (await lease(here)).spec.holder_identity
        await ended(first)
        await here.hub.client.patch(LEASE, LEASE_NAME, MergePatch({"spec": {"holderIdentity": held}}), CLUSTER)
        other = memory_cluster("other", clock=running().clock.now, seed=5)
        await bootstrap(other)
        second = agent_of(here, "second", InProcessClient(other, ROOT))
        await asyncio.sleep(60)
        assert (await lease(here)).spec.holder_identity == held
        await asyncio.sleep(60)
        assert str((await lease(here)).spec.holder_identity).endswith("/second")
        assert not second.done()
        await ended(second)

    told(story, started=False)
