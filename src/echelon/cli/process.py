"""Commands that stay: how a process runs, and how it is told to stop."""

import asyncio
import gc
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

# How long a thread beside the event loop keeps the interpreter when the loop wants it, and the loop wants it several
# times for one answer: with the usual 5 ms everybody's answers take 5 ms longer while somebody's megabyte is read.
_SWITCH_SECONDS = 0.001


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a server's main coroutine, on uvloop if it is installed, with a collector that large caches can bear."""
    bear_large_caches()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        import uvloop  # an extra
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def bear_large_caches() -> None:
    """Have the collector look seldom at what lives long: in a process full of objects it costs a fifth of all."""
    gc.set_threshold(50_000, 100, 100)


async def until(stopping: asyncio.Event, working: asyncio.Task[Any]) -> None:
    """Wait for the end of the work, or for being asked to stop; what is under way then comes to its end."""
    asked = asyncio.create_task(stopping.wait(), name="stop")
    try:
        await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
    finally:
        asked.cancel()
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


def stop_on_signals() -> asyncio.Event:
    """Return what is set when the process is asked to stop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
