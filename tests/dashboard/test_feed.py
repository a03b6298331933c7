"""What a feed tells pages, in virtual time: what changed and no more, everything to who does not keep up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar, Unpack

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.dashboard.feed import SHORTEST_SECONDS, Feed
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.client import ListOptions, MergePatch, Page
from echelon.kube.errors import Unavailable
from tests.controllers.hub import CRDS

T = TypeVar("T")


class Away(InProcessClient):
    """A hub that can be away."""

    away = False
    asked = 0

    async def list(self, kind: Kind[T], namespace: str = "", **options: Unpack[ListOptions]) -> Page[T]:
        type(self).asked += 1
        if self.away:
            raise Unavailable("the hub is away")
        return await super().list(kind, namespace, **options)


@asynccontextmanager
async def following(*, away: bool = False) -> AsyncIterator[tuple[Away, Feed]]:
    cluster = memory_cluster()
    await bootstrap(cluster)
    client = Away(cluster, ROOT)
    for definition in CRDS:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
    for number in range(5):
        await client.create(MANAGED_CLUSTER, _cluster(f"c{number}"))
    client.away = away
    feed = Feed(client, random=Random(0))  # noqa: S311 - repeatable on purpose
    task = asyncio.create_task(feed.run())
    try:
        yield client, feed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _cluster(name: str) -> dict[str, Any]:
    return {**MANAGED_CLUSTER.type_meta, "metadata": {"name": name}, "spec": {"hubAcceptsClient": True}}


async def _move(client: Away, name: str, region: str) -> None:
    await client.patch(MANAGED_CLUSTER, name, MergePatch({"metadata": {"labels": {"region": region}}}))


def _read(message: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message.removeprefix(b"data: "))
    return found


def test_a_page_gets_everything_and_then_what_changed_and_that_once_for_many_changes() -> None:
    async def story() -> None:
        async with following() as (client, feed):
            await asyncio.sleep(10)
            async with feed.page() as queue:
                first = _read(queue.get_nowait())
                assert first["full"]
                assert first["ready"]
                assert len(first["clusters"]["set"]) == 5
                for number in range(50):
                    await _move(client, "c1", f"r{number}")
                await _move(client, "c2", "r")
                await asyncio.sleep(2 * SHORTEST_SECONDS)
                told = [_read(queue.get_nowait()) for _ in range(queue.qsize())]
                assert len(told) <= 2
                assert {key for each in told for key in each["clusters"]["set"]} == {"c1", "c2"}
                assert told[-1]["clusters"]["set"]["c2"][3] == "r"
                await asyncio.sleep(60)
                assert queue.empty(), "a fleet at rest has something to say"

    run(story())


def test_a_page_that_does_not_keep_up_gets_everything_anew() -> None:
    async def story() -> None:
        async with following() as (client, feed):
            await asyncio.sleep(10)
            async with feed.page() as queue:
                for number in range(20):
                    await _move(client, "c1", f"r{number}")
                    await asyncio.sleep(2)
                messages = [_read(queue.get_nowait()) for _ in range(queue.qsize())]
                assert messages[0]["full"]
                assert messages[-1]["clusters"]["set"]["c1"][3] == "r19"
                await client.delete(MANAGED_CLUSTER, "c1")
                await asyncio.sleep(5)
                assert "c1" in _read(queue.get_nowait())["clusters"]["gone"]

    run(story())


def test_a_hub_that_is_away_is_asked_again_and_not_at_once_and_pages_hear_of_both() -> None:
    async def story() -> None:
        async with following(away=True) as (client, feed), feed.page() as queue:
            await asyncio.sleep(20)
            told = [_read(queue.get_nowait()) for _ in range(queue.qsize())]
            assert not any(each["ready"] for each in told)
            assert any("the hub is away" in each["unseen"].values() for each in told if each.get("unseen"))
            assert Away.asked < 500
            client.away = False
            await asyncio.sleep(20)
            told = [_read(queue.get_nowait()) for _ in range(queue.qsize())]
            assert told[-1]["ready"]
            assert sum(len(each.get("clusters", {}).get("set", {})) for each in told) >= 5

    run(story())
