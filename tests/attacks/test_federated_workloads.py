"""Bindings that name what is others', works that say whose they are, and members that report what cannot be."""

from typing import Any

import pytest

from echelon.api.apps import DEPLOYMENT
from echelon.api.base import JSONObject
from echelon.api.karmada import RESOURCE_BINDING, WORK
from echelon.api.namespaces import NAMESPACE
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.engine.workload.names import ALIGN, BINDING_NAME, BINDING_NAMESPACE, execution_namespace
from tests.controllers.hub import NS
from tests.controllers.test_workloads import begun
from tests.controllers.workload_world import WorkloadWorld, of_deployment, told

pytestmark = pytest.mark.full

IMPOSSIBLE: dict[str, Any] = {
    "huge": {"replicas": 2**62, "readyReplicas": 2**62, "availableReplicas": 2**62, "updatedReplicas": 2**62},
    "negative": {"replicas": -5, "readyReplicas": -5, "availableReplicas": -1, "updatedReplicas": -1},
    "no numbers": {"replicas": "many", "availableReplicas": [1], "updatedReplicas": None, "conditions": "all well"},
    "nothing": {},
    "of the future": {"observedGeneration": 2**62, "replicas": 5, "availableReplicas": 5, "updatedReplicas": 5},
}


def test_a_binding_of_a_template_in_another_namespace_is_refused_and_keeps_nobody_waiting() -> None:
    async def story(world: WorkloadWorld) -> None:
        await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "mallory"}})
        await world.join("c1", "c2")
        await world.template(4)
        resource = {**DEPLOYMENT.type_meta, "namespace": NS, "name": "web"}
        clusters = [{"name": "c1", "replicas": 4}]
        # It is the older one, so it would be the one whose budgets hold.
        spec = {"resource": resource, "clusters": clusters}
        await world.hub.create(RESOURCE_BINDING, "mine-now", "mallory", spec=spec)
        world.start()
        await world.settle(10)
        await world.bind({"c1": 2, "c2": 2})
        await world.settle(60)
        assert sorted(await world.works()) == ["c1", "c2"]
        assert await world.is_complete()
        mine = await world.hub.client.get(RESOURCE_BINDING, "mine-now", "mallory")
        assert any("in its own namespace, mallory" in each.message for each in mine.status.conditions)
        works = (await world.hub.client.list(WORK)).items
        assert {each.metadata.annotations[BINDING_NAMESPACE] for each in works} == {NS}

    told(story)


@pytest.mark.parametrize("what", sorted(IMPOSSIBLE))
def test_a_member_that_reports_what_cannot_be_does_not_stop_the_others(what: str) -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        liar = min(await world.works())
        world.limits.agents[liar].cut = True
        work = (await world.works())[liar]
        named = {"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments", "name": "web"}
        status: JSONObject = {"identifier": {"ordinal": 0, "namespace": NS, **named}}
        lie = {"manifestStatuses": [{**status, "status": IMPOSSIBLE[what], "health": "Healthy"}]}
        await world.hub.patch(WORK, work.metadata.name, {"status": lie}, execution_namespace(liar), "status")
        await world.upgrade("2")
        await world.settle(120)
        binding = await world.binding()
        assert binding.status.conditions
        world.limits.agents[liar].cut = False
        await world.finish(3600)

    told(story)


def test_a_work_that_claims_to_be_of_another_binding_changes_nothing_for_it() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        before = await world.sent()
        outsider = "c-outside"
        await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": execution_namespace(outsider)}})
        claims = {BINDING_NAMESPACE: NS, BINDING_NAME: world.name}
        metadata = {"name": "web", "namespace": NS, "annotations": {}}
        manifest = {**DEPLOYMENT.type_meta, "metadata": metadata, "spec": {"replicas": 1000}}
        spec = {"workload": {"manifests": [manifest]}}
        await world.hub.create(WORK, "forged", execution_namespace(outsider), annotations=claims, spec=spec)
        await world.settle(60)
        said = await world.condition("WorksIgnored")
        assert (said.status, said.reason) == ("True", "NotOfThisBinding")
        assert said.message.endswith(f"{outsider}/forged")
        assert (await world.said("RolloutAligned"))[0] == "True"
        await world.upgrade("2")
        await world.finish(1800)
        there = {each.metadata.namespace for each in (await world.hub.client.list(WORK)).items}
        assert {execution_namespace(each) for each in before} <= there
        assert outsider not in {each.name for each in (await world.binding()).spec.clusters}
        await world.hub.delete(WORK, "forged", execution_namespace(outsider))
        await world.settle(60)
        assert await world.said("WorksIgnored") == ("False", "None")

    told(story)


