"""Virtual time: what asyncio promises still holds, chance comes from the seed alone, and nothing hangs in silence."""

import asyncio
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from echelon.fleet.loop import PROCESS, Deadlock, Livelock, Unnoticed, run, running

WEEK = 7 * 24 * 3600.0


def test_a_week_passes_at_once_and_the_wall_clock_moves_with_it() -> None:
    async def main() -> tuple[float, datetime]:
        await asyncio.sleep(WEEK)
        return running().time(), running().clock.now()

    assert run(main()) == (WEEK, datetime(2026, 1, 8, tzinfo=UTC))


def test_timers_of_one_moment_fire_in_the_order_in_which_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        for number in range(50):
            running().call_at(10.0, fired.append, number)
        await asyncio.sleep(10)
        return fired

    assert run(main()) == list(range(50))


def test_timers_fire_in_order_of_their_moments() -> None:
    async def main() -> list[float]:
        fired: list[float] = []

        async def at(moment: float) -> None:
            await asyncio.sleep(moment)
            fired.append(running().time())

        async with asyncio.TaskGroup() as group:
            for moment in (5.0, 0.5, 3600.0, 7.25):
                group.create_task(at(moment))
        return fired

    assert run(main()) == [0.5, 5.0, 7.25, 3600.0]


def order_of_five(seed: int) -> list[int]:
    async def main() -> list[int]:
        order: list[int] = []

        async def step(number: int) -> None:
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(step(number))
        return order

    return run(main(), seed)


def test_the_seed_decides_which_ready_task_goes_next() -> None:
    orders = [order_of_five(seed) for seed in range(40)]
    assert orders == [order_of_five(seed) for seed in range(40)]
    assert len({tuple(order) for order in orders}) > 20
    assert {order[0] for order in orders} == {0, 1, 2, 3, 4}


def test_a_ready_task_can_be_overtaken_by_many_steps_of_another() -> None:
    """A batch that is merely shuffled would never show this; a slow thread of a real process does."""

    async def main() -> int:
        laps = 0
        late: list[int] = []

        async def runs() -> None:
            nonlocal laps
            while not late:
                await asyncio.sleep(0)
                laps += 1

        async def waits() -> None:
            late.append(laps)

        async with asyncio.TaskGroup() as group:
            group.create_task(runs())
            group.create_task(waits())
        return late[0]

    assert max(run(main(), seed) for seed in range(60)) > 2


@pytest.mark.parametrize("seed", range(20))
def test_callbacks_keep_the_order_in_which_they_were_scheduled(seed: int) -> None:
    async def main() -> list[int]:
        order: list[int] = []
        loop = asyncio.get_running_loop()
        noise = [asyncio.create_task(asyncio.sleep(0)) for _ in range(5)]
        for number in range(20):
            loop.call_soon(order.append, number)
        await asyncio.sleep(1)
        await asyncio.gather(*noise)
        return order

    assert run(main(), seed) == list(range(20))


@pytest.mark.parametrize("seed", range(20))
def test_cancelling_a_task_by_callback_is_a_callback_and_no_step(seed: int) -> None:
    async def main() -> list[str]:
        order: list[str] = []
        loop = asyncio.get_running_loop()
        victim = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(1)
        loop.call_soon(order.append, "before")
        loop.call_soon(victim.cancel)
        loop.call_soon(lambda: order.append(f"cancelling: {victim.cancelling()}"))
        await asyncio.wait([victim])
        return order

    assert run(main(), seed) == ["before", "cancelling: 1"]


def test_asyncio_itself_works() -> None:
    async def main() -> list[object]:
        seen: list[object] = []
        queue: asyncio.Queue[int] = asyncio.Queue(2)
        event, lock = asyncio.Event(), asyncio.Lock()

        async def produce() -> None:
            for number in range(5):
                await queue.put(number)
                await asyncio.sleep(1)
            event.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            seen += [await queue.get() for _ in range(5)]
            await event.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 10)
        async with lock:
            seen.append(await asyncio.wait_for(asyncio.sleep(5, "done"), 10))
        seen.append(running().time())
        return seen

    for seed in range(10):
        assert run(main(), seed) == [0, 1, 2, 3, 4, "done", 50.0]


def test_generators_left_behind_are_closed() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1)
            closed.append("closed")

    async def main() -> None:
        kept.append(numbers())
        assert await anext(kept[0]) == 1

    kept: list[AsyncIterator[int]] = []
    run(main())
    assert closed == ["closed"]


def test_a_deadlock_names_who_waits_and_where() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck(), name="the stuck one")

    with pytest.raises(Deadlock, match=r"the stuck one: .*in Event\.wait"):
        run(main())


def test_a_cancelled_timer_does_not_hide_a_deadlock() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(5, print).cancel()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"at 0\.0 s"):
        run(main())


