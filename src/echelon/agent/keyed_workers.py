"""Reconcilers that need to ask before they can decide.

Hub controllers plan from caches and then act. An agent applies objects of any kind, of which it has no caches, so a
reconcile of it asks, decides and writes in steps. What is the same: one worker a key at a time, a failure is a reason
to come back later, and what happens while a key is handled leads to handling it again. A thousand agents share a
process, so there is a task only while there is something to do.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from echelon.kube.errors import ApiError, Conflict
from echelon.kube.informer import Informer
from echelon.kube.metrics import Metrics
from echelon.kube.queue import WorkQueue
from echelon.kube.turns import Turns

CONFLICT_SECONDS = 1.0

_log = logging.getLogger(__name__)


class KeyedWorkers:
    """Runs a handler for keys. The handler may say after how many seconds it wants to look again."""

    def __init__(
        self,
        name: str,
        handler: Callable[[str], Awaitable[float | None]],
        *,
        random: Random,
        metrics: Metrics,
        concurrency: int,
        last_retry: float,
        after: Sequence[Informer[Any]] = (),
        turns: Turns | None = None,
    ) -> None:
        """`concurrency`: how many keys are handled at once; `after`: the caches that have to be full before that.

        `turns` are those of all who share the process, if there are many.
        """
        self.name = name
        self.queue: WorkQueue[str] = WorkQueue(random, last_retry=last_retry)
        self._handler = handler
        self._metrics = metrics
        self._succeeded = metrics.reconciles.labels(name, "ok")  # looking it up takes longer than counting
        self._after = after
        self._told: dict[str, str] = {}  # how each key failed last
        self._slots = asyncio.Semaphore(concurrency)
        self._turns = turns
        metrics.show_queue(name, self.queue.stats)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            for informer in self._after:
                await informer.wait_synced()
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._slots.acquire()
                    if self._turns is not None:
                        await self.queue.wait()
                        await self._turns.take()
                    key = await self.queue.get()  # with all that has happened to it in the meantime
                    group.create_task(self._handle(key), name=f"{self.name} {key}")
        finally:
            self.queue.close()

    async def _handle(self, key: str) -> None:
        try:
            again = await self._handler(key)
        except Exception as error:  # noqa: BLE001 - one key's trouble is not the others'
            self._failed(key, error)
        else:
            self._succeeded.inc()
            self.queue.forget(key)
            self._told.pop(key, None)
            if again is not None:
                self.queue.add(key, after=again)
        finally:
            self.queue.done(key)
            self._slots.release()

    def _failed(self, key: str, error: Exception) -> None:
        extra = {"controller": self.name, "key": key}
        if isinstance(error, Conflict):
            self.queue.retry(key, at_most=CONFLICT_SECONDS)
            self._metrics.reconciles.labels(self.name, "conflict").inc()
            _log.info("%s: %s failed: %s", self.name, key, error, extra=extra)
        elif isinstance(error, ApiError):
            self.queue.retry(key, at_least=error.retry_after)
            self._metrics.reconciles.labels(self.name, "refused").inc()
            # Tried again and again, it is news when it fails in another way.
            level = logging.DEBUG if self._told.get(key) == str(error) else logging.WARNING
            self._told[key] = str(error)
            _log.log(level, "%s: %s failed: %s", self.name, key, error, extra=extra)
        else:
            self.queue.retry(key)
            self._metrics.reconciles.labels(self.name, "error").inc()
            _log.error("%s: %s failed: %r", self.name, key, error, extra=extra, exc_info=error)