@pytest.mark.parametrize("where", ["others", NS], ids=["another namespace", "the same namespace"])
def test_an_agent_that_gives_its_work_to_another_binding_gets_it_back_and_changes_nothing_there(where: str) -> None:
    """Neither for who is meant, in whose clusters it is not, nor for the one that it is taken from."""

    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        liar, other = sorted(await world.works())
        if where != NS:
            await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": where}})
        resource = {**DEPLOYMENT.type_meta, "namespace": where, "name": "theirs"}
        spec = {"resource": resource, "clusters": [{"name": other, "replicas": 1}]}
        await world.hub.create(RESOURCE_BINDING, "theirs", where, spec=spec)
        await world.settle(60)
        own = next(each for each in (await world.hub.client.list(WORK, execution_namespace(liar))).items)
        before = await world.hub.client.get(RESOURCE_BINDING, "theirs", where)
        claims = {"metadata": {"annotations": {BINDING_NAMESPACE: where, BINDING_NAME: "theirs"}}}
        for _ in range(3):
            await world.hub.patch(WORK, own.metadata.name, claims, own.metadata.namespace)
            await world.settle(60)
            (again,) = (await world.hub.client.list(WORK, execution_namespace(liar))).items
            assert again.metadata.uid == own.metadata.uid, "it was deleted for somebody who never had it"
            assert again.metadata.annotations[BINDING_NAMESPACE] == NS
            assert again.metadata.annotations[BINDING_NAME] == world.name
        theirs = await world.hub.client.get(RESOURCE_BINDING, "theirs", where)
        assert theirs.status.aggregated_status == before.status.aggregated_status
        assert (await world.said("RolloutAligned"))[0] == "True"
        await world.upgrade("2")
        await world.finish(1800)

    told(story)


def test_who_is_given_a_work_of_others_says_so_while_nobody_takes_it_back() -> None:
    """What is passed through has no ledger, and without one nobody can tell who wrote a work."""

    async def story(world: WorkloadWorld) -> None:
        await world.join("c1", "c2")
        for agent in world.running.values():
            agent.cancel()
        await world.template(10, strategy=of_deployment(1, 0), annotations={ALIGN: "false"})
        await world.bind({"c1": 4, "c2": 6})
        world.start()
        await world.settle(60)
        liar, other = sorted(await world.works())
        resource = {**DEPLOYMENT.type_meta, "namespace": NS, "name": "theirs"}
        spec = {"resource": resource, "clusters": [{"name": other, "replicas": 1}]}
        await world.hub.create(RESOURCE_BINDING, "theirs", NS, spec=spec)
        await world.settle(60)
        (own,) = (await world.hub.client.list(WORK, execution_namespace(liar))).items
        claims = {"metadata": {"annotations": {BINDING_NAMESPACE: NS, BINDING_NAME: "theirs"}}}
        await world.hub.patch(WORK, own.metadata.name, claims, own.metadata.namespace)
        await world.settle(60)
        theirs = await world.hub.client.get(RESOURCE_BINDING, "theirs", NS)
        said = {each.type: each for each in theirs.status.conditions}
        assert said["WorksIgnored"].status == "True"
        assert said["WorksIgnored"].message.endswith(f"{liar}/{own.metadata.name}")
        assert theirs.status.aggregated_status == []
        (again,) = (await world.hub.client.list(WORK, execution_namespace(liar))).items
        assert again.metadata.uid == own.metadata.uid, "it was deleted for somebody who never had it"

    told(story)


def test_a_ledger_that_somebody_wrote_does_not_free_a_budget() -> None:
    async def story(world: WorkloadWorld) -> None:
        await begun(world, of_deployment(1, 0))
        world.budgets(9, 10)
        found = await world.ledger()
        spec = {"spec": {"ledger": "zlib:AAAA", "clusters": {}, "nextPushID": 0}}
        await world.hub.patch(ROLLOUT_LEDGER, found.metadata.name, spec, NS)
        await world.upgrade("2")
        await world.finish(3600)

    told(story)