def test_running_in_circles_is_found_and_named() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - that is the mistake
            await asyncio.sleep(0)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(spin(), name="spinner")
            await asyncio.sleep(1)

    with pytest.raises(Livelock, match=r"5000 steps at 0\.0 s .* of spinner \(1000\)"):
        run(main(), steps_without_time=5_000)


def test_a_task_that_dies_unnoticed_fails_the_run() -> None:
    async def dies() -> None:
        raise ValueError("nobody looks")

    async def main() -> list[asyncio.Task[None]]:
        forgotten = [asyncio.create_task(dies(), name="forgotten")]
        await asyncio.sleep(1)
        return forgotten

    with pytest.raises(Unnoticed, match=r"'forgotten' died unnoticed: ValueError\('nobody looks'\)"):
        run(main())


def test_a_task_whose_error_was_seen_is_fine() -> None:
    async def dies() -> None:
        raise ValueError("somebody looks")

    async def main() -> str:
        task = asyncio.create_task(dies())
        await asyncio.wait([task])
        return str(task.exception())

    assert run(main()) == "somebody looks"


def test_a_callback_that_fails_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "x")
        await asyncio.sleep(1)

    with pytest.raises(Unnoticed, match="invalid literal"):
        run(main())


def test_an_error_of_the_main_task_carries_the_deaths_that_may_explain_it() -> None:
    async def dies() -> None:
        raise ValueError("the reason")

    async def main() -> None:
        keep = asyncio.create_task(dies())
        await asyncio.Event().wait()
        del keep

    with pytest.raises(Deadlock) as caught:
        run(main())
    assert any("the reason" in note for note in caught.value.__notes__)


def test_what_is_left_is_cancelled_and_awaited_oldest_first() -> None:
    ended: list[int] = []

    async def forever(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1 + number)
            ended.append(number)

    async def main() -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(forever(number)) for number in range(3)]
        await asyncio.sleep(1)
        return tasks

    run(main())
    assert ended == [0, 1, 2]


def test_a_task_that_ignores_its_cancellation_is_reported() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                if running().time() > 20_000:
                    raise

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(stubborn(), name="stubborn")
        await asyncio.sleep(1)
        return task

    with pytest.raises(Unnoticed, match="'stubborn' was cancelled and goes on"):
        run(main())


def test_threads_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="one thread"):
            await asyncio.to_thread(print)
        loop, refused = asyncio.get_running_loop(), []

        def other() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                refused.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert "one thread" in refused[0]

    run(main())


def test_a_paused_process_stands_still_while_time_goes_on() -> None:
    async def main() -> tuple[list[float], list[float]]:
        ticks: dict[str, list[float]] = {"paused": [], "other": []}

        async def tick(process: str) -> None:
            PROCESS.set(process)
            async with asyncio.TaskGroup() as group:
                group.create_task(inner(process))

        async def inner(process: str) -> None:
            for _ in range(4):
                await asyncio.sleep(1)
                ticks[process].append(running().time())

        async with asyncio.TaskGroup() as group:
            group.create_task(tick("paused"))
            group.create_task(tick("other"))
            await asyncio.sleep(1.5)
            running().pause("paused", 60)
        return ticks["paused"], ticks["other"]

    assert run(main()) == ([1.0, 61.5, 62.5, 63.5], [1.0, 2.0, 3.0, 4.0])


def busy_world(seed: int) -> str:
    """Return a digest of everything that happened in a world full of sets, groups, races and time-outs."""
    trace: list[tuple[float, str]] = []

    async def worker(number: int, queue: asyncio.Queue[str]) -> None:
        loop = running()
        while True:
            await asyncio.sleep(loop.random.uniform(0, 3))
            await queue.put(f"{number}")
            try:
                async with asyncio.timeout(loop.random.uniform(0.5, 20)):
                    await asyncio.sleep(1)
            except TimeoutError:
                return

    async def main() -> None:
        queue: asyncio.Queue[str] = asyncio.Queue(3)
        tasks = {asyncio.create_task(worker(number, queue)) for number in range(30)}
        for _ in range(200):
            await queue.get()
        done, pending = await asyncio.wait(tasks, timeout=1)
        for task in pending:  # a set: its order is that of the hashes
            task.cancel()
        await asyncio.gather(*pending, *done, return_exceptions=True)

    run(main(), seed, trace=trace)
    return hashlib.sha256(repr(trace).encode()).hexdigest()


def test_same_seed_same_trace_in_one_process() -> None:
    assert busy_world(3) == busy_world(3)
    assert busy_world(3) != busy_world(4)


def test_same_seed_same_trace_whatever_strings_hash_to() -> None:
    code = "from tests.fleet.test_loop import busy_world; print([busy_world(seed) for seed in range(5)])"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(["src", "."])},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(printed) == 1
