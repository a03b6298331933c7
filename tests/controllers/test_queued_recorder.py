"""Events that nobody waits for: which of them are dropped when there are too many, and what is said at the end."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from echelon.api.core import CONFIG_MAP
from echelon.controllers.queued_recorder import LAST_WORDS_SECONDS, WAITING, QueuedRecorder
from echelon.engine.plan import Emit, Reference
from echelon.fleet.loop import run
from echelon.kube.metrics import Metrics

WEB = Reference(CONFIG_MAP, "web", "default", "uid-1")


def event(note: str, kind: str = "Normal", *, ends: bool = False) -> Emit:
    return Emit(WEB, "Said", "Say", note, kind, ends=ends)


@dataclass
class Slow:
    """Takes its time for each event."""

    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    async def emit(self, event: Emit) -> None:
        await asyncio.sleep(self.seconds)
        self.notes.append(event.note)


async def stopped(queued: QueuedRecorder, after: float) -> None:
    """Run a recorder for a while."""
    task = asyncio.create_task(queued.run())
    await asyncio.sleep(after)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def dropped(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("echelon_events_total", {"outcome": "dropped"})


def test_about_one_object_everything_is_written_in_order() -> None:
    async def story() -> None:
        recorder = Slow()
        queued = QueuedRecorder(recorder, Metrics())
        for number in range(10):
            await queued.emit(event(str(number)))
        await stopped(queued, 1.0)
        assert recorder.notes == [str(number) for number in range(10)]

    run(story())


def test_where_there_is_no_room_warnings_and_ends_take_the_place_of_others() -> None:
    async def story() -> None:
        recorder, metrics = Slow(), Metrics()
        queued = QueuedRecorder(recorder, metrics)
        for number in range(WAITING + 5):
            await queued.emit(event(f"normal {number}"))
        await queued.emit(event("stopped", "Warning"))
        await queued.emit(event("complete", ends=True))
        await stopped(queued, 1.0)
        assert recorder.notes[0] == "normal 2"
        assert recorder.notes[-3:] == [f"normal {WAITING - 1}", "stopped", "complete"]
        assert dropped(metrics) == 7

    run(story())


def test_warnings_are_dropped_only_for_lack_of_anything_else() -> None:
    async def story() -> None:
        recorder, metrics = Slow(), Metrics()
        queued = QueuedRecorder(recorder, metrics)
        for number in range(WAITING + 1):
            await queued.emit(event(f"warning {number}", "Warning"))
        await stopped(queued, 1.0)
        assert recorder.notes[-1] == f"warning {WAITING - 1}"
        assert dropped(metrics) == 1

    run(story())


def test_what_is_important_is_still_said_at_the_end() -> None:
    async def story() -> None:
        recorder = Slow(seconds=0.2)
        queued = QueuedRecorder(recorder, Metrics())
        for each in (event("begun", "Warning"), event("normal"), event("stopped", "Warning")):
            await queued.emit(each)
        await stopped(queued, 0.25)
        assert recorder.notes == ["begun", "stopped"]

    run(story())


def test_the_end_waits_only_a_moment_for_it() -> None:
    async def story() -> None:
        queued = QueuedRecorder(Slow(seconds=3600), Metrics())
        await queued.emit(event("stopped", "Warning"))
        await stopped(queued, 1.0)
        assert asyncio.get_running_loop().time() <= 1.0 + LAST_WORDS_SECONDS

    run(story())
