"""What an agent does for federated workloads needs no more rights on the hub than registration gives it."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from echelon.agent.agent import FAMILIES, Agent
from echelon.agent.settings import Settings
from echelon.api.apps import DEPLOYMENT
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.karmada import WORK
from echelon.api.namespaces import NAMESPACE
from echelon.api.work import GROUP as WORK_GROUP
from echelon.controllers.cluster.belongings import agent_group
from echelon.controllers.running import Controllers
from echelon.fleet.loop import run, running
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.metrics import Metrics
from tests.agent.workload.world import CLUSTER, SPACE, World, manifest, push_of, world
from tests.agent.world import HUB, serve
from tests.controllers.strict import STRICT, end


def told(story: Callable[[World], Awaitable[None]]) -> None:
    """Tell a story of a hub that lets clusters in and out, and of an agent that has what it is given."""

    async def main() -> None:
        async with world(joined=False) as here:
            await serve(here.hub, (WORK_GROUP,))
            controllers = Controllers(
                here.hub.client,
                running().clock,
                ["cluster-registration"],
                random=Random(1),  # noqa: S311 - repeatable on purpose
                metrics=Metrics(),
                instance="test",
                settings=STRICT,
            )
            serving = asyncio.create_task(controllers.run())
            agent = Agent(
                InProcessClient(here.hub.cluster, User("agent", (agent_group(CLUSTER), "system:authenticated"))),
                here.way,
                CLUSTER,
                server=here.way,
                clock=running().clock,
                random=Random(1),  # noqa: S311 - repeatable on purpose
                metrics=Metrics(),
                hub_hash=HUB,
                settings=Settings(strict=True),
                families=FAMILIES,
            )
            here.agents.append(asyncio.create_task(agent.run()))
            await here.join()
            await here.settle(60)
            await story(here)
            assert not serving.done()
            assert not here.agents[0].done()
            await end(serving)

    run(main())


def test_a_work_is_applied_reported_and_removed_with_the_rights_of_an_accepted_cluster() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        assert push_of(await here.live()) == 1
        assert (await here.snapshot()).settled
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(30)
        assert await here.work_is_gone()
        assert await here.gone()

    told(story)


def test_a_cluster_that_leaves_takes_its_federated_workloads_along() -> None:
    async def story(here: World) -> None:
        await here.send(manifest(1))
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle(120)
        assert not await here.member.has(DEPLOYMENT, "web")
        for kind, name in ((MANAGED_CLUSTER, CLUSTER), (NAMESPACE, CLUSTER), (NAMESPACE, SPACE)):
            assert not await here.hub.has(kind, name)

    told(story)
