"""What happens to records whose works the hub no longer knows."""

import asyncio

from echelon.agent.settings import NEVER_SECONDS, Settings, hub_hash
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.core import CONFIG_MAP
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.engine.work.identity import CLUSTER_UID
from tests.agent.world import CLUSTER, HUB, World, config_map, told

GRACE = Settings(eviction_grace_seconds=600)
OTHER = hub_hash("https://another.example")


async def lost(here: World) -> None:
    """Let the hub forget a work without asking the agent."""
    await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
    await here.hub.patch(MANIFEST_WORK, "w", {"metadata": {"finalizers": None}}, CLUSTER)


def test_a_record_without_a_work_is_removed_after_the_grace_period() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.stop()
        await lost(here)
        here.start()
        await here.settle()
        assert (await here.record()).status.eviction_start_time != ""
        await asyncio.sleep(580)
        assert await here.member.has(CONFIG_MAP, "one")
        await asyncio.sleep(30)
        assert not await here.member.has(CONFIG_MAP, "one")
        assert not await here.member.has(APPLIED_MANIFEST_WORK, f"{HUB}-w")

    told(story, settings=GRACE)


def test_a_work_that_comes_back_in_time_stops_the_eviction() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        uid = (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"]
        await here.stop()
        await lost(here)
        here.start()
        await asyncio.sleep(300)
        assert (await here.record()).status.eviction_start_time != ""
        await here.work(config_map("one"))
        assert (await here.record()).status.eviction_start_time == ""
        await asyncio.sleep(700)
        assert (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"] == uid

    told(story, settings=GRACE)


def test_a_huge_grace_period_turns_eviction_off() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.stop()
        await lost(here)
        here.start()
        await here.settle()
        assert (await here.record()).status.eviction_start_time != ""
        await here.stop()
        here.start(Settings(eviction_grace_seconds=NEVER_SECONDS))
        await asyncio.sleep(5000)
        assert (await here.record()).status.eviction_start_time == ""
        assert await here.member.has(CONFIG_MAP, "one")

    told(story, settings=GRACE)


def test_a_work_that_cannot_be_read_is_not_missing() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.stop()
        crds = CUSTOM_RESOURCE_DEFINITION.untyped()
        versions = (await here.hub.get(crds, MANIFEST_WORK.resource))["spec"]["versions"]
        anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        loose = {"spec": {"versions": [{**each, "schema": anything} for each in versions]}}
        await here.hub.patch(crds, MANIFEST_WORK.resource, loose)
        await here.hub.patch(MANIFEST_WORK, "w", {"status": {"conditions": "none"}}, CLUSTER, "status")
        here.start()
        await asyncio.sleep(2000)
        assert (await here.record()).status.eviction_start_time == ""
        assert await here.member.has(CONFIG_MAP, "one")

    told(story, settings=GRACE)


def test_an_agent_of_another_hub_leaves_the_records_of_others_alone() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.stop()
        await lost(here)
        await here.work(config_map("one"))  # another hub has another work, which only has the same name
        note = {"metadata": {"annotations": {CLUSTER_UID: "of-another-hub"}}}
        await here.member.patch(APPLIED_MANIFEST_WORK, f"{HUB}-w", note)
        here.start(hash_=OTHER, agent_id="another")
        await asyncio.sleep(1200)
        assert sorted(await here.owners("one")) == sorted([f"{HUB}-w", f"{OTHER}-w"])
        assert (await here.record()).status.eviction_start_time == ""

    told(story, settings=GRACE)


def test_an_agent_that_moved_to_another_hub_evicts_the_records_of_the_old_one() -> None:
    async def story(here: World) -> None:
        await here.stop()
        here.start(agent_id="same")
        await here.work(config_map("one"))
        await here.stop()
        await lost(here)
        await here.work(config_map("one"))  # another hub has another work, which only has the same name
        here.start(hash_=OTHER, agent_id="same")
        await asyncio.sleep(300)
        assert len(await here.owners("one")) == 2
        await asyncio.sleep(400)
        assert await here.owners("one") == [f"{OTHER}-w"]
        assert not await here.member.has(APPLIED_MANIFEST_WORK, f"{HUB}-w")

    told(story, settings=GRACE)


def test_a_record_that_was_made_under_another_address_of_the_hub_is_ended_too() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.stop()
        await lost(here)
        here.start(hash_=OTHER)
        await asyncio.sleep(1200)
        assert await here.records() == []
        assert not await here.member.has(CONFIG_MAP, "one")

    told(story, settings=GRACE)


def test_a_record_of_an_agent_with_an_id_of_its_own_is_left_to_it() -> None:
    async def story(here: World) -> None:
        await here.stop()
        here.start(agent_id="chosen")
        await here.work(config_map("one"))
        await here.stop()
        await lost(here)
        here.start(hash_=OTHER)
        await asyncio.sleep(1200)
        assert await here.records() == [f"{HUB}-w"]
        assert await here.member.has(CONFIG_MAP, "one")

    told(story, settings=GRACE)
