"""Virtual time: an event loop that runs a whole world in one thread and never waits.

A week of soaking must take milliseconds, and a failure that was seen once must be seen again. So there is no selector
and no wall clock: when nothing is ready, time jumps to the next timer. Which of the ready tasks goes next is drawn
from a seed, because code that works only in the order that asyncio happens to have is broken on a busy machine. Only
task steps are drawn; callbacks keep the order that asyncio promises.

Everything that would differ between two runs of one seed is taken away: tasks are named and hashed by their number
(sets of tasks are everywhere in asyncio), garbage is collected at fixed steps (it may end an abandoned generator),
and threads are refused.
"""

# ruff: noqa: SLF001 - asyncio has no public seam for a loop of one's own; these parts are unchanged since Python 3.4

import asyncio
import contextvars
import gc
import heapq
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Generator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Never, TypeVar, cast

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
# Which simulated process a task belongs to; what a task starts belongs there too.
PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("process", default="")

_STEPS_WITHOUT_TIME = 2_000_000
_SAMPLE = 1_000  # steps that are looked at to say who runs in circles
_COLLECT_EVERY = 200_000  # steps
_MANY_CANCELLED = 1_000  # timers; below this they may stay in the heap
_WIND_UP_SECONDS = 3_600.0


class Deadlock(Exception):
    """Everybody waits for somebody else."""


class Livelock(Exception):
    """Tasks run and run, and time stands still."""


class Unnoticed(Exception):
    """A task or a callback failed and nobody looked: in production it would have died in silence."""


