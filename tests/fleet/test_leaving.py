"""A cluster leaves a living fleet: everything real but the machines, in virtual time."""

import asyncio
from random import Random
from typing import Any

from echelon.agent.agent import Agent
from echelon.agent.settings import Settings, hub_hash
from echelon.api import registry
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.cluster import GROUP, MANAGED_CLUSTER, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from echelon.api.core import POD
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.api.work import GROUP as WORK_GROUP
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import Controllers
from echelon.fleet.local import agent_user, register
from echelon.fleet.loop import run, running
from echelon.fleet.member.fleet import Fleet
from echelon.fleet.member.member import Member
from echelon.hub.client import InProcessClient
from echelon.hub.controllers import run_controllers
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import Client
from echelon.kube.errors import NotFound
from echelon.kube.metrics import Metrics
from tests.agent.world import deployment
from tests.controllers.strict import STRICT, end

NS = "shop"


async def create(client: Client, kind: Kind[Any], name: str, spec: JSONObject, namespace: str = "") -> None:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    await client.create(kind.untyped(), body, namespace)


async def furnish(client: Client) -> None:
    for definition in registry.crds():
        if definition["spec"]["group"] in (GROUP, WORK_GROUP):
            await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    await client.create(NAMESPACE.untyped(), {"metadata": {"name": NS}})
    everything: JSONObject = {"selectorType": "LabelSelector", "labelSelector": {}}
    await create(client, MANAGED_CLUSTER_SET, "all", {"clusterSelector": everything})
    await create(client, MANAGED_CLUSTER_SET_BINDING, "all", {"clusterSet": "all"}, NS)
    await create(client, PLACEMENT, "p", {"clusterSets": ["all"]}, NS)
    spec: JSONObject = {
        "placementRefs": [{"name": "p", "rolloutStrategy": {"type": "All"}}],
        "manifestWorkTemplate": {"workload": {"manifests": [deployment()]}},
    }
    await create(client, MANIFEST_WORK_REPLICA_SET, "web", spec, NS)


def agent(hub: Client, member: Member) -> Agent:
    return Agent(
        hub,
        member.client(field_manager="work-agent"),
        member.name,
        server=InProcessClient(member.cluster, ROOT),
        clock=running().clock,
        random=Random(member.name),  # noqa: S311 - repeatable on purpose
        metrics=Metrics(),
        hub_hash=hub_hash("https://hub.example"),
        settings=Settings(strict=True),
    )


async def exists(client: Client, kind: Kind[Any], name: str) -> bool:
    try:
        await client.get(kind.untyped(), name)
    except NotFound:
        return False
    return True


async def uids(member: Member, kind: Kind[Any]) -> list[str]:
    return sorted(each["metadata"]["uid"] for each in (await member.client().list(kind.untyped())).items)


async def decided(client: Client) -> list[str]:
    found = (await client.list(PLACEMENT_DECISION, NS)).items
    return sorted(each.cluster_name for one in found if one.status for each in one.status.decisions)


def test_a_cluster_that_is_deleted_leaves_nothing_behind_and_the_others_do_not_notice() -> None:
    async def main() -> None:
        logical = memory_cluster(clock=running().clock.now, seed=1)
        await bootstrap(logical)
        client = InProcessClient(logical, ROOT)
        await furnish(client)
        fleet = await Fleet.build("3 clusters; nodes 1", clock=running().clock.now)
        await fleet.start()
        chance = Random(1)  # noqa: S311 - repeatable on purpose
        controllers = Controllers(
            client, running().clock, random=chance, metrics=Metrics(), instance="test", settings=STRICT
        )
        tasks = [asyncio.create_task(run_controllers(logical)), asyncio.create_task(controllers.run())]
        for member in fleet.members.values():
            await register(client, member)
            hub = InProcessClient(logical, agent_user(member.name))
            tasks.append(asyncio.create_task(agent(hub, member).run()))
        await asyncio.sleep(120)
        leaving, *others = fleet.members.values()
        names = [each.name for each in others]
        assert len(await decided(client)) == 3
        assert len(await uids(leaving, DEPLOYMENT)) == 1
        assert len(await uids(leaving, POD)) == 2
        before = [await uids(each, POD) for each in others]

        await client.delete(MANAGED_CLUSTER, leaving.name)
        await asyncio.sleep(120)
        for kind in (DEPLOYMENT, POD, APPLIED_MANIFEST_WORK):
            assert await uids(leaving, kind) == []
        assert not await exists(client, MANAGED_CLUSTER, leaving.name)
        assert not await exists(client, NAMESPACE, leaving.name)
        rights = f"open-cluster-management:managedcluster:{leaving.name}"
        assert not await exists(client, CLUSTER_ROLE, rights)
        assert not await exists(client, CLUSTER_ROLE_BINDING, rights)
        assert await decided(client) == sorted(names)
        works = (await client.list(MANIFEST_WORK)).items
        assert sorted(each.metadata.namespace for each in works) == sorted(names)
        assert [await uids(each, POD) for each in others] == before

        await register(client, leaving)
        await asyncio.sleep(180)
        assert len(await decided(client)) == 3
        assert len(await uids(leaving, POD)) == 2
        for task in tasks:
            assert not task.done()
        await end(*tasks)
        await fleet.stop()

    run(main())
