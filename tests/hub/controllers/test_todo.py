"""When a controller tries again what failed, and what it says about it. In virtual time."""

import asyncio
import logging
from itertools import pairwise

import pytest

from echelon.fleet.loop import run
from echelon.hub.controllers.todo import LONGEST_DELAY, Todo
from echelon.kube.errors import ApiError, Conflict


class Controller:
    """Fails at some keys, and knows when it tried what."""

    def __init__(self) -> None:
        self.failing: dict[str, Exception] = {}
        self.tried: dict[str, list[float]] = {}
        self.todo: Todo[str] = Todo("settling", self._settle)

    async def _settle(self, key: str) -> None:
        self.tried.setdefault(key, []).append(asyncio.get_running_loop().time())
        if error := self.failing.get(key):
            raise error

    async def work_until(self, end: float) -> None:
        loop = asyncio.get_running_loop()
        while (delay := self.todo.delay) is not None and loop.time() + delay <= end:
            await asyncio.sleep(delay)
            await self.todo.work()

    def times(self, key: str) -> list[float]:
        return [round(moment - self.tried[key][0], 3) for moment in self.tried[key]]


def test_what_fails_is_tried_again_with_growing_delays_that_have_a_limit() -> None:
    async def main() -> None:
        controller = Controller()
        controller.failing["bad"] = ApiError("no")
        controller.todo.add("bad")
        controller.todo.add("good")
        await controller.work_until(asyncio.get_running_loop().time() + 2000)
        times = controller.times("bad")
        assert times[:10] == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511]
        assert {later - earlier for earlier, later in pairwise(times[9:])} == {LONGEST_DELAY}
        assert controller.times("good") == [0]

    run(main())


def test_a_failure_is_told_when_it_is_new_or_another_one_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        controller, loop = Controller(), asyncio.get_running_loop()
        for error in (ApiError("one"), ApiError("the same in other words"), Conflict("two"), RuntimeError("three")):
            controller.failing["bad"] = error
            controller.todo.add("bad")
            await controller.work_until(loop.time() + 1000)
        del controller.failing["bad"]
        await controller.work_until(loop.time() + 1000)
        assert controller.todo.delay is None

    run(main())
    told = [(record.levelname, record.getMessage(), bool(record.exc_info)) for record in caplog.records]
    assert told[:3] == [
        ("WARNING", "settling bad: will try again: one", False),
        ("WARNING", "settling bad: will try again: two", False),
        ("WARNING", "settling bad: will try again: three", True),
    ]
    level, text, _ = told[3]
    assert (level, text.startswith("settling bad: done after ")) == ("INFO", True)
    assert len(told) == 4


def test_a_change_is_looked_at_now_and_a_reminder_waits() -> None:
    async def main() -> None:
        controller = Controller()
        controller.failing["bad"] = ApiError("no")
        controller.todo.add("bad")
        await controller.todo.work()
        controller.todo.remind("bad")
        await controller.todo.work()
        assert controller.times("bad") == [0]
        controller.todo.add("bad")
        await controller.todo.work()
        assert controller.times("bad") == [0, 0]
        controller.todo.discard("bad")
        assert controller.todo.delay is None

    run(main())


def test_work_gives_way() -> None:
    async def main() -> None:
        controller = Controller()
        for number in range(100):
            controller.todo.add(str(number))
        other = asyncio.create_task(asyncio.sleep(0))
        working = asyncio.create_task(controller.todo.work())
        await other
        assert len(controller.tried) < 100
        await working
        assert len(controller.tried) == 100

    run(main())
