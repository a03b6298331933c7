"""A cluster asks to join, and from then on says that it is alive and what it is."""

import asyncio
from random import Random
from typing import Any

from echelon.agent.agent import Agent
from echelon.agent.registration import LAST_PAUSE_SECONDS
from echelon.agent.settings import Settings
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.coordination import LEASE
from echelon.api.core import CONFIG_MAP, NODE
from echelon.api.namespaces import NAMESPACE
from echelon.controllers.cluster.belongings import agent_group
from echelon.controllers.running import Controllers
from echelon.fleet.loop import run, running
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.errors import Gone
from echelon.kube.metrics import Metrics
from tests.agent.world import CLUSTER, HUB, World, condition, config_map, told, world
from tests.controllers.strict import STRICT, end


async def node(here: World, name: str, cpu: str, memory: str, **labels: str) -> None:
    body: JSONObject = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {key.replace("_", "."): value for key, value in labels.items()}},
        "spec": {"providerID": f"aws:///{name}"},
    }
    await here.member.client.create(NODE.untyped(), body)
    amount = {"cpu": cpu, "memory": memory, "pods": "110"}
    status = {"status": {"capacity": amount, "allocatable": {**amount, "cpu": "1500m"}}}
    await here.member.patch(NODE, name, status, subresource="status")


async def cluster(here: World) -> ManagedCluster:
    return await here.hub.client.get(MANAGED_CLUSTER, CLUSTER)


def test_a_cluster_says_what_it_is() -> None:
    async def story(here: World) -> None:
        await node(here, "n1", "2", "4Gi")
        await node(here, "n2", "500m", "4Gi")
        here.start()
        await here.settle()
        seen = await cluster(here)
        assert seen.status.capacity == {"cpu": "2500m", "memory": "8Gi", "pods": "220"}
        assert seen.status.allocatable["cpu"] == "3"
        assert seen.status.version.kubernetes.startswith("v1.")
        claims = {each.name: each.value for each in seen.status.cluster_claims}
        system = await here.member.get(NAMESPACE, "kube-system")
        assert claims == {
            "id.k8s.io": system["metadata"]["uid"],
            "kubeversion.open-cluster-management.io": seen.status.version.kubernetes,
            "platform.open-cluster-management.io": "AWS",
        }
        for kind in ("ManagedClusterJoined", "ManagedClusterConditionAvailable"):
            assert condition(seen.status.conditions, kind).status == "True"

    told(story, started=False)


def test_what_changes_on_the_cluster_reaches_the_hub_and_what_does_not_is_not_written() -> None:
    async def story(here: World) -> None:
        await node(here, "n1", "2", "4Gi")
        here.start()
        await here.settle()
        mark = len(here.hub.commits)
        await asyncio.sleep(600)
        assert here.hub.writes_since(mark) == []
        await node(here, "n2", "1", "4Gi")
        await asyncio.sleep(61)
        assert (await cluster(here)).status.capacity["cpu"] == "3"
        await here.member.delete(NODE, "n2")
        await here.member.delete(NODE, "n1")
        await asyncio.sleep(61)
        assert (await cluster(here)).status.capacity == {}

    told(story, started=False)


def test_nodes_are_added_up_a_page_at_a_time() -> None:
    async def story(here: World) -> None:
        for number in range(120):
            await node(here, f"n{number}", "2", "4Gi")
        sizes: list[int] = []
        plain = here.way.list

        async def counted(kind: Any, namespace: str = "", **query: Any) -> Any:
            page = await plain(kind, namespace, **query)
            if kind is NODE:
                sizes.append(len(page.items))
                if len(sizes) == 2:
                    raise Gone("the continue token is too old")
            return page

        here.way.list = counted  # type: ignore[method-assign]  # to see the pages
        here.start()
        await here.settle()
        assert sizes[2:] == [100, 20]
        assert (await cluster(here)).status.capacity == {"cpu": "240", "memory": "480Gi", "pods": "13200"}

    told(story, started=False)


