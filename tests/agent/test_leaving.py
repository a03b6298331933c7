"""A deleted cluster leaves nothing behind: its workloads go, then its namespace, and its agent's rights last."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.meta import Condition
from echelon.api.namespaces import NAMESPACE
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from echelon.api.service_accounts import SERVICE_ACCOUNT
from echelon.api.work import MANIFEST_WORK
from echelon.controllers.cluster.belongings import agent_group
from echelon.controllers.cluster.leaving import FINALIZER
from echelon.controllers.running import Controllers
from echelon.fleet.loop import run, running
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.client import DeleteOptions
from echelon.kube.metrics import Metrics
from tests.agent.world import CLUSTER, HUB, World, config_map, world
from tests.controllers.strict import STRICT, end

LABEL = "cluster.open-cluster-management.io/managedCluster"


def start_agent(here: World) -> None:
    """Start an agent that may do on the hub what the agent of its cluster may, and no more."""
    member = here.member.client
    agent = Agent(
        InProcessClient(here.hub.cluster, User("agent", (agent_group(CLUSTER), "system:authenticated"))),
        member,
        CLUSTER,
        server=member,
        clock=running().clock,
        random=Random(1),  # noqa: S311 - repeatable on purpose
        metrics=Metrics(),
        hub_hash=HUB,
        settings=Settings(strict=True),
    )
    here.agents.append(asyncio.create_task(agent.run()))


async def register(here: World, *, accepted: bool = True) -> None:
    body: JSONObject = {
        "apiVersion": MANAGED_CLUSTER.api_version,
        "kind": MANAGED_CLUSTER.kind,
        "metadata": {"name": CLUSTER},
        "spec": {"hubAcceptsClient": accepted, "leaseDurationSeconds": 60},
    }
    await here.hub.create(body)
    await asyncio.sleep(20)


def told(story: Callable[[World], Awaitable[None]], *, seed: int = 0) -> None:
    """Tell a story of a hub that lets clusters in and out; afterwards nothing may be written any more."""

    async def main() -> None:
        async with world(accepted=False) as here:
            names = ["cluster-registration", "cluster-health"]
            chance = Random(1)  # noqa: S311 - repeatable on purpose
            made = Controllers(
                here.hub.client,
                running().clock,
                names,
                random=chance,
                metrics=Metrics(),
                instance="test",
                settings=STRICT,
            )
            serving = asyncio.create_task(made.run())
            start_agent(here)
            await story(here)
            await here.settle()
            mark = len(here.hub.commits)
            await asyncio.sleep(900)
            assert here.hub.writes_since(mark) == []
            assert not serving.done()
            await end(serving)

    run(main(), seed)


async def left(here: World) -> list[str]:
    """Return what was made for the cluster and is still there."""
    kinds: tuple[Kind[Any], ...] = (
        MANAGED_CLUSTER,
        NAMESPACE,
        SERVICE_ACCOUNT,
        ROLE,
        ROLE_BINDING,
        CLUSTER_ROLE,
        CLUSTER_ROLE_BINDING,
        MANIFEST_WORK,
    )
    found: list[str] = []
    for kind in kinds:
        for each in (await here.hub.client.list(kind.untyped())).items:
            meta = each["metadata"]
            if CLUSTER in (meta["name"], meta.get("namespace"), meta.get("labels", {}).get(LABEL)):
                found.append(kind.kind)
    return found


async def deleting(here: World) -> Condition:
    cluster = await here.hub.client.get(MANAGED_CLUSTER, CLUSTER)
    return next(each for each in cluster.status.conditions if each.type == "Deleting")


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_a_deleted_cluster_takes_its_workloads_its_namespace_and_its_rights_along(propagation: str) -> None:
    async def story(here: World) -> None:
        await register(here)
        await here.work(config_map("one"))
        await here.work(config_map("two"), name="v")
        assert await here.member.has(CONFIG_MAP, "one")
        how = DeleteOptions(propagation=propagation)
        await here.hub.client.delete(MANAGED_CLUSTER, CLUSTER, options=how)
        await here.settle()
        assert not await here.member.has(CONFIG_MAP, "one")
        assert not await here.member.has(CONFIG_MAP, "two")
        assert await here.records() == []
        assert await left(here) == []

    told(story)


def test_while_the_agent_is_away_the_cluster_keeps_its_rights_and_says_what_it_waits_for() -> None:
    async def story(here: World) -> None:
        await register(here)
        await here.work(config_map("one"))
        await here.stop()
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await asyncio.sleep(3600)
        assert await here.member.has(CONFIG_MAP, "one")
        assert len(await left(here)) == 7
        said = await deleting(here)
        assert (said.status, said.reason) == ("False", "ResourceRemaining")
        assert "1 work (w)" in said.message
        assert f"echelon cluster detach {CLUSTER} --force" in said.message
        start_agent(here)
        await here.settle()
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await left(here) == []

    told(story)


def test_works_that_somebody_writes_to_a_leaving_cluster_go_too() -> None:
    async def story(here: World) -> None:
        await register(here)
        await here.work(config_map("one"))
        await here.stop()
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle()
        await here.work(config_map("two"), name="late")
        assert not await here.hub.has(MANIFEST_WORK, "late", CLUSTER)
        start_agent(here)
        await here.settle()
        assert await left(here) == []
        assert not await here.member.has(CONFIG_MAP, "two")

    told(story)


def test_a_namespace_that_was_there_before_the_cluster_stays_without_works_and_rights() -> None:
    async def story(here: World) -> None:
        await here.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": CLUSTER}})
        await here.hub.create(config_map("mine", CLUSTER))
        await asyncio.sleep(2)
        await register(here)
        await here.work(config_map("one"))
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle()
        assert await left(here) == ["Namespace"]
        assert await here.hub.has(CONFIG_MAP, "mine", CLUSTER)
        assert not await here.member.has(CONFIG_MAP, "one")

    told(story)


def test_a_namespace_without_our_label_is_not_ours_to_delete() -> None:
    async def story(here: World) -> None:
        await register(here)
        await here.stop()
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle()
        assert await left(here) == []
        await here.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": CLUSTER}})
        await register(here, accepted=False)
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle()
        assert await left(here) == ["Namespace"]

    told(story)


def test_a_cluster_that_was_never_accepted_goes_at_once() -> None:
    async def story(here: World) -> None:
        await register(here, accepted=False)
        cluster = await here.hub.client.get(MANAGED_CLUSTER, CLUSTER)
        assert cluster.metadata.finalizers == []
        await here.stop()
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        assert await left(here) == []

    told(story)


def test_a_namespace_that_cannot_end_is_named() -> None:
    async def story(here: World) -> None:
        await register(here)
        held = config_map("held", CLUSTER)
        held["metadata"]["finalizers"] = ["example.com/held"]
        await here.hub.create(held)
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle()
        said = await deleting(here)
        assert said.reason == "ResourceRemaining"
        assert "example.com/held in 1 resource instances" in said.message
        await here.hub.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, CLUSTER)
        await here.settle()
        assert await left(here) == []

    told(story)


def test_rights_do_not_outlive_a_cluster_whose_finalizer_was_taken_away() -> None:
    async def story(here: World) -> None:
        await register(here)
        await here.stop()
        cluster = await here.hub.client.get(MANAGED_CLUSTER, CLUSTER)
        assert cluster.metadata.finalizers == [FINALIZER]
        await here.hub.patch(MANAGED_CLUSTER, CLUSTER, {"metadata": {"finalizers": None}})
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await here.settle()
        assert await left(here) == ["Namespace", "ServiceAccount"]

    told(story)


def test_a_cluster_that_comes_back_is_let_in_again() -> None:
    async def story(here: World) -> None:
        await register(here)
        await here.work(config_map("one"))
        await here.hub.delete(MANAGED_CLUSTER, CLUSTER)
        await asyncio.sleep(300)
        assert await left(here) == []
        await register(here)
        await asyncio.sleep(60)
        await here.work(config_map("one"))
        assert await here.member.has(CONFIG_MAP, "one")

    told(story)
