"""Events, as a real store takes them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.examples import examples

from echelon.api.core import CONFIG_MAP
from echelon.api.events import EVENT, Event
from echelon.api.namespaces import NAMESPACE
from echelon.engine.plan import Emit, Reference
from echelon.fleet.loop import run, running
from echelon.hub.client import InProcessClient
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.errors import Forbidden, ServerTimeout, TooManyRequests, Unavailable
from echelon.kube.events import (
    BURST,
    IMPORTANT_BURST,
    IMPORTANT_SECONDS,
    REMEMBERED,
    RETRY_SECONDS,
    SERIES_SECONDS,
    WRITE_SECONDS,
    EventRecorder,
)
from echelon.kube.metrics import Metrics

WEB = Reference(CONFIG_MAP, "web", "kube-system", "uid-1")


def started(note: str = "started", regarding: Reference = WEB, **more: Any) -> Emit:
    return Emit(regarding, "Started", "Start", note, **more)


class Counting(InProcessClient):
    """A client that counts writes, and can be slow or deny them."""

    writes = 0
    slow = 0.0
    denied = False
    troubles: Sequence[Exception] = ()  # of the next writes
    lost = False  # whether the troubles come after the write

    async def create(self, *args: Any, **options: Any) -> Any:
        await self._before()
        trouble, self.troubles = self.troubles[:1], self.troubles[1:]
        made = None if trouble and not self.lost else await super().create(*args, **options)
        if trouble:
            raise trouble[0]
        return made

    async def patch(self, *args: Any, **options: Any) -> Any:
        await self._before()
        return await super().patch(*args, **options)

    async def _before(self) -> None:
        self.writes += 1
        await asyncio.sleep(self.slow)
        if self.denied:
            raise Forbidden("events are forbidden")


Story = Callable[[Counting, EventRecorder], Awaitable[None]]


def in_hub(story: Story, metrics: Metrics | None = None) -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client, loop = Counting(cluster, ROOT), running()
        recorder = EventRecorder(client, loop.clock, "echelon.dev/test", "test-0", random=loop.random, metrics=metrics)
        await story(client, recorder)

    run(main())


async def events(client: InProcessClient, namespace: str = "") -> list[Event]:
    return list((await client.list(EVENT, namespace)).items)


def test_an_event_says_who_saw_what_and_when() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        await recorder.emit(started(related=Reference(NAMESPACE, "other"), type="Warning"))
        (event,) = await events(client, "kube-system")
        assert event.metadata.name.startswith("web.")
        assert (event.reason, event.action, event.note, event.type) == ("Started", "Start", "started", "Warning")
        assert (event.reporting_controller, event.reporting_instance) == ("echelon.dev/test", "test-0")
        regarding = event.regarding
        assert (regarding.kind, regarding.name, regarding.namespace, regarding.uid) == (
            "ConfigMap",
            "web",
            "kube-system",
            "uid-1",
        )
        assert event.related is not None
        assert event.related.kind == "Namespace"
        assert event.event_time == "2026-01-01T00:00:00.000000Z"
        assert event.series is None

    in_hub(story)


def test_events_about_objects_without_a_namespace_are_in_the_default_one() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        await recorder.emit(started(regarding=Reference(NAMESPACE, "kube-public")))
        (event,) = await events(client, "default")
        assert event.regarding.namespace == ""

    in_hub(story)


def test_the_same_thing_again_is_counted_in_the_same_event() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        for _ in range(3):
            await recorder.emit(started())
            await asyncio.sleep(60)
        (event,) = await events(client)
        assert event.series is not None
        assert event.series.count == 3
        assert event.series.last_observed_time == "2026-01-01T00:02:00.000000Z"
        assert event.event_time == "2026-01-01T00:00:00.000000Z"

    in_hub(story)


def test_what_people_are_told_is_a_line_of_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(_client: Counting, recorder: EventRecorder) -> None:
        for _ in range(3):
            await recorder.emit(started("2 clusters begin"))
        await recorder.emit(started(regarding=Reference(NAMESPACE, "shop")))

    with caplog.at_level(logging.INFO, logger="echelon.kube.events"):
        in_hub(story)
    assert [each.getMessage() for each in caplog.records] == [
        "ConfigMap kube-system/web: Started: 2 clusters begin",
        "Namespace shop: Started: started",
    ]


def test_what_differs_in_anything_is_another_event() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        other = Reference(CONFIG_MAP, "web", "kube-system", "uid-2")
        said = [
            started(),
            started("again"),
            started(type="Warning"),
            started(regarding=other),
            started(related=other),
            Emit(WEB, "Stopped", "Start", "started"),
            Emit(WEB, "Started", "Stop", "started"),
        ]
        for event in said:
            await recorder.emit(event)
        assert len(await events(client)) == len(said)

    in_hub(story)


def test_after_a_long_silence_it_is_a_new_event() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        await recorder.emit(started())
        await asyncio.sleep(SERIES_SECONDS + 1)
        await recorder.emit(started())
        assert [event.series for event in await events(client)] == [None, None]

    in_hub(story)


def test_an_event_that_the_server_forgot_is_written_anew() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        await recorder.emit(started())
        (event,) = await events(client)
        await client.delete(EVENT, event.metadata.name, "kube-system")
        await recorder.emit(started())
        (event,) = await events(client)
        assert event.series is None

    in_hub(story)


def test_a_noisy_object_gets_a_burst_and_then_a_trickle_and_harms_no_other() -> None:
    metrics = Metrics()

    async def story(client: Counting, recorder: EventRecorder) -> None:
        for number in range(200):
            await recorder.emit(started(f"note {number}"))
        assert client.writes == BURST
        await recorder.emit(started(regarding=Reference(CONFIG_MAP, "calm", "kube-system", "uid-2")))
        assert client.writes == BURST + 1
        for number in range(3600):
            await asyncio.sleep(1)
            await recorder.emit(started(f"later {number}"))
        assert BURST + 10 <= client.writes <= BURST + 14

    in_hub(story, metrics)
    outcomes = {
        name: metrics.registry.get_sample_value("echelon_events_total", {"outcome": name}) or 0.0
        for name in ("written", "counted")
    }
    assert sum(outcomes.values()) == 3801
    assert outcomes["written"] <= BURST + 14


def test_what_could_not_be_written_is_in_the_count_of_what_is() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        for _ in range(100):
            await recorder.emit(started())
        await asyncio.sleep(SERIES_SECONDS - 1)
        await recorder.emit(started())
        (event,) = await events(client)
        assert event.series is not None
        assert event.series.count == 101

    in_hub(story)


def test_a_server_that_refuses_events_or_is_too_slow_troubles_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        client.denied = True
        await recorder.emit(started())
        client.denied, client.slow = False, 3600.0
        await recorder.emit(started())
        assert asyncio.get_running_loop().time() == WRITE_SECONDS
        client.slow = 0.0
        await recorder.emit(started())
        (event,) = await events(client)
        assert event.series is not None
        assert event.series.count == 3

    with caplog.at_level(logging.WARNING):
        in_hub(story)
    assert "events are forbidden" in caplog.text


def test_two_that_say_the_same_at_once_make_one_event() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        client.slow = 1.0
        await asyncio.gather(*(recorder.emit(started()) for _ in range(5)))
        await recorder.emit(started())
        (event,) = await events(client)
        assert client.writes == 2
        assert event.series is not None
        assert event.series.count == 6

    in_hub(story)


@pytest.mark.parametrize("important", [{"type": "Warning"}, {"ends": True}])
def test_warnings_and_ends_are_written_whatever_else_was_said_of_an_object(important: dict[str, Any]) -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        for number in range(200):
            await recorder.emit(started(f"note {number}"))
        await recorder.emit(started("it was stopped", **important))
        assert "it was stopped" in [event.note for event in await events(client)]

    in_hub(story)


def test_all_warnings_are_written_and_no_more_than_a_few_each_second() -> None:
    count = int(IMPORTANT_BURST) + 50

    async def story(client: Counting, recorder: EventRecorder) -> None:
        for number in range(count):
            await recorder.emit(started(f"cluster {number} timed out", type="Warning"))
        assert len({event.note for event in await events(client)}) == count
        assert asyncio.get_running_loop().time() >= 49 * IMPORTANT_SECONDS

    in_hub(story)


def test_a_warning_that_is_repeated_is_counted_and_floods_nobody() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        for _ in range(1000):
            await recorder.emit(started(type="Warning"))
        assert client.writes <= BURST + 1
        await asyncio.sleep(SERIES_SECONDS - 1)
        await recorder.emit(started(type="Warning"))
        (event,) = await events(client)
        assert event.series is not None
        assert event.series.count == 1001

    in_hub(story)


@pytest.mark.parametrize("lost", [False, True])
def test_a_warning_is_tried_again_while_the_server_is_in_trouble(lost: bool) -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        client.lost = lost
        client.troubles = [Unavailable("starting"), ServerTimeout("late"), TooManyRequests("busy"), OSError("broken")]
        await recorder.emit(started(type="Warning"))
        (event,) = await events(client)
        assert event.series is None

    in_hub(story)


def test_what_is_not_important_is_not_tried_again() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        client.troubles = [Unavailable("starting")]
        await recorder.emit(started())
        assert client.writes == 1
        assert await events(client) == []

    in_hub(story)


def test_a_warning_is_given_up_some_time_and_at_once_where_the_server_says_no(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        client.troubles = [Unavailable("starting")] * 100
        await recorder.emit(started("it was stopped", type="Warning"))
        assert client.writes == len(RETRY_SECONDS) + 1
        client.denied = True
        await recorder.emit(started("it was refused", type="Warning"))
        assert client.writes == len(RETRY_SECONDS) + 2

    with caplog.at_level(logging.WARNING):
        in_hub(story)
    assert "it was stopped" in caplog.text
    assert "it was refused" in caplog.text


def test_memory_is_bounded() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        client.denied = True
        for number in range(REMEMBERED + 500):
            await recorder.emit(started(regarding=Reference(CONFIG_MAP, f"c{number}", "default", f"uid-{number}")))
        assert len(recorder._series.entries) == len(recorder._buckets.entries) == REMEMBERED

    logging.disable(logging.WARNING)
    try:
        in_hub(story)
    finally:
        logging.disable(logging.NOTSET)


@examples(50)
@given(
    name=st.text(min_size=1, max_size=300),
    note=st.text(max_size=20).map(lambda text: text * 200),
    reason=st.text("aB", min_size=1, max_size=200),
)
@example(name="system:.a..b:", note="", reason="a")
def test_events_always_fit_into_what_servers_accept(name: str, note: str, reason: str) -> None:
    async def main() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        client = InProcessClient(cluster, ROOT)
        chance = Random(1)  # noqa: S311 - repeatable on purpose
        recorder = EventRecorder(client, running().clock, "echelon.dev/test", "i" * 300, random=chance)
        await recorder.emit(Emit(Reference(CONFIG_MAP, name, "default"), reason, reason, note))
        (event,) = await events(client)
        assert len(event.note.encode()) <= 1024
        assert len(event.reason) <= 128
        assert len(event.action) <= 128
        assert len(event.reporting_instance) <= 128
        assert len(event.metadata.name) <= 253

    run(main())


def test_names_are_in_the_order_of_time_for_that_is_how_kubectl_lists_events() -> None:
    async def story(client: Counting, recorder: EventRecorder) -> None:
        for number in range(20):
            await recorder.emit(started(f"{number}"))
            await asyncio.sleep(0.01)
        assert [each.note for each in await events(client)] == [str(number) for number in range(20)]

    in_hub(story)
