"""Events that nobody waits for.

An event is written to the same server as everything else and takes as long as a write that matters. So events are
queued, and written beside the work; about one object they keep their order. What the server cannot take in time is
dropped and counted, and what is left when the process stops is not worth waiting for.
"""

import asyncio
import zlib

from echelon.engine.plan import Emit
from echelon.kube.act import Recorder
from echelon.kube.metrics import Metrics

WRITERS = 4
WAITING = 2_000  # events for each writer


class Announcer:
    """A recorder that returns at once; `run` it for as long as there may be events."""

    def __init__(self, recorder: Recorder, metrics: Metrics) -> None:
        self._recorder = recorder
        self._dropped = metrics.events.labels("dropped")
        self._queues: list[asyncio.Queue[Emit]] = [asyncio.Queue(WAITING) for _ in range(WRITERS)]

    async def emit(self, event: Emit) -> None:
        """Have an event written some time."""
        about = f"{event.regarding.namespace}/{event.regarding.name}"
        try:
            self._queues[zlib.crc32(about.encode()) % WRITERS].put_nowait(event)
        except asyncio.QueueFull:
            self._dropped.inc()

    async def run(self) -> None:
        """Write events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number, queue in enumerate(self._queues):
                group.create_task(self._write(queue), name=f"events {number}")

    async def _write(self, queue: asyncio.Queue[Emit]) -> None:
        while True:
            await self._recorder.emit(await queue.get())