class VirtualClock:
    """Wall time that moves with the loop."""

    def __init__(self, loop: "VirtualLoop", start: datetime) -> None:
        self._loop = loop
        self._start = start
        self._known = (0.0, start)  # the last answer: much happens at one moment

    def now(self) -> datetime:
        """Return the present moment, in UTC."""
        seconds = self._loop.time()
        if self._known[0] != seconds:
            self._known = (seconds, self._start + timedelta(seconds=seconds))
        return self._known[1]


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number  # first: asyncio hashes a task while it is being made
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on virtual time. `random` is for whoever takes part; the order of steps has a source of its own.

    `trace` receives (time, task name) of every task step, until the main task is done.
    """

    # What the base class has and type stubs do not know.
    _closed: bool
    _ready: deque[asyncio.Handle]
    _timer_cancelled_count: int
    _stopping: bool
    _thread_id: int | None

    def __init__(
        self,
        seed: int,
        start: datetime = START,
        *,
        trace: list[tuple[float, str]] | None = None,
        steps_without_time: int = _STEPS_WITHOUT_TIME,
    ) -> None:
        super().__init__()
        self.random = Random(seed)  # noqa: S311 - repeatable on purpose
        self.clock = VirtualClock(self, start)
        self.trace = trace
        self.steps = 0
        self.failures: list[str] = []
        self._draw = Random(f"steps of {seed}").random  # noqa: S311 - repeatable on purpose
        self._time = 0.0
        self._moved = 0  # at which step time moved last
        self._patience = steps_without_time
        self._sampled: Counter[str] = Counter()
        self._callbacks: deque[asyncio.Handle] = deque()
        self._task_steps: list[asyncio.Handle] = []
        self._paused: dict[str, list[asyncio.Handle]] = {}
        self._alive: dict[asyncio.Task[Any], None] = {}
        self._died: list[asyncio.Task[Any]] = []
        self._born = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []  # a heap; the number is for those of one time
        self._set = 0  # how many timers were
        self._outside = contextvars.Context()  # what the loop does for itself belongs to no process
        self.set_exception_handler(_note_failure)

    # Asked for with every future and every handle: no Python code for a mode that virtual time does not have.
    get_debug = staticmethod(bool)

    def reseed(self, seed: int) -> None:
        """Let chance go on by another seed: for copies of one world that are to differ."""
        self.random.seed(seed)
        self._draw = Random(f"steps of {seed}").random  # noqa: S311 - repeatable on purpose

    def time(self) -> float:
        """Return the seconds since the world began."""
        return self._time

    def call_soon(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback. Every step of every task comes through here, so help for debugging is left out."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback for a time; of those for one time, the one that was scheduled first is called first."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        timer: Any = asyncio.TimerHandle(when, callback, args, self, context)
        self._set += 1
        # Tuples, because a heap of timers calls Python code for each comparison.
        heapq.heappush(self._timers, (when, self._set, timer))
        timer._scheduled = True  # so that its cancellation is counted
        return cast("asyncio.TimerHandle", timer)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """Start a task. One without a name is called by its number in this loop, the same in every run."""
        self._born += 1
        label = f"task-{self._born}" if name is None else str(name)
        task = _Task(self._born, coro, loop=self, name=label, context=context, **options)
        self._alive[task] = None
        task.add_done_callback(self._ended, context=self._outside)
        return task

    def pause(self, process: str, seconds: float) -> None:
        """Stop all tasks and timers of a process for a while, as SIGSTOP or a long garbage collection does."""
        if process in self._paused:
            return
        self._paused[process] = []
        self.call_later(seconds, self._resume, process, context=self._outside)

    def living(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended, oldest first."""
        return list(self._alive)

    def died(self) -> list[str]:
        """Describe the tasks that failed and that nobody asked for their error."""
        quiet = [task for task in self._died if cast("Any", task)._log_traceback]
        return [f"task {task.get_name()!r} died unnoticed: {task.exception()!r}" for task in quiet] + self.failures

    def run_forever(self) -> None:
        """Run until stopped."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            super().run_forever()
        finally:
            if collecting:
                gc.enable()

    def _run_once(self) -> None:
        """Run until somebody stops the loop: asyncio asks after each call whether to go on, and so does this."""
        ready, steps, callbacks = self._ready, self._task_steps, self._callbacks
        draw = self._draw
        while True:
            if ready:
                self._sort()
            if steps:
                drawn = int(draw() * (len(steps) + (1 if callbacks else 0)))
                if drawn < len(steps):
                    steps[drawn], steps[-1] = steps[-1], steps[drawn]
                    self._step(steps.pop())
                    if self._stopping:
                        return
                    continue
            if callbacks:
                handle = callbacks.popleft()
                if not handle.cancelled():
                    handle._run()
            elif not self._stopping:
                self._jump()
            if self._stopping:
                return

    def _sort(self) -> None:
        """Tell task steps from callbacks, and put aside what belongs to a paused process."""
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if self._paused and (process := _process_of(handle)) in self._paused:
                self._paused[process].append(handle)
            elif _is_task_step(handle):
                self._task_steps.append(handle)
            else:
                self._callbacks.append(handle)

    def _step(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        self.steps += 1
        if self.trace is not None:
            self.trace.append((self._time, _name_of(handle)))
        if self.steps - self._moved > self._patience:
            self._sample(handle)
        if not self.steps % _COLLECT_EVERY:
            gc.collect()
        handle._run()

    def _sample(self, handle: asyncio.Handle) -> None:
        self._sampled[_name_of(handle)] += 1
        if self._sampled.total() >= _SAMPLE:
            busiest = ", ".join(f"{name} ({count})" for name, count in self._sampled.most_common(5))
            self._moved = self.steps  # there is still the winding up to do
            self._sampled.clear()
            raise Livelock(
                f"{self._patience} steps at {self._time} s without time going on; the last {_SAMPLE} were of {busiest}"
            )

    def _jump(self) -> None:
        """Go to the moment of the next timer and make everything ready that is due then."""
        timers = self._timers
        if self._timer_cancelled_count > max(_MANY_CANCELLED, len(timers) // 2):
            self._timers = timers = [entry for entry in timers if not entry[2].cancelled()]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][2].cancelled():
            self._timer_cancelled_count -= 1
            _take_first(timers)
        if not timers:
            raise Deadlock(f"at {self._time} s nothing can happen any more; waiting are:\n{self._waiting()}")
        if timers[0][0] > self._time:
            self._time, self._moved = timers[0][0], self.steps
            self._sampled.clear()
        while timers and timers[0][0] <= self._time:
            self._ready.append(_take_first(timers))

    def _resume(self, process: str) -> None:
        self._ready.extend(self._paused.pop(process))

    def _waiting(self) -> str:
        return "\n".join(f"  {task.get_name()}: {_where(task)}" for task in self._alive)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._alive.pop(task, None)
        if not task.cancelled() and cast("Any", task)._log_traceback:
            self._died.append(task)

    def call_soon_threadsafe(  # type: ignore[override]  # typeshed ties the arguments to the callback
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback, from this thread only."""
        if self._thread_id not in (None, threading.get_ident()):
            raise RuntimeError("virtual time has one thread: another one cannot schedule callbacks")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, *_: Any) -> Never:  # type: ignore[override]  # it never returns
        """Refuse."""
        raise RuntimeError("virtual time has one thread: nothing can run in an executor")

    def _process_events(self, event_list: Any) -> None:
        """Do nothing: there is no I/O."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no selector to wake."""


