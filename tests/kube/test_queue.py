"""The work queue: one worker a key, nothing twice, nothing lost, what matters first."""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples

from echelon.fleet.loop import VirtualLoop, run
from echelon.kube.metrics import Metrics
from echelon.kube.queue import FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, Closed, Debounce, WorkQueue

T = TypeVar("T")


def new_queue(**options: float) -> WorkQueue[str]:
    return WorkQueue(Random(1), **options)  # noqa: S311 - repeatable on purpose


async def taken(queue: WorkQueue[str]) -> str | None:
    """Return the next key if there is one now."""
    try:
        async with asyncio.timeout(0):
            return await queue.get()
    except TimeoutError:
        return None


def test_a_key_that_is_added_often_is_worked_on_once() -> None:
    async def story() -> None:
        queue = new_queue()
        for _ in range(5):
            queue.add("a")
        assert len(queue) == 1
        assert await taken(queue) == "a"
        queue.done("a")
        assert await taken(queue) is None

    run(story())


def test_a_key_is_never_with_two_workers_and_comes_once_more_if_it_was_added_meanwhile() -> None:
    async def story() -> None:
        queue = new_queue()
        queue.add("a")
        assert await taken(queue) == "a"
        queue.add("a")
        queue.add("a")
        assert await taken(queue) is None
        queue.done("a")
        assert await taken(queue) == "a"
        queue.done("a")
        assert await taken(queue) is None

    run(story())


def test_a_routine_look_at_everything_does_not_delay_new_work() -> None:
    async def story() -> list[str | None]:
        queue = new_queue()
        for number in range(1000):
            queue.add(f"routine-{number}", 100)
        queue.add("routine-500")
        queue.add("new")
        queue.add("new", 100)
        return [await taken(queue) for _ in range(3)]

    assert run(story()) == ["routine-500", "new", "routine-0"]


def test_a_delayed_key_comes_at_its_time_and_the_earlier_wish_wins() -> None:
    async def story() -> list[tuple[str, float]]:
        queue, loop = new_queue(), asyncio.get_running_loop()
        queue.add("a", after=10)
        queue.add("b", after=3)
        queue.add("a", after=5)
        queue.add("a", after=20)
        came = []
        for _ in range(2):
            key = await queue.get()
            came.append((key, loop.time()))
            queue.done(key)
        await asyncio.sleep(60)
        assert await taken(queue) is None
        return came

    assert run(story()) == [("b", 3.0), ("a", 5.0)]


def test_a_key_that_is_worked_on_before_its_time_does_not_come_again() -> None:
    async def story() -> None:
        queue = new_queue()
        queue.add("a", after=10)
        queue.add("a")
        assert await taken(queue) == "a"
        queue.done("a")
        await asyncio.sleep(60)
        assert await taken(queue) is None

    run(story())


def test_a_time_that_comes_during_the_work_counts() -> None:
    async def story() -> None:
        queue = new_queue()
        queue.add("a")
        assert await taken(queue) == "a"
        queue.add("a", after=5)
        await asyncio.sleep(10)
        assert await taken(queue) is None
        queue.done("a")
        assert await taken(queue) == "a"

    run(story())


async def times(queue: WorkQueue[str], count: int) -> list[tuple[str, float]]:
    """Return the next keys, and when they came."""
    came = []
    for _ in range(count):
        key = await queue.get()
        came.append((key, round(asyncio.get_running_loop().time(), 6)))
        queue.done(key)
    return came


def test_a_key_that_changes_again_and_again_comes_once_when_that_has_ended() -> None:
    async def story() -> list[tuple[str, float]]:
        queue = new_queue()
        for _ in range(5):
            queue.collect("a", Debounce(0.1, 1.0))
            queue.collect("b", Debounce(0.1, 1.0))
            await asyncio.sleep(0.05)
        came = await times(queue, 2)
        await asyncio.sleep(10)
        assert await taken(queue) is None
        return came

    assert run(story()) == [("a", 0.3), ("b", 0.3)]


