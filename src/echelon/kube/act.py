"""Carries out a plan: with its order and its preconditions, and tells what became of every write.

A failed write is a fact, not an accident: it is told like one that was made, as soon as it is known. It holds back what
waits for it and nothing else; the status is tried all the same, unless it tells of writes that were not made. A later
write of the same object expects the version that the earlier one led to, so that a plan may write an object twice and
still notice everybody else. Nothing is tried again here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from echelon.api.kinds import Kind
from echelon.engine.plan import Action, Delete, Emit, InOrder, Patch, Plan, Together, Write
from echelon.kube.cache import identity_of
from echelon.kube.client import WriteOptions, Writer
from echelon.kube.errors import ApiError
from echelon.kube.metrics import Metrics
from echelon.kube.pace import AT_ONCE, Pace
from echelon.kube.write import write


class Recorder(Protocol):
    """Writes events. It never fails: an event is not worth a plan."""

    async def emit(self, event: Emit) -> None:
        """Write an event, or count it with those before it."""
        ...


@dataclass(frozen=True)
class Written:
    """A write that the server confirmed. `resource_version` is what it led to, None for a deletion."""

    kind: Kind[Any]
    name: str
    namespace: str
    uid: str
    resource_version: str | None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """A write that the server did not confirm. It may have been made all the same, if the answer was lost."""

    write: Write
    error: Exception


Outcome: TypeAlias = Written | Failed
# What those who carry out a burst say: an outcome, with what they await until it was heard, or that one of them ended.
_Told: TypeAlias = "asyncio.Queue[tuple[Outcome, asyncio.Future[None]] | asyncio.Task[None]]"


class Superseded(Exception):
    """What a plan was made for was changed while it was carried out; the rest of it is not wanted any more."""


def _always() -> bool:
    return True


async def act(
    plan: Plan,
    client: Writer,
    recorder: Recorder,
    *,
    manager: str,
    metrics: Metrics | None = None,
    is_wanted: Callable[[], bool] = _always,
) -> AsyncIterator[Outcome]:
    """Do what a plan says and yield what became of each write, the status last.

    `manager` is the name under which the server keeps our fields. `is_wanted` is asked again and again while many
    writes are made; when it says no, those under way are waited for and `Superseded` is raised.
    """
    acting = _Acting(client, recorder, WriteOptions(field_manager=manager), metrics, is_wanted)
    failed = False
    async for outcome in acting.in_order(plan.actions):
        failed = failed or isinstance(outcome, Failed)
        yield outcome
    if plan.status is not None and not (failed and plan.status_waits):
        yield await acting.write(plan.status)


@dataclass
class _Acting:
    """One plan being carried out."""

    client: Writer
    recorder: Recorder
    options: WriteOptions
    metrics: Metrics | None
    is_wanted: Callable[[], bool]
    own: dict[tuple[str, str, str], Written] = field(default_factory=dict)
    # Bursts within a burst are many at a time; the server has to bear what they write together.
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def in_order(self, actions: Iterable[Action]) -> AsyncIterator[Outcome]:
        """Carry out one action after the other, and leave out what follows a failure."""
        for action in actions:
            failed = False
            if isinstance(action, Emit):
                await self.recorder.emit(action)
            elif isinstance(action, InOrder | Together):
                several = self.in_order(action.actions) if isinstance(action, InOrder) else self.together(action)
                async for outcome in several:
                    failed = failed or isinstance(outcome, Failed)
                    yield outcome
            else:
                outcome = await self.write(action)
                failed = isinstance(outcome, Failed)
                yield outcome
            if failed:
                return

    async def together(self, burst: Together) -> AsyncIterator[Outcome]:
        """Carry out actions side by side, as many at a time as the pace allows, and yield each outcome once known."""
        waiting, pace = iter(burst.actions), Pace(1 if burst.slow_start else AT_ONCE)
        told: _Told = asyncio.Queue()
        workers = [
            asyncio.create_task(self._work(waiting, pace, told)) for _ in range(min(len(burst.actions), AT_ONCE))
        ]
        for worker in workers:
            worker.add_done_callback(told.put_nowait)
        left, superseded = len(workers), False
        try:
            while left:
                what = await told.get()
                if isinstance(what, asyncio.Task):
                    left -= 1
                    if not what.cancelled() and isinstance(what.exception(), Superseded):
                        superseded = True  # of a burst within this one; what others have under way is waited for
                        continue
                    what.result()  # raises only when the process is dying, and nothing else matters
                else:
                    outcome, heard = what
                    yield outcome
                    heard.set_result(None)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        if superseded or next(waiting, None) is not None:
            raise Superseded

    async def _work(self, waiting: Iterator[Write | InOrder], pace: Pace, told: "_Told") -> None:
        """Carry out what is next until nothing is left. Each write is heard of before the next one begins."""
        loop = asyncio.get_running_loop()
        while True:
            async with pace:
                if not self.is_wanted():
                    return
                action = next(waiting, None)
                if action is None:
                    return
                async for outcome in self.in_order((action,)):
                    heard = loop.create_future()
                    told.put_nowait((outcome, heard))
                    if isinstance(outcome, Written):
                        pace.quicken()
                    await heard

    async def write(self, planned: Write) -> Outcome:
        """Make a write as soon as there is a place for it; raise `Superseded` if it is not wanted any more by then."""
        had_to_wait = self.places.locked()
        async with self.places:
            if had_to_wait and not self.is_wanted():
                raise Superseded
            return await self._write(planned)

    async def _write(self, planned: Write) -> Outcome:
        action = _after_own(planned, self.own)
        code = "200"
        try:
            written = await _write(action, self.client, self.options)
        except Exception as error:  # noqa: BLE001 - whatever it was, somebody has to hear of it
            code = str(error.status_code) if isinstance(error, ApiError) else "none"
            return Failed(action, error)
        finally:
            if self.metrics is not None:
                self.metrics.writes.labels(type(action).__name__.lower(), action.kind.resource, code).inc()
        self.own[_object(written)] = written
        return written


def _after_own(action: Write, own: Mapping[tuple[str, str, str], Written]) -> Write:
    """Let a write build on what the same plan wrote before: the plan could not know which version that would be."""
    if not isinstance(action, Patch | Delete):
        return action
    before = own.get((action.kind.resource, action.namespace, action.name))
    if before is None or before.resource_version is None:
        return action
    return replace(action, uid=before.uid, resource_version=before.resource_version)


def _object(written: Written) -> tuple[str, str, str]:
    """Return which object was written."""
    return written.kind.resource, written.namespace, written.name


async def _write(action: Write, client: Writer, options: WriteOptions) -> Written:
    answer = await write(action, client, options)
    if isinstance(action, Delete):
        return Written(action.kind, action.name, action.namespace, action.uid, None)
    key, uid, version = identity_of(answer)
    return Written(action.kind, key.name, key.namespace, uid, version, _labels_of(answer))


def _labels_of(obj: Any) -> Mapping[str, str]:
    if isinstance(obj, dict):
        labels: Mapping[str, str] = obj["metadata"].get("labels", {})
        return labels
    found: Mapping[str, str] = obj.metadata.labels
    return found
