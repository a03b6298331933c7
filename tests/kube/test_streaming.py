import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.scripted_server import Answer, Request, Script, scripted

from echelon.api.apps import DEPLOYMENT
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.kube import errors
from echelon.kube.client import Event, EventType
from echelon.kube.config import ClusterConfig
from echelon.kube.http import HttpClient
from echelon.kube.streaming import LONGEST_LINE, EventDecoder, LineSplitter


def line(type_: str, **obj: Any) -> bytes:
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


def added(name: str, version: str = "1", **data: str) -> bytes:
    return line("ADDED", metadata={"name": name, "resourceVersion": version}, data=data)


def watched(script: Script, **options: Any) -> list[Event[Any]]:
    async def story() -> list[Event[Any]]:
        async with scripted(script) as server, HttpClient(ClusterConfig(server.url)) as client:
            return [event async for event in client.watch(CONFIG_MAP, "blue", **options)]

    return asyncio.run(asyncio.wait_for(story(), 30))


def object_of(event: Event[Any]) -> Any:
    return event.object


def streaming(*chunks: bytes, end: bool = True) -> Callable[[Request, Answer], Awaitable[None]]:
    async def script(_: Request, answer: Answer) -> None:
        await answer.stream(*chunks, end=end)
        if not end:
            answer.writer.close()

    return script


@given(
    st.lists(st.binary(min_size=1, max_size=20).filter(lambda text: b"\n" not in text), max_size=8), st.integers(1, 12)
)
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], size: int) -> None:
    whole = b"".join(item + b"\n" for item in lines) + b"rest"
    splitter = LineSplitter()
    found = [item for start in range(0, len(whole), size) for item in splitter.feed(whole[start : start + size])]
    assert found == lines
    assert splitter.rest() == b"rest"


def test_events_are_typed_and_have_their_versions() -> None:
    events = watched(
        streaming(added("a", "7", k="v") + line("DELETED", metadata={"name": "a", "resourceVersion": "9"}))
    )
    assert [(event.type, event.resource_version) for event in events] == [
        (EventType.ADDED, "7"),
        (EventType.DELETED, "9"),
    ]
    assert object_of(events[0]).data == {"k": "v"}


def test_fields_may_come_in_any_order() -> None:
    obj = {"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"x": "1"}}
    event = EventDecoder(CONFIG_MAP)(msgspec.json.encode({"object": obj, "type": "MODIFIED"}))
    assert (event.type, event.resource_version, object_of(event).data) == (EventType.MODIFIED, "7", {"x": "1"})


def test_a_type_without_metadata_has_the_version_all_the_same() -> None:
    class Bare(msgspec.Struct):
        data: dict[str, str] = {}

    bare = Kind("", "v1", "ConfigMap", "configmaps", Bare)
    assert EventDecoder(bare)(added("a", "7")).resource_version == "7"
    assert EventDecoder(CONFIG_MAP.untyped())(added("a", "8")).resource_version == "8"


def test_an_event_cut_anywhere_by_the_network_is_one_event() -> None:
    whole = added("a", "1") + added("b", "2")
    events = watched(streaming(*(whole[start : start + 7] for start in range(0, len(whole), 7))))
    assert [object_of(event).metadata.name for event in events] == ["a", "b"]


def test_bookmarks_have_a_version_and_tell_the_end_of_the_initial_events() -> None:
    plain = line("BOOKMARK", metadata={"resourceVersion": "5"})
    end = line("BOOKMARK", metadata={"resourceVersion": "6", "annotations": {"k8s.io/initial-events-end": "true"}})
    events = watched(streaming(plain + end), initial_events=True)
    assert events == [Event(EventType.BOOKMARK, "5"), Event(EventType.BOOKMARK, "6", synced=True)]
    without = watched(streaming(plain + end), initial_events=True, bookmarks=False)
    assert without == [Event(EventType.BOOKMARK, "6", synced=True)]


def test_initial_events_are_asked_for_with_the_bookmark_that_ends_them() -> None:
    queries = []

    async def script(request: Request, answer: Answer) -> None:
        queries.append(request.query)
        await answer.stream()

    watched(script, initial_events=True, bookmarks=False)
    watched(script, bookmarks=False, resource_version="5", timeout_seconds=9, labels="a in (b,c)")
    assert queries == [
        {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        },
        {"watch": "true", "resourceVersion": "5", "timeoutSeconds": "9", "labelSelector": "a in (b,c)"},
    ]


def test_bookmarks_of_kinds_with_required_fields_are_fine() -> None:
    assert EventDecoder(DEPLOYMENT)(line("BOOKMARK", metadata={"resourceVersion": "5"})).resource_version == "5"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}, errors.Gone),
        ({"kind": "Status", "code": 410, "reason": "Gone", "message": "too old"}, errors.Gone),
        ({"kind": "Status", "code": 504, "reason": "Timeout", "message": "slow"}, errors.ServerTimeout),
        ({"kind": "Status", "code": 500, "message": "boom"}, errors.ApiError),
    ],
)
def test_an_error_in_the_stream_is_raised_after_the_events_before_it(
    status: dict[str, Any], expected: type[errors.ApiError]
) -> None:
    seen = []

    async def story() -> None:
        script = streaming(added("a") + line("ERROR", **status) + added("b"))
        async with scripted(script) as server, HttpClient(ClusterConfig(server.url)) as client:
            async for event in client.watch(CONFIG_MAP):
                seen.append(event)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(expected) as caught:
        asyncio.run(story())
    assert type(caught.value) is expected
    assert len(seen) == 1