def test_a_key_that_never_stops_changing_comes_in_the_longest_time_all_the_same() -> None:
    async def story() -> list[tuple[str, float]]:
        queue = new_queue()

        async def change() -> None:
            for _ in range(45):
                queue.collect("a", Debounce(0.1, 1.0))
                await asyncio.sleep(0.06)

        changing = asyncio.create_task(change())
        came = await times(queue, 3)
        await changing
        return came

    # Each time begins with the first change after the last one; in the end it is quiet.
    assert run(story()) == [("a", 1.0), ("a", 2.02), ("a", 2.74)]


def test_a_key_is_collected_until_the_time_before_which_it_must_not_come() -> None:
    async def story() -> list[tuple[str, float]]:
        queue = new_queue()
        queue.collect("a", Debounce(0.1, 1.0), not_before=5.0)
        queue.collect("b", Debounce(0.1, 1.0))
        came = await times(queue, 1)
        queue.collect("a", Debounce(0.1, 1.0), not_before=3.0)
        return came + await times(queue, 1)

    assert run(story()) == [("b", 0.1), ("a", 3.0)]


def test_a_key_that_is_worked_on_while_it_is_collected_does_not_come_again_for_that() -> None:
    async def story() -> None:
        queue = new_queue()
        queue.collect("a", Debounce(1, 5))
        queue.add("a")
        assert await taken(queue) == "a"
        queue.done("a")
        await asyncio.sleep(60)
        assert await taken(queue) is None
        queue.collect("a", Debounce(1, 5))
        assert await times(queue, 1) == [("a", 61.0)]

    run(story())


def test_what_changes_during_the_work_comes_after_it() -> None:
    async def story() -> None:
        queue = new_queue()
        queue.add("a")
        assert await taken(queue) == "a"
        queue.collect("a", Debounce(1, 5))
        await asyncio.sleep(10)
        assert await taken(queue) is None
        queue.done("a")
        assert await taken(queue) == "a"

    run(story())


def test_collecting_does_not_put_off_another_wish_nor_does_that_end_it_early() -> None:
    async def story() -> list[tuple[str, float]]:
        queue = new_queue()
        queue.add("a", after=0.5)
        queue.add("b", after=60)
        for _ in range(20):
            queue.collect("a", Debounce(1, 5))
            queue.collect("b", Debounce(1, 5))
        return await times(queue, 2)

    assert run(story()) == [("a", 0.5), ("b", 1.0)]


def test_the_best_priority_of_what_was_collected_counts() -> None:
    async def story() -> list[str | None]:
        queue = new_queue()
        queue.collect("routine", Debounce(1, 5), 100)
        queue.collect("new", Debounce(1, 5), 100)
        queue.collect("new", Debounce(1, 5), 0)
        queue.collect("new", Debounce(1, 5), 100)
        await asyncio.sleep(2)
        return [await taken(queue), await taken(queue)]

    assert run(story()) == ["new", "routine"]


def test_retries_slow_down_up_to_a_limit_until_the_key_is_forgotten() -> None:
    async def story() -> None:
        queue = new_queue()
        delays = [queue.retry("a") for _ in range(40)]
        for number, delay in enumerate(delays):
            longest = min(FIRST_RETRY_SECONDS * 2**number, LAST_RETRY_SECONDS)
            assert longest / 2 <= delay <= longest
        assert len({round(delay, 6) for delay in delays}) == 40
        assert queue.failures("a") == 40
        queue.forget("a")
        assert queue.retry("a") <= FIRST_RETRY_SECONDS
        assert queue.retry("b", at_least=7) == 7
        assert [queue.retry("c", at_most=1) <= 1 for _ in range(20)] == [True] * 20

    run(story())


def test_failing_does_not_make_routine_work_urgent() -> None:
    async def story() -> list[str | None]:
        queue = new_queue()
        queue.add("routine", 100)
        assert await taken(queue) == "routine"
        queue.retry("routine")
        queue.done("routine")
        await asyncio.sleep(1)
        queue.add("new")
        return [await taken(queue), await taken(queue)]

    assert run(story()) == ["new", "routine"]


