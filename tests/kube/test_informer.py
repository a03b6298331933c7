"""An informer against servers that misbehave on purpose, in virtual time, and against a real store."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from echelon.api.core import CONFIG_MAP, ConfigMap
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.fleet.loop import run
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube import informer as informing
from echelon.kube.client import Event, EventType, MergePatch, Page, Reader
from echelon.kube.errors import ApiError, Forbidden, Gone, ServerTimeout, TooManyRequests, Unavailable
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - repeatable on purpose


def config(
    name: str, version: int, *, uid: str = "", namespace: str = "default", data: str = "", labels: str = ""
) -> ConfigMap:
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        resource_version=str(version),
        labels={"app": labels} if labels else {},
    )
    return ConfigMap(metadata=metadata, data={"data": data} if data else {})


def added(obj: ConfigMap) -> Event[ConfigMap]:
    return Event(EventType.ADDED, obj.metadata.resource_version, obj)


def modified(obj: ConfigMap) -> Event[ConfigMap]:
    return Event(EventType.MODIFIED, obj.metadata.resource_version, obj)


def deleted(obj: ConfigMap) -> Event[ConfigMap]:
    return Event(EventType.DELETED, obj.metadata.resource_version, obj)


def bookmark(version: int) -> Event[ConfigMap]:
    return Event(EventType.BOOKMARK, str(version))


class Silence:
    """A step of a script: the stream stays open and nothing comes."""


Step = Event[ConfigMap] | Exception | float | type[Silence]
Answer = Page[ConfigMap] | Exception


@dataclass
class Server:
    """Answers lists and watches from a script; the last line of each is repeated for ever."""

    lists: list[Answer] = field(default_factory=lambda: [Page[ConfigMap]([], "1")])
    watches: list[list[Step]] = field(default_factory=lambda: [[Silence]])
    asked: list[tuple[float, str, Any]] = field(default_factory=list)

    def times(self, verb: str) -> list[float]:
        return [when for when, asked, _ in self.asked if asked == verb]

    def arguments(self, verb: str) -> list[Any]:
        return [argument for _, asked, argument in self.asked if asked == verb]

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        raise AssertionError(f"an informer asked for one object: {kind.plural} {namespace}/{name}")

    async def list(self, *_: Any, limit: int = 0, continue_: str = "", **__: Any) -> Page[Any]:
        number = len(self.times("list"))
        self.asked.append((asyncio.get_running_loop().time(), "list", (limit, continue_)))
        answer = self.lists[min(number, len(self.lists) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(self, *_: Any, resource_version: str = "", **__: Any) -> AsyncIterator[Event[Any]]:
        number = len(self.times("watch"))
        self.asked.append((asyncio.get_running_loop().time(), "watch", resource_version))
        for step in self.watches[min(number, len(self.watches) - 1)]:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, Event):
                yield step
            elif isinstance(step, float):
                await asyncio.sleep(step)
            else:
                await asyncio.Event().wait()


@dataclass
class Seen:
    """A handler that remembers."""

    deltas: list[Delta[ConfigMap]] = field(default_factory=list)

    def __call__(self, delta: Delta[ConfigMap]) -> None:
        self.deltas.append(delta)

    def told(self) -> list[str]:
        """Return what happened, as `+a`, `~a` and `-a`."""
        signs = {(True, False): "+", (False, False): "~", (False, True): "-"}
        return [signs[d.old is None, d.new is None] + d.object.metadata.name for d in self.deltas]


@asynccontextmanager
async def running(reader: Reader, **options: Any) -> AsyncIterator[Informer[ConfigMap]]:
    informer = Informer(reader, CONFIG_MAP, random=seeded(1), **options)
    task = asyncio.create_task(informer.run())
    try:
        yield informer
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def scripted(server: Server, seconds: float, **options: Any) -> tuple[Informer[ConfigMap], Seen]:
    """Run an informer for a while against a script."""

    async def story() -> tuple[Informer[ConfigMap], Seen]:
        seen = Seen()
        async with running(server, **options) as informer:
            informer.on_change(seen)
            await asyncio.sleep(seconds)
            return informer, seen

    return run(story())


STORMS: dict[str, Server] = {
    "the watch answers 500": Server(watches=[[ApiError("boom")]]),
    "the watch says 410": Server(watches=[[Gone("too old resource version: 1 (2)")]]),
    "the watch says 410 after an event": Server(watches=[[bookmark(1), Gone("too old")]]),
    "the stream is closed at once": Server(watches=[[]]),
    "the stream is closed after an event": Server(watches=[[bookmark(1)]]),
    "the watch may not be": Server(watches=[[Forbidden("no")]]),
    "the connection is refused": Server(watches=[[ConnectionRefusedError()]]),
    "the stream is unreadable": Server(watches=[[ValueError("not JSON")]]),
    "the list answers 500": Server(lists=[ApiError("boom")]),
    "the list is unreadable": Server(lists=[ValueError("not JSON")]),
    "the list says 410": Server(lists=[Gone("too old")]),
}


@pytest.mark.parametrize("name", STORMS)
def test_a_broken_server_is_asked_a_few_times_in_three_seconds(name: str) -> None:
    server = Server(STORMS[name].lists, STORMS[name].watches)
    scripted(server, 3.0)
    assert 2 <= len(server.asked) <= 8


@pytest.mark.parametrize("name", STORMS)
def test_pauses_grow_while_a_server_stays_broken_and_stay_jittered(name: str) -> None:
    server = Server(STORMS[name].lists, STORMS[name].watches)
    scripted(server, 1200.0)
    times = sorted(set(server.times("watch") or server.times("list")))
    pauses = [after - before for before, after in pairwise(times)]
    assert len(times) < 70
    assert 0.4 <= pauses[0] <= 1.2
    assert all(15.0 <= pause <= 45.0 for pause in pauses[-10:])
    assert len({round(pause, 3) for pause in pauses[-10:]}) == 10


def test_a_stream_that_lived_makes_the_next_pause_short() -> None:
    failing: list[list[Step]] = [[ApiError("boom")]] * 8
    server = Server(watches=[*failing, [60.0]])
    scripted(server, 2400.0)
    times = server.times("watch")
    later = [after - before for before, after in pairwise(times[8:])]
    assert times[8] - times[7] > 10
    assert all(60.4 <= gap <= 61.2 for gap in later)


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_server_that_asks_for_patience_gets_it(verb: str) -> None:
    wait = TooManyRequests("slow down", details={"retryAfterSeconds": 50})
    server = Server(lists=[wait]) if verb == "list" else Server(watches=[[wait]])
    scripted(server, 500.0)
    times = server.times(verb)
    assert len(times) > 2
    assert all(after - before >= 50 for before, after in pairwise(times))


def test_a_silent_stream_is_given_up_and_resumed_where_it_was() -> None:
    server = Server(watches=[[added(config("a", 7)), bookmark(9), Silence], [added(config("b", 12)), Silence]])
    informer, _ = scripted(server, 700.0)
    assert server.arguments("watch")[:2] == ["1", "9"]
    assert 300 < server.times("watch")[1] < 640
    assert [obj.metadata.name for obj in informer.values()] == ["a", "b"]
    assert len(server.times("list")) == 1


def test_a_list_that_never_answers_is_given_up() -> None:
    class Deaf(Server):
        async def list(self, *place: Any, **options: Any) -> Page[Any]:
            page = await super().list(*place, **options)
            if len(self.asked) == 1:
                await asyncio.Event().wait()
            return page

    informer, _ = scripted(Deaf(), 70.0)
    assert informer.synced


def test_streams_live_between_five_and_ten_minutes_and_ask_for_bookmarks() -> None:
    asked: list[tuple[int, bool]] = []

    class Asked(Server):
        def watch(self, *args: Any, **options: Any) -> AsyncIterator[Event[Any]]:
            asked.append((options["timeout_seconds"], options["bookmarks"]))
            return super().watch(*args, **options)

    scripted(Asked(watches=[[]]), 2000.0)
    assert all(300 <= seconds <= 600 and bookmarks for seconds, bookmarks in asked)
    assert len({seconds for seconds, _ in asked}) > 5


def test_after_410_what_vanished_is_reported_with_its_last_known_state() -> None:
    first = Page([config("a", 1), config("b", 2, data="old")], "5")
    second = Page([config("a", 9, data="new")], "10")
    watches: list[list[Step]] = [[modified(config("b", 6, data="last")), Gone("too old")], [Silence]]
    informer, seen = scripted(Server([first, second], watches), 60.0)
    assert seen.told() == ["+a", "+b", "~b", "~a", "-b"]
    assert seen.deltas[-1].old == config("b", 6, data="last")
    assert [obj.metadata.name for obj in informer.values()] == ["a"]
    assert informer.seen(Key("default", "b")) == "10"


def test_an_object_that_was_replaced_meanwhile_is_reported_as_gone_and_new() -> None:
    lists: list[Answer] = [Page([config("a", 1, uid="first")], "5"), Page([config("a", 9, uid="second")], "10")]
    _, seen = scripted(Server(lists, [[Gone("too old")], [Silence]]), 60.0)
    assert seen.told() == ["+a", "-a", "+a"]


def test_a_version_that_the_server_has_not_leads_to_a_new_list() -> None:
    lists: list[Answer] = [Page([config("a", 900)], "1000"), Page([config("b", 3)], "4")]
    too_large = ServerTimeout("Timeout: Too large resource version: 1000, current: 4")
    informer, seen = scripted(Server(lists, [[too_large]]), 600.0)
    assert [obj.metadata.name for obj in informer.values()] == ["b"]
    assert seen.told() == ["+a", "+b", "-a"]


def test_a_list_that_is_older_than_the_cache_is_not_believed_at_once() -> None:
    lists: list[Answer] = [
        Page([config("a", 90)], "100"),
        Page([config("a", 5)], "50"),
        Page([config("a", 120)], "130"),
    ]
    informer, seen = scripted(Server(lists, [[Gone("too old")], [Silence]]), 600.0)
    assert [delta.object.metadata.resource_version for delta in seen.deltas] == ["90", "120"]
    assert (informer.went_back, informer.reached) == (0, "130")


def test_a_server_that_insists_on_an_older_state_is_believed_in_the_end() -> None:
    lists: list[Answer] = [Page([config("a", 90), config("b", 91)], "100"), Page([config("a", 5)], "50")]
    informer, seen = scripted(Server(lists, [[Gone("too old")], [Silence]]), 600.0)
    assert [obj.metadata.resource_version for obj in informer.values()] == ["5"]
    assert seen.told() == ["+a", "+b", "~a", "-b"]
    assert (informer.went_back, informer.reached) == (1, "50")


def test_after_a_server_was_restored_names_that_were_deleted_before_can_come_back() -> None:
    lists: list[Answer] = [Page([config("a", 90)], "100"), Page([], "50")]
    watches: list[list[Step]] = [[deleted(config("a", 105)), Gone("too old")], [added(config("a", 60)), Silence]]
    informer, seen = scripted(Server(lists, watches), 600.0)
    assert seen.told() == ["+a", "-a", "+a"]
    assert informer.seen(Key("default", "a")) == "60"


def test_lists_are_asked_for_in_pages() -> None:
    lists: list[Answer] = [Page([config("a", 1)], "5", "more"), Page([config("b", 2)], "5")]
    server = Server(lists)
    informer, seen = scripted(server, 1.0)
    assert server.arguments("list") == [(500, ""), (500, "more")]
    assert len(informer.values()) == 2
    assert [delta.initial for delta in seen.deltas] == [True, True]
    assert server.arguments("watch") == ["5"]


def test_an_expired_page_leads_to_a_list_in_one_piece() -> None:
    whole = Page([config("a", 1), config("b", 2)], "8")
    server = Server([Page([config("a", 1)], "5", "more"), Gone("continue is too old"), whole])
    informer, seen = scripted(server, 5.0)
    assert server.arguments("list") == [(500, ""), (500, "more"), (0, "")]
    assert seen.told() == ["+a", "+b"]
    assert informer.synced


def test_a_list_that_fails_half_way_deletes_nothing() -> None:
    both = Page([config("a", 1), config("b", 2)], "5")
    half: list[Answer] = [both, Page([config("a", 1)], "9", "more"), ApiError("boom"), both]
    _, seen = scripted(Server(half, [[Gone("too old")], [Silence]]), 60.0)
    assert seen.told() == ["+a", "+b"]


def test_others_get_their_turn_while_a_long_list_is_taken_in() -> None:
    async def story() -> int:
        turns = 0
        server = Server([Page([config(f"c{number}", number + 1) for number in range(5000)], "6000")])
        async with running(server) as informer:
            while not informer.synced:
                turns += 1
                await asyncio.sleep(0)
        return turns

    # Not on virtual time, which draws who is next.
    assert asyncio.run(story()) >= 5000 / informing.PAGE_SIZE


def test_others_get_their_turn_while_a_stream_pours() -> None:
    async def story() -> int:
        turns = 0
        server = Server(watches=[[*(added(config(f"c{number}", number + 2)) for number in range(5000)), Silence]])
        async with running(server) as informer:
            while len(informer) < 5000:
                turns += 1
                await asyncio.sleep(0)
        return turns

    assert asyncio.run(story()) >= 5000 / informing.PAGE_SIZE


def test_the_cache_has_changed_when_handlers_hear_of_it() -> None:
    async def story() -> list[tuple[int, bool]]:
        found: list[tuple[int, bool]] = []
        script: list[Step] = [added(config("a", 5)), modified(config("a", 6)), deleted(config("a", 7)), Silence]
        async with running(Server(watches=[script])) as informer:
            informer.on_change(
                lambda delta: found.append((len(informer), informer.get(Key("default", "a")) is delta.new))
            )
            await asyncio.sleep(1)
        return found

    assert run(story()) == [(1, True), (1, True), (0, True)]


def test_a_handler_that_fails_is_counted_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()

    async def story() -> tuple[Seen, Seen]:
        before, after = Seen(), Seen()

        def bad(_: Delta[ConfigMap]) -> None:
            raise KeyError("oops")

        async with running(
            Server(watches=[[added(config("a", 5)), added(config("b", 6)), Silence]]), metrics=metrics
        ) as i:
            for handler in (before, bad, after):
                i.on_change(handler)
            await asyncio.sleep(1)
        return before, after

    with caplog.at_level(logging.ERROR):
        before, after = run(story())
    assert before.told() == after.told() == ["+a", "+b"]
    assert metrics.registry.get_sample_value("echelon_handler_errors_total", {"kind": "configmaps"}) == 2
    assert "default/a" in caplog.text


def test_a_late_handler_hears_of_what_is_there_and_a_stopped_one_of_nothing() -> None:
    async def story() -> tuple[Seen, Seen]:
        early, late = Seen(), Seen()
        watches: list[list[Step]] = [[5.0, added(config("b", 7)), Silence]]
        async with running(Server([Page([config("a", 1)], "5")], watches)) as informer:
            stop = informer.on_change(early)
            await asyncio.sleep(2)
            informer.on_change(late)
            stop()
            await asyncio.sleep(5)
        return early, late

    early, late = run(story())
    assert early.told() == ["+a"]
    assert late.told() == ["+a", "+b"]
    assert [delta.initial for delta in late.deltas] == [True, False]


def test_synced_comes_with_the_first_complete_list() -> None:
    async def story() -> int:
        server = Server([ApiError("boom"), Page([config("a", 1)], "5")], [[Gone("too old")]])
        async with running(server) as informer:
            assert not informer.synced
            await informer.wait_synced()
            assert len(informer) == 1
            return len(server.times("list"))

    assert run(story()) == 2


def test_late_events_of_a_deleted_object_do_not_bring_it_back() -> None:
    gone = config("a", 9)
    script: list[Step] = [added(config("a", 5)), deleted(gone), modified(config("a", 7)), deleted(gone), Silence]
    informer, seen = scripted(Server(watches=[script]), 1.0)
    assert seen.told() == ["+a", "-a"]
    assert informer.seen(Key("default", "a")) == "9"


def test_a_repeated_event_does_not_bring_back_what_was_gone_before_the_list() -> None:
    watches: list[list[Step]] = [[added(config("ghost", 3)), added(config("new", 6)), Silence]]
    informer, seen = scripted(Server([Page([config("a", 1)], "5")], watches), 60.0)
    assert [obj.metadata.name for obj in informer.values()] == ["a", "new"]
    assert seen.told() == ["+a", "+new"]


def test_nor_do_repeated_events_of_the_same_name_with_a_deletion_among_them() -> None:
    """A life before the list, its end, and the next life, whose end is not told again because the stream ends first."""
    ghost = [modified(config("ghost", 2)), deleted(config("ghost", 3)), added(config("ghost", 4, uid="second"))]
    watches: list[list[Step]] = [[*ghost, Unavailable("gone")], [bookmark(9), Silence]]
    informer, seen = scripted(Server([Page([config("a", 1)], "5")], watches), 60.0)
    assert [obj.metadata.name for obj in informer.values()] == ["a"]
    assert seen.told() == ["+a"]


def test_nor_do_they_after_a_deletion_that_was_seen_before_another_list() -> None:
    first: list[Step] = [added(config("ghost", 6)), deleted(config("ghost", 7)), Gone("compacted")]
    second: list[Step] = [added(config("ghost", 8, uid="second")), Silence]
    pages: list[Answer] = [Page([config("a", 1)], "5"), Page([config("a", 1)], "10")]
    informer, _ = scripted(Server(pages, [first, second]), 60.0)
    assert [obj.metadata.name for obj in informer.values()] == ["a"]


def test_a_late_deletion_does_not_take_the_successor() -> None:
    new = config("a", 12, uid="second")
    script: list[Step] = [added(config("a", 5)), deleted(config("a", 9)), added(new), deleted(config("a", 9)), Silence]
    informer, seen = scripted(Server(watches=[script]), 1.0)
    assert informer.get(Key("default", "a")) == new
    assert seen.told() == ["+a", "-a", "+a"]


def test_a_repeated_event_is_told_once() -> None:
    script: list[Step] = [added(config("a", 5)), added(config("a", 5)), modified(config("a", 6)), Silence]
    _, seen = scripted(Server(watches=[script]), 1.0)
    assert seen.told() == ["+a", "~a"]


def test_after_a_repeated_event_the_stream_is_resumed_at_the_newest_one() -> None:
    server = Server(watches=[[added(config("a", 5)), bookmark(9), added(config("a", 5))], [Silence]])
    scripted(server, 5.0)
    assert server.arguments("watch") == ["1", "9"]


def test_versions_are_compared_as_numbers() -> None:
    script: list[Step] = [added(config("a", 99)), modified(config("a", 100, data="x")), Silence]
    informer, _ = scripted(Server(watches=[script]), 1.0)
    assert informer.seen(Key("default", "a")) == "100"
    assert informer.shows(Key("default", "a"), "100")
    assert informer.shows(Key("default", "other"), "99")
    assert not informer.shows(Key("default", "a"), "101")


# Against a real store


def in_hub(story: Callable[[LogicalCluster, InProcessClient], Awaitable[None]], seed: int = 1) -> None:
    """Run a story in a logical cluster, in virtual time."""

    async def main() -> None:
        cluster = memory_cluster(seed=seed)
        await bootstrap(cluster)
        await story(cluster, InProcessClient(cluster, ROOT))

    run(main(), seed)


def body(name: str, data: str = "", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"data": data}}


def test_through_a_selector_leaving_is_a_deletion_and_entering_an_addition() -> None:
    async def story(_: LogicalCluster, client: InProcessClient) -> None:
        await client.create(CONFIG_MAP, body("a", app="web"), "default")
        await client.create(CONFIG_MAP, body("b", app="db"), "default")
        seen = Seen()
        async with running(client, labels="app=web") as informer:
            informer.on_change(seen)
            await informer.wait_synced()
            await client.patch(CONFIG_MAP, "a", MergePatch({"metadata": {"labels": {"app": "db"}}}), "default")
            await client.patch(CONFIG_MAP, "b", MergePatch({"metadata": {"labels": {"app": "web"}}}), "default")
            await asyncio.sleep(1)
            assert [obj.metadata.name for obj in informer.values()] == ["b"]
        assert seen.told() == ["+a", "-a", "+b"]

    in_hub(story)


def test_kinds_that_are_read_as_documents_work_as_well() -> None:
    async def story(_: LogicalCluster, client: InProcessClient) -> None:
        informer = Informer(client, CONFIG_MAP.untyped(), "default", random=seeded(1))
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        created = await client.create(CONFIG_MAP, body("a"), "default")
        await asyncio.sleep(1)
        found = informer.get(Key("default", "a"))
        assert found is not None
        assert found["data"] == {"data": ""}
        assert informer.seen(Key("default", "a")) == created.metadata.resource_version
        task.cancel()

    in_hub(story)


@dataclass
class Rates:
    """How often a step of a stream, or a list, goes wrong."""

    drop: float = 0.0
    fail: float = 0.0
    gone: float = 0.0
    stall: float = 0.0
    repeat: float = 0.0
    list_fails: float = 0.0


class Unreliable:
    """A reader of a real store, over a bad connection."""

    def __init__(self, client: InProcessClient, rates: Rates, chance: Random) -> None:
        self.client = client
        self.rates = rates
        self.chance = chance
        self.requests = 0

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        return await self.client.get(kind, name, namespace)

    async def list(self, kind: Kind[Any], namespace: str = "", *, limit: int = 0, **options: Any) -> Page[Any]:
        self.requests += 1
        if self.chance.random() < self.rates.list_fails:
            raise self.chance.choice([Unavailable("down"), Gone("expired"), TooManyRequests("slow down")])
        # Small pages, so that a list has many of them.
        page: Page[Any] = await self.client.list(kind, namespace, limit=min(limit, 7), **options)
        return page

    async def watch(self, kind: Kind[Any], namespace: str = "", **options: Any) -> AsyncIterator[Event[Any]]:
        self.requests += 1
        async for event in self.client.watch(kind, namespace, **options):
            drawn, rates = self.chance.random(), self.rates
            if drawn < rates.drop:
                return
            if drawn < rates.drop + rates.fail:
                raise ConnectionResetError("cut")
            if drawn < rates.drop + rates.fail + rates.gone:
                raise Gone("too old resource version")
            if drawn < rates.drop + rates.fail + rates.gone + rates.stall:
                await asyncio.Event().wait()
            yield event
            if drawn > 1 - rates.repeat:
                yield event


class Mirror:
    """A handler that believes only what it is told, and checks that the story it is told is possible."""

    def __init__(self, informer: Informer[ConfigMap]) -> None:
        self.informer = informer
        self.objects: dict[tuple[str, str], ConfigMap] = {}
        self.born: set[str] = set()
        self.died: set[str] = set()
        self.mistakes: list[str] = []

    def __call__(self, delta: Delta[ConfigMap]) -> None:
        metadata = delta.object.metadata
        key = (metadata.namespace, metadata.name)
        if self.objects.get(key) != delta.old:
            self.mistakes.append(f"{key}: the old state is not the one that was told before")
        if self.informer.get(Key(metadata.namespace, metadata.name)) is not delta.new:
            self.mistakes.append(f"{key}: the cache does not have it yet")
        if delta.new is None:
            self.died.add(metadata.uid)
            del self.objects[key]
            return
        if delta.old is None:
            if metadata.uid in self.born:
                self.mistakes.append(f"{key}: born twice")
            self.born.add(metadata.uid)
        elif delta.old.metadata.uid != metadata.uid:
            self.mistakes.append(f"{key}: another object under the same name")
        elif int(delta.old.metadata.resource_version) >= int(metadata.resource_version):
            self.mistakes.append(f"{key}: back in time")
        self.objects[key] = delta.new


NAMESPACES = ("default", "kube-system")


async def disturb(
    cluster: LogicalCluster, client: InProcessClient, chance: Random, operations: int, names: int
) -> None:
    """Create, change and delete at random; now and then the server forgets its history."""
    alive: dict[tuple[str, str], None] = {}
    for _ in range(operations):
        namespace, name = chance.choice(NAMESPACES), f"c{chance.randrange(names)}"
        data = str(chance.random())
        if (namespace, name) not in alive:
            await client.create(CONFIG_MAP, body(name, data), namespace)
            alive[namespace, name] = None
        elif chance.random() < 0.4:
            await client.delete(CONFIG_MAP, name, namespace)
            del alive[namespace, name]
        else:
            await client.patch(CONFIG_MAP, name, MergePatch({"data": {"data": data}}), namespace)
        if chance.random() < 0.003:
            cluster.store.compact()
        if chance.random() < 0.3:
            await asyncio.sleep(chance.expovariate(1))


def converges(seed: int, operations: int, names: int, rates: Rates) -> Callable[..., Coroutine[Any, Any, None]]:
    async def story(cluster: LogicalCluster, client: InProcessClient) -> None:
        chance = seeded(seed)
        unreliable = Unreliable(client, rates, chance)
        loop = asyncio.get_running_loop()
        indexers = {"digit": lambda obj: [obj.data["data"][2:3]]}
        async with running(unreliable, indexers=indexers) as informer:
            mirror = Mirror(informer)
            informer.on_change(mirror)
            await disturb(cluster, client, chance, operations, names)
            unreliable.rates = Rates()
            busy, requests = loop.time(), unreliable.requests
            # The longest that a stalled stream, and then the pause after it, can take.
            await asyncio.sleep(700)
            truth = {(o.metadata.namespace, o.metadata.name): o for o in (await client.list(CONFIG_MAP)).items}
            assert mirror.mistakes == []
            assert mirror.objects == truth == {(o.metadata.namespace, o.metadata.name): o for o in informer.values()}
            assert mirror.born - mirror.died == {obj.metadata.uid for obj in truth.values()}
            for digit in "0123456789":
                wanted = {obj.metadata.uid for obj in truth.values() if obj.data["data"][2:3] == digit}
                assert {obj.metadata.uid for obj in informer.by_index("digit", digit)} == wanted
            # A list of `names` objects is several requests, all others follow a pause of 0.4 s or more.
            assert requests <= (busy / 0.4 + 2) * (2 * names // 7 + 3)

    return story


@examples(40)
@given(
    seed=st.integers(0, 2**32),
    operations=st.integers(1, 150),
    names=st.sampled_from([2, 20]),
    rates=st.builds(
        Rates,
        drop=st.sampled_from([0.0, 0.05, 0.3]),
        fail=st.sampled_from([0.0, 0.05]),
        gone=st.sampled_from([0.0, 0.05, 0.2]),
        stall=st.sampled_from([0.0, 0.02]),
        repeat=st.sampled_from([0.0, 0.2]),
        list_fails=st.sampled_from([0.0, 0.1]),
    ),
)
def test_whatever_the_connection_does_the_cache_ends_equal_to_the_server(
    seed: int, operations: int, names: int, rates: Rates
) -> None:
    in_hub(converges(seed, operations, names, rates), seed)


@pytest.mark.full
def test_twenty_thousand_operations_over_a_bad_connection_end_equal_and_no_deletion_is_missed() -> None:
    rates = Rates(drop=0.002, fail=0.001, gone=0.001, stall=0.0005, repeat=0.01, list_fails=0.02)
    in_hub(converges(20_000, 20_000, 60, rates), 20_000)
