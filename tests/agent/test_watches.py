"""What an agent looks at on its cluster: what it applied, and as little else as it can."""

import gc

from echelon.agent.settings import Settings
from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP, SECRET
from echelon.api.work import MANIFEST_WORK
from echelon.engine.work.updating import LastApplied
from echelon.kube import errors
from tests.agent.test_strategies import secret
from tests.agent.world import CLUSTER, World, config_map, told


def looked_at(here: World, resource: str) -> set[str]:
    """Return the selectors with which a resource was listed or watched."""
    return {name for verb, what, name in here.way.requests if verb in ("list", "watch") and what == resource}


def secrets(count: int) -> list[JSONObject]:
    found = [secret("Opaque", a="1") for _ in range(count)]
    for number, each in enumerate(found):
        each["metadata"] = {"name": f"s{number}", "namespace": "default"}
    return found


def test_an_object_is_watched_by_its_name() -> None:
    async def story(here: World) -> None:
        await here.work(secret("Opaque", a="1"), config_map("one"))
        assert looked_at(here, "secrets") == {"metadata.name=s"}
        assert looked_at(here, "configmaps") == {"metadata.name=one"}
        await here.member.delete(SECRET, "s")
        await here.settle(1)
        assert await here.member.has(SECRET, "s")

    told(story)


def test_many_objects_of_a_kind_share_a_watch_but_never_secrets() -> None:
    async def story(here: World) -> None:
        await here.work(*(config_map(f"c{number}") for number in range(30)), *secrets(15))
        assert len(here.running[0].context.object_watches) == 16
        assert "" in looked_at(here, "configmaps")
        assert looked_at(here, "secrets") == {f"metadata.name=s{number}" for number in range(15)}
        await here.member.delete(CONFIG_MAP, "c7")
        await here.settle(1)
        assert await here.member.has(CONFIG_MAP, "c7")

    told(story)


def test_watches_are_shared_sooner_where_there_would_be_too_many() -> None:
    async def story(here: World) -> None:
        await here.work(*(config_map(f"c{number}") for number in range(4)), *secrets(2))
        assert len(here.running[0].context.object_watches) == 3
        assert looked_at(here, "secrets") == {"metadata.name=s0", "metadata.name=s1"}

    told(story, settings=Settings(max_watches=3))


def test_a_watch_that_ends_makes_room_for_another() -> None:
    async def story(here: World) -> None:
        await here.work(*secrets(2), name="w1")
        await here.work(secret("Opaque", a="1"), name="w2")
        assert looked_at(here, "secrets") == {"metadata.name=s0", "metadata.name=s1"}
        await here.work(*secrets(1), name="w1")
        await here.settle()
        assert looked_at(here, "secrets") == {"metadata.name=s0", "metadata.name=s1", "metadata.name=s"}
        assert len(here.running[0].context.object_watches) == 2

    told(story, settings=Settings(max_watches=2))


def test_an_object_that_may_not_be_watched_is_asked_for_from_time_to_time() -> None:
    async def story(here: World) -> None:
        here.way.refuse("list", "configmaps", errors.forbidden("configmaps", "", "", "no right to list them"))
        await here.work(config_map("one"))
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "x"}})
        await here.settle(20)
        assert (await here.member.get(CONFIG_MAP, "one"))["data"] == {"a": "b"}

    told(story)


def test_nothing_is_remembered_of_works_that_are_gone() -> None:
    def remembered() -> int:
        gc.collect()
        return sum(isinstance(each, LastApplied) for each in gc.get_objects())

    async def story(here: World) -> None:
        await here.work(config_map("kept"), name="kept")
        before = remembered()
        for number in range(5):
            await here.work(config_map("one"), config_map("two"), name=f"w{number}")
            await here.work(config_map("one"), name=f"w{number}")
            await here.hub.delete(MANIFEST_WORK, f"w{number}", CLUSTER)
            await here.settle()
        assert remembered() == before

    told(story)