def test_a_clean_end_ends_the_iteration() -> None:
    assert watched(streaming()) == []


@pytest.mark.parametrize("tail", [b"", b'{"type":"ADD'])
def test_a_broken_connection_is_no_clean_end(tail: bytes) -> None:
    with pytest.raises(errors.Unavailable):
        watched(streaming(added("a") + tail, end=False))


def test_a_stream_that_ends_within_an_event_is_no_clean_end() -> None:
    with pytest.raises(errors.Unavailable, match="in the middle of an event"):
        watched(streaming(added("a") + b'{"type":"ADD'))


def test_a_reset_is_unavailability() -> None:
    async def script(_: Request, answer: Answer) -> None:
        await answer.stream(added("a"), end=False)
        answer.reset()

    with pytest.raises(errors.Unavailable):
        watched(script)


def test_an_event_of_several_megabytes_passes_and_one_beyond_the_limit_is_an_error() -> None:
    large = "x" * (LONGEST_LINE - 1000)
    (event,) = watched(streaming(added("a", k=large)))
    assert object_of(event).data["k"] == large
    with pytest.raises(errors.Unreadable, match="longer than"):
        watched(streaming(added("a", k=large + "x" * 2000)))


@pytest.mark.parametrize("content", [b"not json\n", b"{}\n", line("ADDED", metadata=3), line("NEWS", a=1)])
def test_what_cannot_be_read_is_a_typed_error(content: bytes) -> None:
    with pytest.raises(errors.Unreadable, match="configmaps"):
        watched(streaming(content))


def test_closing_the_iterator_gives_the_connection_up() -> None:
    async def story() -> None:
        async with scripted(_silent) as server, HttpClient(ClusterConfig(server.url)) as client:
            events = client.watch(CONFIG_MAP)
            await anext(events)
            await events.aclose()
            await asyncio.wait_for(server.ended.wait(), 10)

    asyncio.run(story())


async def _silent(_: Request, answer: Answer) -> None:
    await answer.stream(added("a"), end=False)


def test_a_watch_that_waits_can_be_cancelled_at_once() -> None:
    async def story() -> None:
        async with scripted(_silent) as server, HttpClient(ClusterConfig(server.url)) as client:
            events = client.watch(CONFIG_MAP)
            await anext(events)
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(server.ended.wait(), 10)

    asyncio.run(asyncio.wait_for(story(), 30))


def test_other_tasks_run_while_a_flood_of_events_is_read() -> None:
    async def story() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        flood = added("a", k="x" * 1000) * 4000
        async with scripted(streaming(flood)) as server, HttpClient(ClusterConfig(server.url)) as client:
            task = asyncio.create_task(count())
            events = client.watch(CONFIG_MAP)
            await anext(events)
            for _ in range(100):  # until as much has arrived as is held
                await asyncio.sleep(0)
            before, longest = turns, 0
            async for _ in events:
                longest = longest + 1 if turns == before else 0
                before = turns
                assert longest < 300, "events in a row without a turn for others"
            task.cancel()
        return turns

    assert asyncio.run(asyncio.wait_for(story(), 30)) > 1
