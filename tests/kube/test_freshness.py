"""Whether caches have come as far as something else that is known."""

from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from echelon.api.core import CONFIG_MAP, ConfigMap
from echelon.api.keys import Key
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import MergePatch, Reader
from echelon.kube.freshness import Freshness, OwnWrites, shows
from echelon.kube.informer import OLDER_LISTS_REFUSED, Informer, OlderList

A = Key("default", "a")


@dataclass
class Cache:
    """A cache that has come so far."""

    reached: str = ""
    went_back: int = 0


def body(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


async def server() -> InProcessClient:
    cluster = memory_cluster(seed=1)
    await bootstrap(cluster)
    return InProcessClient(cluster, ROOT)


def cache_of(reader: Reader) -> Informer[ConfigMap]:
    return Informer(reader, CONFIG_MAP, random=Random(1))  # noqa: S311 - repeatable on purpose


def test_caches_are_behind_a_version_until_all_of_them_have_reached_it() -> None:
    one, other = Cache("10"), Cache("8")
    freshness = Freshness([one, other])
    assert freshness.is_behind("9")
    other.reached = "9"
    assert not freshness.is_behind("9")


def test_a_cache_that_has_nothing_yet_is_behind_everything() -> None:
    assert Freshness([Cache("10"), Cache("")]).is_behind("1")


def test_nobody_waits_for_versions_that_are_no_numbers() -> None:
    assert not Freshness([Cache("10")]).is_behind("abc")


def test_what_this_process_wrote_it_wrote_with_these_caches() -> None:
    freshness = Freshness([Cache("10")])
    assert freshness.is_behind("12", "x")
    freshness.wrote("x", freshness.era)
    assert not freshness.is_behind("12", "x")
    assert freshness.is_behind("12", "y")
    assert freshness.is_behind("12")
    freshness.forget("x")
    assert freshness.is_behind("12", "x")


def test_a_cache_that_goes_back_knows_less_than_what_was_written_before() -> None:
    cache = Cache("10")
    freshness = Freshness([Cache("20"), cache])
    freshness.wrote("x", freshness.era)
    cache.reached, cache.went_back = "5", 1
    assert freshness.is_behind("12", "x")
    freshness.wrote("x", freshness.era)
    assert not freshness.is_behind("12", "x")


def test_a_write_that_was_decided_on_before_a_cache_went_back_does_not_count_as_known() -> None:
    cache = Cache("10")
    freshness = Freshness([cache])
    decided = freshness.era
    cache.reached, cache.went_back = "5", 1
    freshness.wrote("x", decided)
    assert freshness.is_behind("12", "x")


def test_asking_changes_nothing() -> None:
    cache = Cache("10")
    freshness = Freshness([cache])
    freshness.wrote("x", freshness.era)
    cache.went_back = 1
    assert [freshness.is_behind("12", "x") for _ in range(3)] == [True, True, True]
    assert [freshness.is_behind("9", "x") for _ in range(3)] == [False, False, False]


def test_an_informer_tells_how_far_it_has_come_and_that_it_went_back() -> None:
    async def story() -> None:
        client = await server()
        informer = cache_of(client)
        freshness = Freshness([informer])
        written = (await client.create(CONFIG_MAP, body(), "default")).metadata
        assert freshness.is_behind(written.resource_version)
        await informer._list()  # one step of what it does for ever
        assert not freshness.is_behind(written.resource_version)
        freshness.wrote(written.uid, freshness.era)
        for _ in range(OLDER_LISTS_REFUSED):
            try:
                informer._refuse_older("1")  # a server that was restored
            except OlderList:
                assert not freshness.is_behind(written.resource_version, written.uid)
        informer._refuse_older("1")  # and is believed in the end
        assert freshness.is_behind(written.resource_version, written.uid)

    run(story())


def test_an_object_is_as_we_wrote_it_until_the_cache_shows_it_or_what_came_later() -> None:
    async def story() -> None:
        client = await server()
        informer = cache_of(client)
        own = OwnWrites(informer)
        await client.create(CONFIG_MAP, body(by="others"), "default")
        await informer._list()  # one step of what it does for ever
        own.wrote(await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"by": "us"}}), "default"))
        assert data_of(own.get(A)) == {"by": "us"}
        assert data_of(informer.get(A)) == {"by": "others"}
        await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"by": "others again"}}), "default")
        await informer._list()
        assert data_of(own.get(A)) == {"by": "others again"}
        own.wrote(await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"by": "us"}}), "default"))
        await client.delete(CONFIG_MAP, "a", "default")
        await informer._list()
        assert own.get(A) is None

    run(story())


def test_what_we_wrote_and_what_was_before_it_is_no_news_and_everything_else_is() -> None:
    async def story() -> None:
        client = await server()
        informer = cache_of(client)
        own = OwnWrites(informer)
        first = await client.create(CONFIG_MAP, body(by="us"), "default")
        assert not own.knows(first)
        own.wrote(first)
        second = await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"by": "us again"}}), "default")
        assert (own.knows(first), own.knows(second)) == (True, False)
        own.wrote(second)
        third = await client.patch(CONFIG_MAP, "a", MergePatch({"data": {"by": "others"}}), "default")
        assert (own.knows(first), own.knows(second), own.knows(third)) == (True, True, False)
        informer.went_back += 1  # the server was restored, and may show old states as new ones
        assert not own.knows(second)
        own.wrote(third)
        await client.delete(CONFIG_MAP, "a", "default")
        another = await client.create(CONFIG_MAP, body(), "default")
        assert (own.knows(third), own.knows(another)) == (True, False)
        odd = msgspec.structs.replace(
            third, metadata=msgspec.structs.replace(third.metadata, resource_version="not-a-number")
        )
        assert not own.knows(odd)

    run(story())


def test_a_forgotten_write_is_no_longer_shown() -> None:
    async def story() -> None:
        client = await server()
        own = OwnWrites(cache_of(client))
        own.wrote(await client.create(CONFIG_MAP, body(), "default"))
        assert own.get(A) is not None
        own.forget(A)
        assert own.get(A) is None

    run(story())


def test_a_deletion_is_shown_by_absence_by_another_object_of_that_name_and_by_one_that_is_ending() -> None:
    async def story() -> None:
        client = await server()
        informer = cache_of(client)
        first = (await client.create(CONFIG_MAP, body(), "default")).metadata
        await informer._list()  # one step of what it does for ever
        assert not shows(informer, A, version=None, uid=first.uid)
        assert not shows(informer, A, version=None)
        assert shows(informer, A, version=None, uid="another")
        await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": ["example.com/wait"]}}), "default")
        await client.delete(CONFIG_MAP, "a", "default")
        await informer._list()
        assert informer.get(A) is not None
        assert shows(informer, A, version=None, uid=first.uid)
        await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"finalizers": None}}), "default")
        await informer._list()
        assert shows(informer, A, version=None, uid=first.uid)

    run(story())


def data_of(found: ConfigMap | None) -> dict[str, str]:
    assert found is not None
    return found.data
