"""The whole life of a cluster on the embedded hub, over TLS, with an authority that is exchanged on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from echelon.api.core import SECRET
from echelon.cli.hub import write_kubeconfig
from echelon.hub.access.authorities import RotationStep
from echelon.hub.server import Hub, Settings
from tests.controllers.strict import end
from tests.joining import story
from tests.joining.place import Place, Running, client_of, install

pytestmark = pytest.mark.full


@asynccontextmanager
async def place(directory: Path) -> AsyncIterator[tuple[Place, "Servers"]]:
    """A hub, and a cluster that is served by another one: its authority stays what it is."""
    servers = Servers(Settings(data=directory / "data"), directory / "kubeconfig")
    await servers.start()
    member = await Hub.start(Settings())
    write_kubeconfig(member, directory / "member")
    async with client_of(directory / "member") as cluster:
        here = Place(servers.kubeconfig, client_of(servers.kubeconfig), cluster)
        try:
            await install(here.hub)
            yield here, servers
        finally:
            await end(*here.tasks)
            await here.hub.close()
            await servers.hub.stop()
            await member.stop()


class Servers:
    """The hub, one after the other at the same address."""

    def __init__(self, settings: Settings, kubeconfig: Path) -> None:
        self._settings = settings
        self.kubeconfig = kubeconfig
        self.hub: Hub

    async def start(self, step: RotationStep | None = None) -> None:
        self.hub = await Hub.start(replace(self._settings, authority=step))
        write_kubeconfig(self.hub, self.kubeconfig)

    async def restart(self, here: Place, step: RotationStep) -> None:
        """Stop it, take a step, and start it again, with new controllers and a new kubeconfig of the administrator."""
        await end(here.tasks.pop(0))
        await self.hub.stop()
        await self.start(step)
        await here.hub.close()
        here.hub = client_of(self.kubeconfig)
        here.run_controllers(self.hub.client())
        here.tasks.insert(0, here.tasks.pop())


async def with_another_authority(here: Place, servers: Servers, agent: Running) -> None:
    """Exchange the hub's authority under an agent that runs, and never starts anew."""
    assert agent.credentials is not None
    first = (await here.kept()).authority
    await servers.restart(here, "next")

    async def trusts(count: int) -> bool:
        return (await here.kept()).authority.count(b"BEGIN CERTIFICATE") == count

    await here.until(lambda: trusts(2), "the agent does not hear of the next authority")
    before = (await here.kept()).certificate
    await servers.restart(here, "switch")

    async def renewed() -> bool:
        return (await here.kept()).certificate != before

    await here.until(renewed, "the agent does not renew with the new authority")
    await here.applies("c1", "with the new authority")
    await servers.restart(here, "finish")
    await here.until(lambda: trusts(1), "the agent does not forget the old authority")
    assert (await here.kept()).authority != first
    await here.applies("c1", "with the new authority alone")
    assert not agent.task.done()


@pytest.mark.long
def test_a_cluster_joins_works_renews_follows_its_hub_and_leaves(tmp_path: Path) -> None:
    async def told() -> None:
        async with place(tmp_path) as (here, servers):
            here.run_controllers(servers.hub.client())
            agent = await story.accepted(here, await story.invited(here))
            await story.renewed(here, agent)
            agent = await story.restarted(here, agent)
            await story.not_taken_by_another(here)
            await with_another_authority(here, servers, agent)
            await story.left(here, agent)

    asyncio.run(told())


def test_a_rule_accepts_clusters_by_their_names_and_no_others(tmp_path: Path) -> None:
    async def told() -> None:
        async with place(tmp_path) as (here, servers):
            here.run_controllers(servers.hub.client(), auto_accept=["edge-*"])
            agent = here.start_agent(await here.invitation(), cluster="edge-7")  # an invitation for any name
            await here.until(lambda: here.is_said("edge-7", story.AVAILABLE), "edge-7 is not accepted")
            await here.stop(agent)
            await here.member.delete(SECRET, "hub-identity", "echelon-agent")
            here.start_agent(await here.invitation("core"))

            async def asks() -> bool:
                return any(each.is_pending for each in await here.requests())

            await here.until(asks, "core does not ask")
            assert not (await here.cluster("core")).spec.hub_accepts_client
            await here.echelon("cluster", "join", "core", "--accept")
            await here.until(lambda: here.is_said("core", story.AVAILABLE), "core is not accepted")

    asyncio.run(told())
