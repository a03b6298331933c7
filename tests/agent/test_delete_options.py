"""Whose objects are: shared ones stay for the others, orphaned ones for everybody."""

from typing import Any

from echelon.api.core import CONFIG_MAP
from echelon.api.work import MANIFEST_WORK
from tests.agent.world import CLUSTER, World, config_map, target, told

ORPHAN = {"propagationPolicy": "Orphan"}


def selectively(*names: str) -> dict[str, Any]:
    rules = [target("configmaps", name) for name in names]
    return {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}}


async def owners(here: World, name: str) -> list[str]:
    live = await here.member.get(CONFIG_MAP, name)
    return sorted(each["name"][-2:] for each in live["metadata"].get("ownerReferences", []))


async def end(here: World, name: str) -> None:
    await here.hub.delete(MANIFEST_WORK, name, CLUSTER)
    await here.settle()
    assert not await here.hub.has(MANIFEST_WORK, name, CLUSTER)


def test_an_object_of_two_works_survives_the_end_of_one() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("shared"), config_map("mine"), name="w1")
        await here.work(config_map("shared"), name="w2")
        assert await owners(here, "shared") == ["w1", "w2"]
        await end(here, "w1")
        assert not await here.member.has(CONFIG_MAP, "mine")
        assert await owners(here, "shared") == ["w2"]
        await end(here, "w2")
        assert not await here.member.has(CONFIG_MAP, "shared")

    told(story)


def test_an_object_of_two_works_survives_being_dropped_from_one() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("shared"), config_map("mine"), name="w1")
        await here.work(config_map("shared"), name="w2")
        await here.work(config_map("mine"), name="w1")
        assert await owners(here, "shared") == ["w2"]
        assert await here.resources("w1") == ["configmaps mine"]

    told(story)


def test_orphaned_objects_have_no_owner_and_survive_their_work() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), deleteOption=ORPHAN)
        assert await owners(here, "one") == []
        await end(here, "w")
        assert await here.member.has(CONFIG_MAP, "one")

    told(story)


def test_of_selectively_orphaned_objects_only_the_listed_survive() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"), deleteOption=selectively("one"))
        assert (await owners(here, "one"), await owners(here, "two")) == ([], ["-w"])
        await end(here, "w")
        assert await here.member.has(CONFIG_MAP, "one")
        assert not await here.member.has(CONFIG_MAP, "two")

    told(story)


def test_an_orphaned_object_survives_being_dropped() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"), deleteOption=selectively("one"))
        await here.work(config_map("two"), deleteOption=selectively("one"))
        assert await here.member.has(CONFIG_MAP, "one")
        assert await here.resources() == ["configmaps two"]

    told(story)


def test_taking_the_option_back_makes_the_object_go_with_its_work_again() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), deleteOption=ORPHAN)
        await here.work(config_map("one"))
        assert await owners(here, "one") == ["-w"]
        await here.work(config_map("one"), deleteOption=ORPHAN)
        assert await owners(here, "one") == []
        await here.work(config_map("one"))
        await end(here, "w")
        assert not await here.member.has(CONFIG_MAP, "one")

    told(story)


def test_an_object_that_took_the_name_of_ours_is_left_alone() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one"), config_map("two"))
        await here.stop()
        await here.member.delete(CONFIG_MAP, "one")
        await here.member.create(config_map("one", by="others"))
        await here.work(config_map("two"))
        here.start()
        await here.settle()
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"by": "others"}
        assert await here.resources() == ["configmaps two"]

    told(story)
