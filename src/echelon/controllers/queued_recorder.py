"""Events that nobody waits for.

An event is written to the same server as everything else and takes as long as a write that matters. So events are
queued, and written beside the work; about one object they keep their order. What the server cannot take in time is
dropped and counted, and warnings and the ends of rollouts are the last to be: only when nothing else is left in a full
queue. When the process is told to stop, these are still written, as far as that takes a moment.
"""

import asyncio
import logging
import zlib
from collections import deque

from echelon.engine.plan import Emit
from echelon.kube.act import Recorder
from echelon.kube.metrics import Metrics

WRITERS = 4
WAITING = 2_000  # events for each writer
# Less than what is left between the loss of a lease and its end for others.
LAST_WORDS_SECONDS = 0.8

_log = logging.getLogger(__name__)


class QueuedRecorder:
    """A recorder that returns at once; `run` it for as long as there may be events."""

    def __init__(self, recorder: Recorder, metrics: Metrics) -> None:
        self._recorder = recorder
        self._dropped = metrics.events.labels("dropped")
        self._queues = [_Queue() for _ in range(WRITERS)]

    async def emit(self, event: Emit) -> None:
        """Have an event written some time."""
        self.put(event)

    def put(self, event: Emit) -> None:
        """Have an event written some time."""
        about = f"{event.regarding.namespace}/{event.regarding.name}"
        dropped = self._queues[zlib.crc32(about.encode()) % WRITERS].put(event)
        if dropped is not None:
            self._dropped.inc()
            level = logging.ERROR if dropped.important else logging.DEBUG
            _log.log(level, "no room for an event about %s: %s", dropped.regarding.name, dropped.note)

    async def run(self) -> None:
        """Write events until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for number, queue in enumerate(self._queues):
                    group.create_task(self._write(queue), name=f"events {number}")
        finally:
            await self._say_last_words()

    async def _write(self, queue: "_Queue") -> None:
        while True:
            await self._recorder.emit(await queue.next())
            queue.done()

    async def _say_last_words(self) -> None:
        left = [event for queue in self._queues for event in queue.left() if event.important]
        if not left:
            return
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                while left:
                    await self._recorder.emit(left[0])
                    left.pop(0)
        except TimeoutError:
            for event in left:
                _log.error("no time for an event about %s: %s", event.regarding.name, event.note)


class _Queue:
    """The events of one writer, in order. One that is being written stays until it is done."""

    def __init__(self) -> None:
        self._writing: Emit | None = None
        self._events: deque[Emit] = deque()
        self._some = asyncio.Event()

    def put(self, event: Emit) -> Emit | None:
        """Take an event in; return one that had to go for it, or itself."""
        dropped = None
        if len(self._events) >= WAITING:
            dropped = next((each for each in self._events if not each.important), event) if event.important else event
            if dropped is event:
                return dropped
            self._events.remove(dropped)
        self._events.append(event)
        self._some.set()
        return dropped

    async def next(self) -> Emit:
        """Return what is to be written next."""
        while not self._events:
            self._some.clear()
            await self._some.wait()
        self._writing = self._events.popleft()
        return self._writing

    def done(self) -> None:
        """Note that what was next is written."""
        self._writing = None

    def left(self) -> list[Emit]:
        """Return what was not written."""
        return [*([self._writing] if self._writing is not None else []), *self._events]