def run(
    main: Coroutine[Any, Any, T],
    seed: int = 0,
    *,
    trace: list[tuple[float, str]] | None = None,
    steps_without_time: int = _STEPS_WITHOUT_TIME,
) -> T:
    """Run a coroutine on virtual time, end what it left behind, and return its result.

    Raises `Unnoticed` when a task failed and nobody asked: such a task is a bug even if the result is right.
    """
    loop = VirtualLoop(seed, trace=trace, steps_without_time=steps_without_time)
    try:
        result = loop.run_until_complete(main)
    except BaseException as error:
        _wind_up(loop)
        for note in loop.died():
            error.add_note(note)
        raise
    else:
        _wind_up(loop)
        if died := loop.died():
            raise Unnoticed("\n".join(died))
        return result
    finally:
        loop.close()


def running() -> VirtualLoop:
    """Return the virtual loop that the caller runs on."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError("this runs on virtual time only")
    return loop


def _wind_up(loop: VirtualLoop) -> None:
    """Cancel the tasks that are left, oldest first, and close abandoned generators."""
    loop.trace = None
    left = loop.living()
    for task in left:
        task.cancel()
    if left:
        _, stubborn = loop.run_until_complete(asyncio.wait(left, timeout=_WIND_UP_SECONDS))
        loop.failures += [f"task {task.get_name()!r} was cancelled and goes on: {_where(task)}" for task in stubborn]
    loop.run_until_complete(loop.shutdown_asyncgens())


def _take_first(timers: list[tuple[float, int, asyncio.TimerHandle]]) -> asyncio.TimerHandle:
    timer: Any = heapq.heappop(timers)[2]
    timer._scheduled = False  # or its cancellation would be counted as one of a waiting timer
    return cast("asyncio.TimerHandle", timer)


_TASK_METHODS = frozenset(dir(asyncio.Task))


def _is_task_step(handle: Any) -> bool:
    """Tell whether a handle continues a task, and does not just call one of its methods (`call_later(5, t.cancel)`)."""
    callback = handle._callback
    return type(getattr(callback, "__self__", None)) is _Task and getattr(callback, "__name__", "") not in _TASK_METHODS


def _name_of(step: Any) -> str:
    name: str = step._callback.__self__.get_name()
    return name


def _process_of(handle: Any) -> str:
    process: str = handle._context.get(PROCESS, "")
    return process


def _note_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    cast("VirtualLoop", loop).failures.append(f"{context['message']}: {context.get('exception')!r}")


def _where(task: asyncio.Task[Any]) -> str:
    """Say in which line a task waits: the innermost coroutine that can be seen."""
    place, awaited = "nowhere", cast("Any", task.get_coro())
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return place