def test_claims_of_the_cluster_are_copied_and_win() -> None:
    async def story(here: World) -> None:
        definition = next(each for each in registry.crds() if each["spec"]["names"]["kind"] == "ClusterClaim")
        await here.member.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        for name, value in (("id.k8s.io", "mine"), ("stage", "production")):
            await here.member.create(
                {
                    "apiVersion": "cluster.open-cluster-management.io/v1alpha1",
                    "kind": "ClusterClaim",
                    "metadata": {"name": name},
                    "spec": {"value": value},
                }
            )
        here.start()
        await here.settle()
        claims = {each.name: each.value for each in (await cluster(here)).status.cluster_claims}
        assert (claims["id.k8s.io"], claims["stage"]) == ("mine", "production")

    told(story, started=False)


def test_the_lease_is_renewed_as_often_as_the_hub_wants() -> None:
    async def story(here: World) -> None:
        await here.hub.patch(MANAGED_CLUSTER, CLUSTER, {"spec": {"leaseDurationSeconds": 20}})
        here.start()
        await here.settle()
        renewals = [each for each in here.hub.commits if "leases" in each]
        await asyncio.sleep(200)
        more = [each for each in here.hub.commits if "leases" in each][len(renewals) :]
        assert 9 <= len(more) <= 12
        lease = await here.hub.get(LEASE, "managed-cluster-lease", CLUSTER)
        assert lease["spec"]["renewTime"] >= running().clock.now().strftime("%Y-%m-%dT%H:%M")

    told(story, started=False)


def test_a_cluster_that_is_not_known_registers_and_waits_to_be_accepted() -> None:
    async def main() -> None:
        async with world(accepted=False) as here:
            clock, chance = running().clock, Random(1)  # noqa: S311 - repeatable on purpose
            names = ["cluster-registration", "cluster-health"]
            controllers = Controllers(
                here.hub.client, clock, names, random=chance, metrics=Metrics(), instance="test", settings=STRICT
            )
            serving = asyncio.create_task(controllers.run())
            here.start()
            await asyncio.sleep(100)
            assert not (await cluster(here)).spec.hub_accepts_client
            assert not await here.hub.has(NAMESPACE, CLUSTER)
            await here.hub.patch(MANAGED_CLUSTER, CLUSTER, {"spec": {"hubAcceptsClient": True}})
            await asyncio.sleep(LAST_PAUSE_SECONDS + 5)
            seen = await cluster(here)
            assert {each.type: each.status for each in seen.status.conditions} == {
                "HubAcceptedManagedCluster": "True",
                "ManagedClusterJoined": "True",
                "ManagedClusterConditionAvailable": "True",
            }
            assert seen.spec.taints == []
            await here.work(config_map("one"))
            assert await here.member.has(CONFIG_MAP, "one")
            await end(serving)

    run(main(), 3)


def test_an_agent_needs_no_more_than_the_rights_that_it_is_given() -> None:
    async def main() -> None:
        async with world(accepted=False) as here:
            clock, chance = running().clock, Random(1)  # noqa: S311 - repeatable on purpose
            body = {"hubAcceptsClient": True, "leaseDurationSeconds": 60}
            await here.hub.create(
                {
                    "apiVersion": MANAGED_CLUSTER.api_version,
                    "kind": MANAGED_CLUSTER.kind,
                    "metadata": {"name": CLUSTER},
                    "spec": body,
                }
            )
            names = ["cluster-registration"]
            controllers = Controllers(
                here.hub.client, clock, names, random=chance, metrics=Metrics(), instance="test", settings=STRICT
            )
            serving = asyncio.create_task(controllers.run())
            mine = InProcessClient(here.hub.cluster, User("agent", (agent_group(CLUSTER), "system:authenticated")))
            member = here.member.client
            agent = Agent(
                mine,
                member,
                CLUSTER,
                server=member,
                clock=clock,
                random=chance,
                metrics=Metrics(),
                hub_hash=HUB,
                settings=Settings(strict=True),
            )
            here.agents.append(asyncio.create_task(agent.run()))
            await asyncio.sleep(10)
            await here.work(config_map("one"))
            assert await here.status("Applied") == "True"
            assert condition((await cluster(here)).status.conditions, "ManagedClusterJoined").status == "True"
            await asyncio.sleep(61)
            assert await here.hub.has(LEASE, "managed-cluster-lease", CLUSTER)
            await end(serving)

    run(main(), 4)
