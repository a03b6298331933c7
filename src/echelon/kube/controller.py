"""The loop of a controller: what changed becomes keys, keys become plans, plans are acted on.

A reconciler is asked with a key, never with an event, and may be asked at any time: twice, after a crash, on a cache
that is behind. It decides; everything that makes that safe is here, once for all: one worker a key, retries that slow
down, no plan before the caches show our own last writes, new work before the routine look at everything.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from prometheus_client import Counter

from echelon.api.keys import Key
from echelon.engine.plan import Plan
from echelon.kube.act import Failed, Recorder, Superseded, Written, act
from echelon.kube.cache import key_of
from echelon.kube.checking import IndexCheck, PlansDiffer, Verify, plan_twice
from echelon.kube.client import Writer
from echelon.kube.clock import Clock
from echelon.kube.errors import ApiError, Conflict
from echelon.kube.guard import GUARD_SECONDS, Guard
from echelon.kube.informer import Delta, Informer
from echelon.kube.metrics import Metrics
from echelon.kube.queue import Debounce, WorkQueue
from echelon.kube.reconciler import Reconciler, TerminalError
from echelon.kube.timetable import Timetable

T = TypeVar("T")

# The first look at everything after a start, and the routine one, give way to whatever really happens.
ROUTINE = 100
CONFLICT_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Source:
    """Where keys come from."""

    informer: Informer[Any]
    keys: Callable[[Any], Iterable[Key]]
    when: Callable[[Delta[Any]], bool]

    def keys_of(self, delta: Delta[Any]) -> Iterable[Key]:
        """Return what a change concerns: what the object was about before, and what it is about now."""
        if self.keys is _own_key:  # which does not change with the object
            return (key_of(delta.object),)
        return dict.fromkeys(key for obj in (delta.old, delta.new) if obj is not None for key in self.keys(obj))


class Controller:
    """Runs a reconciler. Make it, let it `watch` its sources, and `run` it, once."""

    def __init__(
        self,
        name: str,
        reconciler: Reconciler,
        client: Writer,
        clock: Clock,
        *,
        recorder: Recorder,
        random: Random,
        workers: int = 1,
        manager: str = "echelon",
        metrics: Metrics | None = None,
        routine_seconds: float = 0.0,
        guard_seconds: float = GUARD_SECONDS,
        debounce: Debounce | None = None,
        on_plan: Callable[[Key, Plan], None] | None = None,
        on_written: Callable[[Key, Written], None] | None = None,
        on_failed: Callable[[Key, Failed], bool] | None = None,
        basis: Callable[[Key], object] | None = None,
        verify: Verify | None = None,
        strict: bool = False,
    ) -> None:
        """`routine_seconds`: how often to look at every key although nothing changed; 0 for never.

        `debounce` says how long the keys are collected that the handlers of `follow` return; they are not if it is not
        given.
        `on_plan` hears of each plan that is about to be carried out, also of an empty one; caches are as they were when
        it was made.
        `on_written` hears of each write that the server confirmed, and for which key it was made; `on_failed` of those
        that failed. It returns whether the next plan does without that write, tells of it, and says when to try again;
        otherwise the failure is that of the whole plan, which is made again later.
        `basis` returns what a plan of an object must not outlive. When that changes while a plan is carried out, the
        rest is dropped and a new plan is made.
        `verify` compares what `follow` keeps up to date with a rebuild from the caches, keeps the rebuild, and yields
        what was different; and None now and then, when others may have their turn on the event loop.
        `strict`, for tests: every plan is made twice, indexes are compared often, and a difference ends the controller.
        """
        self.name = name
        self._reconciler = reconciler
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._random = random
        self._workers = workers
        self._manager = manager
        self._routine_seconds = routine_seconds
        self._metrics = metrics or Metrics()
        self.queue: WorkQueue[Key] = WorkQueue(random)
        self._metrics.show_queue(name, self.queue.stats)
        self._debounce = debounce
        self._written_lately: Timetable[Key] = Timetable(_nothing)
        self._on_plan = on_plan
        self._on_written = on_written
        self._on_failed = on_failed
        self._basis = basis
        self._strict = strict
        self._check: IndexCheck | None = None
        if verify is not None:
            self._check = IndexCheck(
                name, verify, metrics=self._metrics, random=random, seconds=routine_seconds, strict=strict
            )
        self._guard = Guard(name, self.queue.add, self._metrics, seconds=guard_seconds)
        self._sources: list[_Source] = []
        self._followed: list[Informer[Any]] = []
        self._stops: list[Callable[[], None]] = []
        self._results: dict[str, Counter] = {}  # by what became of a reconcile

    def watch(
        self,
        informer: Informer[T],
        *,
        keys: Callable[[T], Iterable[Key]] | None = None,
        when: Callable[[Delta[T]], bool] | None = None,
    ) -> None:
        """Plan keys when an object changes: its own one, or those that `keys` says, if `when` finds it worthwhile."""
        source = _Source(informer, keys or _own_key, when or _always)
        self._sources.append(source)
        self._guard.follow(informer)

        def changed(delta: Delta[T]) -> None:
            self._guard.heard(informer, delta)
            if source.when(delta):
                for key in source.keys_of(delta):
                    self.queue.add(key, ROUTINE if delta.initial else 0)

        self._stops.append(informer.on_change(changed))

    def follow(self, informer: Informer[T], handler: Callable[[Delta[T]], Iterable[Key]]) -> None:
        """Let a handler keep an index up to date, and plan the keys that it returns.

        The handler is first to hear of a change; then its keys are asked for, and then those wake up that waited for
        the cache to show it. So whoever plans finds in the index what is in the cache. Should the handler fail, the
        index is compared with the caches soon. Nothing is asked for in the routine look at everything: that is about
        the objects that `watch` is about.
        """
        self._followed.append(informer)
        self._guard.follow(informer)

        def changed(delta: Delta[T]) -> None:
            try:
                for key in handler(delta):
                    self._collect(key, ROUTINE if delta.initial else 0)
            except Exception:
                if self._check is not None:
                    self._check.suspect()
                raise  # the informer tells of it
            finally:
                self._guard.heard(informer, delta)

        self._stops.append(informer.on_change(changed))

    def _collect(self, key: Key, priority: int) -> None:
        if self._debounce is None:
            self.queue.add(key, priority)
            return
        written = self._written_lately.get(key)
        not_before = written[0] if written is not None else -math.inf
        self.queue.collect(key, self._debounce, priority, not_before=not_before)

    async def run(self) -> None:
        """Work until cancelled; then end what is under way, and return when nothing runs any more."""
        try:
            for informer in (*self._followed, *(source.informer for source in self._sources)):
                await informer.wait_synced()
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name} {number}")
                if self._routine_seconds > 0:
                    group.create_task(self._look_at_everything_again_and_again(), name=f"{self.name} routine")
                if self._check is not None:
                    group.create_task(self._check.run(self._look_at_everything), name=f"{self.name} indexes")
        finally:
            for stop in self._stops:
                stop()
            self.queue.close()
            self._written_lately.clear()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._reconcile(key)
            finally:
                self.queue.done(key)
            # A long row of keys with nothing to write must not keep everybody else from the event loop.
            if len(self.queue):
                await asyncio.sleep(0)

    async def _reconcile(self, key: Key) -> None:
        wait = self._guard.hold(key)
        if wait > 0:
            self.queue.add(key, after=wait)
            return
        try:
            basis = self._basis(key) if self._basis is not None else None
            now = self._clock.now()
            plan = plan_twice(self._reconciler, key, now) if self._strict else self._reconciler.plan(key, now)
            if self._on_plan is not None:
                self._on_plan(key, plan)
            # Most plans are empty: all is as it should be.
            done = plan.empty or await self._act(key, plan, basis)
        except PlansDiffer:
            raise
        except Exception as error:  # noqa: BLE001 - one key's trouble is not the others'
            self._count(self._failed(key, error))
        else:
            self._count("ok" if done else "again")
            self.queue.forget(key)
            if not done:
                self.queue.add(key)
            elif plan.look_again_after is not None:
                self.queue.add(key, after=plan.look_again_after.total_seconds())

    async def _act(self, key: Key, plan: Plan, basis: object) -> bool:
        """Carry a plan out; return whether all of it was done. Raises the first failure that nobody remembers."""
        error: Exception | None = None
        done, began, remembered = True, asyncio.get_running_loop().time(), False

        def is_wanted() -> bool:
            if remembered and plan.stops_at_failure:
                return False
            return self._basis is None or self._basis(key) == basis

        outcomes = act(
            plan,
            self._client,
            self._recorder,
            manager=self._manager,
            metrics=self._metrics,
            is_wanted=is_wanted,
        )
        try:
            async for outcome in outcomes:
                if isinstance(outcome, Written):
                    self._guard.wrote(key, outcome)
                    if self._debounce is not None and self._debounce.after_write:
                        self._written_lately.set(key, began + self._debounce.after_write, 0)
                    if self._on_written is not None:
                        self._on_written(key, outcome)
                else:
                    done = False
                    if self._on_failed is not None and self._on_failed(key, outcome):
                        remembered = True
                    else:
                        error = error or outcome.error
        except Superseded:
            done = False
        if error is not None:
            raise error
        return done

    def _failed(self, key: Key, error: Exception) -> str:
        """Decide what becomes of a key whose plan failed; return what to call that."""
        attempt = self.queue.failures(key) + 1
        extra = {"controller": self.name, "key": str(key), "attempt": attempt}
        text = "%s: %s failed, attempt %d: %s"
        if isinstance(error, TerminalError):
            self.queue.forget(key)
            _log.error("%s: %s is left alone until it changes: %s", self.name, key, error, extra=extra)
            return "terminal"
        if isinstance(error, Conflict):
            # Somebody was faster; the cache will show it any moment.
            self.queue.retry(key, at_most=CONFLICT_SECONDS)
            _log.info(text, self.name, key, attempt, error, extra=extra)
            return "conflict"
        if isinstance(error, ApiError):
            self.queue.retry(key, at_least=error.retry_after)
            _log.warning(text, self.name, key, attempt, error, extra=extra)
            return "refused"
        self.queue.retry(key)
        _log.error(text, self.name, key, attempt, repr(error), extra=extra, exc_info=error)
        return "error"

    def _count(self, result: str) -> None:
        counter = self._results.get(result)
        if counter is None:  # looking it up takes longer than most plans
            counter = self._results[result] = self._metrics.reconciles.labels(self.name, result)
        counter.inc()

    async def _look_at_everything_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._routine_seconds * self._random.uniform(0.9, 1.1))
            await self._look_at_everything()

    async def _look_at_everything(self) -> None:
        for source in self._sources:
            for number, obj in enumerate(source.informer.values(), start=1):
                for key in source.keys(obj):
                    self.queue.add(key, ROUTINE)
                if number % 1000 == 0:
                    await asyncio.sleep(0)


def _own_key(obj: Any) -> Iterable[Key]:
    return (key_of(obj),)


def _always(_: Delta[Any]) -> bool:
    return True


def _nothing(_: Key, __: int) -> None:
    """Nothing is due: the time was all that mattered."""
