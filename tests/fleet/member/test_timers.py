"""The alarm clock of a fleet, on the loops that it runs on."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
import uvloop

from echelon.fleet.loop import run
from echelon.fleet.member.timers import Timers


async def rung() -> list[str]:
    """Ask for calls out of order, some of them for moments that are past; return the calls as they came."""
    timers, calls = Timers(), list[str]()
    now = asyncio.get_running_loop().time()
    asked = {"third": 0.02, "past": -1.0, "at once": 0.0, "second": 0.01, "also at once": 0.0, "last": 0.03}
    done = asyncio.Event()

    def ring(name: str) -> None:
        calls.append(name)
        if name == "last":
            done.set()

    for name, seconds in asked.items():
        timers.at(now + seconds, partial(ring, name))
    await done.wait()
    assert not len(timers)
    return calls


@pytest.mark.parametrize("on", [asyncio.run, uvloop.run, run], ids=["asyncio", "uvloop", "virtual"])
def test_calls_come_in_order_whatever_the_loop(on: Callable[[Coroutine[Any, Any, list[str]]], list[str]]) -> None:
    assert on(rung()) == ["past", "at once", "also at once", "second", "third", "last"]


def test_a_cleared_clock_calls_nobody() -> None:
    async def scene() -> list[str]:
        timers, calls = Timers(), list[str]()
        timers.after(1, lambda: calls.append("rang"))
        timers.clear()
        await asyncio.sleep(2)
        return calls

    assert run(scene()) == []