def test_a_worker_that_is_cancelled_does_not_take_a_key_with_it() -> None:
    async def story() -> None:
        queue = new_queue()
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")  # wakes one of them, which is cancelled before it can run
        first.cancel()
        await asyncio.sleep(1)
        assert second.done()
        assert await second == "a"

    for seed in range(10):
        run(story(), seed)


def test_closing_ends_all_who_wait_and_refuses_more() -> None:
    async def story() -> None:
        queue = new_queue()
        waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
        queue.add("later", after=5)
        queue.collect("more", Debounce(5, 5))
        await asyncio.sleep(1)
        queue.close()
        assert queue.later == 0
        queue.collect("more", Debounce(5, 5))
        assert queue.later == 0
        for task in waiting:
            with pytest.raises(Closed):
                await task
        queue.add("a")
        with pytest.raises(Closed):
            await queue.get()

    run(story())


def test_waiting_is_measured() -> None:
    async def story() -> None:
        metrics, queue = Metrics(), new_queue()
        metrics.show_queue("q", queue.stats)

        def sample(name: str) -> float | None:
            return metrics.registry.get_sample_value(name, {"name": "q"})

        queue.add("a")
        await asyncio.sleep(4)
        queue.add("b")
        await asyncio.sleep(3)
        assert sample("workqueue_depth") == 2
        assert sample("workqueue_oldest_waiting_seconds") == 7
        assert await taken(queue) == "a"
        assert sample("workqueue_queue_duration_seconds_sum") == 7
        assert sample("workqueue_oldest_waiting_seconds") == 3
        await asyncio.sleep(2)
        queue.retry("a")
        queue.done("a")
        assert sample("workqueue_work_duration_seconds_sum") == 2
        assert sample("workqueue_adds_total") == 3
        assert sample("workqueue_retries_total") == 1

    run(story())


def test_timers_that_were_overtaken_are_not_kept() -> None:
    async def story() -> int:
        queue = new_queue()
        for _ in range(20_000):
            queue.add("a", after=3600)
            queue.add("a")
            queue.done(await queue.get())
        return len(queue._later._heap)

    assert run(story()) < 2_000


def test_collecting_keeps_one_timer_however_often_a_key_changes() -> None:
    async def story() -> int:
        queue = new_queue()
        for _ in range(20_000):
            queue.collect("a", Debounce(1, 5))
        return len(queue._collecting._heap)

    assert run(story()) == 1


def test_places_in_line_that_were_overtaken_are_not_kept() -> None:
    async def story() -> int:
        queue = new_queue()
        for _ in range(20_000):
            queue.add("a", 100)
            queue.add("a", 0)
            queue.done(await queue.get())
        return sum(len(lane) for lane in queue._lanes.values())

    assert run(story()) < 2_000


def test_a_hundred_thousand_keys_are_drained_and_each_came_once(record_property: Any) -> None:
    async def story() -> Counter[str]:
        queue, came = new_queue(), Counter[str]()
        for number in range(100_000):
            queue.add(f"key-{number}", number % 3)
        while len(queue):
            key = await queue.get()
            came[key] += 1
            queue.done(key)
        return came

    began = time.process_time()
    came = asyncio.run(story())
    record_property("cpu_seconds", time.process_time() - began)
    assert len(came) == 100_000
    assert set(came.values()) == {1}


KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """The queue against a model that is too simple to be wrong, and too slow to be used."""

    @initialize()
    def start(self) -> None:
        self.loop = VirtualLoop(0)
        self.queue = new_queue()
        self.order = 0
        self.ready: dict[str, tuple[int, int]] = {}
        self.later: dict[str, tuple[float, int, int]] = {}
        self.collecting: dict[str, tuple[float, int, int]] = {}
        self.since: dict[str, float] = {}
        self.working: dict[str, int] = {}
        self.again: dict[str, int] = {}

    def teardown(self) -> None:
        self.loop.close()

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(step)

    def now_ready(self, key: str, priority: int) -> None:
        if key in self.working:
            self.again[key] = min(priority, self.again.get(key, priority))
        elif key not in self.ready or priority < self.ready[key][0]:
            self.order += 1
            self.ready[key] = (priority, self.order)

    def now_later(self, key: str, priority: int, when: float) -> None:
        self.order += 1
        before = self.later.get(key, (when, self.order, priority))
        self.later[key] = (min(before[0], when), before[1], min(priority, before[2]))

    @rule(key=KEYS, priority=st.integers(0, 2))
    def add(self, key: str, priority: int) -> None:
        async def step() -> None:
            self.queue.add(key, priority)

        self.do(step())
        self.now_ready(key, priority)

    @rule(key=KEYS, priority=st.integers(0, 2), after=st.sampled_from([1.0, 2.0, 5.0]))
    def add_later(self, key: str, priority: int, after: float) -> None:
        async def step() -> None:
            self.queue.add(key, priority, after)

        self.do(step())
        self.now_later(key, priority, self.loop.time() + after)

    @rule(key=KEYS, priority=st.integers(0, 2), at_least=st.sampled_from([0.0, 2.2]))
    def collect(self, key: str, priority: int, at_least: float) -> None:
        now = self.loop.time()  # never at a time at which anything else is due: what comes first then is open

        async def step() -> None:
            self.queue.collect(key, Debounce(0.7, 1.7), priority, not_before=now + at_least)

        self.do(step())
        self.order += 1
        _, order, best = self.collecting.get(key, (0.0, self.order, priority))
        since = self.since.setdefault(key, now)
        due = max(min(now + 0.7, since + 1.7), now + at_least)
        self.collecting[key] = (due, order, min(priority, best))

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))

        async def step() -> float:
            return self.queue.retry(key)

        delay = self.do(step())
        self.now_later(key, self.working[key], self.loop.time() + delay)

    @rule()
    def take(self) -> None:
        key = self.do(taken(self.queue))
        if not self.ready:
            assert key is None
            return
        assert key is not None
        assert self.ready[key] == min(self.ready.values())
        self.working[key] = self.ready.pop(key)[0]
        for waiting in (self.later, self.collecting, self.since):
            waiting.pop(key, None)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))

        async def step() -> None:
            self.queue.done(key)

        self.do(step())
        del self.working[key]
        if key in self.again:
            self.now_ready(key, self.again.pop(key))

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))
        now = self.loop.time()
        came = [(when, key, self.later) for key, when in self.later.items() if when[0] <= now]
        came += [(when, key, self.collecting) for key, when in self.collecting.items() if when[0] <= now]
        for (_, _, priority), key, waiting in sorted(came, key=lambda each: each[0][:2]):
            del waiting[key]
            if waiting is self.collecting:
                del self.since[key]
            self.now_ready(key, priority)

    @invariant()
    def agrees(self) -> None:
        waiting = {key: priority for key, (priority, _, _) in self.queue._ready.items()}
        assert waiting == {key: priority for key, (priority, _) in self.ready.items()}
        assert self.queue.later == len(self.later) + len(self.collecting)
        assert self.queue.idle == (not self.ready and not self.working)


QueueMachine.TestCase.settings = settings(examples(80), stateful_step_count=50)
TestQueueModel = QueueMachine.TestCase


def test_times_work_on_event_loops_whose_timers_do_not_tell_their_time() -> None:
    class Forgetful(asyncio.SelectorEventLoop):
        """Like uvloop, which returns a plain handle for what is due now."""

        def call_at(  # type: ignore[override]  # typeshed ties the arguments to the callback
            self, when: float, callback: Any, *args: Any, context: Any = None
        ) -> Any:
            if when <= self.time():
                return self.call_soon(callback, *args, context=context)
            return super().call_at(when, callback, *args, context=context)

    async def story() -> list[str]:
        queue: WorkQueue[str] = WorkQueue(Random(1))  # noqa: S311 - repeatable on purpose
        queue.add("a", after=1e-9)
        queue.add("b", after=0.01)
        queue.add("c", after=2e-9)
        return [await queue.get() for _ in range(3)]

    loop = Forgetful()
    try:
        assert loop.run_until_complete(story()) == ["a", "c", "b"]
    finally:
        loop.close()
