"""An agent without federated workloads costs one stream, and none where the hub has nothing of the kind."""

import asyncio

from echelon.agent.workload.family import IDLE_SECONDS, LAST_PAUSE_SECONDS
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.core import CONFIG_MAP
from echelon.api.crd import crd
from echelon.api.karmada import WORK
from echelon.engine.workload.names import MANAGED
from tests.agent.workload.world import SPACE, World, manifest, push_of, told


def tasks() -> set[str]:
    return {each.get_name() for each in asyncio.all_tasks()}


def test_a_cluster_without_works_has_one_stream_from_the_hub_and_none_from_the_cluster() -> None:
    async def story(here: World) -> None:
        await here.settle(60)
        assert not any(verb == "watch" for verb, _, _ in here.way.requests)
        assert {each for each in tasks() if each.startswith("informer")} == {"informer of works of federated workloads"}
        assert "workloads" in tasks()

    told(story)


def test_everything_ends_some_time_after_the_last_work() -> None:
    async def story(here: World) -> None:
        before = tasks()
        await here.send(manifest(1))
        assert {"informer of deployments", "informer of replicasets"} <= tasks()
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(3 * IDLE_SECONDS)
        assert tasks() - before == set()
        await here.send(manifest(2))
        assert push_of(await here.live()) == 2

    told(story)


def test_children_are_watched_only_while_there_is_a_workload_that_has_them() -> None:
    async def story(here: World) -> None:
        meta = {"name": "settings", "namespace": "default", "labels": {MANAGED: "true"}}
        await here.send({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, "settings")
        await here.send(manifest(1))
        await here.hub.delete(WORK, "w", SPACE)
        await here.settle(30)
        assert "informer of replicasets" not in tasks()
        assert "informer of configmaps" in tasks()
        assert await here.member.has(CONFIG_MAP, "settings")

    told(story)


def test_a_hub_that_serves_no_works_is_asked_now_and_then() -> None:
    async def story(here: World) -> None:
        definition = await here.hub.get(CUSTOM_RESOURCE_DEFINITION, WORK.resource)
        assert definition
        await here.hub.delete(CUSTOM_RESOURCE_DEFINITION, WORK.resource)
        await here.settle()
        here.begin()
        await here.settle(3600)
        assert not any(each.startswith("informer of works") for each in tasks())
        await here.hub.create({**crd(WORK)})
        await here.settle(2)
        await here.write(manifest(1))
        await here.settle(LAST_PAUSE_SECONDS + 30)
        assert push_of(await here.live()) == 1

    told(story, started=False)
