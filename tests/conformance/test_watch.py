"""Watches: every change once, in order, and a place to go on from."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from echelon.api import placement
from echelon.kube.client import Client, Event, EventType, MergePatch
from echelon.kube.errors import Gone
from tests.conformance.asking import (
    CONFIG_MAP,
    PLACEMENT,
    Document,
    config_map,
    placement_of,
    refusal,
    steps,
    take,
    until,
    version,
)
from tests.conformance.targets import Target


async def story(client: Client, namespace: str) -> str:
    """Change a few objects; return the version before all of it."""
    start = (await client.list(PLACEMENT, namespace)).resource_version
    await client.create(PLACEMENT, placement_of("a"), namespace)
    await client.create(PLACEMENT, placement_of("b"), namespace)
    await client.patch(PLACEMENT, "a", MergePatch({"spec": {"numberOfClusters": 1}}), namespace)
    await client.delete(PLACEMENT, "b", namespace)
    return start


STORY = [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_changes_come_once_and_in_order(client: Client, namespace: str) -> None:
    start = await story(client, namespace)
    seen = await take(client.watch(PLACEMENT, namespace, resource_version=start), 4)
    assert steps(seen) == STORY
    versions = [int(event.resource_version) for event in seen]
    assert versions == sorted(set(versions))
    assert all(event.object and version(event.object) == event.resource_version for event in seen)


async def test_changes_come_while_they_happen(client: Client, namespace: str) -> None:
    start = (await client.list(PLACEMENT, namespace)).resource_version
    following = asyncio.create_task(take(client.watch(PLACEMENT, namespace, resource_version=start), 4))
    await story(client, namespace)
    assert steps(await following) == STORY


async def test_a_watch_goes_on_after_any_event(client: Client, namespace: str) -> None:
    start = await story(client, namespace)
    seen = await take(client.watch(PLACEMENT, namespace, resource_version=start), 4)
    for number in range(1, 4):
        after = seen[number - 1].resource_version
        rest = await take(client.watch(PLACEMENT, namespace, resource_version=after), 4 - number)
        assert rest == seen[number:]


async def test_a_watch_without_a_version_begins_with_what_is_there(client: Client, namespace: str) -> None:
    await story(client, namespace)
    (only,) = await take(client.watch(PLACEMENT, namespace), 1)
    assert (only.type, only.object) == (EventType.ADDED, await client.get(PLACEMENT, "a", namespace))


async def test_initial_events_end_with_a_bookmark(client: Client, namespace: str) -> None:
    await story(client, namespace)
    await client.create(PLACEMENT, placement_of("c"), namespace)

    def is_synced(seen: list[Event[Document]]) -> bool:
        return bool(seen) and seen[-1].synced

    for bookmarks in (True, False):
        watch = client.watch(PLACEMENT, namespace, initial_events=True, bookmarks=bookmarks)
        seen = await until(watch, is_synced)
        assert sorted(steps(seen[:-1])) == [("ADDED", "a"), ("ADDED", "c")]
        assert seen[-1].type is EventType.BOOKMARK
        newest = version(await client.get(PLACEMENT, "c", namespace))
        assert int(seen[-1].resource_version) >= int(newest)
        patch = MergePatch({"spec": {"numberOfClusters": 5 + bookmarks}})
        await client.patch(PLACEMENT, "a", patch, namespace)
        resumed = client.watch(PLACEMENT, namespace, resource_version=seen[-1].resource_version)
        assert steps(await take(resumed, 1)) == [("MODIFIED", "a")]


async def test_the_last_state_of_a_deleted_object_is_told(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map("a", {"x": "1"}), namespace)
    await client.delete(CONFIG_MAP, "a", namespace)
    (event,) = await take(client.watch(CONFIG_MAP, namespace, resource_version=version(created)), 1)
    assert event.type is EventType.DELETED
    assert event.object is not None
    assert event.object["data"] == {"x": "1"}
    assert int(event.resource_version) > int(version(created))


async def test_a_selector_shows_objects_that_come_and_go(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    await client.create(CONFIG_MAP, config_map("a", {"x": "1"}, labels={"seen": "no"}), namespace)
    for value in ("yes", "still", "no", "yes"):
        selected = "yes" if value == "still" else value
        patch = MergePatch({"metadata": {"labels": {"seen": selected}}, "data": {"x": value}})
        await client.patch(CONFIG_MAP, "a", patch, namespace)
    await client.delete(CONFIG_MAP, "a", namespace)
    seen = await take(client.watch(CONFIG_MAP, namespace, labels="seen=yes", resource_version=start), 5)
    assert [event.type.value for event in seen] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    left = seen[2].object
    assert left is not None
    assert (left["metadata"]["labels"], left["data"]) == ({"seen": "yes"}, {"x": "still"})
    assert version(left) == seen[2].resource_version
    assert seen[1].resource_version < seen[2].resource_version


async def test_a_field_selector_follows_one_object(client: Client, namespace: str) -> None:
    start = await story(client, namespace)
    seen = await take(client.watch(PLACEMENT, namespace, fields="metadata.name=b", resource_version=start), 2)
    assert steps(seen) == [("ADDED", "b"), ("DELETED", "b")]


async def test_a_watch_of_all_namespaces_sees_each(client: Client, new_namespace: Callable[[], Awaitable[str]]) -> None:
    here, there = await new_namespace(), await new_namespace()
    start = await story(client, here)
    await client.create(PLACEMENT, placement_of("mine"), there)
    mine = [*STORY, ("ADDED", "mine")]
    watch = client.watch(PLACEMENT, resource_version=start, fields="metadata.namespace!=kube-system")
    seen = await until(watch, lambda events: ("ADDED", "mine") in steps(events))
    ours = [e for e in seen if e.object and e.object["metadata"]["namespace"] in (here, there)]
    assert steps(ours) == mine
    assert steps(await take(client.watch(PLACEMENT, there, resource_version=start), 1)) == [("ADDED", "mine")]


async def test_status_changes_are_seen(client: Client, namespace: str) -> None:
    created = await client.create(PLACEMENT, placement_of("a"), namespace)
    patch = MergePatch({"status": {"numberOfSelectedClusters": 2}})
    await client.patch(PLACEMENT, "a", patch, namespace, subresource="status")
    watch = client.watch(placement.PLACEMENT, namespace, resource_version=version(created))
    (event,) = await take(watch, 1)
    assert event.object is not None
    assert event.object.status.number_of_selected_clusters == 2


async def test_a_watch_ends_when_its_time_is_over(client: Client, namespace: str) -> None:
    start = await story(client, namespace)
    async with asyncio.timeout(30):
        watch = client.watch(PLACEMENT, namespace, resource_version=start, timeout_seconds=1)
        seen = [event async for event in watch if event.object]
    assert steps(seen) == STORY


@pytest.mark.full
@pytest.mark.long
async def test_a_bookmark_is_a_place_to_go_on_from(client: Client, new_namespace: Callable[[], Awaitable[str]]) -> None:
    here, there = await new_namespace(), await new_namespace()
    start = (await client.list(CONFIG_MAP, here)).resource_version
    elsewhere = await client.create(CONFIG_MAP, config_map("other"), there)
    bookmarks: list[Event[Document]] = []
    async with asyncio.timeout(180):
        while not bookmarks:  # a server tries to send one before a watch ends, and does not promise it
            watch = client.watch(CONFIG_MAP, here, resource_version=start, timeout_seconds=10)
            bookmarks = [event async for event in watch if event.type is EventType.BOOKMARK]
    # What happened in other namespaces is behind it.
    assert int(bookmarks[-1].resource_version) >= int(version(elsewhere))
    await client.create(CONFIG_MAP, config_map("a"), here)
    resumed = client.watch(CONFIG_MAP, here, resource_version=bookmarks[-1].resource_version)
    assert steps(await take(resumed, 1)) == [("ADDED", "a")]


async def test_a_version_that_is_forgotten_is_gone(target: Target, namespace: str) -> None:
    await story(target.client, namespace)
    error = await refusal(take(target.client.watch(PLACEMENT, namespace, resource_version=target.expire()), 1))
    assert isinstance(error, Gone)
    assert (error.status_code, error.status_reason) == (410, "Expired")
    assert error.message.startswith("too old resource version: ")


async def test_a_selector_that_cannot_be_read_is_refused_before_anything_is_sent(
    client: Client, namespace: str
) -> None:
    error = await refusal(take(client.watch(PLACEMENT, namespace, labels="a in"), 1))
    assert (error.status_code, error.status_reason) == (400, "BadRequest")


@pytest.mark.parametrize("count", [200])
async def test_nothing_is_lost_in_a_burst(client: Client, namespace: str, count: int) -> None:
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    following = asyncio.create_task(take(client.watch(CONFIG_MAP, namespace, resource_version=start), count))
    gate = asyncio.Semaphore(16)

    async def create(number: int) -> None:
        async with gate:
            await client.create(CONFIG_MAP, config_map(f"c{number}"), namespace)

    await asyncio.gather(*map(create, range(count)))
    seen = await following
    assert {event.object["metadata"]["name"] for event in seen if event.object} == {f"c{n}" for n in range(count)}
    versions = [int(event.resource_version) for event in seen]
    assert versions == sorted(set(versions))
