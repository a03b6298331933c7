"""An agent runs families of reconcilers beside each other: all of them share its caches, and its end."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from echelon.agent.agent import FAMILIES
from echelon.agent.context import AgentContext, Family
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.keys import Key
from echelon.api.work import MANIFEST_WORK
from echelon.engine.plan import NOTHING, Create, Plan
from echelon.fleet.loop import run
from echelon.kube.informer import Informer
from tests.agent.world import CLUSTER, World, config_map, told, world


class CopyReconciler:
    """Plans a copy on the cluster of each config map that the hub has for it."""

    def __init__(self, context: AgentContext) -> None:
        self.wanted: Informer[Any] = context.hub_informer(CONFIG_MAP)
        self.copies: Informer[Any] = context.member_informer(CONFIG_MAP)

    def plan(self, key: Key, _: datetime) -> Plan:
        wanted = self.wanted.get(Key(CLUSTER, key.name))
        if wanted is None or self.copies.get(key) is not None:
            return NOTHING
        body: JSONObject = config_map(key.name, key.namespace, **wanted.data)
        return Plan((Create(CONFIG_MAP, body, key.namespace),))


def copies(context: AgentContext) -> Family:
    reconciler = CopyReconciler(context)
    controller = context.member_controller("copies", reconciler)
    controller.watch(reconciler.wanted, keys=lambda found: (Key("default", found.metadata.name),))
    controller.watch(reconciler.copies)
    return Family((controller,))


def test_a_second_family_of_reconcilers_works_beside_the_works() -> None:
    async def story(here: World) -> None:
        here.start(families=(*FAMILIES, copies))
        await here.hub.create(config_map("copied", CLUSTER, a="c"))
        await here.work(config_map("applied"))
        assert await here.member.has(CONFIG_MAP, "applied")
        assert (await here.member.get(CONFIG_MAP, "copied"))["data"] == {"a": "c"}
        await here.member.delete(CONFIG_MAP, "copied")
        await here.settle()
        assert await here.member.has(CONFIG_MAP, "copied")

    told(story, started=False)


class Failing:
    """Something that runs for a while and then raises."""

    name = "failing"

    async def run(self) -> None:
        await asyncio.sleep(30)
        raise ValueError("a mistake of ours")


def test_a_failure_of_one_family_ends_the_agent_and_all_its_watches() -> None:
    async def main() -> None:
        async with world() as here:
            here.start(families=(*FAMILIES, lambda _: Family((Failing(),))))
            await here.work(config_map("applied"))
            assert len(here.running[0].context.object_watches) == 1
            await here.settle(60)
            assert here.agents[0].done()
            with pytest.raises(ExceptionGroup, match="unhandled errors"):
                await here.agents.pop()
            assert len(here.running[0].context.object_watches) == 0

    run(main(), 0)


def test_the_cluster_serves_the_kinds_of_a_family_before_it_begins() -> None:
    async def story(here: World) -> None:
        served: list[list[object]] = []

        class Listing:
            name = "listing"

            async def run(self) -> None:
                served.append(list((await here.member.client.list(MANIFEST_WORK)).items))

        here.start(families=(lambda _: Family((Listing(),), member_kinds=(MANIFEST_WORK,)),))
        await here.settle()
        assert served == [[]]

    told(story, started=False)


def test_families_share_one_cache_a_kind() -> None:
    async def story(here: World) -> None:
        here.start(families=(*FAMILIES, copies))
        context = here.running[0].context
        assert context.hub_informer(MANIFEST_WORK) is context.hub_informer(MANIFEST_WORK)
        assert context.hub_informer(CONFIG_MAP) is not context.member_informer(CONFIG_MAP)
        assert len(context.informers) == 4
        with pytest.raises(ValueError, match="without these indexes"):
            context.member_informer(CONFIG_MAP, {"name": lambda found: (found.metadata.name,)})

    told(story, started=False)
