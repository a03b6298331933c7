"""A hub that is reached by another address is still the same hub: nothing that was applied for it is left behind."""

import asyncio
from typing import Any

import pytest

from echelon.agent.settings import Settings, hub_hash
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.engine.work.identity import CLUSTER_UID, WORK_UID
from echelon.kube.client import Client
from echelon.kube.errors import Forbidden
from tests.agent.world import CLUSTER, HUB, World, config_map, told

MOVED = hub_hash("https://moved.example")


class Stubborn:
    """A cluster that lets nobody change one of its objects."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name
        self.get, self.list, self.watch = client.get, client.list, client.watch
        self.create, self.delete = client.create, client.delete

    async def patch(self, kind: Kind[Any], name: str, *args: Any, **options: Any) -> Any:
        if name == self.name:
            raise Forbidden(f"{name} is not to be changed")
        return await self._client.patch(kind, name, *args, **options)


def test_after_a_move_there_is_one_record_and_objects_have_one_owner() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        before = await here.member.get(CONFIG_MAP, "one")
        await here.stop()
        here.start(hash_=MOVED)
        await here.settle()
        assert await here.records() == [f"{MOVED}-w"]
        assert await here.owners("one") == await here.owners("two") == [f"{MOVED}-w"]
        assert (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"] == before["metadata"]["uid"]
        assert [each.name for each in (await here.record(hash_=MOVED)).status.applied_resources] == ["one", "two"]

    told(story)


def test_what_the_work_no_longer_asks_for_goes_although_the_hub_has_moved() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        await here.stop()
        await here.work(config_map("one"))
        here.start(hash_=MOVED)
        await here.settle()
        assert await here.owners("one") == [f"{MOVED}-w"]
        assert not await here.member.has(CONFIG_MAP, "two")

    told(story)


def test_a_work_that_is_deleted_during_the_move_takes_its_objects_along() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        await here.stop()
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        here.start(hash_=MOVED)
        await here.settle()
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await here.records() == []
        assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)

    told(story)


def test_what_was_applied_and_never_recorded_is_taken_over_too() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        await here.stop()
        await here.member.patch(
            APPLIED_MANIFEST_WORK, f"{HUB}-w", {"status": {"appliedResources": []}}, subresource="status"
        )
        await here.work(config_map("one"))
        here.start(hash_=MOVED)
        await here.settle()
        assert await here.owners("one") == [f"{MOVED}-w"]
        assert not await here.member.has(CONFIG_MAP, "two")

    told(story)


def test_an_object_that_cannot_be_taken_over_keeps_its_owner_and_the_rest_goes_on() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        await here.stop()
        stubborn = Stubborn(here.member.client, "one")
        here.start(hash_=MOVED, member=stubborn)
        await here.settle()
        assert await here.owners("two") == [f"{MOVED}-w"]
        assert await here.owners("one") == [f"{HUB}-w"]
        assert await here.records() == sorted([f"{HUB}-w", f"{MOVED}-w"])
        stubborn.name = ""
        await asyncio.sleep(400)
        assert await here.owners("one") == [f"{MOVED}-w"]
        assert await here.records() == [f"{MOVED}-w"]

    told(story)


def test_a_complete_work_keeps_its_objects_through_a_move_and_takes_them_along_at_its_end() -> None:
    async def story(here: World) -> None:
        await here.stop()
        here.start(agent_id="same")
        await here.work(config_map("one"))
        await here.stop()
        complete = {"type": "Complete", "status": "True", "reason": "R", "message": "m"}
        complete["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        body = {"status": {"conditions": [complete]}}
        await here.hub.patch(MANIFEST_WORK, "w", body, CLUSTER, subresource="status")
        here.start(Settings(eviction_grace_seconds=60), hash_=MOVED, agent_id="same")
        await asyncio.sleep(300)
        assert await here.member.has(CONFIG_MAP, "one")
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await here.settle()
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await here.records() == []

    told(story)


def test_two_hubs_with_works_of_one_name_leave_each_others_records_alone() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        note = {"metadata": {"annotations": {WORK_UID: "of-another-hub", CLUSTER_UID: "of-another-hub"}}}
        await here.stop()
        await here.member.patch(APPLIED_MANIFEST_WORK, f"{HUB}-w", note)
        here.start(Settings(eviction_grace_seconds=60), hash_=MOVED)
        await asyncio.sleep(900)
        assert await here.records() == sorted([f"{HUB}-w", f"{MOVED}-w"])
        assert sorted(await here.owners("one")) == sorted([f"{HUB}-w", f"{MOVED}-w"])
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await here.settle()
        assert await here.owners("one") == [f"{HUB}-w"]

    told(story)


@pytest.mark.parametrize(("agent_id", "expected"), [("klusterlet", 1), ("another", 2), ("", 2)])
def test_a_record_of_another_make_of_agent_is_taken_over_by_the_agent_with_its_id(agent_id: str, expected: int) -> None:
    async def story(here: World) -> None:
        await here.stop()
        here.start(agent_id="klusterlet")
        await here.work(config_map("one"))
        await here.stop()
        await here.member.patch(APPLIED_MANIFEST_WORK, f"{HUB}-w", {"metadata": {"annotations": None}})
        here.start(hash_=MOVED, agent_id=agent_id)
        await here.settle()
        assert len(await here.owners("one")) == len(await here.records()) == expected

    told(story)


def test_under_the_same_address_an_agent_ends_the_records_of_its_predecessor_whatever_its_id_was() -> None:
    async def story(here: World) -> None:
        await here.stop()
        here.start(agent_id="klusterlet")
        await here.work(config_map("one"))
        await here.stop()
        await here.hub.delete(MANIFEST_WORK, "w", CLUSTER)
        await here.member.delete(APPLIED_MANIFEST_WORK, f"{HUB}-w")
        here.start()
        await here.settle()
        assert not await here.member.has(CONFIG_MAP, "one")
        assert await here.records() == []
        assert not await here.hub.has(MANIFEST_WORK, "w", CLUSTER)

    told(story)


def test_two_agents_of_one_hub_under_two_addresses_do_not_take_from_each_other_again_and_again() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"))
        uid = (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"]
        here.start(hash_=MOVED)
        await here.settle()
        mark = len(here.member.commits)
        await asyncio.sleep(3000)
        assert len(here.member.writes_since(mark)) < 100
        assert (await here.member.get(CONFIG_MAP, "one"))["metadata"]["uid"] == uid
        await here.stop()
        here.start(hash_=MOVED)
        await here.settle()
        assert await here.owners("one") == [f"{MOVED}-w"]

    told(story)
